/* Options that are pairs. */
#include "core/option.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/text/plain.h"
#include "core/error.h"

enum { TEXT = 32 };

/* As the user would write it. */
static const char *text_of(double number, char text[TEXT])
{
    if (number == HAUL_ZERO)
        return "HAUL_ZERO";
    haul__snprintf(text, TEXT, "%.15g", number);
    return text;
}

/* A pair in which one number is 0. `zero`: whether zero is a valid value. */
static haul_status refuse_half(const char *operation, const char *name, double first, double second, bool zero)
{
    char        a[TEXT], b[TEXT], both[TEXT], fix[4 * TEXT] = "";
    const char *given = text_of(first == 0 ? second : first, both);
    if (zero)
        snprintf(fix, sizeof fix, ", or {%s, %s} if 0 is meant", first == 0 ? "HAUL_ZERO" : text_of(first, a),
                 second == 0 ? "HAUL_ZERO" : text_of(second, b));
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, name,
                      "%s is {%s, %s}, but a pair needs both values: write .%s = {%s, %s} for both%s", name,
                      text_of(first, a), text_of(second, b), name, given, given, fix);
}

haul_status haul__option_pair(const char *operation, const char *name, int64_t pair[2], const int64_t otherwise[2],
                              int64_t least)
{
    char a[TEXT], b[TEXT];
    if ((pair[0] == 0) != (pair[1] == 0))
        return refuse_half(operation, name, (double)pair[0], (double)pair[1], least == 0);
    for (int i = 0; i < 2; i++)
        if (pair[i] && (pair[i] == HAUL_ZERO ? 0 : pair[i]) < least)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, name, "%s is {%s, %s}; both must be at least %lld",
                              name, text_of((double)pair[0], a), text_of((double)pair[1], b), (long long)least);
    for (int i = 0; i < 2; i++)
        pair[i] = !pair[i] ? otherwise[i] : pair[i] == HAUL_ZERO ? 0 : pair[i];
    return HAUL_OK;
}

haul_status haul__option_reals(const char *operation, const char *name, double pair[2], const double otherwise[2])
{
    if ((pair[0] == 0) != (pair[1] == 0))
        return refuse_half(operation, name, pair[0], pair[1], true);
    for (int i = 0; i < 2; i++)
        pair[i] = haul__option(pair[i], otherwise[i]);
    return HAUL_OK;
}
