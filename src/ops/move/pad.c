/* haul_pad: adds elements around a tensor. Its gradient removes the padding and adds up what came from one element, in
 * operations. */
#include "base/assert.h"
#include "engine/operation.h"
#include "ops/attributes.h"
#include "ops/move/remap.h"

_Static_assert(sizeof(((haul__pad_attributes *)0)->sizes) == sizeof(((haul_pads *)0)->sizes), "one layout");

static int64_t before(const haul__pad_attributes *a, int ndim, int axis)
{
    int at = 2 * (ndim - 1 - axis);
    HAUL__ASSERT(0 <= at && at < 2 * HAUL_MAX_DIMS);
    return at < a->count ? a->sizes[at] : 0;
}

static int64_t after(const haul__pad_attributes *a, int ndim, int axis)
{
    int at = 2 * (ndim - 1 - axis);
    HAUL__ASSERT(0 <= at && at < 2 * HAUL_MAX_DIMS);
    return at < a->count ? a->sizes[at + 1] : 0;
}

static haul_status check(const haul__call *c, const haul__pad_attributes *a)
{
    const haul_tensor *x = c->operands[0];
    if (a->count < 0 || a->count % 2 || a->count > 2 * x->shape.ndim)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "pads",
                          "%d sizes are given for the %d dimensions of x; expected a pair, before and after, for the "
                          "last axis, then the one before it, and so on",
                          a->count, x->shape.ndim);
    if ((int)a->mode < HAUL_PAD_CONSTANT || a->mode > HAUL_PAD_CIRCULAR)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "mode",
                          "mode is %d; expected a value of haul_pad_mode", (int)a->mode);
    if (!haul__dtype_holds(x->dtype, a->value))
        return haul__refuse_number(c->operation->name, "value", x->dtype, a->value,
                                   "cast x to another dtype with haul_cast");
    return HAUL_OK;
}

/* The largest padding before or after an axis with n elements. */
static int64_t most(haul_pad_mode mode, int64_t n)
{
    return mode == HAUL_PAD_REFLECT ? n - 1 : mode == HAUL_PAD_CIRCULAR ? n : n > 0 ? INT64_MAX : 0;
}

static haul_status pad_axis(const haul__call *c, const haul__pad_attributes *a, int axis, int64_t *dim)
{
    static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
    const int                ndim = c->operands[0]->shape.ndim;
    const int64_t            n = *dim, low = before(a, ndim, axis), high = after(a, ndim, axis), end = most(a->mode, n);
    const bool               constant = a->mode == HAUL_PAD_CONSTANT;
    HAUL__ASSERT((size_t)a->mode < sizeof modes / sizeof *modes);
    if (!constant && (low < 0 || high < 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "pads",
                          "sizes %lld and %lld are given for axis %d; only constant padding allows negative sizes",
                          (long long)low, (long long)high, axis);
    if (!constant && (low > end || high > end) && (low || high))
        return haul__fail(
            HAUL_INVALID_ARGUMENT, c->operation->name, "pads",
            "sizes %lld and %lld are given for axis %d, which has %lld elements; %s padding takes at most "
            "%lld",
            (long long)low, (long long)high, axis, (long long)n, modes[a->mode], (long long)(end < 0 ? 0 : end));
    if (low < -n || high < -n || (low < 0 && high < -(n + low)))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "pads",
                          "sizes %lld and %lld remove more from axis %d than its %lld elements", (long long)low,
                          (long long)high, axis, (long long)n);
    *dim += (low < 0 ? low : 0) + (high < 0 ? high : 0);
    if (!haul__add_size(*dim, low > 0 ? low : 0, dim) || !haul__add_size(*dim, high > 0 ? high : 0, dim))
        return haul__refuse_shape(c, 0, "dims that fit in 64 bits with the padding are expected");
    HAUL__ASSERT(*dim >= 0);
    return HAUL_OK;
}

static haul_status infer(haul__call *c)
{
    const haul__pad_attributes *a = haul__attributes(c);
    const haul_tensor          *x = c->operands[0];
    haul_shape                  shape = x->shape;
    haul_status                 status = check(c, a);
    for (int d = 0; d < shape.ndim && !status; d++)
        status = pad_axis(c, a, d, &shape.dims[d]);
    return status ? status : haul__describe_like(c, 0, x->dtype, &shape, x);
}

