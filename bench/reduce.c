/* Reductions of 16 Mi floats: over all of them, over rows, over columns, over the middle one of three axes. */
#include "support/operation.h"

#define REDUCTION(name)                                                                                                \
    static haul_tensor *name(haul_tensor *x, int axis)                                                                 \
    {                                                                                                                  \
        return axis == WHOLE ? haul_##name(x) : haul_##name(x, HAUL_AXES(axis));                                       \
    }

REDUCTION(sum)
REDUCTION(max)
REDUCTION(mean)
REDUCTION(var)

static haul_tensor *argmax(haul_tensor *x, int axis)
{
    return axis == WHOLE ? haul_argmax(haul_flatten(x, 0), 0, false) : haul_argmax(x, axis, false);
}

enum { M = 1 << 20 };
#define READ_16M .bytes = 4, .limit = "limit read, 16 M"
#define AXES(name)                                                                                                     \
    {#name " rows", {4096, 4096}, .along = name, .axis = 1, READ_16M},                                                 \
        {#name " columns", {4096, 4096}, .along = name, .axis = 0, READ_16M},                                          \
    {                                                                                                                  \
#name " middle axis", {256, 256, 256 }, .along = name, .axis = 1, READ_16M                                     \
    }

static const operation table[] = {
    {"sum", {16 * M}, .along = sum, .axis = WHOLE, READ_16M},
    AXES(sum),
    {"max", {16 * M}, .along = max, .axis = WHOLE, READ_16M},
    AXES(max),
    {"argmax", {16 * M}, .along = argmax, .axis = WHOLE, READ_16M},
    AXES(argmax),
    {"mean", {16 * M}, .along = mean, .axis = WHOLE, READ_16M},
    AXES(mean),
    {"var", {16 * M}, .along = var, .axis = WHOLE, READ_16M},
    AXES(var),
    {"sum of short rows", {65536, 64}, .along = sum, .axis = 1, .bytes = 4, .limit = "limit read, 4 M"},
};

int main(int argc, char **argv)
{
    return operation_main(argc, argv, table, (int)(sizeof table / sizeof table[0]));
}
