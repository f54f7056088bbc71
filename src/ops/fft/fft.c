/* The public transforms: they check axes, lengths and norms, cut or pad x, and apply the operations of transform.c. */
#include "ops/fft/fft.h"

#include <math.h>

#include "base/assert.h"
#include "core/option.h"

#define FLOATS (HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64))

typedef struct kind {
    bool inverse, of_real, to_real;
    bool conjugate; /* the complex numbers are taken with the opposite imaginary parts */
} kind;

typedef struct fft_attributes {
    int64_t n; /* 0: the default */
    int     axes[HAUL_MAX_DIMS];
    int     count, norm; /* no axis: all */
} fft_attributes;

/* Without the pair. */
static int axes_of(const haul__call *c, const kind *k)
{
    return c->operands[0]->shape.ndim - (k->of_real ? 0 : 1);
}

/* Makes the axes non-negative, in their order. */
static haul_status check_axes(const haul__call *c, const kind *k, fft_attributes *a)
{
    const haul_tensor *x = c->operands[0];
    const int          ndim = axes_of(c, k);
    bool               seen[HAUL_MAX_DIMS] = {false};
    if (!k->of_real && (ndim < 0 || x->shape.dims[ndim] != 2))
        return haul__refuse_shape(c, 0, "complex numbers [..., 2] are expected, a pair for each");
    if (ndim < 1)
        return haul__refuse_shape(c, 0, "at least one axis is expected");
    if (k->of_real && !k->to_real && ndim == HAUL_MAX_DIMS)
        return haul__refuse_shape(c, 0, "the result has one more axis, for the pair, and at most 8 are possible");
    if (a->count < 0 || a->count > HAUL_MAX_DIMS)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "axes", "%d axes are named; 0 to %d are expected",
                          a->count, HAUL_MAX_DIMS);
    for (int i = 0; i < ndim && !a->count; i++)
        a->axes[i] = i;
    a->count = a->count ? a->count : ndim;
    for (int i = 0; i < a->count; i++) {
        const int axis = a->axes[i] < 0 ? a->axes[i] + ndim : a->axes[i];
        if (axis < 0 || axis >= ndim || seen[axis])
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "axis",
                              "axis %d is not possible; each axis from %d to %d is expected at most once%s", a->axes[i],
                              -ndim, ndim - 1, k->of_real ? "" : ", where axes count without the pair");
        seen[axis] = true;
        a->axes[i] = axis;
    }
    HAUL__ASSERT(0 < a->count && a->count <= ndim);
    return HAUL_OK;
}

/* Sets the number of terms, or of real numbers, of the last of the axes. */
static haul_status check_lengths(const haul__call *c, const kind *k, fft_attributes *a)
{
    const int64_t *dims = c->operands[0]->shape.dims, last = dims[a->axes[a->count - 1]];
    if (a->n < 0 || a->n > HAUL__FFT_LONGEST)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "n", "n is %lld; 1 to %d is expected",
                          (long long)a->n, (int)HAUL__FFT_LONGEST);
    if (!a->n)
        a->n = k->to_real ? 2 * (last < HAUL__FFT_LONGEST ? last - 1 : HAUL__FFT_LONGEST) : last;
    for (int i = 0; i < a->count; i++) {
        const int64_t n = i == a->count - 1 ? a->n : dims[a->axes[i]];
        if (n < 1 || n > HAUL__FFT_LONGEST)
            return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                              "axis %d has a transform of %lld numbers; 1 to %d are expected. Option `n` sets another "
                              "length for the last of the axes",
                              a->axes[i], (long long)n, (int)HAUL__FFT_LONGEST);
    }
    HAUL__ASSERT(0 < a->n && a->n <= HAUL__FFT_LONGEST);
    return HAUL_OK;
}

haul_tensor *haul__fft_resized(haul_tensor *x, int axis, int64_t n)
{
    HAUL__ASSERT(0 <= axis && axis < x->shape.ndim && n > 0);
    const int64_t have = x->shape.dims[axis];
    if (n <= have)
        return n == have ? x : haul_slice(x, axis, 0, n, 1);
    haul_pad_options o = {.x = x, .haul__pads = {.count = 2 * (x->shape.ndim - axis)}};
    o.haul__pads.sizes[2 * (x->shape.ndim - 1 - axis) + 1] = n - have;
    return haul_pad_with(&o);
}

