/* Softmax, normalisation and cross entropy, forward and with their gradients. */
#include "support/operation.h"

static haul_tensor *weight, *bias, *mean, *variance, *classes;

static haul_tensor *layer_norm(haul_tensor *x, int axis)
{
    (void)axis; /* always the last one */
    return haul_layer_norm(x, .weight = weight, .bias = bias);
}

static haul_tensor *batch_norm(haul_tensor *x)
{
    return haul_batch_norm(x, .weight = weight, .bias = bias, .running_mean = mean, .running_var = variance,
                           .training = true);
}

static haul_tensor *cross_entropy(haul_tensor *x)
{
    return haul_cross_entropy(x, classes);
}

/* ---- operands ---- */

static haul_tensor *with_row(haul_tensor *x)
{
    haul_shape row = HAUL_SHAPE(haul_tensor_shape(x).dims[haul_tensor_shape(x).ndim - 1]);
    weight = haul_ones(HAUL_F32, row);
    bias = haul_zeros(HAUL_F32, row);
    return x;
}

static haul_tensor *with_channels(haul_tensor *x)
{
    haul_shape channels = HAUL_SHAPE(haul_tensor_shape(x).dims[1]);
    weight = haul_ones(HAUL_F32, channels);
    bias = haul_zeros(HAUL_F32, channels);
    mean = haul_zeros(HAUL_F32, channels);
    variance = haul_ones(HAUL_F32, channels);
    return x;
}

static haul_tensor *with_classes(haul_tensor *x)
{
    haul_shape shape = haul_tensor_shape(x);
    classes = haul_randint(HAUL_I64, HAUL_SHAPE(shape.dims[0]), 0, shape.dims[1]);
    return x;
}

#define ROW(label, function, how, rows, columns, like)                                                                 \
    {                                                                                                                  \
        label, {rows, columns}, .along = function, .axis = 1, .bytes = 8, .prepare = how, .limit = like                \
    }
#define SIZES(label, function, how)                                                                                    \
    ROW(label, function, how, 4096, 4096, "limit copy, 16 M"), ROW(label, function, how, 16384, 256, COPY_4M),         \
        ROW(label, function, how, 65536, 64, COPY_4M),                                                                 \
    {                                                                                                                  \
        label " with gradient", {16384, 256}, .along = function, .axis = 1, .bytes = 20, .gradient = true,             \
                                              .prepare = how, .limit = COPY_4M                                         \
    }
#define COPY_4M "limit copy, 4 M"

/* Of batch norm's bytes, x is read twice. */
static const operation table[] = {
    SIZES("softmax", haul_softmax, NULL),
    SIZES("log_softmax", haul_log_softmax, NULL),
    SIZES("layer_norm", layer_norm, with_row),
    {"softmax of columns", {4096, 1024}, .along = haul_softmax, .axis = 0, .bytes = 8, .limit = COPY_4M},
    {"batch_norm", {32, 64, 56, 56}, batch_norm, .bytes = 12, .prepare = with_channels, .limit = COPY_4M},
    {"batch_norm with gradient",
     {32, 64, 56, 56},
     batch_norm,
     .bytes = 32,
     .gradient = true,
     .prepare = with_channels,
     .limit = COPY_4M},
    {"cross_entropy", {8192, 1000}, cross_entropy, .bytes = 4, .prepare = with_classes, .limit = "limit read, 16 M"},
    {"cross_entropy with gradient",
     {8192, 1000},
     cross_entropy,
     .bytes = 12,
     .gradient = true,
     .prepare = with_classes,
     .limit = "limit copy, 16 M"},
    {"cross_entropy with gradient", {64, 10}, cross_entropy, .gradient = true, .prepare = with_classes},
};

int main(int argc, char **argv)
{
    return operation_main(argc, argv, table, (int)(sizeof table / sizeof table[0]));
}
