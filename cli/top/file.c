/* Small files of the kernel, below a root that tests choose. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "cli/top/top.h"

static void path_of(char *out, size_t size, const char *format, va_list list) __attribute__((format(printf, 3, 0)));

static void path_of(char *out, size_t size, const char *format, va_list list)
{
    const char *root = getenv("HAUL_TOP_ROOT");
    int         used = snprintf(out, size, "%s", root ? root : "");
    if (used >= 0 && (size_t)used < size)
        vsnprintf(out + used, size - (size_t)used, format, list);
}

void top_file_path(char *out, size_t size, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    path_of(out, size, format, list);
    va_end(list);
}

static bool read_text(const char *path, char *out, size_t size)
{
    size_t used = 0;
    int    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *out = 0;
    if (file < 0)
        return false;
    for (ssize_t got; used + 1 < size && (got = read(file, out + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    close(file);
    while (used && out[used - 1] == '\n')
        used--;
    out[used] = 0;
    return used > 0;
}

bool top_file_text(char *out, size_t size, const char *format, ...)
{
    char    path[512];
    va_list list;
    va_start(list, format);
    path_of(path, sizeof path, format, list);
    va_end(list);
    return read_text(path, out, size);
}

double top_file_number(const char *format, ...)
{
    char    path[512], text[64], *end;
    va_list list;
    va_start(list, format);
    path_of(path, sizeof path, format, list);
    va_end(list);
    if (!read_text(path, text, sizeof text))
        return NAN;
    const double value = strtod(text, &end);
    return end == text ? NAN : value;
}

double top_counter_rate(top_counter *c, double value, double seconds)
{
    const double by = value - c->value, time = seconds - c->seconds;
    const bool   known = c->known && by >= 0 && time > 0;
    *c = (top_counter){value, seconds, isfinite(value)};
    return known ? by / time : NAN;
}

void top_device_init(top_device *d, const char *id, const char *name)
{
    *d = (top_device){.utilisation = NAN,
                      .used = NAN,
                      .total = NAN,
                      .celsius = NAN,
                      .celsius_limit = NAN,
                      .watts = NAN,
                      .watts_limit = NAN,
                      .megahertz = NAN,
                      .to_device = NAN,
                      .from_device = NAN};
    snprintf(d->id, sizeof d->id, "%s", id);
    snprintf(d->name, sizeof d->name, "%s", name);
}
