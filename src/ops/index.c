/* index_select and its gradient, without atomics.
 *
 * The gradient adds up the rows of g that were taken from the same row of x. A first kernel, one work item, threads a
 * list through the indices for each row of x, in ascending order; a second one follows the lists, so that each element
 * of the result is the work of one item, in an order that the indices fix. */
#include "kernels/types.h"
#include "ops/indices.h"

// clang-format off
/* kernel text begins */
typedef struct index_params {
    I64 items;
    I64 outer, size, inner; /* x is [outer, size, inner], row-major */
    I64 count;              /* of indices */
    I64 offsets[4];         /* of the buffers */
} index_params;

#ifdef HAUL_KERNEL
/* out[o, i, k] = x[o, index[i], k] */
KERNEL3(index_select, index_params, T, out, const T, x, const I64, index)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.inner), k = i - r * p.inner, o = QUOTIENT(r, p.count);
        const I64 row = CHUNKED ? M_MIN_OF(p.inner - k, ITEMS_END - i) : 1;
        const I64 wanted = index[p.offsets[2] + (r - o * p.count)];
        const I64 from = wanted < 0 ? 0 : wanted >= p.size ? p.size - 1 : wanted;
        GLOBAL T *y = out + p.offsets[0] + i;
        GLOBAL const T *v = x + p.offsets[1] + (o * p.size + from) * p.inner + k;
        VECTOR_LOOP for (I64 j = 0; j < row; j++) y[j] = v[j];
        i += ITEMS_STEP(row);
    }
}

#if IS_FLOAT
/* links[row] becomes the first i with index[i] == row, links[size + i] the next one after i; -1 ends a list. */
KERNEL2(index_link, index_params, I64, links, const I64, index)
{
    FOR_ITEMS(only)
    {
        GLOBAL I64 *head = links + p.offsets[0];
        for (I64 r = only; r < p.size; r++) head[r] = -1;
        for (I64 i = p.count - 1; i >= 0; i--) {
            const I64 wanted = index[p.offsets[1] + i];
            const I64 r = wanted < 0 ? 0 : wanted >= p.size ? p.size - 1 : wanted;
            head[p.size + i] = head[r];
            head[r] = i;
        }
    }
}

#define INDEX_WIDTH (CHUNKED ? 256 : 1)
/* out[o, r, k] = the sum of g[o, i, k] over the list of r */
KERNEL3(index_sum, index_params, T, out, const T, g, const I64, links)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.inner), k = i - r * p.inner, o = QUOTIENT(r, p.size);
        const I64 room = CHUNKED ? M_MIN_OF(p.inner - k, ITEMS_END - i) : 1;
        const int row = (int)M_MIN_OF(room, (I64)INDEX_WIDTH);
        GLOBAL const I64 *head = links + p.offsets[2];
        GLOBAL T *y = out + p.offsets[0] + i;
        A s[INDEX_WIDTH];
        for (int j = 0; j < row; j++) s[j] = 0;
        for (I64 at = head[r - o * p.size]; at >= 0; at = head[p.size + at]) {
            GLOBAL const T *v = g + p.offsets[1] + (o * p.count + at) * p.inner + k;
            for (int j = 0; j < row; j++) s[j] += LOAD(v, j);
        }
        for (int j = 0; j < row; j++) STORE(y, j, s[j]);
        i += ITEMS_STEP(row);
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

typedef struct index_attributes {
    int axis;
} index_attributes;

static haul_status check_range(const char *operation, const char *argument, const haul_tensor *index, int64_t limit)
{
    haul_status status = haul__host_inspect(index->storage, operation);
    if (status)
        return status;
    const int64_t *values = (const int64_t *)index->storage->buffer.host + index->offset;
    for (int64_t i = 0; i < index->count; i++)
        if (values[i] < 0 || values[i] >= limit)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument,
                              "%s[%lld] is %lld, which is out of range: it must be at least 0 and below %lld", argument,
                              (long long)i, (long long)values[i], (long long)limit);
    return HAUL_OK;
}

haul_tensor *haul__indices(const char *operation, const char *argument, haul_tensor *index, int64_t limit)
{
    if (index->shape.ndim != 1) {
        haul__fail_shape(operation, argument, index, "one dimension is expected");
        return NULL;
    }
    if (!haul_dtype_is_integer(index->dtype)) {
        haul__fail_dtype(operation, argument, index, "indices are integers: i64, i32 or u8");
        return NULL;
    }
    if (index->count > 0 && limit == 0) {
        haul__fail(HAUL_SHAPE, operation, argument, "there is nothing %s could point at: that axis has no elements",
                   argument);
        return NULL;
    }
    haul_tensor *plain = haul__view_of(index, &index->shape, index->strides, index->offset);
    if (plain && plain->dtype != HAUL_I64)
        plain = haul_cast(plain, HAUL_I64);
    if (plain && !plain->contiguous)
        plain = haul_contiguous(plain);
    if (plain && plain->count && plain->storage->device == haul_cpu() && check_range(operation, argument, plain, limit))
        return NULL;
    return plain;
}

