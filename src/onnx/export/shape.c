/* Shapes, parts and joins as nodes, and new tensors. */
#include <haul/dtype.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/shape.h"
#include "engine/attribute_shape.h"
#include "onnx/export/families.h"
#include "ops/attributes.h"

#define NODE    HAUL__ONNX_NODE
#define INTS(v) haul__onnx_add_ints(c->g, (const int64_t[]){v}, 1)

static const char batch_sized[] = "it depends on the size of the batch; save with a fixed batch";

/* True if the attributes differ between batches. */
static bool varies(const haul__onnx_saving *c, size_t size)
{
    return memcmp(c->attributes, c->other, size) != 0;
}

/* ---- values that stay ---- */

/* Copies and views of the whole tensor: the value itself. */
int haul__onnx_save_same(haul__onnx_saving *c)
{
    if (c->out[0].dtype != c->in[0].dtype)
        return haul__onnx_add_cast(c->g, c->x[0], c->out[0].dtype);
    if (c->out[0].store != c->in[0].store && !strcmp(c->row->name, "haul_dropout"))
        return haul__onnx_cannot(c, "it drops elements at random");
    return c->x[0];
}

int haul__onnx_save_cast(haul__onnx_saving *c)
{
    return haul__onnx_save_same(c);
}

/* ---- shapes ---- */

int haul__onnx_save_reshape(haul__onnx_saving *c)
{
    if (haul__shape_equal(&c->in[0].shape, &c->out[0].shape))
        return c->x[0];
    const int sizes = haul__onnx_sizes(c, &c->out[0].shape, &c->other_out[0].shape, true);
    if (c->why)
        return HAUL__ONNX_ABSENT;
    const int y = NODE(c->g, "Reshape", c->x[0], sizes);
    for (int d = 0; d < c->out[0].shape.ndim; d++)
        if (!c->out[0].shape.dims[d]) {
            haul__onnx_set_int(c->g, "allowzero", 1);
            break;
        }
    return y;
}

int haul__onnx_save_expand(haul__onnx_saving *c)
{
    const int sizes = haul__onnx_sizes(c, &c->out[0].shape, &c->other_out[0].shape, false);
    return c->why ? HAUL__ONNX_ABSENT : NODE(c->g, "Expand", c->x[0], sizes);
}

static int transposed(haul__onnx_saving *c, const int *axes)
{
    int64_t perm[HAUL_MAX_DIMS];
    for (int d = 0; d < c->in[0].shape.ndim; d++)
        perm[d] = axes[d];
    const int y = NODE(c->g, "Transpose", c->x[0]);
    haul__onnx_set_ints(c->g, "perm", perm, c->in[0].shape.ndim);
    return y;
}

int haul__onnx_save_permute(haul__onnx_saving *c)
{
    return transposed(c, ((const haul__permute_attributes *)c->attributes)->axes);
}

int haul__onnx_save_transpose(haul__onnx_saving *c)
{
    const haul__transpose_attributes *t = c->attributes;
    int                               axes[HAUL_MAX_DIMS];
    for (int d = 0; d < HAUL_MAX_DIMS; d++)
        axes[d] = d == t->a ? t->b : d == t->b ? t->a : d;
    return c->in[0].shape.ndim ? transposed(c, axes) : c->x[0];
}

/* ---- parts ---- */

/* A part that ends with the axis ends there for all batches. */
int haul__onnx_save_slice(haul__onnx_saving *c)
{
    const haul__part *at = c->attributes, *other = c->other;
    const bool        to_end = at->stop == c->in[0].shape.dims[at->axis];
    const bool        all = at->start == 0 && at->step == 1 && to_end;
    if (at->start != other->start || at->step != other->step ||
        (at->stop != other->stop && (!to_end || other->stop != c->other_in[0].shape.dims[at->axis])))
        return haul__onnx_cannot(c, batch_sized);
    if (all)
        return c->x[0];
    return NODE(c->g, "Slice", c->x[0], INTS(at->start), INTS(to_end ? INT64_MAX : at->stop), INTS(at->axis),
                INTS(at->step));
}

