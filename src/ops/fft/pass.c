/* Passes of Fourier transforms, and the factors e^(-2 pi i k / n) between them. */
#include "base/assert.h"
#include "core/pool.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/fft/fft.h"

// clang-format off
/* kernel text begins */
#include "backends/cpu/pairs.h"
#include "ops/fft/fft_kernel.h"

typedef struct fft_factors_params {
    I64 items, at;     /* of the table, in elements */
    I64 length, parts; /* length is radix times parts */
    U64 scale;         /* of all factors */
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
    const A scale = SCALAR(p.scale);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 k = QUOTIENT(i, p.parts), m = i - k * p.parts;
        const I64 n = CHUNKED ? least(p.parts - m, ITEMS_END - i) : 1;
        const I32 step = (I32)k + 1;
        GLOBAL T *w = table + p.at + 2 * i;
        VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_factor(w + 2 * j, step * m, step * (I32)j, p.length, LIT(1.0), scale);
        i += ITEMS_STEP(n);
    }
}

/* Butterflies: x at steps of xd, y at steps of yd, factors at steps of wd. sign is -1 for the inverse. */
INLINE void fft_two(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, A sign, A scale)
{
    const A ar = x[0], ai = x[1], br = x[xd], bi = x[xd + 1];
    y[0] = (ar + br) * scale;
    y[1] = (ai + bi) * scale;
    fft_put(y + yd, w, sign, ar - br, ai - bi);
}

INLINE void fft_three(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, I64 wd, A sign, A scale)
{
    const A ar = x[0], ai = x[1], br = x[xd], bi = x[xd + 1], cr = x[2 * xd], ci = x[2 * xd + 1];
    const A sine = LIT(0.86602540378443864676) * sign;
    const A tr = br + cr, ti = bi + ci, dr = (cr - br) * sine, di = (bi - ci) * sine;
    const A er = ar - LIT(0.5) * tr, ei = ai - LIT(0.5) * ti;
    y[0] = (ar + tr) * scale;
    y[1] = (ai + ti) * scale;
    fft_put(y + yd, w, sign, er + di, ei + dr);
    fft_put(y + 2 * yd, w + wd, sign, er - di, ei - dr);
}

typedef struct fft_quad { fft_number a, b, c, d; } fft_quad;

INLINE fft_number fft_get(GLOBAL const T *x)
{
    const fft_number z = {x[0], x[1]};
    return z;
}

INLINE fft_quad fft_four_of(fft_number a, fft_number b, fft_number c, fft_number d, GLOBAL const T *w, I64 wd, A sign, A scale)
{
    const A er = a.re + c.re, ei = a.im + c.im, fr = a.re - c.re, fi = a.im - c.im;
    const A gr = b.re + d.re, gi = b.im + d.im, hr = (b.re - d.re) * sign, hi = (b.im - d.im) * sign;
    const fft_number first = {(er + gr) * scale, (ei + gi) * scale};
    const fft_quad all = {first, fft_turn(fr + hi, fi - hr, w, sign), fft_turn(er - gr, ei - gi, w + wd, sign),
                          fft_turn(fr - hi, fi + hr, w + 2 * wd, sign)};
    return all;
}

INLINE void fft_put_four(GLOBAL T *y, I64 yd, fft_quad all)
{
    y[0] = all.a.re;
    y[1] = all.a.im;
    y[yd] = all.b.re;
    y[yd + 1] = all.b.im;
    y[2 * yd] = all.c.re;
    y[2 * yd + 1] = all.c.im;
    y[3 * yd] = all.d.re;
    y[3 * yd + 1] = all.d.im;
}

INLINE void fft_four(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, I64 wd, A sign, A scale)
{
    fft_put_four(y, yd, fft_four_of(fft_get(x), fft_get(x + xd), fft_get(x + 2 * xd), fft_get(x + 3 * xd), w, wd, sign, scale));
}

