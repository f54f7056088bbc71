/* JSON and texts of samples that both kinds of measurements print. */
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/bench.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

/* ---- JSON ---- */

cJSON *bench_json_spread(const bench_spread *s, double amount, const char *rate)
{
    if (isnan(s->median))
        return NULL;
    cJSON *object = cJSON_CreateObject();
    json_number(object, "seconds", s->median);
    json_number(object, "seconds_low", s->low);
    json_number(object, "seconds_high", s->high);
    if (amount > 0)
        json_number(object, rate, amount / s->median);
    return object;
}

void bench_json_add(cJSON *object, const char *name, cJSON *value)
{
    if (!value)
        json_number(object, name, NAN);
    else if (!cJSON_AddItemToObject(object, name, value))
        json_push(NULL, value); /* notes that memory is exhausted */
}

/* ---- time that is left ---- */

bool bench_too_long(double expected, double until, char *why, size_t size)
{
    const double left = until - clock_seconds();
    if (expected <= left)
        return false;
    if (left > 0)
        snprintf(why, size, "needs about %s, and %s is left; --seconds gives more",
                 text_seconds_like(expected, expected), text_seconds_like(left, expected));
    else
        snprintf(why, size, "the time is used up; --seconds gives more");
    return true;
}

/* ---- texts ---- */

int bench_columns(void)
{
    enum { LEAST = 40, MOST = 200, ELSEWHERE = 80 };
    const int room = output_room();
    if (!isatty(STDOUT_FILENO))
        return ELSEWHERE;
    return room < LEAST ? LEAST : room > MOST ? MOST : room;
}

const char *bench_size(char out[16], int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int                      unit = 0;
    while (bytes >= 1024 && unit < 3) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 16, "%d %s", (int)bytes, units[unit]);
    return out;
}

/* "4.02e-5" */
static void small_text(char out[16], double value)
{
    snprintf(out, 16, value > 0 ? "%.2e" : "%.0f", value);
    char *zero = strstr(out, "e-0");
    if (zero)
        memmove(zero + 2, zero + 3, strlen(zero + 2));
}

const char *bench_rate(char out[16], double value)
{
    value *= 1e-9;
    if (!isfinite(value))
        snprintf(out, 16, "-");
    else if (value < 0.001)
        small_text(out, value);
    else if (value < 0.01)
        snprintf(out, 16, "%.5f", value);
    else if (value < 999.5)
        snprintf(out, 16, "%#.3g", value);
    else
        snprintf(out, 16, "%.0f", value);
    if (out[0] && out[strlen(out) - 1] == '.') /* 123. */
        out[strlen(out) - 1] = 0;
    return out;
}

const char *bench_time(char out[16], double seconds)
{
    if (seconds < 1e-6)
        snprintf(out, 16, "%.1f ns", seconds * 1e9);
    else
        snprintf(out, 16, "%.15s", text_seconds(seconds));
    return out;
}

void bench_line(const char *label, const char *format, ...)
{
    enum { INDENT = 15 };
    va_list arguments;
    va_start(arguments, format);
    vprint_labelled(2, INDENT, label, format, arguments);
    va_end(arguments);
}

void bench_progress(const char *device, const char *what)
{
    char text[160];
    if (!terminal_moves(STDERR_FILENO))
        return;
    snprintf(text, sizeof text, "%s: %s", device, what ? what : "");
    fprintf(stderr, "\r%.*s\033[K", terminal_width(STDERR_FILENO) - 1, what ? text : "");
}
