#include "cli/report/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xc2\xa0"

enum { SIZE = 400 };

static char *next(void)
{
    static char ring[24][SIZE];
    static int  at;
    at = (at + 1) % 24;
    ring[at][0] = '-';
    ring[at][1] = 0;
    return ring[at];
}

/* With three digits: 7.70, 19.3, 810. */
static int decimals_of(double value)
{
    return fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
}

const char *say_ms(double ms)
{
    char *out = next();
    if (isfinite(ms) && fabs(ms) < 1e12)
        snprintf(out, SIZE, "%.2f" SPACE "ms", ms);
    return out;
}

const char *say_seconds(double seconds)
{
    char *out = next();
    if (!isfinite(seconds) || fabs(seconds) > 1e12)
        return out;
    if (seconds < 119.95)
        snprintf(out, SIZE, "%.1f" SPACE "s", seconds);
    else if (seconds < 7200)
        snprintf(out, SIZE, "%.0f" SPACE "min %.0f" SPACE "s", floor(seconds / 60), floor(fmod(seconds, 60)));
    else
        snprintf(out, SIZE, "%.0f" SPACE "h %.0f" SPACE "min", floor(seconds / 3600), floor(fmod(seconds / 60, 60)));
    return out;
}

const char *say_time(double ms)
{
    return fabs(ms) < 1000 ? say_ms(ms) : say_seconds(ms / 1000);
}

static const char *scaled(double value, double factor, const char *const *units, int count)
{
    char *out = next();
    int   unit = 0;
    if (!isfinite(value) || fabs(value) > 1e30)
        return out;
    while (fabs(value) >= 999.5 && unit < count - 1) {
        value /= factor;
        unit++;
    }
    snprintf(out, SIZE, "%.*f" SPACE "%s", unit ? decimals_of(value) : 0, value, units[unit]);
    return out;
}

const char *say_bytes(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return scaled(bytes, 1024, units, 5);
}

const char *say_flop(double flop)
{
    static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
    return scaled(flop, 1000, units, 6);
}

const char *say_joules(double joules)
{
    static const char *const units[] = {"uJ", "mJ", "J", "kJ"};
    return scaled(1e6 * joules, 1000, units, 4);
}

const char *say_rate(double giga)
{
    char *out = next();
    if (isfinite(giga) && fabs(giga) < 1e30)
        snprintf(out, SIZE, "%.*f", decimals_of(giga), giga);
    return out;
}

const char *say_share(double share)
{
    char *out = next();
    if (isfinite(share) && fabs(share) < 1e12)
        snprintf(out, SIZE, "%.1f" SPACE "%%", 100 * share);
    return out;
}

const char *say_percent(double share)
{
    char  *out = next();
    double whole = floor(100 * share + 0.5);
    if (isfinite(share) && fabs(share) <= 1)
        snprintf(out, SIZE, whole > 0 || share <= 0 ? "%.0f" SPACE "%%" : "<1" SPACE "%%",
                 share < 1 ? fmin(whole, 99) : whole);
    return out;
}

const char *say_loss(double loss)
{
    char *out = next();
    if (isfinite(loss))
        snprintf(out, SIZE, fabs(loss) < 1e5 && (fabs(loss) >= 5e-4 || loss == 0) ? "%.3f" : "%.2e", loss);
    return out;
}

const char *say_count(double count)
{
    char  digits[64], *out = next(), *to = out;
    char *from = digits;
    if (!isfinite(count) || fabs(count) > 1e18)
        return out;
    int length = snprintf(digits, sizeof digits, "%.0f", count);
    if (*from == '-') {
        *to++ = *from++;
        length--;
    }
    for (; length > 0; length--) {
        *to++ = *from++;
        if (length > 1 && length % 3 == 1)
            *to++ = ',';
    }
    *to = 0;
    return out;
}

const char *say_number(double number)
{
    char *out = next();
    for (int digits = 6; isfinite(number) && digits <= 17; digits++) {
        snprintf(out, SIZE, "%.*g", digits, number);
        if (strtod(out, NULL) == number)
            break;
    }
    return out;
}

const char *say_join(const char *before, const char *after)
{
    char *out = next();
    snprintf(out, SIZE, "%s%s", before, after);
    return out;
}

double number_of(const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(value) && isfinite(value->valuedouble) ? value->valuedouble : NAN;
}

bool page_is_operation(const cJSON *row)
{
    return *document_text(row, "name") != '(';
}
