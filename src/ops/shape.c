/* Changing shape without touching elements: every result here is a view of its operand's memory, except where reshape
 * and contiguous have to pack it first. Gradients are views as well. */
#include <string.h>

#include "engine/dispatch.h"

/* One operand, checked; NULL on failure. */
static haul_tensor *operand(const char *operation, haul_tensor *x)
{
    return haul__place(operation, &x, (const char *const[]){"x"}, 1) ? x : NULL;
}

static haul_tensor *make_view(const char *operation, haul__backward_fn *backward, haul_tensor *x,
                              const haul_shape *shape, const int64_t *strides, const void *attributes, size_t size)
{
    return haul__finish(haul__view_of(x, shape, strides, x->offset), &(haul__record){.name = operation,
                                                                                     .backward = backward,
                                                                                     .inputs = &x,
                                                                                     .input_count = 1,
                                                                                     .attributes = attributes,
                                                                                     .attributes_size = size});
}

/* The gradient of whatever only renames elements: g in the shape of the operand. */
static haul_status reshape_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    out[0] = haul_reshape(g, node->edges[0].shape);
    return out[0] ? HAUL_OK : haul_error_status();
}

/* ---- reshape, view, flatten ---- */

/* Replace a -1 in `wanted`, and check that it has as many elements as x. */
static haul_status resolve(const char *operation, const haul_tensor *x, haul_shape *wanted)
{
    int64_t known = 1, count;
    int     open = -1;
    char    text[96], have[96];
    haul__shape_text(wanted, text, sizeof text);
    if (wanted->ndim < 0 || wanted->ndim > HAUL_MAX_DIMS)
        return haul__fail(HAUL_SHAPE, operation, "shape", "shape has %d dimensions; there can be 0 to %d", wanted->ndim,
                          HAUL_MAX_DIMS);
    for (int d = 0; d < wanted->ndim; d++) {
        if (wanted->dims[d] == -1 && open < 0)
            open = d;
        else if (wanted->dims[d] < 0)
            return haul__fail(HAUL_SHAPE, operation, "shape", "shape %s has more than one open or negative dim", text);
        else if (!haul__mul_size(known, wanted->dims[d], &known))
            return haul__fail(HAUL_SHAPE, operation, "shape", "shape %s has too many elements", text);
    }
    if (open >= 0 && known > 0)
        wanted->dims[open] = x->count / known;
    else if (open >= 0)
        return haul__fail(HAUL_SHAPE, operation, "shape", "the -1 in shape %s could be anything: other dims are 0",
                          text);
    if (haul__shape_count(wanted, operation, &count))
        return haul_error_status();
    if (count != x->count)
        return haul__fail(HAUL_SHAPE, operation, "shape",
                          "x has shape %s (%lld elements), which cannot be viewed as %s",
                          haul__shape_text(&x->shape, have, sizeof have), (long long)x->count, text);
    return HAUL_OK;
}

/* Strides that show x's elements, row-major, in `shape`; false where no strides can. Dims of x are merged into runs
 * that step evenly, and each run must be made up of whole dims of `shape`. */
static bool view_strides(const haul_tensor *x, const haul_shape *shape, int64_t *strides)
{
    if (x->contiguous || x->count == 0) {
        haul__shape_strides(shape, strides);
        return true;
    }
    int to = shape->ndim - 1;
    for (int from = x->shape.ndim - 1; from >= 0;) {
        int64_t step = x->strides[from], run = x->shape.dims[from--];
        while (from >= 0 && (x->shape.dims[from] == 1 || run == 1 || x->strides[from] == step * run)) {
            if (run == 1)
                step = x->strides[from];
            run *= x->shape.dims[from--];
        }
        for (; to >= 0 && run % shape->dims[to] == 0 && (run > 1 || shape->dims[to] == 1); to--) {
            strides[to] = step;
            step *= shape->dims[to];
            run /= shape->dims[to];
        }
        if (run != 1)
            return false;
    }
    return to < 0;
}

