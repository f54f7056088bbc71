/* The factors of Fourier transforms. */
#ifndef HAUL_OPS_FFT_FFT_KERNEL_H
#define HAUL_OPS_FFT_FFT_KERNEL_H
// clang-format off

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* w = (re, im) turned by so many quarters of a turn, times scale; the conjugate for sign = -1. */
INLINE void fft_turned(GLOBAL T *w, I32 quarter, A re, A im, A sign, A scale)
{
    const A along = quarter & 1 ? im : re, across = quarter & 1 ? re : im;
    w[0] = ((quarter + 1) & 2 ? -along : along) * scale;
    w[1] = (quarter & 2 ? across : -across) * (scale * sign);
}

/* e^(-2 pi i j / length) for j = first + more, 0 <= j < length; `more` is the part that changes in a loop, since vectors
 * of most processors turn I32 into F64, but not I64. The angle is the distance from the next multiple of a quarter of a
 * turn, at most pi / 4, exact but for one rounding; sine and cosine are Taylor's series to the precision of f64. */
#ifdef HAS_F64
INLINE void fft_factor(GLOBAL T *w, I64 first, I32 more, I64 length, A sign, A scale)
{
    const F64 j = (F64)first + (F64)more, n = (F64)length;
    const I32 quarter = (I32)(4.0 * j / n + 0.5);
    const F64 x = (4.0 * j - (F64)quarter * n) * (1.57079632679489661923 / n), z = x * x;
    const F64 s = x + x * z * (-1.66666666666666666667e-1 + z * (8.33333333333333333333e-3 + z *
        (-1.98412698412698412698e-4 + z * (2.75573192239858906526e-6 + z * (-2.50521083854417187751e-8 + z *
        (1.60590438368216145994e-10 + z * -7.64716373181981647590e-13))))));
    const F64 c = 1.0 + z * (-0.5 + z * (4.16666666666666666667e-2 + z * (-1.38888888888888888889e-3 + z *
        (2.48015873015873015873e-5 + z * (-2.75573192239858906526e-7 + z * (2.08767569878680989792e-9 + z *
        (-1.14707455977297247139e-11 + z * 4.77947733238738529744e-14)))))));
    fft_turned(w, quarter, (A)c, (A)s, sign, scale);
}
#else
INLINE void fft_factor(GLOBAL T *w, I64 first, I32 more, I64 length, A sign, A scale)
{
    const I64 j = first + more;
    const I32 quarter = (I32)((A)(4 * j) / (A)length + LIT(0.5));
    const A x = (A)(4 * j - quarter * length) * (LIT(1.57079632679489661923) / (A)length);
    fft_turned(w, quarter, M_COS(x), M_SIN(x), sign, scale);
}
#endif

/* A complex number. */
typedef struct fft_number { A re, im; } fft_number;

/* (re, im) times w; times the conjugate of w for sign = -1. The text avoids differences of
 * products: next to a sum of products gcc 12 fuses them in some iterations of a loop, in spite of -ffp-contract=off. */
INLINE fft_number fft_turn(A re, A im, GLOBAL const T *w, A sign)
{
    const A c = w[0], s = w[1] * sign, back = -s;
    const fft_number z = {re * c + im * back, re * s + im * c};
    return z;
}
INLINE void fft_put(GLOBAL T *y, GLOBAL const T *w, A sign, A re, A im)
{
    const fft_number z = fft_turn(re, im, w, sign);
    y[0] = z.re;
    y[1] = z.im;
}
#endif

#endif
