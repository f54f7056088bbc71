#include "cli/top/text.h"

#include <stdio.h>
#include <string.h>

#include "cli/shared/cli.h"

enum { TEXTS = 32, ROOM = 640 };

static char *next_text(void)
{
    static char ring[TEXTS][ROOM];
    static int  at;
    at = (at + 1) % TEXTS;
    return ring[at];
}

static const char *dash(void)
{
    return "-";
}

const char *top_number(double value)
{
    char *out = next_text();
    if (isnan(value))
        return dash();
    if (value >= 999.5)
        return text_count(whole_number(value + 0.5));
    snprintf(out, ROOM, value == 0 ? "0" : value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : "%.2f", value);
    return out;
}

/* A loss that falls keeps its digits. */
const char *top_loss(double value)
{
    char *out = next_text();
    if (isnan(value))
        return dash();
    snprintf(out, ROOM, value < 1e-9 ? "0" : value < 1e-3 ? "%.0e" : "%.3g", value);
    return out;
}

const char *top_percent(double share)
{
    char *out = next_text();
    if (isnan(share))
        return dash();
    snprintf(out, ROOM, "%.0f %%", share * 100);
    return out;
}

const char *top_bytes(double bytes)
{
    static const char units[] = "BKMGTP";
    char             *out = next_text();
    int               unit = 0;
    if (isnan(bytes))
        return dash();
    if (bytes < 1)
        return "0";
    while (bytes >= 999.5 && units[unit + 1]) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, ROOM,
             unit == 0 || bytes >= 99.95 ? "%.0f%c"
             : bytes >= 9.995            ? "%.1f%c"
                                         : "%.2f%c",
             bytes, units[unit]);
    return out;
}

const char *top_used(const top_device *d)
{
    return top_bytes(d->published ? d->reserved : d->hardware.now.used);
}

const char *top_of_total(const top_device *d)
{
    const double unit = 1024.0 * 1024 * 1024;
    char        *out = next_text();
    if (isnan(d->hardware.now.used) && isnan(d->hardware.now.total))
        return d->published ? top_used(d) : dash();
    if (isnan(d->hardware.now.used) || isnan(d->hardware.now.total))
        snprintf(out, ROOM, "%s",
                 top_bytes(isnan(d->hardware.now.used) ? d->hardware.now.total : d->hardware.now.used));
    else
        snprintf(out, ROOM, "%.1f%s/%.1fG", d->hardware.now.used / unit, top_is_full(d) ? "!" : "",
                 d->hardware.now.total / unit);
    return out;
}

const char *top_duration(double seconds)
{
    char *out = next_text();
    if (isnan(seconds) || seconds < 0)
        return dash();
    const long s = seconds > 8e7 ? 80000000 : (long)(seconds + 0.5);
    if (s < 60)
        snprintf(out, ROOM, "%lds", s);
    else if (s < 3600)
        snprintf(out, ROOM, "%ldm%02lds", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, ROOM, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else
        snprintf(out, ROOM, "%ldd%ldh", s / 86400, s / 3600 % 24);
    return out;
}

/* ---- attention ---- */

bool top_is_full(const top_device *d)
{
    return d->hardware.now.used > 0.95 * d->hardware.now.total;
}

bool top_is_hot(const top_device *d)
{
    return d->hardware.now.celsius >= d->hardware.now.celsius_limit;
}

/* A wait now and then, for a line or a checkpoint, is nothing. */
bool top_waits(const haul_published *p)
{
    return p->waiting > 0.05 && p->waits_per_second > 0;
}

/* ---- bars ---- */

double top_history_high(const top_history *h)
{
    double high = 0;
    for (int i = 0; i < h->count; i++)
        if (h->values[i] > high)
            high = h->values[i];
    return high;
}

double top_history_last(const top_history *h)
{
    return h->count ? h->values[h->count - 1] : NAN;
}

/* Adds a text at `used`, if it fits. Returns where the next one goes. */
static size_t append(char *out, size_t used, const char *text)
{
    const size_t length = strlen(text);
    if (length >= ROOM - used)
        return used;
    memcpy(out + used, text, length + 1);
    return used + length;
}

enum { LEVELS = 8 }; /* of a cell */

static const char *const level_blocks[LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const level_letters[LEVELS] = {".", ":", "-", "=", "+", "*", "#", "#"};

const char *top_spark(const top_history *h, int columns, double high, bool utf8)
{
    return top_graph_row(h, columns, high, 0, 1, utf8);
}

/* The lowest level stands for 0, so that a known value is never blank in the lowest line. */
const char *top_graph_row(const top_history *h, int columns, double high, int row, int rows, bool utf8)
{
    const int below = (rows - 1 - row) * LEVELS, most = rows * LEVELS - 1;
    char     *out = next_text();
    size_t    used = 0;
    *out = 0;
    for (int i = h->count - columns; i < h->count; i++) {
        const double value = i < 0 ? NAN : h->values[i] / (high > 0 ? high : 1);
        const int    level = value >= 1 ? most : value > 0 ? whole_within(value * most + 0.5, 0, most) : 0;
        const int    here = level - below < LEVELS ? level - below : LEVELS - 1;
        used = append(out, used, isnan(value) || here < 0 ? " " : utf8 ? level_blocks[here] : level_letters[here]);
    }
    return out;
}

const char *top_bar(const top_device *d, int columns, bool utf8)
{
    static const char *const blocks[] = {"█", "▒", "░", "·"}, *const letters[] = {"#", "=", "-", "."};
    char  *out = next_text();
    size_t used = 0;
    *out = 0;
    if (isnan(d->hardware.now.used) || !(d->hardware.now.total > 0))
        return out;
    for (int i = 0; i < columns; i++) {
        const double at = d->hardware.now.total * (i + 0.5) / columns;
        const int    part = at < d->allocated ? 0 : at < d->reserved ? 1 : at < d->hardware.now.used ? 2 : 3;
        used = append(out, used, utf8 ? blocks[part] : letters[part]);
    }
    return out;
}
