/* Fourier transforms. Complex numbers are pairs of elements, in ONNX as in Haul; real numbers have one element there.
 */
#include <haul/dtype.h>
#include <haul/fft.h>
#include <haul/transfer.h>
#include <string.h>

#include "core/tensor.h"
#include "onnx/families.h"

#define X(i)          haul__onnx_x(c, i)
#define HAUL__ONNX_PI 3.14159265358979323846

static haul_tensor *as_complex(haul_tensor *x, int last)
{
    return haul_cat((haul_tensor *const[]){x, haul_zeros_like(x)}, 2, last);
}

/* The first n numbers along the axis, with zeros behind them if there are fewer. Transforms of pairs and of real
 * numbers do this themselves. */
haul_tensor *haul__onnx_dft(haul__onnx_call *c)
{
    const haul_shape x = haul__onnx_shape(c, 0);
    const bool       inverse = haul__onnx_int(c, "inverse", 0) != 0, one_sided = haul__onnx_int(c, "onesided", 0) != 0;
    const int        last = x.ndim - 1;
    int64_t          wanted = haul__onnx_int(c, "axis", 1), n = 0;
    int              axis;
    if (haul__onnx_integer(c, 1, 0, &n) || (c->opset >= 20 && haul__onnx_integer(c, 2, -2, &wanted)) ||
        haul__onnx_axis(c, wanted, x.ndim, &axis))
        return NULL;
    if (x.ndim < 2 || axis == last || (x.dims[last] != 1 && x.dims[last] != 2))
        return haul__onnx_wrong(c, "the input is not real or complex, or the axis is its last one");
    if (n < 0 || (haul__onnx_has(c, 1) && !n))
        return haul__onnx_wrong(c, "dft_length is not positive");
    const bool real = x.dims[last] == 1;
    if (one_sided && !inverse)
        return real ? haul_rfft(haul_squeeze(X(0), last), axis, .n = n)
                    : haul__onnx_wrong(c, "onesided needs a real input");
    if (one_sided)
        return real ? haul__onnx_wrong(c, "onesided and inverse need a complex input")
                    : haul_unsqueeze(haul_irfft(X(0), axis, .n = n), last);
    haul_tensor *pairs = real ? as_complex(X(0), last) : X(0);
    return inverse ? haul_ifft(pairs, axis, .n = n) : haul_fft(pairs, axis, .n = n);
}

/* The sum of a[0] - a[1] cos(t) + a[2] cos(2 t), where t goes once around in `size` elements, or, if the window is not
 * periodic, in one less. */
haul_tensor *haul__onnx_cosine_window(haul__onnx_call *c)
{
    static const struct {
        const char *name;
        double      a[3];
    } windows[] = {{"HannWindow", {0.5, 0.5, 0}},
                   {"HammingWindow", {25. / 46, 21. / 46, 0}},
                   {"BlackmanWindow", {0.42, 0.5, 0.08}}};
    const haul_dtype dtype = haul__onnx_dtype(haul__onnx_int(c, "output_datatype", 1));
    const double    *a = windows[0].a;
    int64_t          size;
    if (haul__onnx_integer(c, 0, 0, &size))
        return NULL;
    if (size < 1 || size > 1 << 24)
        return haul__onnx_wrong(c, "a window of fewer elements than one, or of more than 16,777,216");
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        if (!strcmp(windows[i].name, c->step->node->type))
            a = windows[i].a;
    const int64_t around = haul__onnx_int(c, "periodic", 1) || size == 1 ? size : size - 1;
    haul_tensor  *t = haul_mul_scalar(haul_arange(HAUL_F32, 0, (double)size, 1), 2 * HAUL__ONNX_PI / (double)around);
    haul_tensor  *y = haul_affine(haul_cos(t), -a[1], a[0]);
    if (a[2] != 0)
        y = haul_add(y, haul_mul_scalar(haul_cos(haul_mul_scalar(t, 2)), a[2]));
    return haul_cast(y, dtype);
}

/* [batch, frames, terms, 2]. */
haul_tensor *haul__onnx_stft(haul__onnx_call *c)
{
    enum { STEP = 1, WINDOW, LENGTH };
    const haul_shape x = haul__onnx_shape(c, 0), window = haul__onnx_shape(c, WINDOW);
    const bool       one_sided = haul__onnx_int(c, "onesided", 1) != 0;
    int64_t          step, n;
    if (x.ndim < 2 || x.ndim > 3 || (x.ndim == 3 && x.dims[2] != 1))
        return haul__onnx_refuse(c, "a complex signal");
    if (haul__onnx_integer(c, STEP, 0, &step) ||
        haul__onnx_integer(c, LENGTH, window.ndim == 1 ? window.dims[0] : x.dims[1], &n))
        return NULL;
    if (step < 1 || n < 1 || n > x.dims[1])
        return haul__onnx_wrong(c, "frame_step or frame_length is out of range");
    haul_tensor *signal = x.ndim == 3 ? haul_squeeze(X(0), 2) : X(0);
    haul_tensor *with = haul__onnx_has(c, WINDOW) ? X(WINDOW) : HAUL_NONE;
    if (one_sided)
        return haul_transpose(haul_stft(signal, n, .hop = step, .window = with, .uncentred = true), 1, 2);
    haul_tensor *frames = haul_windows(signal, 1, n, step);
    frames = haul__onnx_has(c, WINDOW) ? haul_mul(frames, with) : frames;
    return haul_fft(as_complex(haul_unsqueeze(frames, 3), 3), 2);
}
