/* Transforms of lengths with prime factors above 7 (Bluestein 1970): jk = (j^2 + k^2 - (k - j)^2) / 2, so with the
 * factors c_j = e^(-pi i j^2 / n) term k is c_k times the sum over j of (x_j c_j) conj(c_(k - j)). That sum is a
 * convolution, the product of two transforms of a longer length. */
#include "base/assert.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/fft/fft.h"

// clang-format off
/* kernel text begins */
#include "ops/fft/fft_kernel.h"

typedef struct fft_chirp_params {
    I64 items, at[3];    /* of y, x and the factors, in elements */
    I64 inner, from, to; /* numbers side by side; rows of x and of y in each transform */
    U64 sign, scale;
} fft_chirp_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* y[j] = e^(-pi i j^2 / n), the conjugate for sign = -1. A block's squares modulo 2 n follow from its first one. */
enum { CHIRP_BLOCK = CHUNKED ? 64 : 1 };
KERNEL1(fft_chirp, fft_chirp_params, T, y)
{
    const A sign = SCALAR(p.sign);
    const I64 length = 2 * p.to;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 n = CHUNKED ? least(ITEMS_END - i, CHIRP_BLOCK) : 1;
        GLOBAL T *w = y + p.at[0] + 2 * i;
        I32 squares[CHIRP_BLOCK];
        I64 square = REMAINDER(i * i, length);
        for (I64 j = 0; j < n; j++) {
            squares[j] = (I32)square;
            square += 2 * (i + j) + 1;
            square -= square >= length ? length : 0;
        }
        VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_factor(w + 2 * j, 0, squares[j], length, sign, LIT(1.0));
        i += ITEMS_STEP(n);
    }
}

/* y[j] = the conjugate of factor |j|, for -from < j < from, where negative j count from the end; else 0. */
KERNEL2(fft_wave, fft_chirp_params, T, y, const T, factors)
{
    FOR_ITEMS(i) {
        const I64 j = 2 * i > p.to ? p.to - i : i;
        const I32 inside = j < p.from;
        GLOBAL const T *w = factors + p.at[2] + 2 * (inside ? j : 0);
        y[p.at[0] + 2 * i] = inside ? w[0] : LIT(0.0);
        y[p.at[0] + 2 * i + 1] = inside ? -w[1] : LIT(0.0);
    }
}

/* y[j] = x[j] times factor j and scale; 0 after the last row of x. */
KERNEL3(fft_times, fft_chirp_params, T, y, const T, x, const T, factors)
{
    const A scale = SCALAR(p.scale);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 line = p.to * p.inner, t = QUOTIENT(i, line), at = i - t * line, j = QUOTIENT(at, p.inner);
        const I32 alone = p.inner == 1, inside = j < p.from;
        const I64 rows = inside ? least(p.from, p.to) : p.to;
        const I64 n = CHUNKED ? least(alone ? rows - j : (j + 1) * p.inner - at, ITEMS_END - i) : 1;
        GLOBAL const T *v = x + p.at[1] + 2 * (t * p.from * p.inner + at), *w = factors + p.at[2] + 2 * j;
        GLOBAL T *o = y + p.at[0] + 2 * i;
        if (!inside) {
            for (I64 k = 0; k < 2 * n; k++) o[k] = LIT(0.0);
        } else if (alone) {
            VECTOR_LOOP for (I64 k = 0; k < n; k++) fft_put(o + 2 * k, w + 2 * k, LIT(1.0), v[2 * k] * scale, v[2 * k + 1] * scale);
        } else {
            VECTOR_LOOP for (I64 k = 0; k < n; k++) fft_put(o + 2 * k, w, LIT(1.0), v[2 * k] * scale, v[2 * k + 1] * scale);
        }
        i += ITEMS_STEP(n);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 4096 };

static haul_status times(const haul__call *c, haul_tensor *y, haul_tensor *x, haul_tensor *factors, haul__fft_size size,
                         int64_t from, double scale)
{
    HAUL__ASSERT(2 * size.outer * size.n * size.inner <= y->count && 2 * size.outer * from * size.inner <= x->count);
    HAUL__ASSERT(2 * (size.n < from ? size.n : from) <= factors->count);
    fft_chirp_params p = {.items = size.outer * size.n * size.inner,
                          .at = {y->offset, x->offset, factors->offset},
                          .inner = size.inner,
                          .from = from,
                          .to = size.n,
                          .scale = haul__scalar_bits(y->dtype, scale)};
    return haul__launch_kernel(c, HAUL__K_fft_times, y->dtype, HAUL__OUT(y), HAUL__IN(x, factors), HAUL__PARAMS(p),
                               .grain = GRAIN);
}

haul_status haul__fft_bluestein(const haul__call *c, haul_tensor *y, haul_tensor *x, haul__fft_size size, bool inverse,
                                double scale)
{
    const int64_t        length = haul__fft_length(2 * size.n - 1), rows = size.outer * size.inner;
    const haul__fft_size wide = {size.outer, length, size.inner}, once = {1, length, 1};
    HAUL__ASSERT(length >= 2 * size.n - 1); /* no term wraps around */
    int64_t total;
    if (!haul__mul_size(rows, length, &total))
        return haul__fail(HAUL_SHAPE, c->operation->name, "x", "the size of the convolution overflows");
    HAUL__ASSERT(x->count == y->count && y->count == 2 * rows * size.n);
    haul_tensor *chirp = haul__fft_temporary(c, y->dtype, size.n), *spectrum = haul__fft_temporary(c, y->dtype, length);
    haul_tensor *a = haul__fft_temporary(c, y->dtype, total), *b = haul__fft_temporary(c, y->dtype, total), *wave = b;
    haul__fft_plan plan;
    if (!chirp || !spectrum || !a || !b || haul__fft_prepare(c, y->dtype, wide, &plan))
        return haul_error_status();
    fft_chirp_params p = {
        .items = size.n, .at = {chirp->offset}, .to = size.n, .sign = haul__scalar_bits(y->dtype, inverse ? -1 : 1)};
    if (haul__launch_kernel(c, HAUL__K_fft_chirp, y->dtype, HAUL__OUT(chirp), HAUL__PARAMS(p), .grain = GRAIN))
        return haul_error_status();
    p = (fft_chirp_params){
        .items = length, .at = {wave->offset, 0, chirp->offset}, .inner = 1, .from = size.n, .to = length};
    if (haul__launch_kernel(c, HAUL__K_fft_wave, y->dtype, HAUL__OUT(wave), HAUL__IN(chirp), HAUL__PARAMS(p),
                            .grain = GRAIN) ||
        haul__fft_apply(c, &plan, spectrum, wave, once, false, 1 / (double)length) ||
        times(c, a, x, chirp, wide, size.n, 1) || haul__fft_apply(c, &plan, b, a, wide, false, 1) ||
        times(c, a, b, spectrum, wide, length, 1) || haul__fft_apply(c, &plan, b, a, wide, true, 1))
        return haul_error_status();
    return times(c, y, b, chirp, size, length, scale);
}
