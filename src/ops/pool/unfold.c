/* The windows of pictures as columns of a matrix, and columns added up to a picture again (im2col and col2im). Each is
 * the gradient of the other. An element of a picture adds up its columns in a fixed order. */
#include "base/assert.h"
#include "core/option.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
typedef struct unfold_params {
    I64 items;
    I64 offsets[2];                                /* of the result and of the operand */
    I64 in[2], out[2];                             /* rows and columns of a picture; windows down and across */
    I64 size[2], stride[2], padding[2], dilation[2];
} unfold_params;

#ifdef HAUL_KERNEL
#if IS_BITS
/* y[plane, window row, window column, down, across]: runs of windows across are taken together. */
KERNEL2(unfold, unfold_params, T, y, const T, x)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 line = QUOTIENT(i, p.out[1]), across = i - line * p.out[1], rest = QUOTIENT(line, p.out[0]);
        const I64 down = line - rest * p.out[0], tap = QUOTIENT(rest, p.size[1]), column = rest - tap * p.size[1];
        const I64 plane = QUOTIENT(tap, p.size[0]), row = tap - plane * p.size[0];
        const I64 h = down * p.stride[0] - p.padding[0] + row * p.dilation[0];
        const I64 w = across * p.stride[1] - p.padding[1] + column * p.dilation[1];
        const I64 n = CHUNKED ? least(p.out[1] - across, ITEMS_END - i) : 1;
        const I32 inside = h >= 0 && h < p.in[0];
        GLOBAL const T *v = x + p.offsets[1] + (plane * p.in[0] + (inside ? h : 0)) * p.in[1];
        GLOBAL T *to = y + p.offsets[0] + i;
        for (I64 j = 0; j < n; j++) {
            const I64 at = w + j * p.stride[1];
            to[j] = inside && at >= 0 && at < p.in[1] ? v[at] : (T)0;
        }
        i += ITEMS_STEP(n);
    }
}
#endif

/* The window that has an element at its tap, or -1: `at` is the element's place, counted from the tap of window 0. */
FUNC I64 unfold_window(I64 at, I64 stride, I64 windows)
{
    if (at < 0) return -1;
    const I64 window = QUOTIENT(at, stride);
    return window < windows && window * stride == at ? window : -1;
}

