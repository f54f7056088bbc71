#include "cli/options/memory_limit.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"

static const struct unit {
    const char *name;
    double      bytes;
} units[] = {{"", 1},
             {"k", 1e3},
             {"M", 1e6},
             {"G", 1e9},
             {"T", 1e12},
             {"Ki", 1024.0},
             {"Mi", 1024.0 * 1024},
             {"Gi", 1024.0 * 1024 * 1024},
             {"Ti", 1024.0 * 1024 * 1024 * 1024}};

/* The number at the beginning of the text; *rest becomes what follows it. -1: there is none. */
static double read_number(const char *text, const char **rest)
{
    char *end = NULL;
    if (!isdigit((unsigned char)*text) || strpbrk(text, "xXeE"))
        return -1;
    const double number = strtod(text, &end);
    *rest = end;
    return number;
}

static bool read_size(const char *text, int64_t *out)
{
    enum { MOST = 53 }; /* bits that JSON's numbers hold */
    const char  *unit = "";
    const double number = read_number(text, &unit);
    for (size_t i = 0; number >= 0 && i < sizeof units / sizeof *units; i++) {
        double bytes = floor(number * units[i].bytes);
        if (strcmp(unit, units[i].name) != 0)
            continue;
        *out = bytes <= ldexp(1, MOST) ? (int64_t)bytes : 0;
        return bytes <= ldexp(1, MOST) && (bytes >= 1 || number == 0);
    }
    return false;
}

static bool read_share(const char *text, double *percent)
{
    const char  *unit = "";
    const double number = read_number(text, &unit);
    if (strcmp(unit, "%") != 0 || !(number > 0 && number <= 1e6))
        return false;
    *percent = number;
    return true;
}

bool size_parse(const char *option, const char *text, int64_t *out)
{
    *out = 0;
    if (!text || read_size(text, out))
        return true;
    complain("--%s %s is not a size; expected are bytes with or without a unit (k, M, G, Ki, Mi, Gi), for example 1.5G",
             option, text);
    return false;
}

bool memory_limit_parse(const char *text, haul__training_limit *out)
{
    *out = (haul__training_limit){0};
    if (!text || read_size(text, &out->bytes) || read_share(text, &out->percent))
        return true;
    complain("--memory-limit %s is not a size; expected are bytes with or without a unit (k, M, G, Ki, Mi, Gi), for "
             "example 1.5G, or a share of what the training needs, for example 50%%",
             text);
    return false;
}

bool memory_limit_suits_batch(double percent, int64_t batch)
{
    if (batch || percent <= 0)
        return true;
    complain("--batch auto needs a --memory-limit in bytes, such as 2G: a share is of what one batch needs");
    return false;
}
