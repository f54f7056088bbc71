/* Passes of Fourier transforms, and the factors e^(-2 pi i k / n) between them. */
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/fft/fft.h"

// clang-format off
/* kernel text begins */
#include "ops/fft/fft_kernel.h"

typedef struct fft_factors_params {
    I64 items, at;     /* of the table, in elements */
    I64 length, parts; /* length is radix times parts */
    U64 sign, scale;   /* 1 or -1; of all factors */
} fft_factors_params;

typedef struct fft_pass_params {
    I64 items, at[3];    /* of y, x and the table, in elements */
    I64 radix, parts;    /* numbers of a butterfly, and butterflies with different factors */
    I64 width;          /* butterflies side by side with the same factors */
    U64 sign, scale;     /* 1 or -1; of the first result, which has no factor */
} fft_pass_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* Of one pass: factor k of part m is at k * parts + m, e^(-2 pi i (k + 1) m / length). */
KERNEL1(fft_factors, fft_factors_params, T, table)
{
    const A sign = SCALAR(p.sign), scale = SCALAR(p.scale);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 k = QUOTIENT(i, p.parts), m = i - k * p.parts;
        const I64 n = CHUNKED ? least(p.parts - m, ITEMS_END - i) : 1;
        GLOBAL T *w = table + p.at + 2 * i;
        VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_factor(w + 2 * j, (k + 1) * (m + j), p.length, sign, scale);
        i += ITEMS_STEP(n);
    }
}

/* Butterflies: x at steps of xd, y at steps of yd, factors at steps of wd. sign is -1 for the inverse. */
INLINE void fft_two(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, A scale)
{
    const A ar = x[0], ai = x[1], br = x[xd], bi = x[xd + 1];
    y[0] = (ar + br) * scale;
    y[1] = (ai + bi) * scale;
    fft_put(y + yd, w, ar - br, ai - bi);
}

INLINE void fft_three(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, I64 wd, A sign, A scale)
{
    const A ar = x[0], ai = x[1], br = x[xd], bi = x[xd + 1], cr = x[2 * xd], ci = x[2 * xd + 1];
    const A sine = LIT(0.86602540378443864676) * sign;
    const A tr = br + cr, ti = bi + ci, dr = (br - cr) * sine, di = (bi - ci) * sine;
    const A er = ar - LIT(0.5) * tr, ei = ai - LIT(0.5) * ti;
    y[0] = (ar + tr) * scale;
    y[1] = (ai + ti) * scale;
    fft_put(y + yd, w, er + di, ei - dr);
    fft_put(y + 2 * yd, w + wd, er - di, ei + dr);
}

INLINE void fft_four(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, I64 wd, A sign, A scale)
{
    const A ar = x[0], ai = x[1], br = x[xd], bi = x[xd + 1];
    const A cr = x[2 * xd], ci = x[2 * xd + 1], dr = x[3 * xd], di = x[3 * xd + 1];
    const A er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci;
    const A gr = br + dr, gi = bi + di, hr = (br - dr) * sign, hi = (bi - di) * sign;
    y[0] = (er + gr) * scale;
    y[1] = (ei + gi) * scale;
    fft_put(y + yd, w, fr + hi, fi - hr);
    fft_put(y + 2 * yd, w + wd, er - gr, ei - gi);
    fft_put(y + 3 * yd, w + 2 * wd, fr - hi, fi + hr);
}

INLINE void fft_five(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, I64 wd, A sign, A scale)
{
    const A c1 = LIT(0.30901699437494742410), c2 = LIT(-0.80901699437494742410);
    const A s1 = LIT(0.95105651629515357212) * sign, s2 = LIT(0.58778525229247312917) * sign;
    const A ar = x[0], ai = x[1];
    const A tr = x[xd] + x[4 * xd], ti = x[xd + 1] + x[4 * xd + 1];
    const A dr = x[xd] - x[4 * xd], di = x[xd + 1] - x[4 * xd + 1];
    const A ur = x[2 * xd] + x[3 * xd], ui = x[2 * xd + 1] + x[3 * xd + 1];
    const A er = x[2 * xd] - x[3 * xd], ei = x[2 * xd + 1] - x[3 * xd + 1];
    const A fr = ar + c1 * tr + c2 * ur, fi = ai + c1 * ti + c2 * ui, gr = s1 * dr + s2 * er, gi = s1 * di + s2 * ei;
    const A hr = ar + c2 * tr + c1 * ur, hi = ai + c2 * ti + c1 * ui, kr = s2 * dr - s1 * er, ki = s2 * di - s1 * ei;
    y[0] = (ar + tr + ur) * scale;
    y[1] = (ai + ti + ui) * scale;
    fft_put(y + yd, w, fr + gi, fi - gr);
    fft_put(y + 2 * yd, w + wd, hr + ki, hi - kr);
    fft_put(y + 3 * yd, w + 2 * wd, hr - ki, hi + kr);
    fft_put(y + 4 * yd, w + 3 * wd, fr - gi, fi + gr);
}