int haul__onnx_save_select(haul__onnx_saving *c)
{
    const haul__select_attributes *a = c->attributes;
    if (varies(c, sizeof *a))
        return haul__onnx_cannot(c, batch_sized);
    const int y = NODE(c->g, "Gather", c->x[0], haul__onnx_add_int(c->g, a->index));
    haul__onnx_set_int(c->g, "axis", a->axis);
    return y;
}

int haul__onnx_save_flip(haul__onnx_saving *c)
{
    const haul__flip_attributes *a = c->attributes;
    int64_t                      axes[HAUL_MAX_DIMS], starts[HAUL_MAX_DIMS], ends[HAUL_MAX_DIMS];
    int                          count = 0;
    for (int d = 0; d < c->in[0].shape.ndim; d++)
        if (a->flipped[d])
            axes[count++] = d;
    for (int i = 0; i < count; i++) {
        starts[i] = -1;
        ends[i] = INT64_MIN;
    }
    if (!count)
        return c->x[0];
    const int from = haul__onnx_add_ints(c->g, starts, count);
    return NODE(c->g, "Slice", c->x[0], from, haul__onnx_add_ints(c->g, ends, count),
                haul__onnx_add_ints(c->g, axes, count), from);
}

/* The last `shift` elements come first. */
int haul__onnx_save_roll(haul__onnx_saving *c)
{
    const haul__roll_attributes *a = c->attributes;
    const int64_t                n = c->in[0].shape.dims[a->axis];
    if (varies(c, sizeof *a) || (a->shift && n != c->other_in[0].shape.dims[a->axis]))
        return haul__onnx_cannot(c, batch_sized);
    if (!a->shift)
        return c->x[0];
    const int last = NODE(c->g, "Slice", c->x[0], INTS(n - a->shift), INTS(n), INTS(a->axis));
    const int first = NODE(c->g, "Slice", c->x[0], INTS(0), INTS(n - a->shift), INTS(a->axis));
    const int y = NODE(c->g, "Concat", last, first);
    haul__onnx_set_int(c->g, "axis", a->axis);
    return y;
}

int haul__onnx_save_triangle(haul__onnx_saving *c)
{
    const int64_t k = ((const haul__triangle_attributes *)c->attributes)->diagonal;
    const int     y = NODE(c->g, "Trilu", c->x[0], haul__onnx_add_int(c->g, k));
    haul__onnx_set_int(c->g, "upper", c->row->type != NULL);
    return y;
}

int haul__onnx_save_embedding(haul__onnx_saving *c)
{
    return NODE(c->g, "Gather", c->x[0], c->x[1]);
}

int haul__onnx_save_index_select(haul__onnx_saving *c)
{
    const int y = NODE(c->g, "Gather", c->x[0], c->x[1]);
    haul__onnx_set_int(c->g, "axis", ((const haul__index_attributes *)c->attributes)->axis);
    return y;
}

int haul__onnx_save_gather(haul__onnx_saving *c)
{
    const haul__gather_attributes *a = c->attributes;
    const haul_shape              *x = &c->in[0].shape, *index = &c->in[1].shape;
    for (int d = 0; d < x->ndim; d++)
        if (d != a->axis && x->dims[d] != index->dims[d])
            return haul__onnx_cannot(c, "its index has another shape than x");
    const int y = NODE(c->g, "GatherElements", c->x[0], c->x[1]);
    haul__onnx_set_int(c->g, "axis", a->axis);
    return y;
}

/* Of several elements for one place the last one stays in Haul; ONNX leaves the order open, and runtimes keep it. */
static int scatter(haul__onnx_saving *c, int axis, const char *reduction)
{
    haul__onnx_saved *g = c->g;
    if (!c->in[0].shape.ndim)
        return haul__onnx_cannot(c, "ONNX scatters into no tensor without dimensions");
    const int y = NODE(g, "ScatterElements", c->x[0], c->x[1], c->x[2]);
    haul__onnx_set_int(g, "axis", axis);
    haul__onnx_set_text(g, "reduction", reduction);
    return y;
}

