/* haul_index and haul_index_put: an item for each axis, as in Python's brackets.
 *
 * Numbers, ranges and new axes make a view. Tensors of indices come last: together they become one index into the axes
 * that they are for, which are joined. haul_index_put finds the positions of the elements by indexing a tensor of
 * positions, so both read items in the same way. */
#include "base/assert.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/index/index.h"

// clang-format off
/* kernel text begins */
typedef struct index_join_params {
    I64 items, size; /* `size` elements are along the axis of the index */
    I64 offsets[3];  /* of the result, of what came before, and of the index */
    I32 first;       /* nothing came before */
    U32 check;       /* haul__index_check */
} index_join_params;

#if defined(HAUL_KERNEL) && defined(HAUL_KERNEL_DTYPE_bool)
/* y = before * size + index. */
KERNEL4(index_join, index_join_params, I64, y, const I64, before, const I64, index, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 at = CHECKED_INDEX(fault, p.check, i, index[p.offsets[2] + i], p.size);
        const I64 high = p.first ? 0 : before[p.offsets[1] + i];
        y[p.offsets[0] + i] = at < 0 || high < 0 ? 0 : high * p.size + at;
    }
}
#endif
/* kernel text ends */
// clang-format on

/* ---- joining indices ---- */

typedef struct join_attributes {
    int64_t size;
    int     axis;
    bool    first, reserved[3];
} join_attributes;

static haul_status join_infer(haul__call *c)
{
    return haul__describe(c, 0, HAUL_I64, &c->operands[1]->shape);
}

static haul_status join_compute(haul__call *c)
{
    const join_attributes *a = haul__attributes(c);
    haul_tensor           *before = c->operands[0], *index = c->operands[1], *y = c->results[0];
    HAUL__ASSERT(y->count == index->count && before->count == index->count);
    index_join_params p = {.items = y->count, .size = a->size, .first = a->first};
    p.offsets[0] = y->offset;
    p.offsets[1] = before->offset;
    p.offsets[2] = index->offset;
    p.check = haul__index_check(HAUL__CHECK_index, a->axis);
    return haul__launch_kernel(c, HAUL__K_index_join, HAUL_BOOL, HAUL__OUT(y), HAUL__IN(before, index), HAUL__PARAMS(p),
                               .grain = 16384, .checks = true);
}

