/* Operations that are limited by memory, on tensors of 256 MiB: how close they come to what a plain copy on the device
 * reaches. The figure counts the bytes that the operation has to read and write. */
#include "support/raw.h"

enum { M = 1 << 20, COUNT = 64 * M, COLUMNS = 4096, ROWS = COUNT / COLUMNS };

static haul_tensor *a, *b, *c3;

static bool open_case(const bench_case *c)
{
    (void)c;
    a = haul_uniform(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), -1, 1);
    b = haul_uniform(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), -1, 1);
    c3 = haul_uniform(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), -1, 1);
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool open_half(const bench_case *c)
{
    (void)c;
    a = haul_uniform(HAUL_F16, HAUL_SHAPE(2 * ROWS, COLUMNS), -1, 1);
    b = haul_uniform(HAUL_F16, HAUL_SHAPE(2 * ROWS, COLUMNS), -1, 1);
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool open_pictures(const bench_case *c)
{
    (void)c;
    a = haul_uniform(HAUL_F32, HAUL_SHAPE(256, 64, 64, 64), -1, 1);
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool open_double(const bench_case *c)
{
    (void)c;
    a = haul_empty(HAUL_F64, HAUL_SHAPE(ROWS / 2, COLUMNS));
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool run_case(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        c->op(a);
        haul_scope_pop(scope);
    }
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static haul_tensor *add(haul_tensor *x)
{
    return haul_add(x, b);
}

static haul_tensor *mul_add(haul_tensor *x)
{
    return haul_add(haul_mul(x, b), c3);
}

static haul_tensor *sum_all(haul_tensor *x)
{
    return haul_sum(x);
}

static haul_tensor *sum_rows(haul_tensor *x)
{
    return haul_sum(x, HAUL_AXES(1));
}

static haul_tensor *sum_columns(haul_tensor *x)
{
    return haul_sum(x, HAUL_AXES(0));
}

static haul_tensor *softmax(haul_tensor *x)
{
    return haul_softmax(x, 1);
}

static haul_tensor *transpose(haul_tensor *x)
{
    return haul_contiguous(haul_transpose(x, 0, 1));
}

static haul_tensor *channels_last(haul_tensor *x)
{
    return haul_to_memory_format(x, HAUL_CHANNELS_LAST);
}

static haul_tensor *fill(haul_tensor *x)
{
    haul_fill_into(x, 0.1);
    return x;
}

/* `bytes`: read and written for each four bytes of a tensor. */
#define BOUND(label, what, bytes)                                                                                      \
    {                                                                                                                  \
        .name = label, .unit = "GB/s", .amount = (double)COUNT * (bytes)*1e-9,                                         \
        .peers = "raw copy 256 MiB,torch:memory " #what, .open = open_case, .run = run_case, .op = what                \
    }
/* Without a peer in PyTorch; `how` makes the tensors. */
#define ALONE(label, what, bytes, how)                                                                                 \
    {                                                                                                                  \
        .name = label, .unit = "GB/s", .amount = (double)COUNT * (bytes)*1e-9, .peers = "raw copy 256 MiB",            \
        .open = how, .run = run_case, .op = what                                                                       \
    }
#define relu haul_relu
#define gelu haul_gelu

static const bench_case cases[] = {
    BOUND("add 256 MiB", add, 12),
    BOUND("relu 256 MiB", relu, 8),
    BOUND("gelu 256 MiB", gelu, 8),
    BOUND("multiply, then add 256 MiB", mul_add, 24),
    BOUND("sum of all 256 MiB", sum_all, 4),
    BOUND("sums of rows 256 MiB", sum_rows, 4),
    BOUND("sums of columns 256 MiB", sum_columns, 4),
    BOUND("softmax of rows 256 MiB", softmax, 8),
    ALONE("add f16 256 MiB", add, 12, open_half),
    ALONE("relu f16 256 MiB", relu, 8, open_half),
    ALONE("transposed copy 256 MiB", transpose, 8, open_case),
    ALONE("NCHW to NHWC 256 MiB", channels_last, 8, open_pictures),
    ALONE("fill 256 MiB", fill, 4, open_case),
    ALONE("fill f64 256 MiB", fill, 4, open_double),
    RAW_COPY(256),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
