/* Gather picks an element for each index; scatter_add adds elements where indices point.
 *
 * Each is the gradient of the other. In a scatter one work item handles one line along the axis and adds its elements
 * in the order of the indices, so no two items write the same element. If there are few lines, GPUs sort the indices,
 * and an item adds the elements of one index, in the same order. */
#include "ops/index/gather.h"
#include "base/assert.h"
#include "engine/attribute_shape.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/attributes.h"
#include "ops/index/index.h"
#include "ops/index/sort.h"

// clang-format off
/* kernel text begins */
#include "ops/index/gather_kernel.h"

#ifdef HAUL_KERNEL
/* A processor checks this many neighbouring indices at once, and then moves elements without looking at each. */
enum { GATHER_RUN = 256 };
FUNC I32 all_within(GLOBAL const I64 *index, I64 n, I64 bound)
{
    U64 wrong = 0; /* its highest bit, if an index or the distance to the last one is negative */
    VECTOR_LOOP for (I64 j = 0; j < n; j++) wrong |= (U64)index[j] | ((U64)(bound - 1) - (U64)index[j]);
    return wrong >> 63 == 0;
}
#if IS_BITS
/* y[j] = v[index[j]]. Eight at a time: instructions that gather take as long as loads. */
FUNC void gather_run(GLOBAL T *y, GLOBAL const T *v, GLOBAL const I64 *index, I64 n)
{
    I64 j = 0;
    for (; j + 8 <= n; j += 8, y += 8, index += 8) {
        const T a = v[index[0]], b = v[index[1]], c = v[index[2]], d = v[index[3]];
        const T e = v[index[4]], f = v[index[5]], g = v[index[6]], h = v[index[7]];
        y[0] = a, y[1] = b, y[2] = c, y[3] = d, y[4] = e, y[5] = f, y[6] = g, y[7] = h;
    }
    for (; j < n; j++) *y++ = v[*index++];
}

/* y[.., i, ..] = x[.., index[.., i, ..], ..], or 0 for an index out of range. */
KERNEL4(gather, gather_params, T, y, const T, x, const I64, index, U32, fault)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 at[3];
        const I64 room = gather_at(&p, i, at), row = CHUNKED ? least(least(room, ITEMS_END - i), GATHER_RUN) : 1;
        const I64 step = p.strides[0].of[p.ndim - 1], along = p.along[0];
        GLOBAL const I64 *which = index + p.offsets[1] + i;
        GLOBAL const T *v = x + at[0];
        GLOBAL T *to = y + p.offsets[2] + i;
        if (!CHUNKED || !all_within(which, row, p.size)) {
            for (I64 j = 0; j < row; j++) {
                const I64 from = CHECKED_INDEX(fault, p.check, i + j, which[j], p.size);
                to[j] = from < 0 ? 0 : v[j * step + from * along];
            }
        } else if (step == 0 && along == 1) {
            gather_run(to, v, which, row);
        } else {
            for (I64 j = 0; j < row; j++, v += step) {
                to[j] = v[which[j] * along];
                LOADS_IN_ORDER();
            }
        }
        i += ITEMS_STEP(row);
    }
}

/* y[.., index[.., i, ..], ..] = g[.., i, ..], where no two indices of a line are equal: an element of g an item. */
KERNEL4(scatter, gather_params, T, y, const I64, index, const T, g, U32, fault)
{
    const int last = p.ndim - 1;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 at[3];
        const I64 room = gather_at(&p, i, at), row = CHUNKED ? least(room, ITEMS_END - i) : 1;
        const I64 y_step = p.strides[0].of[last], step = p.strides[2].of[last], along = p.along[0];
        GLOBAL const I64 *which = index + p.offsets[1] + i;
        GLOBAL const T *v = g + at[2];
        GLOBAL T *to = y + at[0];
        for (I64 j = 0; j < row; j++) {
            const I64 place = CHECKED_INDEX(fault, p.check, i + j, which[j], p.size);
            if (place >= 0) to[j * y_step + place * along] = v[j * step];
        }
        i += ITEMS_STEP(row);
    }
}
#endif

