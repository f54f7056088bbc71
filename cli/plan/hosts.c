#include "cli/plan/hosts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"

enum { LATENCY_NS = 10000 };

/* A number with this unit at its end, times what the unit stands for; below 1: it is none. */
static double read_with_unit(const char *text, size_t length, const char *unit, double times)
{
    const size_t tail = strlen(unit);
    char         digits[32], *end;
    if (length <= tail || length - tail >= sizeof digits || strncmp(text + length - tail, unit, tail) != 0 ||
        strspn(text, "0123456789.") != length - tail)
        return 0;
    snprintf(digits, sizeof digits, "%.*s", (int)(length - tail), text);
    const double number = strtod(digits, &end) * times;
    return *end || number > 1e15 ? 0 : number;
}

static double read_rate(const char *text, size_t length)
{
    return fmax(read_with_unit(text, length, "gbit", 1e9 / 8), read_with_unit(text, length, "mbit", 1e6 / 8));
}

static double read_latency(const char *text)
{
    const double us = read_with_unit(text, strlen(text), "us", 1e3);
    return us >= 1 ? us : read_with_unit(text, strlen(text), "ms", 1e6);
}

bool hosts_network_parse(const char *text, int64_t *rate, int64_t *latency_ns)
{
    const size_t length = strcspn(text, ",");
    const double bytes = read_rate(text, length);
    const double ns = text[length] ? read_latency(text + length + 1) : LATENCY_NS;
    *rate = (int64_t)bytes;
    *latency_ns = (int64_t)ns;
    if (bytes >= 1 && ns >= 1)
        return true;
    complain("--network %s: a rate and a latency are expected, for example 100gbit,5us or 800mbit,1ms", text);
    return false;
}

int hosts_device_of(const haul__machine *m)
{
    for (int d = 1; d < m->device_count; d++)
        if (m->described || !m->devices[d].shares_host_memory)
            return d;
    return 0;
}