INLINE void fft_seven(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, I64 wd, A sign, A scale)
{
    const A c1 = LIT(0.62348980185873353053), c2 = LIT(-0.22252093395631440429), c3 = LIT(-0.90096886790241912624);
    const A s1 = LIT(0.78183148246802980871) * sign, s2 = LIT(0.97492791218182360702) * sign;
    const A s3 = LIT(0.43388373911755812048) * sign, ar = x[0], ai = x[1];
    const A tr = x[xd] + x[6 * xd], ti = x[xd + 1] + x[6 * xd + 1];
    const A dr = x[xd] - x[6 * xd], di = x[xd + 1] - x[6 * xd + 1];
    const A ur = x[2 * xd] + x[5 * xd], ui = x[2 * xd + 1] + x[5 * xd + 1];
    const A er = x[2 * xd] - x[5 * xd], ei = x[2 * xd + 1] - x[5 * xd + 1];
    const A vr = x[3 * xd] + x[4 * xd], vi = x[3 * xd + 1] + x[4 * xd + 1];
    const A fr = x[3 * xd] - x[4 * xd], fi = x[3 * xd + 1] - x[4 * xd + 1];
    const A gr = ar + c1 * tr + c2 * ur + c3 * vr, gi = ai + c1 * ti + c2 * ui + c3 * vi;
    const A hr = ar + c2 * tr + c3 * ur + c1 * vr, hi = ai + c2 * ti + c3 * ui + c1 * vi;
    const A kr = ar + c3 * tr + c1 * ur + c2 * vr, ki = ai + c3 * ti + c1 * ui + c2 * vi;
    const A lr = s1 * dr + s2 * er + s3 * fr, li = s1 * di + s2 * ei + s3 * fi;
    const A mr = s2 * dr - s3 * er - s1 * fr, mi = s2 * di - s3 * ei - s1 * fi;
    const A nr = s3 * dr - s1 * er + s2 * fr, ni = s3 * di - s1 * ei + s2 * fi;
    y[0] = (ar + tr + ur + vr) * scale;
    y[1] = (ai + ti + ui + vi) * scale;
    fft_put(y + yd, w, gr + li, gi - lr);
    fft_put(y + 2 * yd, w + wd, hr + mi, hi - mr);
    fft_put(y + 3 * yd, w + 2 * wd, kr + ni, ki - nr);
    fft_put(y + 4 * yd, w + 3 * wd, kr - ni, ki + nr);
    fft_put(y + 5 * yd, w + 4 * wd, hr - mi, hi + mr);
    fft_put(y + 6 * yd, w + 5 * wd, gr - li, gi + lr);
}

/* A transform's numbers are x[part + parts * k][width]; those of y, which the next pass takes, y[k + radix * part][width]. */
KERNEL3(fft_pass, fft_pass_params, T, y, const T, x, const T, table)
{
    const A sign = SCALAR(p.sign), scale = SCALAR(p.scale);
    const I64 each = p.parts * p.width, xd = 2 * each, yd = 2 * p.width, wd = 2 * p.parts;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 first = QUOTIENT(i, each), at = i - first * each, part = QUOTIENT(at, p.width);
        const I64 q = at - part * p.width;
        const I64 n = CHUNKED ? least(p.width == 1 ? each - at : p.width - q, ITEMS_END - i) : 1;
        GLOBAL const T *v = x + p.at[1] + 2 * (first * each * p.radix + at);
        GLOBAL T *o = y + p.at[0] + 2 * (first * each * p.radix + part * p.width * p.radix + q);
        GLOBAL const T *w = table + p.at[2] + 2 * part;
        const I64 whole = p.radix == 4 && p.width == 4 && q == 0 && CHUNKED ? least(each - at, ITEMS_END - i) / 4 : 0;
        if (whole > 0) { /* the second pass of most transforms: its runs of four are too short for the loops below */
            for (I64 m = 0; m < whole; m++)
                BLOCK_LOOP for (int j = 0; j < 4; j++)
                    fft_four(o + 32 * m + 2 * j, 8, v + 8 * m + 2 * j, xd, w + 2 * m, wd, sign, scale);
            i += ITEMS_STEP(4 * whole);
            continue;
        }
        if (p.radix == 4 && p.width == 1) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_four(o + 8 * j, 2, v + 2 * j, xd, w + 2 * j, wd, sign, scale);
        } else if (p.radix == 4) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_four(o + 2 * j, yd, v + 2 * j, xd, w, wd, sign, scale);
        } else if (p.radix == 2 && p.width == 1) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_two(o + 4 * j, 2, v + 2 * j, xd, w + 2 * j, scale);
        } else if (p.radix == 2) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_two(o + 2 * j, yd, v + 2 * j, xd, w, scale);
        } else if (p.radix == 3 && p.width == 1) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_three(o + 6 * j, 2, v + 2 * j, xd, w + 2 * j, wd, sign, scale);
        } else if (p.radix == 3) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_three(o + 2 * j, yd, v + 2 * j, xd, w, wd, sign, scale);
        } else if (p.radix == 5 && p.width == 1) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_five(o + 10 * j, 2, v + 2 * j, xd, w + 2 * j, wd, sign, scale);
        } else if (p.radix == 5) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_five(o + 2 * j, yd, v + 2 * j, xd, w, wd, sign, scale);
        } else if (p.radix == 7 && p.width == 1) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_seven(o + 14 * j, 2, v + 2 * j, xd, w + 2 * j, wd, sign, scale);
        } else if (p.radix == 7) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_seven(o + 2 * j, yd, v + 2 * j, xd, w, wd, sign, scale);
        } else {
            for (I64 j = 0; j < 2 * n; j++) o[j] = v[j] * scale;
        }
        i += ITEMS_STEP(n);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 4096, MAX_PASSES = 32 };