haul_tensor *haul_view(haul_tensor *x, haul_shape shape)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (!(x = operand("haul_view", x)) || resolve("haul_view", x, &shape))
        return NULL;
    if (!view_strides(x, &shape, strides)) {
        haul__fail_shape("haul_view", "x", x,
                         "its strides cannot be seen in the wanted shape without a copy; use haul_reshape");
        return NULL;
    }
    return make_view("haul_view", reshape_backward, x, &shape, strides, NULL, 0);
}

static haul_tensor *reshape(const char *operation, haul_tensor *x, haul_shape shape)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (resolve(operation, x, &shape))
        return NULL;
    if (view_strides(x, &shape, strides))
        return make_view(operation, reshape_backward, x, &shape, strides, NULL, 0);
    haul_scope  *scope = haul_scope_push();
    haul_tensor *packed = scope ? haul_contiguous(x) : NULL;
    if (packed) {
        haul__shape_strides(&shape, strides);
        packed = make_view(operation, reshape_backward, packed, &shape, strides, NULL, 0);
    }
    return haul_scope_return(scope, packed);
}

haul_tensor *haul_reshape(haul_tensor *x, haul_shape shape)
{
    return (x = operand("haul_reshape", x)) ? reshape("haul_reshape", x, shape) : NULL;
}

haul_tensor *haul_flatten(haul_tensor *x, int first_axis)
{
    if (!(x = operand("haul_flatten", x)))
        return NULL;
    if (x->shape.ndim == 0 && (first_axis == 0 || first_axis == -1))
        return reshape("haul_flatten", x, HAUL_SHAPE(1));
    int axis;
    if (haul__axis(first_axis, x->shape.ndim, "haul_flatten", &axis))
        return NULL;
    haul_shape shape = {.ndim = axis + 1};
    memcpy(shape.dims, x->shape.dims, sizeof shape.dims);
    for (int d = axis + 1; d < x->shape.ndim; d++)
        if (!haul__mul_size(shape.dims[axis], x->shape.dims[d], &shape.dims[axis])) {
            haul__fail_shape("haul_flatten", "x", x, "dims whose product fits in 64 bits are needed");
            return NULL;
        }
    return reshape("haul_flatten", x, shape);
}

/* ---- permute, transpose ---- */

typedef struct permutation {
    int count;
    int axes[HAUL_MAX_DIMS]; /* result axis d is axis axes[d] of the operand */
} permutation;

static haul_status permute_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    const permutation *p = node->attributes;
    int                inverse[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < p->count; d++)
        inverse[p->axes[d]] = d;
    out[0] = haul_permute(g, inverse, p->count);
    return out[0] ? HAUL_OK : haul_error_status();
}

static haul_tensor *permute(const char *operation, haul_tensor *x, const permutation *p)
{
    haul_shape shape = {.ndim = p->count};
    int64_t    strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < p->count; d++) {
        shape.dims[d] = x->shape.dims[p->axes[d]];
        strides[d] = x->strides[p->axes[d]];
    }
    return make_view(operation, permute_backward, x, &shape, strides, p, sizeof *p);
}

haul_tensor *haul_permute(haul_tensor *x, const int *axes, int count)
{
    permutation p = {.count = count};
    bool        used[HAUL_MAX_DIMS] = {false};
    if (!(x = operand("haul_permute", x)))
        return NULL;
    if (count != x->shape.ndim || (count > 0 && !axes)) {
        haul__fail(HAUL_SHAPE, "haul_permute", "axes", "%d axes are given for the %d dimensions of x; name each once",
                   count, x->shape.ndim);
        return NULL;
    }
    for (int d = 0; d < count; d++) {
        if (haul__axis(axes[d], count, "haul_permute", &p.axes[d]))
            return NULL;
        if (used[p.axes[d]]) {
            haul__fail(HAUL_INVALID_ARGUMENT, "haul_permute", "axes", "axis %d is given twice", axes[d]);
            return NULL;
        }
        used[p.axes[d]] = true;
    }
    return permute("haul_permute", x, &p);
}

