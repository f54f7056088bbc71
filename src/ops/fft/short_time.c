/* haul_stft and haul_istft: transforms of overlapping frames of a signal, made of other operations. */
#include "base/assert.h"
#include "ops/fft/fft.h"
#include "ops/pointwise/linspace.h"

enum { X, WINDOW };

typedef struct stft_attributes {
    int64_t n, hop, length; /* 0: the default */
    bool    uncentred, normalised, reserved[6];
} stft_attributes;

static haul_status check_frames(const haul__call *c, stft_attributes *a)
{
    const char *name = c->operation->name;
    if (a->n < 1 || a->n > HAUL__FFT_LONGEST)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "n", "n is %lld; 1 to %d is expected", (long long)a->n,
                          (int)HAUL__FFT_LONGEST);
    if (a->hop < 0 || a->hop > HAUL__FFT_LONGEST)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "hop", "hop is %lld; 1 to %d is expected", (long long)a->hop,
                          (int)HAUL__FFT_LONGEST);
    if (haul__has(c, WINDOW) && !haul__shape_equal(&c->operands[WINDOW]->shape, &HAUL_SHAPE(a->n)))
        return haul__refuse_shape(c, WINDOW, "one dimension is expected, of n elements");
    if (!a->hop)
        a->hop = a->n < 4 ? 1 : a->n / 4;
    HAUL__ASSERT(a->hop > 0);
    return HAUL_OK;
}

static haul_fft_norm norm_of(const stft_attributes *a)
{
    return a->normalised ? HAUL_FFT_ORTHO : HAUL_FFT_BACKWARD;
}

static haul_status stft(haul__call *c)
{
    stft_attributes *a = haul__attributes(c);
    haul_tensor     *x = c->operands[X];
    if (check_frames(c, a))
        return haul_error_status();
    if (!x->shape.ndim || x->shape.ndim > HAUL_MAX_DIMS - 2)
        return haul__refuse_shape(c, X, "a signal [..., length] of 1 to 6 dimensions is expected");
    const int64_t half = a->n / 2, have = x->shape.dims[x->shape.ndim - 1];
    if (a->uncentred ? have < a->n : have <= half)
        return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                          "the signal has %lld elements; at least %lld are expected for frames of %lld",
                          (long long)have, (long long)(a->uncentred ? a->n : half + 1), (long long)a->n);
    if (!a->uncentred && half)
        x = haul_pad(x, HAUL_PADS(half, half), .mode = HAUL_PAD_REFLECT);
    haul_tensor *frames = haul_windows(x, -1, a->n, a->hop);
    HAUL__ASSERT(haul__failed(frames) || frames->shape.dims[frames->shape.ndim - 1] == a->n);
    if (haul__has(c, WINDOW))
        frames = haul_mul(frames, c->operands[WINDOW]);
    c->results[0] = haul_transpose(haul_rfft(frames, -1, .norm = norm_of(a)), -3, -2);
    return HAUL_OK;
}

/* Frames [..., frames, n] added up where they overlap: [..., `total`]. */
static haul_tensor *overlap(const stft_attributes *a, haul_tensor *frames, int64_t total)
{
    if (!haul_tensor_is_valid(frames))
        return frames;
    haul_shape shape = frames->shape;
    int64_t    batch = 1;
    for (int d = 0; d < shape.ndim - 2; d++)
        batch *= shape.dims[d];
    haul_tensor *rows = haul_reshape(frames, HAUL_SHAPE(batch, shape.dims[shape.ndim - 2], a->n));
    haul_tensor *sums = haul_fold(haul_transpose(rows, -1, -2), 1, total, 1, .size_w = a->n, .stride = {1, a->hop});
    shape.ndim--;
    shape.dims[shape.ndim - 1] = total;
    return haul_reshape(sums, shape);
}

static haul_status istft(haul__call *c)
{
    stft_attributes *a = haul__attributes(c);
    haul_tensor     *x = c->operands[X], *w = c->operands[WINDOW], *y;
    const int        ndim = x->shape.ndim;
    int64_t          total;
    if (check_frames(c, a))
        return haul_error_status();
    if (ndim < 3 || x->shape.dims[ndim - 1] != 2 || x->shape.dims[ndim - 3] != a->n / 2 + 1 || !x->shape.dims[ndim - 2])
        return haul__refuse_shape(c, X, "[..., n / 2 + 1, frames, 2] is expected");
    const int64_t frames = x->shape.dims[ndim - 2], skipped = a->uncentred ? 0 : a->n / 2;
    if (!haul__mul_size(a->hop, frames - 1, &total) || total > INT64_MAX / 2 || a->length < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "length",
                          "length is %lld, and there are %lld frames at steps of %lld; the length must not be negative "
                          "and the product must fit 64 bits",
                          (long long)a->length, (long long)frames, (long long)a->hop);
    HAUL__ASSERT(a->hop > 0 && frames > 0);
    total += a->n;
    y = haul_irfft(haul_transpose(x, -3, -2), -1, .n = a->n, .norm = norm_of(a));
    if (haul__is_none(w))
        w = haul__linspace_on(haul_tensor_device(x), x->dtype, 1, 1, a->n);
    haul_tensor *squares = haul_square(w);
    y = overlap(a, haul_mul(y, w), total);
    y = haul_div(y, overlap(a, haul_expand(squares, HAUL_SHAPE(frames, a->n)), total));
    HAUL__ASSERT(total >= a->n && skipped < total);
    const int64_t end = total - skipped > skipped ? total - skipped : skipped;
    y = haul_slice(y, -1, skipped, a->length ? total : end, 1);
    if (a->length && haul_tensor_is_valid(y))
        y = haul__fft_resized(y, y->shape.ndim - 1, a->length);
    c->results[0] = y;
    return HAUL_OK;
}

HAUL__OPERATION(stft) = {
    .name = "haul_stft",
    .operands = {{"x"}, {"window", .optional = true}},
    .results = {{"y"}},
    .dtypes = HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64),
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(stft_attributes),
    .compose = stft,
};

HAUL__OPERATION(istft) = {
    .name = "haul_istft",
    .operands = {{"x"}, {"window", .optional = true}},
    .results = {{"y"}},
    .dtypes = HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64),
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(stft_attributes),
    .compose = istft,
};

static stft_attributes attributes_of(const haul_stft_options *o)
{
    return (stft_attributes){
        .n = o->n, .hop = o->hop, .length = o->length, .uncentred = o->uncentred, .normalised = o->normalised};
}

haul_tensor *haul_stft_with(haul_tensor *x, const haul_stft_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_stft);
    const stft_attributes a = attributes_of(o);
    return HAUL__APPLY(stft, &a, x, haul__optional(o->window));
}

haul_tensor *haul_istft_with(haul_tensor *x, const haul_stft_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_istft);
    const stft_attributes a = attributes_of(o);
    return HAUL__APPLY(istft, &a, x, haul__optional(o->window));
}
