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

static bool take_size(double number, const char *unit, int64_t *out)
{
    enum { MOST = 53 }; /* bits that JSON's numbers hold */
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double bytes = floor(number * units[i].bytes);
        if (strcmp(unit, units[i].name) != 0)
            continue;
        *out = bytes <= ldexp(1, MOST) ? (int64_t)bytes : 0;
        return bytes <= ldexp(1, MOST) && (bytes >= 1 || number == 0);
    }
    return false;
}

static bool is_number(const char *text)
{
    return isdigit((unsigned char)*text) && strspn(text, "0123456789.") > 0 && !strpbrk(text, "xXeE");
}

static bool take_text(const char *text, int64_t *out)
{
    char        *end;
    const double number = strtod(text, &end);
    return take_size(number, end, out);
}

bool size_parse(const char *option, const char *text, int64_t *out)
{
    *out = 0;
    if (!text || (is_number(text) && take_text(text, out)))
        return true;
    complain("--%s %s is not a size; expected are bytes with or without a unit (k, M, G, Ki, Mi, Gi), for example 1.5G",
             option, text);
    return false;
}

bool memory_limit_parse(const char *text, haul__training_limit *out)
{
    char  *end;
    double number;
    bool   fine = false;
    *out = (haul__training_limit){0};
    if (!text)
        return true;
    if (is_number(text)) {
        number = strtod(text, &end);
        if (strcmp(end, "%") != 0)
            fine = take_size(number, end, &out->bytes);
        else if (number > 0 && number <= 1e6)
            fine = (out->percent = number) > 0;
    }
    if (!fine)
        complain(
            "--memory-limit %s is not a size; expected are bytes with or without a unit (k, M, G, Ki, Mi, Gi), for "
            "example 1.5G, or a share of what the training needs, for example 50%%",
            text);
    return fine;
}