haul_tensor *haul_transpose(haul_tensor *x, int a, int b)
{
    if (!(x = operand("haul_transpose", x)))
        return NULL;
    if (haul__axis(a, x->shape.ndim, "haul_transpose", &a) || haul__axis(b, x->shape.ndim, "haul_transpose", &b))
        return NULL;
    permutation p = {.count = x->shape.ndim};
    for (int d = 0; d < p.count; d++)
        p.axes[d] = d == a ? b : d == b ? a : d;
    return permute("haul_transpose", x, &p);
}

/* ---- expand, squeeze, unsqueeze ---- */

static haul_status expand_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    out[0] = haul__sum_to(g, &node->edges[0].shape);
    return out[0] ? HAUL_OK : haul_error_status();
}

haul_tensor *haul_expand(haul_tensor *x, haul_shape shape)
{
    int64_t strides[HAUL_MAX_DIMS] = {0}, count;
    char    have[96], want[96];
    if (!(x = operand("haul_expand", x)))
        return NULL;
    haul__shape_text(&shape, want, sizeof want);
    int  lead = shape.ndim - x->shape.ndim;
    bool fits = lead >= 0 && shape.ndim <= HAUL_MAX_DIMS;
    for (int d = 0; fits && d < x->shape.ndim; d++) {
        int64_t *dim = &shape.dims[lead + d];
        if (*dim == -1)
            *dim = x->shape.dims[d];
        fits = *dim == x->shape.dims[d] || x->shape.dims[d] == 1;
        strides[lead + d] = *dim == x->shape.dims[d] ? x->strides[d] : 0;
    }
    if (!fits) {
        haul__fail(
            HAUL_SHAPE, "haul_expand", "shape",
            "x has shape %s, which cannot be expanded to %s: only dims of size 1 repeat, and new ones come first",
            haul__shape_text(&x->shape, have, sizeof have), want);
        return NULL;
    }
    if (haul__shape_count(&shape, "haul_expand", &count))
        return NULL;
    return make_view("haul_expand", expand_backward, x, &shape, strides, NULL, 0);
}

haul_tensor *haul_squeeze(haul_tensor *x, int axis)
{
    int at;
    if (!(x = operand("haul_squeeze", x)) || haul__axis(axis, x->shape.ndim, "haul_squeeze", &at))
        return NULL;
    if (x->shape.dims[at] != 1) {
        haul__fail_shape("haul_squeeze", "x", x,
                         "only an axis of size 1 can be squeezed; use haul_reshape to merge axes");
        return NULL;
    }
    haul_shape shape = {.ndim = x->shape.ndim - 1};
    int64_t    strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dims[d] = x->shape.dims[d + (d >= at)];
        strides[d] = x->strides[d + (d >= at)];
    }
    return make_view("haul_squeeze", reshape_backward, x, &shape, strides, NULL, 0);
}

haul_tensor *haul_unsqueeze(haul_tensor *x, int axis)
{
    int at;
    if (!(x = operand("haul_unsqueeze", x)))
        return NULL;
    if (x->shape.ndim == HAUL_MAX_DIMS) {
        haul__fail_shape("haul_unsqueeze", "x", x, "a tensor has at most 8 dimensions");
        return NULL;
    }
    if (haul__axis(axis, x->shape.ndim + 1, "haul_unsqueeze", &at))
        return NULL;
    haul_shape shape = {.ndim = x->shape.ndim + 1};
    int64_t    strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dims[d] = d == at ? 1 : x->shape.dims[d - (d > at)];
        strides[d] = d == at ? 1 : x->strides[d - (d > at)];
    }
    return make_view("haul_unsqueeze", reshape_backward, x, &shape, strides, NULL, 0);
}
