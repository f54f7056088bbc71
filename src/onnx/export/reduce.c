/* Reductions along axes, and other operations along one axis, as nodes. */
#include <math.h>
#include <string.h>

#include <haul/dtype.h>

#include "onnx/export/families.h"
#include "ops/attributes.h"
#include "ops/reduce/reduce.h"

#define NODE HAUL__ONNX_NODE

static int axes_of(haul__onnx_saving *c)
{
    const haul__reduce_attributes *a = c->attributes;
    int64_t                        axes[HAUL_MAX_DIMS];
    int                            count = 0;
    for (int d = 0; d < c->in[0].shape.ndim; d++)
        if (a->reduced[d])
            axes[count++] = d;
    return haul__onnx_add_ints(c->g, axes, count);
}

/* Without axes ONNX would reduce along all. */
static int reduced(haul__onnx_saving *c, const char *type, int x, bool keep)
{
    const int y = NODE(c->g, type, x, axes_of(c));
    haul__onnx_set_int(c->g, "keepdims", keep);
    haul__onnx_set_int(c->g, "noop_with_empty_axes", 1);
    return y;
}

static bool keeps(const haul__onnx_saving *c)
{
    return ((const haul__reduce_attributes *)c->attributes)->keepdim;
}

/* In the dtype of the result: sums of f16 and of integers have a wider one. */
int haul__onnx_save_reduce(haul__onnx_saving *c)
{
    const haul_dtype dtype = c->out[0].dtype;
    const int        x = dtype == c->in[0].dtype ? c->x[0] : haul__onnx_add_cast(c->g, c->x[0], dtype);
    return reduced(c, c->row->type, x, keeps(c));
}

int haul__onnx_save_truth_of(haul__onnx_saving *c)
{
    const int x = haul__onnx_add_cast(c->g, c->x[0], HAUL_I32);
    return haul__onnx_add_cast(c->g, reduced(c, c->row->type, x, keeps(c)), HAUL_BOOL);
}

int haul__onnx_save_norm(haul__onnx_saving *c)
{
    const double p = ((const haul__reduce_attributes *)c->attributes)->number;
    if (p != 1 && p != 2)
        return haul__onnx_cannot(c, "ONNX has the norms 1 and 2");
    return reduced(c, p == 1 ? "ReduceL1" : "ReduceL2", c->x[0], keeps(c));
}

/* The sum of squares from the mean, divided by the number of elements less the correction. */
int haul__onnx_save_variance(haul__onnx_saving *c)
{
    const haul__reduce_attributes *a = c->attributes, *other = c->other;
    haul__onnx_saved              *g = c->g;
    if (a->each != other->each || c->out[0].dtype != c->in[0].dtype)
        return haul__onnx_cannot(c, "it depends on the size of the batch; save with a fixed batch");
    const int apart = NODE(g, "Sub", c->x[0], reduced(c, "ReduceMean", c->x[0], true));
    const int sum = reduced(c, "ReduceSum", NODE(g, "Mul", apart, apart), keeps(c));
    const int y = NODE(g, "Div", sum, haul__onnx_add_number(g, c->out[0].dtype, (double)a->each - a->number));
    return c->row->type ? NODE(g, c->row->type, y) : y;
}

int haul__onnx_save_arg(haul__onnx_saving *c)
{
    const haul__argreduce_attributes *a = c->attributes;
    const int                         y = NODE(c->g, c->row->type, c->x[0]);
    haul__onnx_set_int(c->g, "axis", a->axis);
    haul__onnx_set_int(c->g, "keepdims", a->keepdim);
    return c->out[0].dtype == HAUL_I64 ? y : haul__onnx_add_cast(c->g, y, c->out[0].dtype);
}

int haul__onnx_save_cumulative(haul__onnx_saving *c)
{
    const haul__cumsum_attributes *a = c->attributes;
    const haul_dtype               dtype = c->out[0].dtype;
    const int                      x = dtype == c->in[0].dtype ? c->x[0] : haul__onnx_add_cast(c->g, c->x[0], dtype);
    const int                      y = NODE(c->g, c->row->type, x, haul__onnx_add_int(c->g, a->axis));
    haul__onnx_set_int(c->g, "reverse", a->reverse);
    return y;
}

/* The scores that the rows of causal attention see, and -infinity elsewhere. */
static int causal_scores(haul__onnx_saving *c, int64_t first)
{
    const haul_shape *shape = &c->in[0].shape, *other = &c->other_in[0].shape;
    const int64_t    *sizes = shape->dims + shape->ndim - 2;
    if (memcmp(sizes, other->dims + other->ndim - 2, 2 * sizeof *sizes))
        return haul__onnx_cannot(c, "it depends on the size of the batch; save with a fixed batch");
    const haul_dtype dtype = c->out[0].dtype;
    const int ones = NODE(c->g, "Expand", haul__onnx_add_number(c->g, dtype, 1), haul__onnx_add_ints(c->g, sizes, 2));
    const int seen = NODE(c->g, "Trilu", ones, haul__onnx_add_int(c->g, first));
    haul__onnx_set_int(c->g, "upper", 0);
    return NODE(c->g, "Where", haul__onnx_add_cast(c->g, seen, HAUL_BOOL), c->x[0],
                haul__onnx_add_number(c->g, dtype, -INFINITY));
}

/* Attention's rows without a finite score are zeros. */
int haul__onnx_save_softmax(haul__onnx_saving *c)
{
    const haul__softmax_attributes *a = c->attributes;
    const int                       x = a->causal ? causal_scores(c, a->first) : c->x[0];
    if (c->why)
        return x;
    const int y = NODE(c->g, c->row->type, x);
    haul__onnx_set_int(c->g, "axis", a->axis);
    if (!a->zeros)
        return y;
    return NODE(c->g, "Where", NODE(c->g, "IsNaN", y), haul__onnx_add_number(c->g, c->out[0].dtype, 0), y);
}

/* TopK with both results: the indices are the second one. */
static int top(haul__onnx_saving *c, int64_t k, int axis, bool largest)
{
    const int y = haul__onnx_add_nodes(c->g, "TopK", (const int[]){c->x[0], haul__onnx_add_ints(c->g, &k, 1)}, 2, 2);
    haul__onnx_set_int(c->g, "axis", axis);
    haul__onnx_set_int(c->g, "largest", largest);
    c->y[1] = y == HAUL__ONNX_ABSENT ? y : y + 1;
    return y;
}

int haul__onnx_save_topk(haul__onnx_saving *c)
{
    const haul__topk_attributes *a = c->attributes;
    if (a->k != ((const haul__topk_attributes *)c->other)->k)
        return haul__onnx_cannot(c, "it depends on the size of the batch; save with a fixed batch");
    return top(c, a->k, a->axis, a->largest);
}

/* All elements of the axis: of equal ones TopK takes the first first, as haul_sort does. */
int haul__onnx_save_sort(haul__onnx_saving *c)
{
    const haul__sort_attributes *a = c->attributes;
    const haul_shape            *x = &c->in[0].shape, *other = &c->other_in[0].shape;
    if (!x->ndim || c->in[0].dtype == HAUL_BOOL)
        return haul__onnx_cannot(c, "ONNX sorts no bool, and nothing without dimensions");
    const int64_t n = x->dims[a->axis];
    if (n != other->dims[a->axis])
        return haul__onnx_cannot(c, "it depends on the size of the batch; save with a fixed batch");
    const int y = top(c, n, a->axis, a->descending);
    return c->row->type ? c->y[1] : y;
}
