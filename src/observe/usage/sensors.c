/* What the readers of sensors share: small files of the kernel, below a root that tests choose, and counts. */
#include "observe/usage/sensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/system/cgroup.h"
#include "base/text/ascii.h"
#include "base/text/plain.h"

/* ---- files ---- */

enum { PATH_SIZE = 512 };

static void path_of(char *out, size_t size, const char *format, va_list list) HAUL_PRINTF(3, 0);

static void path_of(char *out, size_t size, const char *format, va_list list)
{
    const char *root = getenv("HAUL_SENSORS_ROOT");
    const int   used = snprintf(out, size, "%s", root ? root : "");
    if (used >= 0 && (size_t)used < size)
        haul__vsnprintf(out + used, size - (size_t)used, format, list);
}

void haul__sensor_path(char *out, size_t size, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    path_of(out, size, format, list);
    va_end(list);
}

bool haul__sensor_text(char *out, size_t size, const char *format, ...)
{
    char    path[PATH_SIZE];
    va_list list;
    va_start(list, format);
    path_of(path, sizeof path, format, list);
    va_end(list);
    if (!haul__file_text(path, out, size))
        return false;
    size_t used = strlen(out);
    while (used && out[used - 1] == '\n')
        out[--used] = 0;
    return used > 0;
}

double haul__sensor_number(const char *format, ...)
{
    char    path[PATH_SIZE], text[64], *end;
    va_list list;
    va_start(list, format);
    path_of(path, sizeof path, format, list);
    va_end(list);
    if (!haul__file_text(path, text, sizeof text))
        return NAN;
    const double value = haul__strtod(text, &end);
    return end == text ? NAN : value;
}

/* ---- counts ---- */

double haul__sensor_rate(haul__sensor_count *c, double value, double seconds)
{
    const double by = value - c->value, time = seconds - c->seconds;
    const bool   known = c->known && by >= 0 && time > 0;
    *c = (haul__sensor_count){value, seconds, isfinite(value)};
    return known ? by / time : NAN;
}

double haul__sensor_energy_add(haul__sensor_energy *e, double value, double range)
{
    if (!isfinite(value))
        return NAN;
    double by = e->known ? value - e->value : 0;
    if (by < 0)
        by = range > e->value ? by + range : 0;
    e->joules += by > 0 ? by : 0;
    e->value = value;
    e->known = true;
    HAUL__ASSERT(e->joules >= 0);
    return e->joules;
}

/* ---- hardware ---- */

void haul__hardware_init(haul__hardware *h, const char *id, const char *name)
{
    *h = (haul__hardware){.now = {.utilisation = NAN,
                                  .used = NAN,
                                  .total = NAN,
                                  .celsius = NAN,
                                  .celsius_limit = NAN,
                                  .watts = NAN,
                                  .watts_limit = NAN,
                                  .joules = NAN,
                                  .megahertz = NAN,
                                  .to_device = NAN,
                                  .from_device = NAN}};
    snprintf(h->id, sizeof h->id, "%s", id);
    snprintf(h->name, sizeof h->name, "%s", name);
}

bool haul__same_bus(const char *a, const char *b)
{
    size_t i = strlen(a), k = strlen(b);
    if (i < 7 || k < 7)
        return false;
    while (i && k && haul__lower(a[i - 1]) == haul__lower(b[k - 1])) {
        i--;
        k--;
    }
    return strspn(a, "0") >= i && strspn(b, "0") >= k;
}

/* ---- GPUs ---- */

int haul__gpus_read(haul__gpu_sensors *g, haul__hardware *out, int room, double seconds)
{
    char       why[sizeof out->why];
    const int  found = haul__nvidia_read(g->nvidia, out, room, why, sizeof why);
    const bool nvidia = found >= 0;
    int        count = nvidia ? found : 0;
    if (!nvidia && *why && room) {
        haul__hardware_init(&out[count], "cuda", "NVIDIA GPUs");
        snprintf(out[count++].why, sizeof why, "%s", why);
    }
    HAUL__ASSERT(0 <= count && count <= room);
    return count + haul__cards_read(g->cards, out + count, room - count, seconds, !nvidia);
}
