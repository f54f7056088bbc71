/* haul bench compute: the operations that are measured. */
#include "cli/bench/compute.h"

const haul_dtype compute_dtypes[COMPUTE_DTYPES] = {HAUL_F32, HAUL_F16, HAUL_BF16};

/* ---- matrix products ---- */

static void make_gemm(const compute_family *f, haul_dtype dtype, int64_t size, compute_tensors *out)
{
    (void)f;
    out->x = haul_full(dtype, HAUL_SHAPE(size, size), 1);
    out->w = haul_full(dtype, HAUL_SHAPE(size, size), 0.01);
    out->out = haul_zeros(dtype, HAUL_SHAPE(size, size));
}

static haul_status run_gemm(const compute_family *f, const compute_tensors *t)
{
    (void)f;
    return haul_matmul_into(t->out, t->x, t->w);
}

static double work_gemm(const compute_family *f, int64_t size, int64_t element_bytes)
{
    (void)f, (void)element_bytes;
    return 2 * (double)size * (double)size * (double)size;
}

/* ---- convolutions ---- */

static int64_t pixels_out(const compute_family *f)
{
    return (f->conv.pixels + 2 * f->conv.padding - f->conv.kernel) / f->conv.stride + 1;
}

static void make_conv(const compute_family *f, haul_dtype dtype, int64_t size, compute_tensors *out)
{
    const int64_t side = f->conv.pixels, side_out = pixels_out(f), kernel = f->conv.kernel;
    out->x = haul_full(dtype, HAUL_SHAPE(size, f->conv.from, side, side), 1);
    out->w = haul_full(dtype, HAUL_SHAPE(f->conv.to, f->conv.from, kernel, kernel), 0.01);
    out->out = haul_zeros(dtype, HAUL_SHAPE(size, f->conv.to, side_out, side_out));
}

static haul_status run_conv(const compute_family *f, const compute_tensors *t)
{
    const int64_t padding = f->conv.padding ? f->conv.padding : HAUL_ZERO;
    return haul_conv2d_into(t->out, t->x, t->w, .stride = {f->conv.stride, f->conv.stride},
                            .padding = {padding, padding});
}

static double work_conv(const compute_family *f, int64_t size, int64_t element_bytes)
{
    const double taps = (double)(f->conv.from * f->conv.kernel * f->conv.kernel);
    (void)element_bytes;
    return 2 * taps * (double)(size * f->conv.to) * (double)(pixels_out(f) * pixels_out(f));
}

/* ---- pointwise operations, sums ---- */

static void make_add(const compute_family *f, haul_dtype dtype, int64_t size, compute_tensors *out)
{
    (void)f;
    out->x = haul_full(dtype, HAUL_SHAPE(size), 1);
    out->w = haul_full(dtype, HAUL_SHAPE(size), 0.5);
    out->out = haul_zeros(dtype, HAUL_SHAPE(size));
}

static haul_status run_add(const compute_family *f, const compute_tensors *t)
{
    (void)f;
    return haul_add_into(t->out, t->x, t->w);
}

static double work_add(const compute_family *f, int64_t size, int64_t element_bytes)
{
    (void)f;
    return 3 * (double)size * (double)element_bytes;
}

static void make_gelu(const compute_family *f, haul_dtype dtype, int64_t size, compute_tensors *out)
{
    (void)f;
    out->x = haul_full(dtype, HAUL_SHAPE(size), 1);
    out->out = haul_zeros(dtype, HAUL_SHAPE(size));
}

static haul_status run_gelu(const compute_family *f, const compute_tensors *t)
{
    (void)f;
    return haul_gelu_into(t->out, t->x);
}

static double work_gelu(const compute_family *f, int64_t size, int64_t element_bytes)
{
    (void)f;
    return 2 * (double)size * (double)element_bytes;
}

/* Zeros, so that no sum overflows f16. */
static void make_sum(const compute_family *f, haul_dtype dtype, int64_t size, compute_tensors *out)
{
    (void)f;
    out->x = haul_zeros(dtype, HAUL_SHAPE(size));
    out->out = haul_sum(out->x);
}

static haul_status run_sum(const compute_family *f, const compute_tensors *t)
{
    (void)f;
    return haul_sum_into(t->out, t->x);
}

static double work_sum(const compute_family *f, int64_t size, int64_t element_bytes)
{
    (void)f;
    return (double)size * (double)element_bytes;
}

/* ---- the list ---- */

#define CONV .size_name = "batch", .w_stays = true, .make = make_conv, .run = run_conv, .work = work_conv
#define VECTORS                                                                                                        \
    .size_name = "elements", .counts_bytes = true, .sizes = {1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 24, 1 << 26}

const compute_family compute_families[COMPUTE_FAMILIES] = {
    {.operation = "gemm",
     .detail = "[n,n] by [n,n]",
     .size_name = "n",
     .sizes = {64, 128, 256, 512, 1024, 2048, 4096, 8192},
     .share = 4,
     .make = make_gemm,
     .run = run_gemm,
     .work = work_gemm},
    {.operation = "conv2d",
     .detail = "5x5, 3 to 6 channels, 32x32",
     .sizes = {1, 8, 64, 512},
     .share = 1,
     CONV,
     .conv = {.from = 3, .to = 6, .pixels = 32, .kernel = 5, .stride = 1}},
    {.operation = "conv2d",
     .detail = "3x3, 64 to 64 channels, 56x56",
     .sizes = {1, 8, 64},
     .share = 2,
     CONV,
     .conv = {.from = 64, .to = 64, .pixels = 56, .kernel = 3, .stride = 1, .padding = 1}},
    {.operation = "conv2d",
     .detail = "1x1, 256 to 64 channels, 28x28",
     .sizes = {1, 8, 64},
     .share = 1,
     CONV,
     .conv = {.from = 256, .to = 64, .pixels = 28, .kernel = 1, .stride = 1}},
    {.operation = "pointwise",
     .detail = "x + y",
     VECTORS,
     .share = 1,
     .make = make_add,
     .run = run_add,
     .work = work_add},
    {.operation = "pointwise",
     .detail = "gelu",
     VECTORS,
     .share = 1,
     .make = make_gelu,
     .run = run_gelu,
     .work = work_gelu},
    {.operation = "reduction",
     .detail = "sum",
     VECTORS,
     .share = 1,
     .make = make_sum,
     .run = run_sum,
     .work = work_sum},
};
