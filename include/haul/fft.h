/* Fourier transforms: of complex and of real numbers, of any length, along one or several axes, and of short windows of
 * a signal.
 *
 * A complex number is a pair of elements: complex tensors are [..., 2], real part first, as torch.view_as_real gives
 * them. Axes count without the pair, so axis -1 of a complex tensor is the last one before it. Transforms compute in
 * f32 and f64; integers become f32 first, and f16 and bf16 are refused outside of autocast, which makes them f32. All
 * are differentiable, to any order.
 *
 * With x_j for 0 <= j < n, term k of the transform is the sum over j of x_j e^(-2 pi i j k / n). Any length of up to
 * 2^29 is possible; those with the factors 2, 3, 5 and 7 only are several times faster than others. Results depend only
 * on the shape: they are bit-identical for any number of threads, and on all devices that have f64. */
#ifndef HAUL_FFT_H
#define HAUL_FFT_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/ops.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* By what a transform of n numbers and its inverse are divided. */
typedef enum haul_fft_norm {
    HAUL_FFT_BACKWARD = 0, /* the inverse by n */
    HAUL_FFT_ORTHO,        /* both by sqrt(n) */
    HAUL_FFT_FORWARD       /* the transform by n */
} haul_fft_norm;

/* ---- One axis ---- */

typedef struct HAUL__DESIGNATED haul_fft_options {
    int axis; /* without the pair; negative ones count from the end; positional */
    HAUL__GUARD(n)
    int64_t n;          /* the length of the transform: x is cut or filled with zeros; of haul_irfft and haul_hfft
                         * the length of the result; default from x */
    haul_fft_norm norm; /* the divisors; default HAUL_FFT_BACKWARD */
} haul_fft_options;

/* The transform of complex numbers: haul_fft(x, -1, .n = 1024).
 *
 * - x: [..., 2] */
#define haul_fft(x, ...) haul_fft_with(x, HAUL__OPTIONS(haul_fft_options, .axis = __VA_ARGS__))
HAUL_API haul_tensor *haul_fft_with(haul_tensor *x, const haul_fft_options *options);

/* The inverse of haul_fft: with e^(+2 pi i j k / n).
 *
 * - x: [..., 2] */
#define haul_ifft(x, ...) haul_ifft_with(x, HAUL__OPTIONS(haul_fft_options, .axis = __VA_ARGS__))
HAUL_API haul_tensor *haul_ifft_with(haul_tensor *x, const haul_fft_options *options);

/* Terms 0 to n / 2 of the transform of real numbers, whose other terms are their conjugates: the axis gets n / 2 + 1
 * complex numbers. */
#define haul_rfft(x, ...) haul_rfft_with(x, HAUL__OPTIONS(haul_fft_options, .axis = __VA_ARGS__))
HAUL_API haul_tensor *haul_rfft_with(haul_tensor *x, const haul_fft_options *options);

/* The inverse of haul_rfft: real numbers. `n` is the number of these; default 2 (m - 1) for m terms, so name an odd
 * one. The imaginary parts of term 0 and, for even n, of term n / 2 are not read.
 *
 * - x: [..., 2] */
#define haul_irfft(x, ...) haul_irfft_with(x, HAUL__OPTIONS(haul_fft_options, .axis = __VA_ARGS__))
HAUL_API haul_tensor *haul_irfft_with(haul_tensor *x, const haul_fft_options *options);

/* The transform of complex numbers x_j of which x_(n - j) is the conjugate of x_j, so that the terms are real: `n` of
 * them, from the first n / 2 + 1 numbers; default 2 (m - 1) for m numbers. haul_ihfft is its inverse, with real x. They
 * are haul_irfft and haul_rfft of conjugates, with the divisors of haul_fft and haul_ifft.
 *
 * - x: of haul_hfft, [..., 2] */
#define haul_hfft(x, ...)  haul_hfft_with(x, HAUL__OPTIONS(haul_fft_options, .axis = __VA_ARGS__))
#define haul_ihfft(x, ...) haul_ihfft_with(x, HAUL__OPTIONS(haul_fft_options, .axis = __VA_ARGS__))
HAUL_API haul_tensor *haul_hfft_with(haul_tensor *x, const haul_fft_options *options);
HAUL_API haul_tensor *haul_ihfft_with(haul_tensor *x, const haul_fft_options *options);

/* ---- Several axes ---- */