#if CHUNKED
/* Two passes of four as one, so that memory is passed once; GPUs have too few registers for it. `w` has the factors of the first, 4 `wd` apart and for each
 * quarter of x `wd` further on, and then those of the second, `wd` apart. */
INLINE fft_quad fft_quarter(GLOBAL const T *x, I64 xd, GLOBAL const T *w, I64 wd, A sign)
{
    return fft_four_of(fft_get(x), fft_get(x + 4 * xd), fft_get(x + 8 * xd), fft_get(x + 12 * xd), w, 4 * wd, sign, LIT(1.0));
}
INLINE void fft_sixteen(GLOBAL T *y, I64 yd, GLOBAL const T *x, I64 xd, GLOBAL const T *w, I64 wd, A sign, A scale)
{
    const fft_quad a = fft_quarter(x, xd, w, wd, sign), b = fft_quarter(x + xd, xd, w + wd, wd, sign);
    const fft_quad c = fft_quarter(x + 2 * xd, xd, w + 2 * wd, wd, sign), d = fft_quarter(x + 3 * xd, xd, w + 3 * wd, wd, sign);
    GLOBAL const T *v = w + 12 * wd;
    fft_put_four(y, 4 * yd, fft_four_of(a.a, b.a, c.a, d.a, v, wd, sign, scale));
    fft_put_four(y + yd, 4 * yd, fft_four_of(a.b, b.b, c.b, d.b, v, wd, sign, scale));
    fft_put_four(y + 2 * yd, 4 * yd, fft_four_of(a.c, b.c, c.c, d.c, v, wd, sign, scale));
    fft_put_four(y + 3 * yd, 4 * yd, fft_four_of(a.d, b.d, c.d, d.d, v, wd, sign, scale));
}
#endif

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
    fft_put(y + yd, w, sign, fr + gi, fi - gr);
    fft_put(y + 2 * yd, w + wd, sign, hr + ki, hi - kr);
    fft_put(y + 3 * yd, w + 2 * wd, sign, hr - ki, hi + kr);
    fft_put(y + 4 * yd, w + 3 * wd, sign, fr - gi, fi + gr);
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
    fft_put(y + yd, w, sign, gr + li, gi - lr);
    fft_put(y + 2 * yd, w + wd, sign, hr + mi, hi - mr);
    fft_put(y + 3 * yd, w + 2 * wd, sign, kr + ni, ki - nr);
    fft_put(y + 4 * yd, w + 3 * wd, sign, kr - ni, ki + nr);
    fft_put(y + 5 * yd, w + 4 * wd, sign, hr - mi, hi + mr);
    fft_put(y + 6 * yd, w + 5 * wd, sign, gr - li, gi + lr);
}

#if HAS_PAIRS
/* The same butterflies for vectors of numbers, real and imaginary parts side by side. A factor (c, s) is c, and -s for the
 * real and s for the imaginary parts. */
typedef struct fft_turns { pairs re, im; } fft_turns;
typedef struct fft_vectors { pairs of[4]; } fft_vectors;

INLINE void fft_store(T *y, I64 yd, fft_vectors all)
{
    for (int k = 0; k < 4; k++) pairs_store(y + k * yd, all.of[k]);
}
INLINE fft_turns fft_turns_of(A c, A s)
{
    const fft_turns w = {pairs_of(c, c), pairs_of(-s, s)};
    return w;
}
INLINE pairs fft_turned_vector(pairs z, fft_turns w) { return z * w.re + pairs_swapped(z) * w.im; }

INLINE fft_vectors fft_four_vectors(pairs a, pairs b, pairs c, pairs d, const fft_turns *w, A sign, A scale)
{
    const pairs e = a + c, f = a - c, g = b + d, h = pairs_swapped(b - d) * pairs_of(sign, -sign);
    const fft_vectors all = {{(e + g) * scale, fft_turned_vector(f + h, w[0]), fft_turned_vector(e - g, w[1]),
                              fft_turned_vector(f - h, w[2])}};
    return all;
}
INLINE fft_vectors fft_four_loaded(const T *x, I64 xd, const fft_turns *w, A sign, A scale)
{
    return fft_four_vectors(pairs_load(x), pairs_load(x + xd), pairs_load(x + 2 * xd), pairs_load(x + 3 * xd), w, sign, scale);
}