HAUL__OPERATION(index_join) = {
    .name = "haul_index_join",
    .operands = {{"before", .accepts = HAUL__ONLY(HAUL_I64)},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(join_attributes),
    .infer = join_infer,
    .compute = join_compute,
};

/* ---- reading items ---- */

enum { MOST = HAUL_MAX_DIMS + 1 };

/* A call under way: the view so far, the axis that the next item is for, and the tensors of indices with their axes. */
typedef struct reading {
    const char  *name;
    haul_tensor *view;
    int          axis, count;
    haul_tensor *by[MOST];
    int          axes[MOST]; /* of the view */
} reading;

static haul_status refuse_item(const reading *r, int item, const char *why)
{
    return haul__fail(HAUL_INVALID_ARGUMENT, r->name, "items", "item %d %s", item, why);
}

static haul_status advance(reading *r, haul_tensor *view, int axes)
{
    HAUL__ASSERT((axes == 0 || axes == 1) && r->count <= MOST);
    r->view = view;
    r->axis += axes;
    return haul__failed(view) ? haul_error_status() : HAUL_OK;
}

/* Python's rules for ranges, also those that run backwards. */
static haul_tensor *range(haul_tensor *x, int axis, const haul_index_item *item)
{
    HAUL__ASSERT(0 <= axis && axis < x->shape.ndim && item->step);
    const int64_t n = x->shape.dims[axis], step = item->step;
    int64_t       start = item->start, stop = item->stop;
    if (step > 0)
        return haul_slice(x, axis, start == HAUL_OPEN ? 0 : start, stop == HAUL_OPEN ? n : stop, step);
    start = start == HAUL_OPEN ? n - 1 : start < 0 ? start + n : start;
    stop = stop == HAUL_OPEN ? -1 : stop < 0 ? stop + n : stop;
    start = start < -1 ? -1 : start > n - 1 ? n - 1 : start;
    stop = stop < -1 ? -1 : stop > n - 1 ? n - 1 : stop;
    if (start <= stop)
        return haul_slice(x, axis, 0, 0, 1);
    const int64_t back = step < -n ? n : -step, count = (start - stop - 1) / back + 1;
    HAUL__ASSERT(start < n && start - (count - 1) * back > stop);
    haul_tensor *part = haul_slice(x, axis, start - (count - 1) * back, start + 1, back);
    return haul_flip_with(&(haul_flip_options){.x = part, .haul__axes = {.count = 1, .axes = {axis}}});
}

/* A mask is for as many axes as it has. They are joined, and the mask becomes the positions of its true elements. */
static haul_status take_mask(reading *r, int item, haul_tensor *mask)
{
    const int  axis = r->axis, ndim = mask->shape.ndim;
    haul_shape joined = {.ndim = r->view->shape.ndim - ndim + 1};
    bool       fits = ndim > 0 && axis + ndim <= r->view->shape.ndim;
    for (int d = 0; d < ndim && fits; d++)
        fits = r->view->shape.dims[axis + d] == mask->shape.dims[d];
    if (!fits)
        return refuse_item(r, item, "is a mask whose sizes are not those of the axes that it is for");
    HAUL__ASSERT(0 < joined.ndim && joined.ndim <= r->view->shape.ndim);
    for (int d = 0; d < joined.ndim; d++)
        joined.dims[d] = d < axis    ? r->view->shape.dims[d]
                         : d == axis ? mask->count
                                     : r->view->shape.dims[d + ndim - 1];
    haul_tensor *at = haul_nonzero(haul_reshape(mask, HAUL_SHAPE(mask->count)));
    if (haul__failed(at))
        return haul_error_status();
    HAUL__ASSERT(r->count < MOST && axis < joined.ndim);
    r->by[r->count] = haul_reshape(at, HAUL_SHAPE(at->count));
    r->axes[r->count++] = axis;
    return haul__failed(r->by[r->count - 1]) ? haul_error_status() : advance(r, haul_reshape(r->view, joined), 1);
}

static haul_status take_tensor(reading *r, int item, haul_tensor *by)
{
    if (haul__check_tensor(r->name, "items", by))
        return haul_error_status();
    if (by->dtype == HAUL_BOOL)
        return take_mask(r, item, by);
    if (!haul_dtype_is_integer(by->dtype))
        return haul__fail(HAUL_DTYPE, r->name, "items", "item %d is %s, but indices are integers, and masks bool", item,
                          haul_dtype_name(by->dtype));
    HAUL__ASSERT(r->count < MOST && r->axis < r->view->shape.ndim);
    r->by[r->count] = by;
    r->axes[r->count++] = r->axis;
    return advance(r, r->view, 1);
}

/* How many axes of x an item is for. */
static int axes_of(const haul_index_item *item)
{
    if (item->kind == HAUL_INDEX_NEW || item->kind == HAUL_INDEX_REST)
        return 0;
    return item->kind == HAUL_INDEX_BY && haul_tensor_dtype(item->by) == HAUL_BOOL ? haul_tensor_ndim(item->by) : 1;
}

static haul_status take_item(reading *r, int item, const haul_index_item *i, int rest)
{
    haul_shape shape = r->view->shape;
    HAUL__ASSERT(0 <= r->axis && r->axis <= shape.ndim);
    if (i->kind == HAUL_INDEX_REST) {
        r->axis += rest;
        return HAUL_OK;
    }
    if (i->kind == HAUL_INDEX_NEW) {
        if (shape.ndim == HAUL_MAX_DIMS)
            return refuse_item(r, item, "is a new axis, but a tensor has at most 8");
        return advance(r, haul_unsqueeze(r->view, r->axis), 1);
    }
    if (r->axis >= shape.ndim)
        return refuse_item(r, item, "is for an axis that x does not have");
    switch (i->kind) {
    case HAUL_INDEX_ALL: return advance(r, r->view, 1);
    case HAUL_INDEX_AT: return advance(r, haul_select(r->view, r->axis, i->start), 0);
    case HAUL_INDEX_BY: return take_tensor(r, item, i->by);
    case HAUL_INDEX_RANGE:
        return i->step ? advance(r, range(r->view, r->axis, i), 1) : refuse_item(r, item, "is a range with step 0");
    default: return refuse_item(r, item, "is none of HAUL_ALL, HAUL_NEW, HAUL_REST, HAUL_RANGE, a number and a tensor");
    }
}

/* Reads all items. */
static haul_status read_items(reading *r, const haul_index_items *items)
{
    int used = 0, rests = 0;
    if (!items)
        return haul__fail_null(r->name, "items");
    if (items->count < 0 || items->count > HAUL_INDEX_MOST)
        return haul__fail(HAUL_INVALID_ARGUMENT, r->name, "items", "there are %d items; 0 to %d are expected",
                          items->count, HAUL_INDEX_MOST);
    for (int k = 0; k < items->count; k++) {
        used += axes_of(&items->items[k]);
        rests += items->items[k].kind == HAUL_INDEX_REST;
    }
    if (rests > 1 || used > r->view->shape.ndim)
        return haul__fail(HAUL_INVALID_ARGUMENT, r->name, "items",
                          rests > 1 ? "HAUL_REST occurs %d times; once is possible"
                                    : "there are items for more axes than the %d of x",
                          rests > 1 ? rests : r->view->shape.ndim);
    const int rest = r->view->shape.ndim - used;
    HAUL__ASSERT(rest >= 0);
    for (int k = 0; k < items->count; k++)
        if (take_item(r, k, &items->items[k], rest))
            return haul_error_status();
    HAUL__ASSERT(r->axis <= r->view->shape.ndim && r->count <= r->view->shape.ndim);
    return HAUL_OK;
}

/* ---- tensors of indices ---- */

/* The indices as one, into the joined axes. All are expanded to `shape`. */
static haul_tensor *join_indices(const reading *r, const haul_shape *shape)
{
    HAUL__ASSERT(r->count > 1);
    haul_tensor *joined = NULL;
    for (int k = 0; k < r->count; k++) {
        haul_tensor          *by = haul_expand(r->by[k], *shape);
        const join_attributes a = {.size = r->view->shape.dims[r->axes[k]], .axis = r->axes[k], .first = !joined};
        haul_tensor          *index = haul_contiguous(haul_cast(by, HAUL_I64));
        joined = HAUL__APPLY(index_join, &a, joined ? joined : index, index);
        if (haul__failed(joined))
            break;
    }
    return joined;
}

/* The view with the indexed axes in front, joined into one. */
static haul_tensor *join_axes(const reading *r, haul_shape *rest)
{
    int        order[HAUL_MAX_DIMS], n = 0;
    const int  ndim = r->view->shape.ndim;
    bool       indexed[HAUL_MAX_DIMS] = {false};
    int64_t    size = 1;
    haul_shape shape = {.ndim = 1};
    for (int k = 0; k < r->count; k++) {
        HAUL__ASSERT(r->axes[k] < ndim && !indexed[r->axes[k]]);
        order[n++] = r->axes[k];
        indexed[r->axes[k]] = true;
        size *= r->view->shape.dims[r->axes[k]]; /* a part of the view's count, or of one without elements */
    }
    *rest = (haul_shape){.ndim = 0};
    for (int d = 0; d < ndim; d++)
        if (!indexed[d]) {
            order[n++] = d;
            rest->dims[rest->ndim++] = shape.dims[shape.ndim++] = r->view->shape.dims[d];
        }
    HAUL__ASSERT(n == ndim);
    shape.dims[0] = size;
    return haul_reshape(haul_permute(r->view, order, ndim), shape);
}

/* y, whose first `count` axes are those of the indices, with these axes where the first index was, if the indices are
 * neighbours. */
static haul_tensor *put_back(const reading *r, haul_tensor *y, int count)
{
    int       order[HAUL_MAX_DIMS], n = 0;
    const int ndim = y->shape.ndim, first = r->axes[0];
    HAUL__ASSERT(r->count > 0 && first + count <= ndim);
    for (int k = 1; k < r->count; k++)
        if (r->axes[k] != r->axes[k - 1] + 1)
            return y;
    for (int d = 0; d < first; d++)
        order[n++] = count + d;
    for (int d = 0; d < count; d++)
        order[n++] = d;
    while (n < ndim) {
        order[n] = n;
        n++;
    }
    HAUL__ASSERT(n == ndim);
    return first ? haul_permute(y, order, ndim) : y;
}

static haul_tensor *by_indices(const reading *r)
{
    HAUL__ASSERT(r->count > 0);
    haul_shape shape = r->by[0]->shape, rest, whole;
    for (int k = 1; k < r->count; k++) {
        haul_shape wider;
        if (haul__shape_broadcast(&shape, &r->by[k]->shape, r->name, &wider))
            return haul__failed_tensor();
        shape = wider;
    }
    haul_tensor *index = r->count == 1 ? r->by[0] : join_indices(r, &shape);
    haul_tensor *joined = r->count == 1 ? NULL : join_axes(r, &rest);
    index = haul__failed(index) ? index : haul_reshape(index, HAUL_SHAPE(index->count));
    haul_tensor *y =
        r->count == 1 ? haul_index_select(r->view, r->axes[0], index) : haul_index_select(joined, 0, index);
    if (haul__failed(y))
        return y;
    const int at = r->count == 1 ? r->axes[0] : 0;
    HAUL__ASSERT(y->shape.dims[at] == index->count);
    whole = (haul_shape){.ndim = y->shape.ndim - 1 + shape.ndim};
    if (whole.ndim > HAUL_MAX_DIMS) {
        haul__fail(HAUL_SHAPE, r->name, "items", "the result has %d dimensions; a tensor has at most 8", whole.ndim);
        return haul__failed_tensor();
    }
    for (int d = 0; d < whole.ndim; d++)
        whole.dims[d] = d < at                ? y->shape.dims[d]
                        : d < at + shape.ndim ? shape.dims[d - at]
                                              : y->shape.dims[d - shape.ndim + 1];
    y = haul_reshape(y, whole);
    return r->count == 1 || haul__failed(y) ? y : put_back(r, y, shape.ndim);
}

static haul_tensor *index_by(haul_tensor *x, const haul_index_items *items, const char *name)
{
    reading r = {.name = name, .view = x};
    if (haul__check_tensor(name, "x", x) || read_items(&r, items))
        return haul__failed_tensor();
    return r.count ? by_indices(&r) : r.view;
}

haul_tensor *haul_index_with(haul_tensor *x, const haul_index_items *items)
{
    const char  *outer = haul__index_call("haul_index");
    haul_tensor *y = index_by(x, items, "haul_index");
    haul__index_caller = outer;
    return haul__result_within(y, "haul_index");
}

/* ---- haul_index_put ---- */

/* A mask alone, and one number: no position has to be known. */
static bool is_where(const haul_tensor *x, const haul_tensor *values, const haul_index_items *items)
{
    if (items->count != 1 || items->items[0].kind != HAUL_INDEX_BY || values->count != 1)
        return false;
    const haul_tensor *mask = items->items[0].by;
    return haul_tensor_dtype(mask) == HAUL_BOOL && haul__shape_equal(&mask->shape, &x->shape) &&
           values->shape.ndim == 0;
}

static haul_tensor *index_put(haul_tensor *x, haul_tensor *values, bool adds, const haul_index_items *items,
                              const char *name)
{
    if (haul__check_tensor(name, "x", x) || haul__check_tensor(name, "values", values))
        return haul__failed_tensor();
    if (!adds && items && is_where(x, values, items))
        return haul_where(items->items[0].by, values, x);
    haul_tensor *like = haul_reshape(haul_cast(haul_ones_like(haul_detach(x)), HAUL_I64), HAUL_SHAPE(x->count));
    haul_tensor *all = haul_reshape(haul_sub_scalar(haul_cumsum(like, 0), 1), x->shape);
    haul_tensor *at = haul__failed(all) ? all : index_by(all, items, name);
    if (haul__failed(at))
        return at;
    haul_tensor *source = haul_reshape(haul_expand(values, at->shape), HAUL_SHAPE(at->count));
    haul_tensor *flat = haul_reshape(x, HAUL_SHAPE(x->count)), *index = haul_reshape(at, HAUL_SHAPE(at->count));
    HAUL__ASSERT(haul__failed(source) || source->count == at->count);
    haul_tensor *y = adds ? haul_scatter_add(flat, 0, index, source) : haul_scatter(flat, 0, index, source);
    return haul_reshape(y, x->shape);
}

static haul_tensor *put(haul_tensor *x, haul_tensor *values, bool adds, const haul_index_items *items, const char *name)
{
    const char  *outer = haul__index_call(name);
    haul_tensor *y = index_put(x, values, adds, items, name);
    haul__index_caller = outer;
    return haul__result_within(y, name);
}

haul_tensor *haul_index_put_with(haul_tensor *x, haul_tensor *values, const haul_index_items *items)
{
    return put(x, values, false, items, "haul_index_put");
}

haul_tensor *haul_index_put_add_with(haul_tensor *x, haul_tensor *values, const haul_index_items *items)
{
    return put(x, values, true, items, "haul_index_put_add");
}
