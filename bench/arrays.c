/* Linear algebra, Fourier transforms, resampling, and operations whose results depend on values. */
#include "support/operation.h"

static haul_tensor *right; /* the right sides of the systems */

/* ---- operands ---- */

/* Matrices that are far from singular. */
static haul_tensor *prepare_systems(haul_tensor *x)
{
    const int64_t n = haul_tensor_dim(x, -1);
    right = haul_uniform(HAUL_F32, HAUL_SHAPE(haul_tensor_dim(x, 0), n, 1), -1, 1);
    return haul_add(x, haul_mul_scalar(haul_eye(HAUL_F32, n, n), (double)n));
}

static haul_tensor *prepare_symmetric(haul_tensor *x)
{
    return haul_add(x, haul_transpose(x, 0, 1));
}

static haul_tensor *prepare_definite(haul_tensor *x)
{
    const int64_t n = haul_tensor_dim(x, 0);
    return haul_add(haul_matmul(x, haul_transpose(x, 0, 1)), haul_eye(HAUL_F32, n, n));
}

static haul_tensor *prepare_few_values(haul_tensor *x)
{
    return haul_floor(haul_mul_scalar(x, 500));
}

static haul_tensor *prepare_half_zeros(haul_tensor *x)
{
    return haul_relu(x);
}

/* ---- operations ---- */

static haul_tensor *solve(haul_tensor *x)
{
    return haul_solve(x, right);
}

static haul_tensor *qr(haul_tensor *x)
{
    haul_tensor *q, *r;
    return haul_qr(x, &q, &r) ? NULL : r;
}

static haul_tensor *eigh(haul_tensor *x)
{
    haul_tensor *w, *v;
    return haul_eigh(x, &w, &v) ? NULL : w;
}

static haul_tensor *svd(haul_tensor *x)
{
    haul_tensor *u, *s, *vt;
    return haul_svd(x, &u, &s, &vt) ? NULL : s;
}

static haul_tensor *fft(haul_tensor *x)
{
    return haul_fft(x, 0);
}

static haul_tensor *bicubic(haul_tensor *x)
{
    return haul_interpolate(x, .scale = {1.5, 1.5}, .mode = HAUL_BICUBIC);
}

static haul_tensor *rotate(haul_tensor *x)
{
    return haul_rotate(x, 15, .mode = HAUL_BILINEAR);
}

static haul_tensor *median(haul_tensor *x)
{
    haul_tensor *values, *indices;
    return haul_median(x, 0, false, &values, &indices) ? NULL : values;
}

static haul_tensor *unique(haul_tensor *x)
{
    return haul_unique(x);
}

static haul_tensor *nonzero(haul_tensor *x)
{
    return haul_nonzero(x);
}

static haul_tensor *histogram(haul_tensor *x)
{
    return haul_histogram(x, .bins = 100);
}

static haul_tensor *convolve(haul_tensor *x)
{
    return haul_conv1d(x, haul_slice(x, 2, 0, 1000, 1));
}

static haul_tensor *convolve2(haul_tensor *x)
{
    return haul_conv2d(x, haul_slice(haul_slice(x, 2, 0, 31, 1), 3, 0, 31, 1));
}

enum { M = 1 << 20 };

static const operation table[] = {
    {"solve", {4096, 32, 32}, .unary = solve, .prepare = prepare_systems},
    {"cholesky", {512, 512}, .unary = haul_cholesky, .prepare = prepare_definite},
    {"qr", {512, 512}, .unary = qr},
    {"eigh", {512, 512}, .unary = eigh, .prepare = prepare_symmetric},
    {"svd", {512, 512}, .unary = svd},
    {"fft", {M, 2}, .unary = fft},
    {"fft", {1000000, 2}, .unary = fft},
    {"fft", {999983, 2}, .unary = fft},
    {"fft2", {1024, 1024, 2}, .unary = haul_fft2},
    {"bicubic", {1, 3, 512, 512}, .unary = bicubic},
    {"rotate", {1, 3, 512, 512}, .unary = rotate},
    {"median", {M}, .unary = median},
    {"unique", {M}, .unary = unique, .prepare = prepare_few_values},
    {"nonzero", {M}, .unary = nonzero, .prepare = prepare_half_zeros},
    {"histogram", {M}, .unary = histogram},
    {"convolve by 1000", {1, 1, 65536}, .unary = convolve},
    {"convolve by 31x31", {1, 1, 256, 256}, .unary = convolve2},
};

int main(int argc, char **argv)
{
    return operation_main(argc, argv, table, (int)(sizeof table / sizeof *table));
}