haul_tensor *haul__fft_temporary(const haul__call *c, haul_dtype dtype, int64_t count)
{
    return haul__temporary(c, dtype, &HAUL_SHAPE(count, 2));
}

double haul__fft_flops(haul__fft_size s)
{
    double levels = 1;
    for (int64_t n = s.n; n > 2; n /= 2)
        levels++;
    return 5 * (double)s.outer * (double)s.n * (double)s.inner * levels;
}

/* Divides the factors 2, 3, 5 and 7 out of n. */
static int64_t without_factors(int64_t n)
{
    static const int radices[] = {2, 3, 5, 7};
    for (int i = 0; i < 4; i++)
        while (n % radices[i] == 0)
            n /= radices[i];
    return n;
}

int64_t haul__fft_length(int64_t n)
{
    int64_t best = 1, power;
    while (best < n)
        best *= 2;
    for (int odd = 3; odd <= 15; odd += 2) {
        if (without_factors(odd) != 1)
            continue;
        for (power = odd * 4; power < n; power *= 2)
            ;
        best = power < best ? power : best;
    }
    return best;
}

/* The radices of the passes. Fours come first: where no numbers are side by side yet, their results are vectors. */
static int find_radices(int64_t n, int radices[MAX_PASSES])
{
    static const int order[] = {4, 2, 3, 5, 7};
    int              count = 0;
    for (int i = 0; i < 5; i++)
        for (; n % order[i] == 0; n /= order[i])
            radices[count++] = order[i];
    if (!count)
        radices[count++] = 1;
    return count;
}

/* The factors of all passes, n - 1 of them. */
static haul_status make_table(const haul__call *c, haul_tensor *table, int64_t n, const int *radices, int count,
                              bool inverse, double scale)
{
    fft_factors_params p = {
        .at = table->offset, .length = n, .sign = haul__scalar_bits(table->dtype, inverse ? -1 : 1)};
    for (int i = 0; i < count; i++) {
        p.parts = p.length / radices[i];
        p.items = p.length - p.parts;
        p.scale = haul__scalar_bits(table->dtype, i == count - 1 ? scale : 1);
        if (haul__launch_kernel(c, HAUL__K_fft_factors, table->dtype, HAUL__OUT(table), HAUL__PARAMS(p),
                                .grain = GRAIN))
            return haul_error_status();
        p.at += 2 * p.items;
        p.length = p.parts;
    }
    return HAUL_OK;
}

haul_status haul__fft_run(const haul__call *c, haul_tensor *y, haul_tensor *x, haul__fft_size size, bool inverse,
                          double scale)
{
    int           radices[MAX_PASSES];
    const int64_t total = size.outer * size.n * size.inner;
    if (!total)
        return HAUL_OK;
    if (without_factors(size.n) != 1)
        return haul__fft_bluestein(c, y, x, size, inverse, scale);
    const int    count = find_radices(size.n, radices);
    haul_tensor *table = haul__fft_temporary(c, y->dtype, size.n);
    haul_tensor *other = count > 1 ? haul__fft_temporary(c, y->dtype, total) : y;
    if (!table || !other || make_table(c, table, size.n, radices, count, inverse, scale))
        return haul_error_status();
    fft_pass_params p = {.at = {0, x->offset, table->offset},
                         .parts = size.n,
                         .width = size.inner,
                         .sign = haul__scalar_bits(y->dtype, inverse ? -1 : 1)};
    haul_tensor    *from = x;
    for (int i = 0; i < count; i++) {
        haul_tensor *to = (count - i) % 2 ? y : other;
        p.radix = radices[i];
        p.parts /= p.radix;
        p.items = total / p.radix;
        p.at[0] = to->offset;
        p.at[1] = from->offset;
        p.scale = haul__scalar_bits(y->dtype, i == count - 1 ? scale : 1);
        if (haul__launch_kernel(c, HAUL__K_fft_pass, y->dtype, HAUL__OUT(to), HAUL__IN(from, table), HAUL__PARAMS(p),
                                .grain = GRAIN))
            return haul_error_status();
        p.at[2] += 2 * p.parts * (p.radix - 1);
        p.width *= p.radix;
        from = to;
    }
    return HAUL_OK;
}
