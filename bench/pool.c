/* Pooling, forward and with its gradient: windows that touch, and windows that overlap. */
#include "support/operation.h"

static haul_tensor *max_2(haul_tensor *x)
{
    return haul_max_pool2d(x, 2);
}

static haul_tensor *avg_2(haul_tensor *x)
{
    return haul_avg_pool2d(x, 2);
}

static haul_tensor *max_3(haul_tensor *x)
{
    return haul_max_pool2d(x, 3, .stride = {2, 2}, .padding = {1, 1});
}

static haul_tensor *avg_3(haul_tensor *x)
{
    return haul_avg_pool2d(x, 3, .stride = {2, 2}, .padding = {1, 1});
}

/* The results are a quarter of x. With gradient, x is written and, for the maximum, read again. */
#define POOL(label, function, again, ...)                                                                              \
    {label, {__VA_ARGS__}, function, .bytes = 5, .variants = {"channels_last"}, .limit = "limit read, 4 M"},           \
    {                                                                                                                  \
        label " with gradient", {__VA_ARGS__}, function, .bytes = 10 + (again), .gradient = true,                      \
                                                         .variants = {"channels_last"}, .limit = "limit copy, 4 M"     \
    }

static const operation table[] = {
    POOL("max_pool 2x2", max_2, 4, 64, 6, 28, 28),  POOL("max_pool 2x2", max_2, 4, 64, 16, 10, 10),
    POOL("max_pool 2x2", max_2, 4, 32, 64, 56, 56), POOL("max_pool 3x3/2", max_3, 4, 32, 64, 56, 56),
    POOL("avg_pool 2x2", avg_2, 0, 32, 64, 56, 56), POOL("avg_pool 3x3/2", avg_3, 0, 32, 64, 56, 56),
};

int main(int argc, char **argv)
{
    return operation_main(argc, argv, table, (int)(sizeof table / sizeof table[0]));
}