typedef struct HAUL__DESIGNATED haul_fftn_options {
    haul_tensor *x; /* the operand; positional */
    HAUL__GUARD(axes)
    haul_axes     haul__axes; /* the axes without the pair, written HAUL_AXES(-2, -1); default all axes */
    int64_t       n;          /* as in haul_fft, for the last of the axes */
    haul_fft_norm norm;       /* the divisors, where n counts the numbers of all axes; default HAUL_FFT_BACKWARD */
} haul_fftn_options;

/* Transforms along several axes, one after the other: haul_fftn(x, HAUL_AXES(-2, -1)). Those of real numbers halve the
 * last of the axes. */
#define haul_fftn(...)   haul_fftn_with(HAUL__OPTIONS(haul_fftn_options, .x = __VA_ARGS__))
#define haul_ifftn(...)  haul_ifftn_with(HAUL__OPTIONS(haul_fftn_options, .x = __VA_ARGS__))
#define haul_rfftn(...)  haul_rfftn_with(HAUL__OPTIONS(haul_fftn_options, .x = __VA_ARGS__))
#define haul_irfftn(...) haul_irfftn_with(HAUL__OPTIONS(haul_fftn_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_fftn_with(const haul_fftn_options *options);
HAUL_API haul_tensor *haul_ifftn_with(const haul_fftn_options *options);
HAUL_API haul_tensor *haul_rfftn_with(const haul_fftn_options *options);
HAUL_API haul_tensor *haul_irfftn_with(const haul_fftn_options *options);

/* haul_fftn and its inverse over the last two axes, for pictures.
 *
 * - x: [..., h, w, 2] */
HAUL_API haul_tensor *haul_fft2(haul_tensor *x);
HAUL_API haul_tensor *haul_ifft2(haul_tensor *x);

/* ---- Shifts ---- */

typedef struct HAUL__DESIGNATED haul_fftshift_options {
    haul_tensor *x; /* the operand; positional */
    HAUL__GUARD(axes)
    haul_axes haul__axes; /* the axes, written HAUL_AXES(0, 1); default all axes */
    bool      pairs;      /* x has complex numbers, and axes count without the pair */
} haul_fftshift_options;

/* x with term 0 in the middle of each axis, at n / 2, of any dtype; haul_ifftshift moves it back. */
#define haul_fftshift(...)  haul_fftshift_with(HAUL__OPTIONS(haul_fftshift_options, .x = __VA_ARGS__))
#define haul_ifftshift(...) haul_ifftshift_with(HAUL__OPTIONS(haul_fftshift_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_fftshift_with(const haul_fftshift_options *options);
HAUL_API haul_tensor *haul_ifftshift_with(const haul_fftshift_options *options);

/* ---- Short windows of a signal ---- */

typedef struct HAUL__DESIGNATED haul_stft_options {
    int64_t n; /* length of a frame; positional */
    HAUL__GUARD(hop)
    int64_t      hop;        /* from the start of a frame to that of the next; default n / 4, at least 1 */
    haul_tensor *window;     /* factors of the numbers of a frame, [n]; default HAUL_NONE: ones */
    bool         uncentred;  /* frame i begins at i hop; default: its middle is there, and x is reflected at its ends */
    bool         normalised; /* divide the transforms by sqrt(n), and multiply in haul_istft */
    /* haul_istft only: the result is cut to this length, or filled up with zeros; default all that the frames cover */
    int64_t length;
} haul_stft_options;

/* Short-time Fourier transform, as torch.stft: haul_rfft of overlapping frames of the last axis, [..., n / 2 + 1,
 * frames, 2]. haul_stft(x, 400, .hop = 160, .window = w). A shorter window is centred with haul_pad. */
#define haul_stft(x, ...) haul_stft_with(x, HAUL__OPTIONS(haul_stft_options, .n = __VA_ARGS__))
HAUL_API haul_tensor *haul_stft_with(haul_tensor *x, const haul_stft_options *options);

/* The inverse of haul_stft with the same options, as torch.istft: the frames, times the window, are added up and
 * divided by the sum of squares of the windows there. Where that sum is 0, elements are infinite or NaN.
 *
 * - x: [..., n / 2 + 1, frames, 2] */
#define haul_istft(x, ...) haul_istft_with(x, HAUL__OPTIONS(haul_stft_options, .n = __VA_ARGS__))
HAUL_API haul_tensor *haul_istft_with(haul_tensor *x, const haul_stft_options *options);

HAUL_END

#endif