FUNC void scatter_one(GLOBAL T *sums, I64 to, I64 step, A value)
{
    if (to >= 0) STORE(sums, to * step, LOAD(sums, to * step) + value);
}
/* Elements of v, `step` apart, to the sums that indices within range point at: in their order, as two may be equal. */
INLINE void scatter_run(GLOBAL T *sums, GLOBAL const I64 *index, GLOBAL const T *v, I64 along, I64 step, I64 n)
{
    I64 j = 0;
    for (; j + 4 <= n; j += 4, v += 4 * step, index += 4) {
        const I64 i0 = index[0] * along, i1 = index[1] * along, i2 = index[2] * along, i3 = index[3] * along;
        const A a = LOAD(v, 0), b = LOAD(v, step), c = LOAD(v, 2 * step), d = LOAD(v, 3 * step);
        STORE(sums, i0, LOAD(sums, i0) + a);
        STORE(sums, i1, LOAD(sums, i1) + b);
        STORE(sums, i2, LOAD(sums, i2) + c);
        STORE(sums, i3, LOAD(sums, i3) + d);
    }
    for (; j < n; j++, v += step, index++) STORE(sums, *index * along, LOAD(sums, *index * along) + LOAD(v, 0));
}
/* `n` elements of a line, whose indices are neighbours; the first is at `position`. */
FUNC void scatter_line(const gather_params *p, GLOBAL U32 *fault, GLOBAL T *sums, GLOBAL const I64 *index, GLOBAL const T *v, I64 position, I64 n)
{
    const I64 along = p->along[0], step = p->along[2];
    if (!all_within(index, n, p->size)) {
        for (I64 j = 0; j < n; j++)
            scatter_one(sums, CHECKED_INDEX(fault, p->check, position + j, index[j], p->size), along, LOAD(v, j * step));
    } else {
        scatter_run(sums, index, v, along, step, n);
    }
}

/* An element of each of `n` neighbouring lines. */
FUNC void scatter_across(const gather_params *p, GLOBAL U32 *fault, GLOBAL T *sums, GLOBAL const I64 *index, GLOBAL const T *v, I64 position, I64 n)
{
    const I64 along = p->along[0], at_step = p->strides[1].of[p->ndim - 1], step = p->strides[2].of[p->ndim - 1];
    for (I64 j = 0; j < n; j++) {
        const I64 to = CHECKED_INDEX(fault, p->check, position + j * at_step, index[j * at_step], p->size);
        scatter_one(sums + j, to, along, LOAD(v, j * step));
    }
}

/* y[.., index[.., i, ..], ..] += source[.., i, ..], a line along the axis an item. Neighbouring lines are taken
 * together. */
KERNEL4(scatter_add, gather_params, T, y, const I64, index, const T, source, U32, fault)
{
    const int last = p.ndim - 1;
    const I64 length = p.length, size = p.size, to_step = p.along[0], at_step = p.along[1], step = p.along[2];
    const I32 in_runs = CHUNKED && at_step == 1 && length >= 16;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 at[3];
        const I64 room = gather_at(&p, i, at), row = CHUNKED && p.strides[0].of[last] == 1 ? least(room, ITEMS_END - i) : 1;
        const I64 position = at[1] - p.offsets[1];
        GLOBAL T *sums = y + at[0];
        GLOBAL const I64 *which = index + at[1];
        GLOBAL const T *v = source + at[2];
        if (row == 1 && in_runs)
            for (I64 k = 0; k < length; k += GATHER_RUN)
                scatter_line(&p, fault, sums, which + k, v + k * step, position + k, least(length - k, GATHER_RUN));
        else if (row == 1)
            for (I64 k = 0; k < length; k++) {
                const I64 to = CHECKED_INDEX(fault, p.check, position + k * at_step, which[k * at_step], size);
                scatter_one(sums, to, to_step, LOAD(v, k * step));
            }
        else
            for (I64 k = 0; k < length; k++)
                scatter_across(&p, fault, sums, which + k * at_step, v + k * step, position + k * at_step, row);
        i += ITEMS_STEP(row);
    }
}

/* The same of dense lines whose indices are sorted: an item adds up the elements whose indices are equal. `order` says
 * where in their line they were. */
KERNEL5(scatter_runs, gather_params, T, y, const I64, sorted, const I64, order, const T, source, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 line = QUOTIENT(i, p.length), first = line * p.length, value = sorted[i];
        if (i > first && sorted[i - 1] == value) continue;
        const I64 to = CHECKED_INDEX(fault, p.check, first + order[i], value, p.size);
        if (to < 0) continue;
        I64 at[3];
        gather_at(&p, line, at);
        GLOBAL const T *v = source + at[2];
        A s = LOAD(y, at[0] + to * p.along[0]);
        for (I64 j = i; j < first + p.length && sorted[j] == value; j++) {
            s += LOAD(v, order[j] * p.along[2]);
        }
        STORE(y, at[0] + to * p.along[0], s);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 8192 };