int haul__onnx_save_scatter(haul__onnx_saving *c)
{
    return scatter(c, ((const haul__scatter_attributes *)c->attributes)->axis, "none");
}

int haul__onnx_save_scatter_add(haul__onnx_saving *c)
{
    return scatter(c, ((const haul__gather_attributes *)c->attributes)->axis, "add");
}

int haul__onnx_save_scatter_fold(haul__onnx_saving *c)
{
    const haul__scatter_attributes *a = c->attributes;
    return scatter(c, a->axis, a->how == HAUL_SCATTER_PROD ? "mul" : a->how == HAUL_SCATTER_MAX ? "max" : "min");
}

/* Rows added to zeros where the indices point: haul_index_add. Sums of f16 and bf16 are rounded once. */
int haul__onnx_save_index_sum(haul__onnx_saving *c)
{
    const haul__index_attributes *a = c->attributes;
    const haul_shape             *g = &c->in[0].shape, *other = &c->other_in[0].shape;
    const haul_dtype              dtype = c->in[0].dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32;
    haul_shape                    alone = {.ndim = g->ndim};
    HAUL__ASSERT(0 <= a->axis && a->axis < g->ndim);
    if (a->skip >= 0)
        return haul__onnx_cannot(c, "it leaves out an index");
    for (int d = 0; d < g->ndim; d++)
        alone.dims[d] = d == a->axis ? -1 : 1;
    const int sizes = haul__onnx_sizes(c, g, other, false);
    const int zeros = c->why ? HAUL__ONNX_ABSENT : haul__onnx_sizes(c, &c->out[0].shape, &c->other_out[0].shape, false);
    if (c->why)
        return HAUL__ONNX_ABSENT;
    const int x = NODE(c->g, "ConstantOfShape", zeros);
    haul__onnx_set_number(c->g, "value", dtype, 0);
    const int index = NODE(c->g, "Reshape", c->x[1], haul__onnx_add_ints(c->g, alone.dims, alone.ndim));
    const int all = NODE(c->g, "Expand", index, sizes);
    const int rows = c->in[0].dtype == dtype ? c->x[0] : haul__onnx_add_cast(c->g, c->x[0], dtype);
    const int y = NODE(c->g, "ScatterElements", x, all, rows);
    haul__onnx_set_int(c->g, "axis", a->axis);
    haul__onnx_set_text(c->g, "reduction", "add");
    return c->in[0].dtype == dtype ? y : haul__onnx_add_cast(c->g, y, c->in[0].dtype);
}

/* ---- joins ---- */

static int axis_of(const haul__onnx_saving *c)
{
    return ((const haul__join_attributes *)c->attributes)->axis;
}

/* Operands have the result's dtype in ONNX. */
static int joined(haul__onnx_saving *c, bool new_axis)
{
    haul__onnx_saved *g = c->g;
    const int64_t     axis = axis_of(c);
    int              *parts = haul__calloc((size_t)c->count + 1, sizeof *parts);
    if (!parts) {
        g->failed = true;
        return HAUL__ONNX_ABSENT;
    }
    for (int i = 0; i < c->count; i++) {
        parts[i] = c->in[i].dtype == c->out[0].dtype ? c->x[i] : haul__onnx_add_cast(g, c->x[i], c->out[0].dtype);
        if (new_axis)
            parts[i] = NODE(g, "Unsqueeze", parts[i], haul__onnx_add_ints(g, &axis, 1));
    }
    HAUL__ASSERT(c->count > 0);
    const int y = haul__onnx_add_node(g, "Concat", parts, c->count);
    haul__onnx_set_int(g, "axis", axis);
    haul__free(parts);
    return y;
}

int haul__onnx_save_cat(haul__onnx_saving *c)
{
    return joined(c, false);
}

int haul__onnx_save_stack(haul__onnx_saving *c)
{
    return joined(c, true);
}