static double scale_of(const kind *k, int norm, double numbers)
{
    HAUL__ASSERT(numbers >= 1);
    if (norm == HAUL_FFT_ORTHO)
        return 1 / sqrt(numbers);
    return (norm == HAUL_FFT_BACKWARD) == k->inverse ? 1 / numbers : 1;
}

/* With the opposite imaginary parts. */
static haul_tensor *conjugated(const haul__call *c, haul_tensor *x)
{
    if (haul__failed(x) || haul_set_device(c->device)) /* until the call ends */
        return haul__failed_tensor();
    return haul_mul(x, haul_affine(haul_arange(x->dtype, 0, 2, 1), -2, 1));
}

static haul_status compose(haul__call *c)
{
    const kind     *k = c->operation->extra;
    fft_attributes *a = haul__attributes(c);
    haul_tensor    *x = c->operands[0];
    if (a->norm < 0 || a->norm > HAUL_FFT_FORWARD)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "norm", "%d is not a haul_fft_norm", a->norm);
    if (check_axes(c, k, a) || check_lengths(c, k, a))
        return haul_error_status();
    const int last = a->axes[a->count - 1];
    HAUL__ASSERT(0 <= last && last < x->shape.ndim);
    double numbers = (double)a->n;
    for (int i = 0; i < a->count - 1; i++)
        numbers *= (double)x->shape.dims[a->axes[i]];
    const double scale = scale_of(k, a->norm, numbers);
    x = haul__fft_resized(x, last, k->to_real ? a->n / 2 + 1 : a->n);
    if (k->conjugate && k->to_real)
        x = conjugated(c, x);
    if (haul__failed(x))
        return haul_error_status();
    if (k->of_real)
        x = haul__fft_of_real(x, last, false, scale);
    for (int i = 0; i < a->count - 1; i++)
        x = haul__fft_complex(x, a->axes[i], k->inverse, 1);
    if (k->to_real)
        x = haul__fft_to_real(x, last, a->n, true, scale);
    else if (!k->of_real)
        x = haul__fft_complex(x, last, k->inverse, scale);
    c->results[0] = k->conjugate && k->of_real ? conjugated(c, x) : x;
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