static void split(index_params *p, const haul_shape *shape, int axis)
{
    p->outer = 1;
    p->inner = 1;
    p->size = shape->dims[axis];
    for (int d = 0; d < axis; d++)
        p->outer *= shape->dims[d]; /* parts of a product that was checked */
    for (int d = axis + 1; d < shape->ndim; d++)
        p->inner *= shape->dims[d];
}

static haul_tensor *gather(haul_tensor *x, int axis, haul_tensor *index);

static haul_status scatter_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    const index_attributes *a = node->attributes;
    haul_tensor            *index = haul__saved(node, 0);
    out[0] = index ? gather(g, a->axis, index) : NULL;
    return out[0] ? HAUL_OK : haul_error_status();
}

/* A tensor of `shape`: rows of g along the axis added to where the indices point. */
static haul_tensor *scatter(haul_tensor *g, const haul_shape *shape, int axis, haul_tensor *index)
{
    index_params p = {.count = index->count};
    haul_device *device = g->storage->device;
    split(&p, shape, axis);
    if (!g->contiguous && !(g = haul_contiguous(g)))
        return NULL;
    haul_tensor *y = haul__result("haul_index_select", device, g->dtype, shape);
    haul_tensor *links = y ? haul__result("haul_index_select", device, HAUL_I64, &HAUL_SHAPE(p.size + p.count)) : NULL;
    if (!links)
        return NULL;
    p.items = y->count > 0; /* one item threads the lists */
    p.offsets[0] = links->offset;
    p.offsets[1] = index->offset;
    if (haul__run("haul_index_select", device, HAUL__K_index_link, g->dtype, &links, 1, &index, 1, &p, sizeof p,
                  p.items, 1))
        return NULL;
    p.items = y->count;
    p.offsets[0] = y->offset;
    p.offsets[1] = g->offset;
    p.offsets[2] = links->offset;
    if (haul__run("haul_index_select", device, HAUL__K_index_sum, g->dtype, &y, 1, (haul_tensor *[]){g, links}, 2, &p,
                  sizeof p, p.items, GRAIN))
        return NULL;
    return haul__finish(y, &(haul__record){.name = "haul_index_select_backward",
                                           .backward = scatter_backward,
                                           .inputs = &g,
                                           .input_count = 1,
                                           .saves = &index,
                                           .save_count = 1,
                                           .attributes = &(index_attributes){axis},
                                           .attributes_size = sizeof(index_attributes)});
}

static haul_status gather_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    const index_attributes *a = node->attributes;
    haul_tensor            *index = haul__saved(node, 0);
    out[0] = index ? scatter(g, &node->edges[0].shape, a->axis, index) : NULL;
    return out[0] ? HAUL_OK : haul_error_status();
}

/* index: checked, i64, row-major */
static haul_tensor *gather(haul_tensor *x, int axis, haul_tensor *index)
{
    index_params p = {.count = index->count};
    haul_shape   shape = x->shape;
    split(&p, &x->shape, axis);
    shape.dims[axis] = p.count;
    if (!x->contiguous && !(x = haul_contiguous(x)))
        return NULL;
    haul_tensor *y = haul__result("haul_index_select", x->storage->device, x->dtype, &shape);
    if (!y)
        return NULL;
    p.items = y->count;
    p.offsets[0] = y->offset;
    p.offsets[1] = x->offset;
    p.offsets[2] = index->offset;
    if (haul__run("haul_index_select", x->storage->device, HAUL__K_index_select, x->dtype, &y, 1,
                  (haul_tensor *[]){x, index}, 2, &p, sizeof p, p.items, GRAIN))
        return NULL;
    return haul__finish(y, &(haul__record){.name = "haul_index_select",
                                           .backward = gather_backward,
                                           .inputs = &x,
                                           .input_count = 1,
                                           .saves = &index,
                                           .save_count = 1,
                                           .attributes = &(index_attributes){axis},
                                           .attributes_size = sizeof(index_attributes)});
}

static haul_tensor *index_select(haul_tensor *x, int axis, haul_tensor *index)
{
    haul_tensor *in[] = {x, index};
    if (!haul__place("haul_index_select", in, (const char *const[]){"x", "index"}, 2))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (haul__is_none(in[i])) {
            haul__fail(HAUL_INVALID_ARGUMENT, "haul_index_select", i ? "index" : "x",
                       "%s is HAUL_NONE, but a tensor is needed here", i ? "index" : "x");
            return NULL;
        }
    if (haul__axis(axis, in[0]->shape.ndim, "haul_index_select", &axis))
        return NULL;
    index = haul__indices("haul_index_select", "index", in[1], in[0]->shape.dims[axis]);
    return index ? gather(in[0], axis, index) : NULL;
}

haul_tensor *haul_index_select(haul_tensor *x, int axis, haul_tensor *index)
{
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, index_select(x, axis, index)) : NULL;
}
