/* Guesses at misspelt words, and texts for people. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/text/spelling.h"
#include "base/text/utf8.h"
#include "cli/shared/cli.h"

/* ---- what a terminal would obey ---- */

/* No sequence contains the 0 that ends the text, so the bytes that are left need not be counted. */
size_t character_at(const char *text, uint32_t *code)
{
    enum { LONGEST = 4 };
    const unsigned char *at = (const unsigned char *)text;
    const size_t         length = haul__utf8_length(at, LONGEST);
    *code = length ? haul__utf8_code(at, length) : UINT32_MAX;
    return length ? length : 1;
}

/* Control characters, and those that change the direction of what follows. */
static bool is_obeyed(uint32_t code)
{
    return code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

bool is_utf8(const char *text)
{
    return haul__is_utf8((const uint8_t *)text, strlen(text));
}

size_t obeyed_length(const char *text, uint32_t *code)
{
    size_t length = character_at(text, code);
    return is_obeyed(*code) ? length : 0;
}

/* The next character as it may be shown; moves *text on. */
static void next_visible(const char **text, char out[8])
{
    const unsigned char first = (unsigned char)**text;
    uint32_t            code;
    size_t              length = character_at(*text, &code);
    if (code == '\n' || code == '\r' || code == '\t')
        snprintf(out, 8, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else if (code == UINT32_MAX || (is_obeyed(code) && code < 0x80))
        snprintf(out, 8, "\\x%02x", first);
    else if (is_obeyed(code))
        snprintf(out, 8, "\\u%04x", (unsigned)code & 0xffff);
    else
        snprintf(out, 8, "%.*s", (int)length, *text);
    *text += length;
}

void visible_text(char *out, size_t size, const char *text)
{
    size_t used = 0;
    while (*text) {
        char shown[8];
        next_visible(&text, shown);
        size_t length = strlen(shown);
        if (used + length >= size)
            break;
        memcpy(out + used, shown, length);
        used += length;
    }
    out[used] = 0;
}

void fput_visible(FILE *out, const char *text)
{
    while (*text) {
        char shown[8];
        next_visible(&text, shown);
        fputs(shown, out);
    }
}

void print_visible(const char *text, int width)
{
    while (*text) {
        char shown[8];
        next_visible(&text, shown);
        fputs(shown, stdout);
        width -= *shown == '\\' ? (int)strlen(shown) : 1;
    }
    printf("%*s", width > 0 ? width : 0, "");
}

/* The first name that begins with `wrong`, or that does without its underscores; NULL if `wrong` is short. */
static const char *longer_name(const char *wrong, const char *const *names)
{
    enum { SHORT = 3 };
    if (strlen(wrong) < SHORT)
        return NULL;
    for (; *names; names++) {
        const char *left = wrong, *at = *names;
        for (; *left && *at; at++)
            if (*at == *left)
                left++;
            else if (*at != '_')
                break;
        if (!*left)
            return *names;
    }
    return NULL;
}

const char *did_you_mean(const char *wrong, const char *const *names)
{
    const char *near = longer_name(wrong, names);
    int         best = near ? 2 : 3; /* one wrong letter is likelier than several that are missing */
    for (; *names; names++) {
        int    far = haul__spelling_distance(wrong, *names);
        size_t length = strlen(*names);
        if (far < best && (size_t)far < length - length / 3) {
            best = far;
            near = *names;
        }
    }
    return near;
}

const char *list_text(char *out, size_t size, const char *const *names, const char *before, const char *word)
{
    size_t used = 0;
    *out = 0;
    for (int i = 0; names[i] && used < size; i++) {
        const char *between = !i ? "" : names[i + 1] ? ", " : " ";
        used += (size_t)snprintf(out + used, size - used, "%s%s%s%s%s", between, i && !names[i + 1] ? word : "",
                                 i && !names[i + 1] ? " " : "", before, names[i]);
    }
    return out;
}

const char *shell_text(char *out, size_t size, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+=:@%,-";
    size_t            used = 0;
    if (*text && strspn(text, plain) == strlen(text)) {
        snprintf(out, size, "%s", text);
        return out;
    }
    used += (size_t)snprintf(out, size, "'");
    for (; *text && used + 8 < size; text++)
        used += (size_t)snprintf(out + used, size - used, *text == '\'' ? "'\\''" : "%c", *text);
    snprintf(out + used, size - used, "'");
    return out;
}

/* The next buffer of the ring. */
enum { TEXT_SIZE = 128 };

static char *next_text(void)
{
    static _Thread_local char ring[12][TEXT_SIZE];
    static _Thread_local int  at;
    at = (at + 1) % 12;
    return ring[at];
}

const char *text_bytes(int64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    char                    *out = next_text();
    double                   value = (double)bytes;
    int                      unit = 0;
    while (value >= 1000 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(out, TEXT_SIZE, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

const char *text_count(int64_t n)
{
    char  digits[32], *out = next_text(), *to = out;
    int   length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    char *from = digits;
    if (*from == '-')
        *to++ = *from++, length--;
    for (; length > 0; length--) {
        *to++ = *from++;
        if (length > 1 && length % 3 == 1)
            *to++ = ',';
    }
    *to = 0;
    return out;
}

const char *text_seconds_like(double seconds, double like)
{
    char *out = next_text();
    if (isnan(seconds))
        snprintf(out, TEXT_SIZE, "-");
    else if (like < 1e-3)
        snprintf(out, TEXT_SIZE, "%.1f us", seconds * 1e6);
    else if (like < 1)
        snprintf(out, TEXT_SIZE, "%.*f ms", seconds < 1e-3 ? 3 : 2, seconds * 1e3);
    else if (like < 120)
        snprintf(out, TEXT_SIZE, "%.*f s", seconds < 1 ? 3 : 1, seconds);
    else
        snprintf(out, TEXT_SIZE, "%.1f min", seconds / 60);
    return out;
}

const char *text_seconds(double seconds)
{
    if (isnan(seconds) || seconds < 120)
        return text_seconds_like(seconds, seconds);
    char *out = next_text();
    if (seconds < 1e12)
        snprintf(out, TEXT_SIZE, "%.0f min %.0f s", floor(seconds / 60), floor(fmod(seconds, 60)));
    else
        snprintf(out, TEXT_SIZE, "%.3g s", seconds);
    return out;
}

const char *text_ps(int64_t ps)
{
    return text_seconds((double)ps * 1e-12);
}

const char *text_ps_like(int64_t ps, int64_t like)
{
    return text_seconds_like((double)ps * 1e-12, (double)like * 1e-12);
}

const char *text_flops(double flops)
{
    static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
    char                    *out = next_text();
    int                      unit = 0;
    for (; flops >= 1000 && unit < 5; unit++)
        flops /= 1000;
    snprintf(out, TEXT_SIZE, "%.*f %s", unit ? 2 : 0, flops, units[unit]);
    return out;
}

/* Three digits, with the unit of `count` that fits; each is a thousand times the one before. */
static const char *three_digits(double value, const char *const *units, int count, const char *of)
{
    char *out = next_text();
    int   unit = 0;
    for (; value >= 999.5 && unit < count - 1; unit++)
        value /= 1000;
    snprintf(out, TEXT_SIZE, "%.3g %s%s", value, units[unit], of);
    return out;
}

const char *text_joules(double joules)
{
    static const char *const units[] = {"u", "m", "", "k"};
    return three_digits(joules * 1e6, units, 4, "J");
}

const char *text_rate(int64_t rate, bool flops)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    return three_digits((double)rate, units, 6, flops ? "FLOP/s" : "B/s");
}

const char *text_shape(const haul_shape *shape)
{
    char *out = next_text();
    int   used = snprintf(out, TEXT_SIZE, "[");
    for (int i = 0; i < shape->ndim && used < TEXT_SIZE - 24; i++)
        used += snprintf(out + used, TEXT_SIZE - (size_t)used, "%s%lld", i ? "," : "", (long long)shape->dims[i]);
    snprintf(out + used, TEXT_SIZE - (size_t)used, "]");
    return out;
}

int64_t whole_number(double value)
{
    const double limit = 9223372036854775808.0; /* 2^63 */
    return isnan(value) ? 0 : value >= limit ? INT64_MAX : value <= -limit ? INT64_MIN : (int64_t)value;
}

int whole_within(double value, int low, int high)
{
    const double nearest = isnan(value) ? 0 : value;
    return nearest <= low ? low : nearest >= high ? high : (int)nearest;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

double clock_seconds(void)
{
    return 1e-9 * (double)haul__now_ns();
}

double clock_since(double began)
{
    return 1e-9 * nearbyint(1e9 * (clock_seconds() - began));
}
