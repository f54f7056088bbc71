/* Discrete Fourier transforms along one axis. A complex number is a pair of elements, real and imaginary part, side by
 * side in memory.
 *
 * A length whose prime factors are 2, 3, 5 and 7 is transformed in passes between two buffers (Stockham's form, which
 * needs no reordering), one launch each. An item of a pass is one butterfly, so results are bit-identical for any
 * number of threads. Other lengths become a convolution of a length that has only these factors (Bluestein 1970). */
#ifndef HAUL_OPS_FFT_FFT_H
#define HAUL_OPS_FFT_FFT_H

#include "engine/operation.h"

/* The longest axis: squares of positions, and products of factors with positions, fit 64 bits. */
enum { HAUL__FFT_LONGEST = 1 << 29 };

enum { HAUL__FFT_PASSES = 32 }; /* at most */

/* `outer` times [n, inner] complex numbers. */
typedef struct haul__fft_size {
    int64_t outer, n, inner;
} haul__fft_size;

/* y = scale times the transform of x along n: the sum over j of x_j e^(-2 pi i jk / n), or e^(+2 pi i jk / n) for
 * `inverse`. x and y share no memory. */
haul_status haul__fft_run(const haul__call *c, haul_tensor *y, haul_tensor *x, haul__fft_size size, bool inverse,
                          double scale);

/* Passes whose tables several transforms of a length share. */
typedef struct haul__fft_plan {
    int          count, radices[HAUL__FFT_PASSES];
    haul_tensor *table, *other; /* the factors between passes; the second buffer */
    int64_t      most;          /* how many transforms the second buffer has room for */
} haul__fft_plan;

/* For transforms of `size` at most, whose n has only the factors 2, 3, 5 and 7. */
haul_status haul__fft_prepare(const haul__call *c, haul_dtype dtype, haul__fft_size size, haul__fft_plan *plan);
/* haul__fft_run by a plan for this n. */
haul_status haul__fft_apply(const haul__call *c, const haul__fft_plan *plan, haul_tensor *y, haul_tensor *x,
                            haul__fft_size size, bool inverse, double scale);

/* The same for a length with other factors (bluestein.c). */
haul_status haul__fft_bluestein(const haul__call *c, haul_tensor *y, haul_tensor *x, haul__fft_size size, bool inverse,
                                double scale);

/* The smallest length of at least n that has only the factors 2, 3, 5 and 7, and is quick. */
int64_t haul__fft_length(int64_t n);

/* A temporary of so many complex numbers; NULL on failure. */
haul_tensor *haul__fft_temporary(const haul__call *c, haul_dtype dtype, int64_t count);

/* 5 n log2 n for each transform. */
double haul__fft_flops(haul__fft_size size);

/* ---- operations: transforms of whole axes ---- */

typedef struct haul__fft_attributes {
    int64_t n; /* real numbers; infer sets it unless the result is real */
    double  scale;
    int     axis;
    bool    inverse, twice, reserved[2];
} haul__fft_attributes;

/* The transform of x [..., n, ..., 2] along `axis`, which is not negative. */
haul_tensor *haul__fft_complex(haul_tensor *x, int axis, bool inverse, double scale);

/* x [..., n, ...] to its first n / 2 + 1 terms [..., n / 2 + 1, ..., 2]; `twice`: all but terms 0 and n / 2 count
 * double. */
haul_tensor *haul__fft_of_real(haul_tensor *x, int axis, bool twice, double scale);

/* The gradient of the former: the real parts of the sum over the n / 2 + 1 given terms X_k of X_k e^(+2 pi i jk / n),
 * for n real numbers. With `twice` this is the inverse. */
haul_tensor *haul__fft_to_real(haul_tensor *x, int axis, int64_t n, bool twice, double scale);

/* x with n numbers along the axis: the first, or all and zeros. */
haul_tensor *haul__fft_resized(haul_tensor *x, int axis, int64_t n);

#endif