#define TRANSFORM(id, ...)                                                                                             \
    {                                                                                                                  \
        .name = "haul_" #id, .operands = {{"x"}}, .results = {{"y"}}, .dtypes = FLOATS, .rule = HAUL__FLOATED,         \
        .autocast = HAUL__WIDE, .attributes_size = HAUL__ATTRIBUTES(fft_attributes), .compose = compose,               \
        .extra = &(const kind)                                                                                         \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

HAUL__OPERATION(fft) = TRANSFORM(fft, .inverse = false);
HAUL__OPERATION(ifft) = TRANSFORM(ifft, .inverse = true);
HAUL__OPERATION(rfft) = TRANSFORM(rfft, .of_real = true);
HAUL__OPERATION(irfft) = TRANSFORM(irfft, .inverse = true, .to_real = true);
HAUL__OPERATION(hfft) = TRANSFORM(hfft, .to_real = true, .conjugate = true);
HAUL__OPERATION(ihfft) = TRANSFORM(ihfft, .inverse = true, .of_real = true, .conjugate = true);
HAUL__OPERATION(fftn) = TRANSFORM(fftn, .inverse = false);
HAUL__OPERATION(ifftn) = TRANSFORM(ifftn, .inverse = true);
HAUL__OPERATION(rfftn) = TRANSFORM(rfftn, .of_real = true);
HAUL__OPERATION(irfftn) = TRANSFORM(irfftn, .inverse = true, .to_real = true);
HAUL__OPERATION(fft2) = TRANSFORM(fft2, .inverse = false);
HAUL__OPERATION(ifft2) = TRANSFORM(ifft2, .inverse = true);

static haul_tensor *along_one(const haul__operation *operation, haul_tensor *x, const haul_fft_options *o)
{
    if (!o)
        return haul__no_options(operation);
    const fft_attributes a = {.n = o->n, .axes = {o->axis}, .count = 1, .norm = (int)o->norm};
    return haul__apply1(operation, &a, &x, 1);
}

haul_tensor *haul_fft_with(haul_tensor *x, const haul_fft_options *o)
{
    return along_one(&haul__operation_fft, x, o);
}

haul_tensor *haul_ifft_with(haul_tensor *x, const haul_fft_options *o)
{
    return along_one(&haul__operation_ifft, x, o);
}

haul_tensor *haul_rfft_with(haul_tensor *x, const haul_fft_options *o)
{
    return along_one(&haul__operation_rfft, x, o);
}

haul_tensor *haul_irfft_with(haul_tensor *x, const haul_fft_options *o)
{
    return along_one(&haul__operation_irfft, x, o);
}

haul_tensor *haul_hfft_with(haul_tensor *x, const haul_fft_options *o)
{
    return along_one(&haul__operation_hfft, x, o);
}

haul_tensor *haul_ihfft_with(haul_tensor *x, const haul_fft_options *o)
{
    return along_one(&haul__operation_ihfft, x, o);
}

static haul_tensor *along_several(const haul__operation *operation, const haul_fftn_options *o)
{
    if (!o)
        return haul__no_options(operation);
    fft_attributes a = {.n = o->n, .count = o->haul__axes.count, .norm = (int)o->norm};
    for (int i = 0; i < a.count && i < HAUL_MAX_DIMS; i++)
        a.axes[i] = o->haul__axes.axes[i];
    return haul__apply1(operation, &a, &o->x, 1);
}

haul_tensor *haul_fftn_with(const haul_fftn_options *o)
{
    return along_several(&haul__operation_fftn, o);
}

haul_tensor *haul_ifftn_with(const haul_fftn_options *o)
{
    return along_several(&haul__operation_ifftn, o);
}

haul_tensor *haul_rfftn_with(const haul_fftn_options *o)
{
    return along_several(&haul__operation_rfftn, o);
}

haul_tensor *haul_irfftn_with(const haul_fftn_options *o)
{
    return along_several(&haul__operation_irfftn, o);
}

haul_tensor *haul_fft2(haul_tensor *x)
{
    return HAUL__APPLY(fft2, (&(fft_attributes){.axes = {-2, -1}, .count = 2}), x);
}

haul_tensor *haul_ifft2(haul_tensor *x)
{
    return HAUL__APPLY(ifft2, (&(fft_attributes){.axes = {-2, -1}, .count = 2}), x);
}

/* ---- shifts ---- */

typedef struct shift_attributes {
    int  axes[HAUL_MAX_DIMS], count;
    bool pairs, back, reserved[2];
} shift_attributes;

static haul_status shift(haul__call *c)
{
    const shift_attributes *a = haul__attributes(c);
    haul_tensor            *x = c->operands[0];
    fft_attributes          axes = {.count = a->count};
    for (int i = 0; i < HAUL_MAX_DIMS; i++)
        axes.axes[i] = a->axes[i];
    if (check_axes(c, &(kind){.of_real = !a->pairs, .to_real = true}, &axes))
        return haul_error_status();
    HAUL__ASSERT(0 < axes.count && axes.count <= x->shape.ndim);
    for (int i = 0; i < axes.count; i++) {
        const int64_t half = x->shape.dims[axes.axes[i]] / 2;
        x = haul_roll(x, a->back ? -half : half, axes.axes[i]);
    }
    c->results[0] = x;
    return HAUL_OK;
}

#define SHIFT(id)                                                                                                      \
    {                                                                                                                  \
        .name = "haul_" #id, .operands = {{"x", .layout = HAUL__ANY_STRIDES}}, .results = {{"y"}},                     \
        .attributes_size = HAUL__ATTRIBUTES(shift_attributes), .compose = shift                                        \
    }

HAUL__OPERATION(fftshift) = SHIFT(fftshift);
HAUL__OPERATION(ifftshift) = SHIFT(ifftshift);

static haul_tensor *apply_shift(const haul__operation *operation, const haul_fftshift_options *o, bool back)
{
    if (!o)
        return haul__no_options(operation);
    shift_attributes a = {.count = o->haul__axes.count, .pairs = o->pairs, .back = back};
    for (int i = 0; i < a.count && i < HAUL_MAX_DIMS; i++)
        a.axes[i] = o->haul__axes.axes[i];
    return haul__apply1(operation, &a, &o->x, 1);
}

haul_tensor *haul_fftshift_with(const haul_fftshift_options *o)
{
    return apply_shift(&haul__operation_fftshift, o, false);
}

haul_tensor *haul_ifftshift_with(const haul_fftshift_options *o)
{
    return apply_shift(&haul__operation_ifftshift, o, true);
}