/* ---- launches ---- */

static haul_status add_runs(haul__call *c, haul_tensor *y, haul_tensor *index, haul_tensor *source, gather_params p)
{
    HAUL__ASSERT(p.along[1] == 1 && p.length > 0 && index->count % p.length == 0); /* lines of indices are dense */
    haul_tensor *sorted = haul__temporary(c, HAUL_I64, &index->shape);
    haul_tensor *order = haul__temporary(c, HAUL_I64, &index->shape);
    if (!sorted || !order || haul__sort_rows(c, sorted, order, index, p.length, false))
        return haul_error_status();
    p.items = index->count;
    return haul__launch_kernel(c, HAUL__K_scatter_runs, y->dtype, HAUL__OUT(y), HAUL__IN(sorted, order, source),
                               HAUL__PARAMS(p), .grain = GRAIN, .checks = true);
}

/* Adds source to its places in y, whose elements are set. */
static haul_status add_to(haul__call *c, haul_tensor *y, haul_tensor *index, haul_tensor *source, int axis,
                          uint32_t check)
{
    HAUL__ASSERT(y->dtype == source->dtype);
    gather_params p = haul__gather_describe(y, index, source, axis, true);
    p.check = check;
    if (haul__has_few_lines(c, &p))
        return add_runs(c, y, index, source, p);
    return haul__launch_kernel(c, HAUL__K_scatter_add, y->dtype, HAUL__OUT(y), HAUL__IN(index, source), HAUL__PARAMS(p),
                               .grain = 1 + GRAIN / (p.length + 1), .checks = true);
}

/* y = x + source; x NULL means zeros. Half precision is accumulated in f32. */
static haul_status scatter_sum(haul__call *c, haul_tensor *y, haul_tensor *x, haul_tensor *index, haul_tensor *source,
                               int axis, uint32_t check)
{
    HAUL__ASSERT(!x || haul__shape_equal(&x->shape, &y->shape));
    const char  *name = c->operation->name;
    haul_dtype   dtype = haul_dtype_is_float(y->dtype) ? haul__sum_dtype(y->dtype) : y->dtype;
    haul_tensor *sum = dtype == y->dtype ? y : haul__temporary(c, dtype, &y->shape);
    source = sum ? haul__as_dtype(c, source, dtype) : NULL;
    if (!source || (x ? haul__copy_elements(sum, x, name) : haul__fill_elements(sum, 0, name)) ||
        add_to(c, sum, index, source, axis, check))
        return haul_error_status();
    return sum == y ? HAUL_OK : haul__copy_elements(y, sum, name);
}

/* ---- the gradient of gather: g among zeros ---- */