int haul__onnx_save_repeat(haul__onnx_saving *c)
{
    const haul__repeat_attributes *a = c->attributes;
    const int                      lead = a->times.ndim - c->in[0].shape.ndim;
    HAUL__ASSERT(lead >= 0);
    int64_t shape[HAUL_MAX_DIMS];
    if (varies(c, sizeof *a))
        return haul__onnx_cannot(c, batch_sized);
    int x = c->x[0];
    if (lead) { /* new axes come first */
        for (int d = 0; d < lead; d++)
            shape[d] = d;
        x = NODE(c->g, "Unsqueeze", x, haul__onnx_add_ints(c->g, shape, lead));
    }
    return NODE(c->g, "Tile", x, haul__onnx_add_ints(c->g, a->times.dims, a->times.ndim));
}

int haul__onnx_save_pad(haul__onnx_saving *c)
{
    static const char *const    modes[] = {"constant", "reflect", "edge", "wrap"};
    const haul__pad_attributes *a = c->attributes;
    const int                   ndim = c->in[0].shape.ndim;
    int64_t                     pads[2 * HAUL_MAX_DIMS] = {0};
    haul__onnx_saved           *g = c->g;
    if (varies(c, sizeof *a))
        return haul__onnx_cannot(c, batch_sized);
    if (a->mode == HAUL_PAD_CIRCULAR && g->opset < 19)
        return haul__onnx_cannot(c, "circular padding needs opset 19");
    HAUL__ASSERT(a->count <= 2 * ndim && (size_t)a->mode < sizeof modes / sizeof *modes);
    for (int i = 0; i < a->count / 2; i++) {
        pads[ndim - 1 - i] = a->sizes[2 * i];
        pads[2 * ndim - 1 - i] = a->sizes[2 * i + 1];
    }
    const int sizes = haul__onnx_add_ints(g, pads, 2 * ndim);
    const int value =
        a->mode == HAUL_PAD_CONSTANT ? haul__onnx_add_number(g, c->in[0].dtype, a->value) : HAUL__ONNX_ABSENT;
    const int y = NODE(g, "Pad", c->x[0], sizes, value);
    haul__onnx_set_text(g, "mode", modes[a->mode]);
    return y;
}

/* ---- new tensors ---- */

static int filled(haul__onnx_saving *c, double value)
{
    const haul_shape *shape = &c->out[0].shape;
    if (!shape->ndim)
        return haul__onnx_add_number(c->g, c->out[0].dtype, value);
    const int sizes = haul__onnx_sizes(c, shape, &c->other_out[0].shape, false);
    if (c->why)
        return HAUL__ONNX_ABSENT;
    const int y = NODE(c->g, "ConstantOfShape", sizes);
    haul__onnx_set_number(c->g, "value", c->out[0].dtype, value);
    return y;
}

int haul__onnx_save_fill(haul__onnx_saving *c)
{
    return filled(c, ((const haul__create_attributes *)c->attributes)->value);
}

int haul__onnx_save_fill_like(haul__onnx_saving *c)
{
    return filled(c, ((const haul__like_attributes *)c->attributes)->value);
}

int haul__onnx_save_arange(haul__onnx_saving *c)
{
    const haul__arange_attributes *a = c->attributes;
    haul__onnx_saved              *g = c->g;
    if (varies(c, sizeof *a))
        return haul__onnx_cannot(c, batch_sized);
    if (a->dtype != HAUL_F32 && a->dtype != HAUL_F64 && a->dtype != HAUL_I32 && a->dtype != HAUL_I64 &&
        a->dtype != HAUL_I16)
        return haul__onnx_cannot(c, "Range has other dtypes");
    return NODE(g, "Range", haul__onnx_add_number(g, a->dtype, a->start), haul__onnx_add_number(g, a->dtype, a->stop),
                haul__onnx_add_number(g, a->dtype, a->step));
}

int haul__onnx_save_arange_i64(haul__onnx_saving *c)
{
    const haul__arange_i64_attributes *a = c->attributes;
    haul__onnx_saved                  *g = c->g;
    if (varies(c, sizeof *a))
        return haul__onnx_cannot(c, batch_sized);
    return NODE(g, "Range", haul__onnx_add_int(g, a->start), haul__onnx_add_int(g, a->stop),
                haul__onnx_add_int(g, a->step));
}