/* y[plane, h, w] = the sum of its columns. */
KERNEL2(fold, unfold_params, T, y, const T, x)
{
    FOR_ITEMS(i) {
        const I64 line = QUOTIENT(i, p.in[1]), w = i - line * p.in[1] + p.padding[1], plane = QUOTIENT(line, p.in[0]);
        const I64 h = line - plane * p.in[0] + p.padding[0];
        A sum = 0;
        for (I64 row = 0; row < p.size[0]; row++) {
            const I64 down = unfold_window(h - row * p.dilation[0], p.stride[0], p.out[0]);
            if (down < 0) continue;
            for (I64 column = 0; column < p.size[1]; column++) {
                const I64 across = unfold_window(w - column * p.dilation[1], p.stride[1], p.out[1]);
                if (across < 0) continue;
                const I64 tap = (plane * p.size[0] + row) * p.size[1] + column;
                sum += LOAD(x, p.offsets[1] + (tap * p.out[0] + down) * p.out[1] + across);
            }
        }
        STORE(y, p.offsets[0] + i, sum);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 4096 };

typedef struct unfold_attributes {
    int64_t size[2], stride[2], padding[2], dilation[2];
    int64_t in[2];              /* rows and columns of a picture */
    bool    given, reserved[7]; /* the options are as the caller gave them */
} unfold_attributes;

static haul_status complete(const haul__call *c, unfold_attributes *a)
{
    const char   *name = c->operation->name;
    const int64_t ones[2] = {1, 1}, zeros[2] = {0, 0};
    if (!a->given)
        return HAUL_OK;
    a->given = false;
    if (!a->size[1])
        a->size[1] = a->size[0];
    if (haul__option_pair(name, "stride", a->stride, ones, 1) ||
        haul__option_pair(name, "padding", a->padding, zeros, 0) ||
        haul__option_pair(name, "dilation", a->dilation, ones, 1))
        return haul_error_status();
    for (int d = 0; d < 2; d++)
        if (a->size[d] < 1 || a->size[d] > INT32_MAX || a->stride[d] > INT32_MAX || a->padding[d] > INT32_MAX ||
            a->dilation[d] > INT32_MAX)
            return haul__fail(HAUL_INVALID_ARGUMENT, name, "size",
                              "a window of %lld x %lld elements is not possible; sizes must be from 1 to 2^31 - 1, and "
                              "so must the other options",
                              (long long)a->size[0], (long long)a->size[1]);
    return HAUL_OK;
}

/* The numbers of windows down and across, and of elements of a window. */
static haul_status count_windows(const haul__call *c, const unfold_attributes *a, int64_t out[2], int64_t *taps)
{
    for (int d = 0; d < 2; d++) {
        int64_t reach, room;
        if (!haul__mul_size(a->dilation[d], a->size[d] - 1, &reach) || a->in[d] > INT64_MAX / 4 || a->in[d] < 0 ||
            (room = a->in[d] + 2 * a->padding[d] - reach - 1) < 0)
            return haul__fail(HAUL_SHAPE, c->operation->name, c->operation->operands[0].name,
                              "a window with its dilation does not fit into %lld x %lld elements with their padding",
                              (long long)a->in[0], (long long)a->in[1]);
        out[d] = room / a->stride[d] + 1;
    }
    return haul__mul_size(a->size[0], a->size[1], taps)
               ? HAUL_OK
               : haul__fail(HAUL_SHAPE, c->operation->name, "size", "the size of a window overflows");
}

static unfold_params params_of(const unfold_attributes *a, const haul_tensor *y, const haul_tensor *x)
{
    unfold_params p = {.items = y->count, .offsets = {y->offset, x->offset}};
    for (int d = 0; d < 2; d++) {
        p.in[d] = a->in[d];
        p.size[d] = a->size[d];
        p.stride[d] = a->stride[d];
        p.padding[d] = a->padding[d];
        p.dilation[d] = a->dilation[d];
        p.out[d] = (a->in[d] + 2 * a->padding[d] - a->dilation[d] * (a->size[d] - 1) - 1) / a->stride[d] + 1;
    }
    HAUL__ASSERT(p.out[0] > 0 && p.out[1] > 0);
    return p;
}

/* ---- haul_unfold ---- */

static haul_status infer(haul__call *c)
{
    unfold_attributes *a = haul__attributes(c);
    const haul_shape  *x = &c->operands[0]->shape;
    int64_t            out[2], taps, rows, columns;
    if (x->ndim != 4)
        return haul__refuse_shape(c, 0, "it must be [N, C, H, W]");
    a->in[0] = x->dims[2];
    a->in[1] = x->dims[3];
    if (complete(c, a) || count_windows(c, a, out, &taps))
        return haul_error_status();
    if (!haul__mul_size(x->dims[1], taps, &rows) || !haul__mul_size(out[0], out[1], &columns))
        return haul__fail(HAUL_SHAPE, c->operation->name, "x", "the size of the result overflows");
    return haul__describe(c, 0, c->operands[0]->dtype, &HAUL_SHAPE(x->dims[0], rows, columns));
}

static haul_status compute(haul__call *c)
{
    haul_tensor  *y = c->results[0], *x = c->operands[0];
    unfold_params p = params_of(haul__attributes(c), y, x);
    HAUL__ASSERT(y->shape.dims[2] == p.out[0] * p.out[1] &&
                 y->shape.dims[1] == x->shape.dims[1] * p.size[0] * p.size[1]);
    return haul__launch_kernel(c, HAUL__K_unfold, y->dtype, HAUL__OUT(y), HAUL__IN(x), HAUL__PARAMS(p), .grain = GRAIN);
}

static void gradient(haul__gradient *g);

HAUL__OPERATION(unfold) = {
    .name = "haul_unfold",
    .operands = {{"x"}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(unfold_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
};

/* ---- haul_fold ---- */

static haul_status fold_infer(haul__call *c)
{
    unfold_attributes *a = haul__attributes(c);
    const haul_shape  *x = &c->operands[0]->shape;
    int64_t            out[2], taps, columns;
    if (x->ndim != 3)
        return haul__refuse_shape(c, 0, "it must be [N, C size_h size_w, windows]");
    if (complete(c, a) || count_windows(c, a, out, &taps))
        return haul_error_status();
    if (!haul__mul_size(out[0], out[1], &columns) || x->dims[1] % taps || x->dims[2] != columns)
        return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                          "x is [%lld, %lld, %lld]; a multiple of %lld rows and %lld x %lld columns are expected",
                          (long long)x->dims[0], (long long)x->dims[1], (long long)x->dims[2], (long long)taps,
                          (long long)out[0], (long long)out[1]);
    return haul__describe(c, 0, c->operands[0]->dtype, &HAUL_SHAPE(x->dims[0], x->dims[1] / taps, a->in[0], a->in[1]));
}

static haul_status fold_compute(haul__call *c)
{
    haul_tensor  *y = c->results[0], *x = c->operands[0];
    unfold_params p = params_of(haul__attributes(c), y, x);
    HAUL__ASSERT(x->shape.dims[2] == p.out[0] * p.out[1] &&
                 x->shape.dims[1] == y->shape.dims[1] * p.size[0] * p.size[1]);
    return haul__launch_kernel(c, HAUL__K_fold, y->dtype, HAUL__OUT(y), HAUL__IN(x), HAUL__PARAMS(p),
                               .grain = 1 + GRAIN / (p.size[0] * p.size[1] < GRAIN ? p.size[0] * p.size[1] : GRAIN));
}

static void fold_gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(unfold, g->attributes, g->results[0]);
}

HAUL__OPERATION(fold) = {
    .name = "haul_fold",
    .operands = {{"x"}},
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS,
    .attributes_size = HAUL__ATTRIBUTES(unfold_attributes),
    .infer = fold_infer,
    .compute = fold_compute,
    .gradient = fold_gradient,
    .flops = 1,
};

static void gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(fold, g->attributes, g->results[0]);
}

static unfold_attributes attributes_of(const haul_unfold_options *o)
{
    return (unfold_attributes){.size = {o->size, o->size_w},
                               .stride = {o->stride[0], o->stride[1]},
                               .padding = {o->padding[0], o->padding[1]},
                               .dilation = {o->dilation[0], o->dilation[1]},
                               .given = true};
}

haul_tensor *haul_unfold_with(haul_tensor *x, const haul_unfold_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_unfold);
    const unfold_attributes a = attributes_of(o);
    return HAUL__APPLY(unfold, &a, x);
}

haul_tensor *haul_fold_with(haul_tensor *x, int64_t height, int64_t width, const haul_unfold_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_fold);
    unfold_attributes a = attributes_of(o);
    a.in[0] = height;
    a.in[1] = width;
    return HAUL__APPLY(fold, &a, x);
}