static haul_status backward_infer(haul__call *c)
{
    const haul__gather_attributes *a = haul__attributes(c);
    const haul_shape               shape = haul__shape_of_attribute(&a->shape);
    HAUL__ASSERT(shape.ndim == c->operands[0]->shape.ndim && (a->axis == 0 || a->axis < shape.ndim));
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

static haul_status backward_compute(haul__call *c)
{
    const haul__gather_attributes *a = haul__attributes(c);
    haul_tensor                   *g = c->operands[0], *index = c->operands[1], *dx = c->results[0];
    uint32_t                       check = haul__index_check(HAUL__CHECK_gather_backward, a->axis);
    HAUL__ASSERT(haul__shape_equal(&g->shape, &index->shape));
    HAUL__ASSERT(dx->dtype == g->dtype);
    if (!a->unique)
        return scatter_sum(c, dx, NULL, index, g, a->axis, check);
    gather_params p = haul__gather_describe(dx, index, g, a->axis, false);
    p.check = check;
    if (haul__fill_elements(dx, 0, c->operation->name))
        return haul_error_status();
    return haul__launch_kernel(c, HAUL__K_scatter, dx->dtype, HAUL__OUT(dx), HAUL__IN(index, g), HAUL__PARAMS(p),
                               .grain = GRAIN, .checks = true);
}

static void backward_gradient(haul__gradient *c);

HAUL__OPERATION(gather_backward) = {
    .name = "haul_gather_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__gather_attributes),
    .infer = backward_infer,
    .compute = backward_compute,
    .gradient = backward_gradient,
    .flops = 1,
};

haul_tensor *haul__gather_backward(haul_tensor *g, int axis, haul_tensor *index, const haul_shape *shape, bool unique)
{
    haul__gather_attributes a = {.axis = axis, .unique = unique};
    haul__shape_to_attribute(&a.shape, shape);
    return HAUL__APPLY(gather_backward, &a, g, index);
}

/* ---- gather ---- */

static haul_status infer(haul__call *c)
{
    haul__gather_attributes *a = haul__attributes(c);
    if (haul__check_index_shapes(c, &a->axis))
        return haul_error_status();
    haul__shape_to_attribute(&a->shape, &c->operands[0]->shape);
    return haul__describe(c, 0, c->operands[0]->dtype, &c->operands[1]->shape);
}

static haul_status compute(haul__call *c)
{
    const haul__gather_attributes *a = haul__attributes(c);
    haul_tensor                   *x = c->operands[0], *index = c->operands[1], *y = c->results[0];
    gather_params                  p = haul__gather_describe(x, index, y, a->axis, false);
    HAUL__ASSERT(p.items == y->count);
    p.check = haul__index_check(HAUL__CHECK_gather, a->axis);
    if (haul__check_indices(c, index, p.size, p.check))
        return haul_error_status();
    return haul__launch_kernel(c, HAUL__K_gather, x->dtype, HAUL__OUT(y), .ins = c->operands, .in_count = 2,
                               HAUL__PARAMS(p), .grain = GRAIN, .checks = true);
}

/* Only the picked elements are read. */
static haul__cost cost(const haul__call *c)
{
    return (haul__cost){0, (int64_t)(2 * haul_tensor_bytes(c->results[0]) + haul_tensor_bytes(c->operands[1]))};
}

static void gradient(haul__gradient *c)
{
    c->operands[0] = HAUL__APPLY(gather_backward, c->attributes, c->results[0], c->saved[1]);
}

HAUL__OPERATION(gather) = {
    .name = "haul_gather",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__gather_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .cost = cost,
};

static void backward_gradient(haul__gradient *c)
{
    c->operands[0] = HAUL__APPLY(gather, c->attributes, c->results[0], c->saved[1]);
}

HAUL__FUNCTIONS(gather, &(haul__gather_attributes){.axis = axis}, (haul_tensor * x, int axis, haul_tensor *index), x,
                index)

haul_tensor *haul__gather_unique(haul_tensor *x, int axis, haul_tensor *index)
{
    return HAUL__APPLY(gather, (&(haul__gather_attributes){.axis = axis, .unique = true}), x, index);
}

/* ---- scatter_add ---- */

enum { X, INDEX, SOURCE };

static haul_status scatter_infer(haul__call *c)
{
    haul__gather_attributes *a = haul__attributes(c);
    if (haul__check_index_shapes(c, &a->axis))
        return haul_error_status();
    if (!haul__shape_equal(&c->operands[SOURCE]->shape, &c->operands[INDEX]->shape))
        return haul__refuse_shape(c, SOURCE, "the shape of index is expected");
    return haul__describe(c, 0, c->operands[X]->dtype, &c->operands[X]->shape);
}

static haul_status scatter_compute(haul__call *c)
{
    const haul__gather_attributes *a = haul__attributes(c);
    haul_tensor                   *x = c->operands[X], *index = c->operands[INDEX];
    uint32_t                       check = haul__index_check(HAUL__CHECK_scatter_add, a->axis);
    if (haul__check_indices(c, index, x->shape.ndim ? x->shape.dims[a->axis] : 1, check))
        return haul_error_status();
    return scatter_sum(c, c->results[0], x, index, c->operands[SOURCE], a->axis, check);
}

static void scatter_gradient(haul__gradient *c)
{
    const haul__gather_attributes *a = c->attributes;
    c->operands[X] = c->results[0];
    if (haul__wanted(c, SOURCE))
        c->operands[SOURCE] = haul_gather(c->results[0], a->axis, c->saved[INDEX]);
}

HAUL__OPERATION(scatter_add) = {
    .name = "haul_scatter_add",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_2},
                 {"source", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(haul__gather_attributes),
    .infer = scatter_infer,
    .compute = scatter_compute,
    .gradient = scatter_gradient,
    .flops = 1,
};

HAUL__FUNCTIONS(scatter_add, &(haul__gather_attributes){.axis = axis},
                (haul_tensor * x, int axis, haul_tensor *index, haul_tensor *source), x, index, source)