/* n numbers side by side, which have the same factors. Sixteen takes whole cache lines: those of its rows often are in one
 * set of a cache, which would not keep them until the other half is needed. */
INLINE void fft_fours(T *y, I64 yd, const T *x, I64 xd, const T *w, I64 wd, I64 n, A sign, A scale)
{
    fft_turns turns[3];
    for (int k = 0; k < 3; k++) turns[k] = fft_turns_of(w[k * wd], w[k * wd + 1] * sign);
    for (I64 j = 0; j < 2 * n; j += 2 * PAIRS) fft_store(y + j, yd, fft_four_loaded(x + j, xd, turns, sign, scale));
}
INLINE void fft_sixteens(T *y, I64 yd, const T *x, I64 xd, const T *w, I64 wd, I64 n, A sign, A scale)
{
    fft_turns turns[5][3];
    for (int k = 0; k < 15; k++) {
        const T *v = w + (k < 12 ? (k / 3 + k % 3 * 4) * wd : k * wd);
        turns[k / 3][k % 3] = fft_turns_of(v[0], v[1] * sign);
    }
    for (I64 j = 0; j < 2 * n; j += 4 * PAIRS) {
        fft_vectors z[2][4];
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 2; l++)
                z[l][k] = fft_four_loaded(x + j + k * xd + 2 * PAIRS * l, 4 * xd, turns[k], sign, LIT(1.0));
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 2; l++)
                fft_store(y + j + k * yd + 2 * PAIRS * l, 4 * yd,
                          fft_four_vectors(z[l][0].of[k], z[l][1].of[k], z[l][2].of[k], z[l][3].of[k], turns[4], sign, scale));
    }
}

/* n parts of one number, each with factors of its own. */
INLINE void fft_fours_apart(T *y, const T *x, I64 xd, const T *w, I64 wd, I64 n, A sign, A scale)
{
    for (I64 j = 0; j < n; j += PAIRS) {
        fft_turns turns[3];
        T results[4][2 * PAIRS];
        for (int k = 0; k < 3; k++) {
            const pairs v = pairs_load(w + k * wd + 2 * j);
            turns[k].re = pairs_firsts(v);
            turns[k].im = pairs_seconds(v) * pairs_of(-sign, sign);
        }
        fft_store(results[0], 2 * PAIRS, fft_four_loaded(x + 2 * j, xd, turns, sign, scale));
        for (int l = 0; l < PAIRS; l++)
            for (int k = 0; k < 4; k++) memcpy(y + 8 * (j + l) + 2 * k, results[k] + 2 * l, 2 * sizeof(T));
    }
}

/* Takes whole vectors from the `left` next items, which begin at place q of a part; returns how many items. */
INLINE I64 fft_take_vectors(const fft_pass_params p, T *y, const T *x, const T *w, I64 q, I64 left, A sign, A scale)
{
    const I64 each = p.parts * p.width, xd = 2 * each, yd = 2 * p.width, wd = 2 * p.parts;
    const I64 row = least(p.width - q, left) & -(p.radix == 16 ? 2 * PAIRS : PAIRS);
    const I64 rows = row == p.width ? left / row : row > 0;
    if (p.radix == 4 && p.width == 1) {
        fft_fours_apart(y, x, xd, w, wd, left & -PAIRS, sign, scale);
        return left & -PAIRS;
    }
    if (p.radix != 4 && p.radix != 16) return 0;
    for (I64 m = 0; m < rows; m++, y += yd * p.radix, x += yd, w += 2) {
        if (p.radix == 4) fft_fours(y, yd, x, xd, w, wd, row, sign, scale);
        else fft_sixteens(y, yd, x, xd, w, wd, row, sign, scale);
    }
    return rows * row;
}
#endif

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
#if HAS_PAIRS
        const I64 taken = fft_take_vectors(p, o, v, w, q, least(each - at, ITEMS_END - i), sign, scale);
        i += ITEMS_STEP(taken);
        if (taken) continue;