static haul_status compute(haul__call *c)
{
    static const haul__way      ways[] = {HAUL__WAY_FILL, HAUL__WAY_MIRROR, HAUL__WAY_EDGE, HAUL__WAY_WRAP};
    const haul__pad_attributes *a = haul__attributes(c);
    haul__axis_map              maps[HAUL_MAX_DIMS];
    haul_tensor                *x = c->operands[0];
    const int                   ndim = x->shape.ndim;
    HAUL__ASSERT((size_t)a->mode < sizeof ways / sizeof *ways);
    for (int d = 0; d < ndim; d++) {
        const int64_t low = before(a, ndim, d), n = x->shape.dims[d];
        maps[d] = low || after(a, ndim, d)
                      ? (haul__axis_map){ways[a->mode], a->mode == HAUL_PAD_CIRCULAR ? n - low : -low}
                      : (haul__axis_map){HAUL__WAY_PLAIN, 0};
    }
    return haul__remap(c, c->results[0], x, maps, a->value);
}

/* ---- the gradient ---- */

static haul_tensor *among_zeros(haul_tensor *x, int axis, int64_t low, int64_t high)
{
    haul_pad_options o = {.x = x};
    if (haul__failed(x) || (!low && !high))
        return x;
    int at = 2 * (x->shape.ndim - 1 - axis);
    HAUL__ASSERT(0 <= at && at + 2 <= 2 * HAUL_MAX_DIMS && low >= 0 && high >= 0);
    o.haul__pads.count = at + 2;
    o.haul__pads.sizes[at] = low;
    o.haul__pads.sizes[at + 1] = high;
    return haul_pad_with(&o);
}

static haul_tensor *backwards(haul_tensor *x, int axis)
{
    return haul_flip(x, HAUL_AXES(axis));
}

static haul_tensor *total(haul_tensor *x, int axis)
{
    return haul_sum(x, HAUL_AXES(axis), .keepdim = true);
}

/* g along one axis that had n elements: the part inside x, plus the padding that came from its elements. */
static haul_tensor *fold(haul_tensor *g, haul_pad_mode mode, int axis, int64_t n, int64_t low, int64_t high)
{
    HAUL__ASSERT(haul__failed(g) || g->shape.dims[axis] == low + n + high);
    haul_tensor *sum = haul_slice(g, axis, low, low + n, 1);
    haul_tensor *first = haul_slice(g, axis, 0, low, 1), *last = haul_slice(g, axis, low + n, low + n + high, 1);
    if (low)
        sum = haul_add(sum, mode == HAUL_PAD_REFLECT     ? among_zeros(backwards(first, axis), axis, 1, n - 1 - low)
                            : mode == HAUL_PAD_REPLICATE ? among_zeros(total(first, axis), axis, 0, n - 1)
                                                         : among_zeros(first, axis, n - low, 0));
    if (high)
        sum = haul_add(sum, mode == HAUL_PAD_REFLECT     ? among_zeros(backwards(last, axis), axis, n - 1 - high, 1)
                            : mode == HAUL_PAD_REPLICATE ? among_zeros(total(last, axis), axis, n - 1, 0)
                                                         : among_zeros(last, axis, 0, n - high));
    return sum;
}

static void gradient(haul__gradient *c)
{
    const haul__pad_attributes *a = c->attributes;
    const haul_shape           *shape = haul__operand_shape(c, 0);
    haul_tensor                *g = c->results[0];
    if (a->mode == HAUL_PAD_CONSTANT) {
        haul__pad_attributes back = {.count = a->count};
        for (int i = 0; i < a->count; i++)
            back.sizes[i] = -a->sizes[i];
        g = haul__apply1(c->operation, &back, &g, 1);
    }
    for (int d = 0; d < shape->ndim && a->mode != HAUL_PAD_CONSTANT; d++)
        g = fold(g, a->mode, d, shape->dims[d], before(a, shape->ndim, d), after(a, shape->ndim, d));
    HAUL__ASSERT(haul__failed(g) || haul__shape_equal(&g->shape, shape));
    c->operands[0] = g;
}

HAUL__OPERATION(pad) = {
    .name = "haul_pad",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__pad_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
};

static haul__pad_attributes attributes_of(const haul_pad_options *o)
{
    haul__pad_attributes a = {.count = o->haul__pads.count, .mode = o->mode, .value = o->value};
    for (int i = 0; i < a.count && i < 2 * HAUL_MAX_DIMS; i++)
        a.sizes[i] = o->haul__pads.sizes[i];
    return a;
}

HAUL__FUNCTIONS_WITH(pad, haul__pad_attributes, attributes_of(o), (const haul_pad_options *o), o->x)