#endif
#if CHUNKED
        if (p.radix == 16 && p.width == 1) {
            for (I64 j = 0; j < n; j++) fft_sixteen(o + 32 * j, 2, v + 2 * j, xd, w + 2 * j, wd, sign, scale);
        } else if (p.radix == 16) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_sixteen(o + 2 * j, yd, v + 2 * j, xd, w, wd, sign, scale);
        } else
#endif
        if (p.radix == 4 && p.width == 1) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_four(o + 8 * j, 2, v + 2 * j, xd, w + 2 * j, wd, sign, scale);
        } else if (p.radix == 4) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_four(o + 2 * j, yd, v + 2 * j, xd, w, wd, sign, scale);
        } else if (p.radix == 2 && p.width == 1) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_two(o + 4 * j, 2, v + 2 * j, xd, w + 2 * j, sign, scale);
        } else if (p.radix == 2) {
            VECTOR_LOOP for (I64 j = 0; j < n; j++) fft_two(o + 2 * j, yd, v + 2 * j, xd, w, sign, scale);
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

enum { GRAIN = 4096, BLOCK_BYTES = 1 << 18 };

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

/* The radices of the passes of [n, inner] numbers. Fours come first: where no numbers are side by side yet, their
 * results are vectors. On processors two passes of four are one where at least eight numbers are side by side. */
static int find_radices(const haul__call *c, int64_t n, int64_t inner, int radices[HAUL__FFT_PASSES])
{
    static const int order[] = {4, 2, 3, 5, 7};
    int              count = 0;
    for (int i = 0; i < 5; i++)
        while (n % order[i] == 0) {
            const int radix = order[i] == 4 && n % 16 == 0 && inner >= 8 && !c->device->strided ? 16 : order[i];
            HAUL__ASSERT(count < HAUL__FFT_PASSES);
            radices[count++] = radix;
            n /= radix;
            inner *= radix;
        }
    HAUL__ASSERT(n == 1); /* no factor is left over */
    if (!count)
        radices[count++] = 1;
    return count;
}

static haul_status make_factors(const haul__call *c, haul_tensor *table, fft_factors_params p, double scale)
{
    p.at += table->offset;
    p.scale = haul__scalar_bits(table->dtype, scale);
    return haul__launch_kernel(c, HAUL__K_fft_factors, table->dtype, HAUL__OUT(table), HAUL__PARAMS(p), .grain = GRAIN);
}

/* The butterflies of the last step of a pass: passes of sixteen have two steps. */
static int last_step(int radix)
{
    return radix == 16 ? 4 : radix;
}

/* How many of the transforms are computed at a time. Processors keep a block for each thread in a cache from pass to
 * pass. */
static int64_t together(const haul__call *c, haul_dtype dtype, haul__fft_size size)
{
    HAUL__ASSERT(size.n > 0 && size.inner > 0);
    const int64_t bytes = 2 * (int64_t)haul__dtype_size(dtype) * size.n * size.inner;
    const int64_t room = BLOCK_BYTES * (int64_t)haul__pool_threads() / bytes;
    if (c->device->strided || size.outer <= room)
        return size.outer;
    return room > 0 ? room : 1;
}

/* The factors before the last step, which has only ones, times the transform's scale. */
haul_status haul__fft_prepare(const haul__call *c, haul_dtype dtype, haul__fft_size size, haul__fft_plan *plan)
{
    fft_factors_params p = {.length = size.n};
    plan->most = together(c, dtype, size);
    plan->count = find_radices(c, size.n, size.inner, plan->radices);
    plan->table = haul__fft_temporary(c, dtype, size.n);
    plan->other = plan->count > 1 ? haul__fft_temporary(c, dtype, plan->most * size.n * size.inner) : plan->table;
    if (!plan->table || !plan->other)
        return haul_error_status();
    HAUL__ASSERT(plan->most > 0 && plan->count > 0);
    for (int i = 0; i < plan->count; i++)
        for (int left = plan->radices[i], step; left > 1; left /= step) {
            step = last_step(left);
            p.parts = p.length / step;
            p.items = p.length - p.parts;
            if (p.parts > 1 && make_factors(c, plan->table, p, 1))
                return haul_error_status();
            p.at += 2 * p.items;
            p.length = p.parts;
        }
    HAUL__ASSERT(p.length == 1 && p.at <= plan->table->count);
    return HAUL_OK;
}

/* The passes of size.outer transforms, of which the first is `skip` elements behind the first ones of x and y. */
static haul_status run_passes(const haul__call *c, const haul__fft_plan *plan, haul_tensor *y, haul_tensor *x,
                              haul__fft_size size, int64_t skip, fft_pass_params p, double scale)
{
    HAUL__ASSERT(0 < size.outer && size.outer <= plan->most);
    HAUL__ASSERT(plan->count == 1 || 2 * size.outer * size.n * size.inner <= plan->other->count);
    HAUL__ASSERT(skip + 2 * size.outer * size.n * size.inner <= (x->count < y->count ? x->count : y->count));
    haul_tensor *from = x;
    p.at[2] = plan->table->offset;
    p.parts = size.n;
    p.width = size.inner;
    for (int i = 0; i < plan->count; i++) {
        haul_tensor *to = (plan->count - i) % 2 ? y : plan->other;
        p.radix = plan->radices[i];
        p.parts /= p.radix;
        p.items = size.outer * size.n * size.inner / p.radix;
        p.at[0] = to->offset + (to == y ? skip : 0);
        p.at[1] = from->offset + (from == plan->other ? 0 : skip);
        p.scale = haul__scalar_bits(y->dtype, i == plan->count - 1 ? scale : 1);
        if (haul__launch_kernel(c, HAUL__K_fft_pass, y->dtype, HAUL__OUT(to), HAUL__IN(from, plan->table),
                                HAUL__PARAMS(p), .grain = 4 * GRAIN / p.radix))
            return haul_error_status();
        p.at[2] += 2 * p.parts * (p.radix - 1);
        p.width *= p.radix;
        from = to;
    }
    HAUL__ASSERT(p.parts == 1 && from == y);
    return HAUL_OK;
}

haul_status haul__fft_apply(const haul__call *c, const haul__fft_plan *plan, haul_tensor *y, haul_tensor *x,
                            haul__fft_size size, bool inverse, double scale)
{
    const int step = last_step(plan->radices[plan->count - 1]);
    HAUL__ASSERT(plan->count > 0 && plan->most > 0 && step <= size.n);
    HAUL__ASSERT(plan->table->count >= 2 * size.n);
    const fft_factors_params last = {.items = step - 1, .at = 2 * (size.n - step), .length = step, .parts = 1};
    const fft_pass_params    p = {.sign = haul__scalar_bits(y->dtype, inverse ? -1 : 1)};
    const int64_t            most = plan->most, outer = size.outer;
    if (last.items && make_factors(c, plan->table, last, scale))
        return haul_error_status();
    for (int64_t first = 0; first < outer; first += most) {
        size.outer = most < outer - first ? most : outer - first;
        if (run_passes(c, plan, y, x, size, 2 * first * size.n * size.inner, p, scale))
            return haul_error_status();
    }
    return HAUL_OK;
}

haul_status haul__fft_run(const haul__call *c, haul_tensor *y, haul_tensor *x, haul__fft_size size, bool inverse,
                          double scale)
{
    haul__fft_plan plan;
    if (size.outer * size.n * size.inner == 0)
        return HAUL_OK;
    if (without_factors(size.n) != 1)
        return haul__fft_bluestein(c, y, x, size, inverse, scale);
    return haul__fft_prepare(c, y->dtype, size, &plan) ? haul_error_status()
                                                       : haul__fft_apply(c, &plan, y, x, size, inverse, scale);
}
