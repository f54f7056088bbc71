/* Arithmetic on the host, of values that follow from sizes and constants: the shapes that a model computes. A function
 * returns NULL if an input is a tensor, or if it has no form for these operands; then the operator computes with
 * tensors. */
#include <haul/dtype.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "core/shape.h"
#include "onnx/fold.h"

static haul__numbers *vector(haul__onnx_call *c, haul_dtype dtype, int64_t count)
{
    HAUL__ASSERT(count >= 0);
    return haul__onnx_new_numbers(c, dtype, &(haul_shape){.ndim = 1, .dims = {count}});
}

static bool is_vector(const haul__numbers *n)
{
    return n && n->shape.ndim == 1;
}

/* The same elements in another shape. */
static haul__numbers *with_shape(haul__onnx_call *c, const haul__numbers *x, const haul_shape *shape)
{
    haul__numbers *y = haul__onnx_new_numbers(c, x->dtype, shape);
    if (y && y->count != x->count) {
        haul__onnx_wrong(c, "the new shape has another number of elements");
        c->failed = true;
        return NULL;
    }
    if (y)
        memcpy(y->items, x->items, (size_t)x->count * sizeof *x->items);
    return y;
}

/* ---- sizes ---- */

static bool lacks_input(haul__onnx_call *c)
{
    if (haul__onnx_has(c, 0))
        return false;
    haul__onnx_wrong(c, "an input is missing");
    return c->failed = true;
}

haul__numbers *haul__onnx_fold_shape(haul__onnx_call *c)
{
    if (lacks_input(c))
        return NULL;
    const haul_shape shape = haul__onnx_shape(c, 0);
    int64_t          first = haul__onnx_int(c, "start", 0), last = haul__onnx_int(c, "end", shape.ndim), at, count;
    haul__onnx_range(shape.ndim, first, last, 1, &at, &count);
    HAUL__ASSERT(at >= 0 && at + count <= shape.ndim);
    haul__numbers *y = vector(c, HAUL_I64, count);
    for (int64_t i = 0; y && i < count; i++)
        y->items[i] = haul__number_of(shape.dims[at + i]);
    return y;
}

haul__numbers *haul__onnx_fold_size(haul__onnx_call *c)
{
    if (lacks_input(c))
        return NULL;
    const haul_shape shape = haul__onnx_shape(c, 0);
    int64_t          count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    haul__numbers *y = haul__onnx_new_numbers(c, HAUL_I64, &(haul_shape){.ndim = 0});
    if (y)
        y->items[0] = haul__number_of(count);
    return y;
}

/* Values are always there, unless the node leaves out its input. */
haul__numbers *haul__onnx_fold_has_element(haul__onnx_call *c)
{
    haul__numbers *y = haul__onnx_new_numbers(c, HAUL_BOOL, &(haul_shape){.ndim = 0});
    if (y)
        y->items[0] = haul__number_of(haul__onnx_has(c, 0));
    return y;
}

/* ---- values as they are ---- */

haul__numbers *haul__onnx_fold_constant(haul__onnx_call *c)
{
    const haul__onnx_node      *node = c->step->node;
    const haul__onnx_attribute *a = node->attribute_count == 1 ? node->attributes : NULL;
    if (!a)
        return NULL;
    const bool     list = !strcmp(a->name, "value_ints") || !strcmp(a->name, "value_floats");
    const bool     real = !strcmp(a->name, "value_float") || !strcmp(a->name, "value_floats");
    const int64_t  count = !list ? 1 : (int64_t)(real ? a->float_count : a->int_count);
    haul__numbers *y = NULL;
    if (!real && !list && strcmp(a->name, "value_int") != 0)
        return NULL;
    y = haul__onnx_new_numbers(c, real ? HAUL_F32 : HAUL_I64,
                               list ? &(haul_shape){.ndim = 1, .dims = {count}} : &(haul_shape){.ndim = 0});
    HAUL__ASSERT(!y || y->count == count);
    for (int64_t i = 0; y && i < count; i++)
        y->items[i] =
            real ? (haul__number){0, (double)(list ? a->floats[i] : a->f)} : haul__number_of(list ? a->ints[i] : a->i);
    return y;
}

haul__numbers *haul__onnx_fold_identity(haul__onnx_call *c)
{
    const haul__numbers *x = haul__onnx_known(c, 0);
    return x ? with_shape(c, x, &x->shape) : NULL;
}

haul__numbers *haul__onnx_fold_cast(haul__onnx_call *c)
{
    const haul__numbers *x = haul__onnx_known(c, 0);
    const haul_dtype     to = haul__onnx_target(c);
    if (!x || (to != HAUL_I64 && to != HAUL_I32 && to != HAUL_BOOL && to != HAUL_F32 && to != HAUL_F64))
        return NULL;
    const bool     from_real = haul_dtype_is_float(x->dtype);
    haul__numbers *y = haul__onnx_new_numbers(c, to, &x->shape);
    HAUL__ASSERT(!y || y->count == x->count);
    for (int64_t i = 0; y && i < x->count; i++) {
        haul__number v = x->items[i];
        if (from_real && !haul_dtype_is_float(to)) {
            const double most = to == HAUL_I32 ? 2147483648.0 : 9e15;
            if (!(v.f > -most && v.f < most)) /* there the tensor's own rules hold */
                return NULL;
            v = haul__number_of(to == HAUL_BOOL ? v.f != 0 : (int64_t)v.f);
        }
        haul__onnx_set(y, i, v);
    }
    return y;
}

static haul__numbers *reshaped(haul__onnx_call *c, const haul__onnx_list *axes, bool add)
{
    const haul__numbers *x = haul__onnx_known(c, 0);
    const int            ndim = x->shape.ndim + (add ? axes->count : 0);
    bool                 marked[HAUL_MAX_DIMS] = {false};
    haul_shape           shape = {.ndim = 0};
    int                  axis, at = 0;
    if (ndim > HAUL_MAX_DIMS)
        return NULL;
    for (int i = 0; i < axes->count; i++) {
        if (haul__onnx_axis(c, axes->items[i], ndim, &axis)) {
            c->failed = true;
            return NULL;
        }
        if (add && marked[axis]) {
            haul__onnx_wrong(c, "an axis is given twice");
            c->failed = true;
            return NULL;
        }
        marked[axis] = true;
    }
    for (int d = 0; d < ndim && !add && !axes->given; d++)
        marked[d] = x->shape.dims[d] == 1;
    for (int d = 0; d < ndim; d++) {
        if (add)
            shape.dims[shape.ndim++] = marked[d] ? 1 : x->shape.dims[at++];
        else if (!marked[d])
            shape.dims[shape.ndim++] = x->shape.dims[d];
    }
    HAUL__ASSERT(shape.ndim <= HAUL_MAX_DIMS && (!add || at == x->shape.ndim));
    return with_shape(c, x, &shape);
}

haul__numbers *haul__onnx_fold_squeeze(haul__onnx_call *c)
{
    haul__onnx_list axes;
    if (!haul__onnx_known(c, 0))
        return NULL;
    c->failed = haul__onnx_ints_or_input(c, "axes", 1, 13, &axes) != HAUL_OK;
    return c->failed ? NULL : reshaped(c, &axes, false);
}

haul__numbers *haul__onnx_fold_unsqueeze(haul__onnx_call *c)
{
    haul__onnx_list axes;
    if (!haul__onnx_known(c, 0))
        return NULL;
    c->failed = haul__onnx_ints_or_input(c, "axes", 1, 13, &axes) != HAUL_OK;
    return c->failed ? NULL : reshaped(c, &axes, true);
}

haul__numbers *haul__onnx_fold_reshape(haul__onnx_call *c)
{
    const haul__numbers *x = haul__onnx_known(c, 0), *sizes = haul__onnx_known(c, 1);
    haul_shape           shape;
    if (!x || !sizes)
        return NULL;
    c->failed = haul__onnx_reshaped(c, &x->shape, sizes, haul__onnx_int(c, "allowzero", 0) != 0, &shape) != HAUL_OK;
    return c->failed ? NULL : with_shape(c, x, &shape);
}

/* ---- parts and joins of vectors ---- */

haul__numbers *haul__onnx_fold_gather(haul__onnx_call *c)
{
    const haul__numbers *x = haul__onnx_known(c, 0), *index = haul__onnx_known(c, 1);
    if (!is_vector(x) || !index || haul__onnx_int(c, "axis", 0) > 0)
        return NULL;
    haul__numbers *y = haul__onnx_new_numbers(c, x->dtype, &index->shape);
    HAUL__ASSERT(!y || y->count == index->count);
    for (int64_t i = 0; y && i < index->count; i++) {
        const int64_t at = index->items[i].i < 0 ? index->items[i].i + x->count : index->items[i].i;
        if (at < 0 || at >= x->count) {
            haul__onnx_wrong(c, "an index is out of range");
            c->failed = true;
            return NULL;
        }
        y->items[i] = x->items[at];
    }
    return y;
}

haul__numbers *haul__onnx_fold_concat(haul__onnx_call *c)
{
    const int64_t axis = haul__onnx_int(c, "axis", 0);
    int64_t       count = 0, at = 0;
    for (int i = 0; i < haul__onnx_count(c); i++) {
        const haul__numbers *x = haul__onnx_known(c, i);
        if (!is_vector(x) || (axis != 0 && axis != -1) || count > HAUL__ONNX_NUMBERS)
            return NULL;
        count += x->count;
    }
    haul__numbers *y = haul__onnx_count(c) ? vector(c, haul__onnx_known(c, 0)->dtype, count) : NULL;
    for (int i = 0; y && i < haul__onnx_count(c); i++) {
        const haul__numbers *x = haul__onnx_known(c, i);
        memcpy(y->items + at, x->items, (size_t)x->count * sizeof *x->items);
        at += x->count;
    }
    HAUL__ASSERT(!y || at == y->count);
    return y;
}

haul__numbers *haul__onnx_fold_slice(haul__onnx_call *c)
{
    const haul__numbers *x = haul__onnx_known(c, 0), *at[4] = {NULL};
    int64_t              first, count, step = 1;
    if (!is_vector(x) || c->opset < 10)
        return NULL;
    for (int i = 0; i < 4; i++) {
        at[i] = haul__onnx_known(c, i + 1);
        if (haul__onnx_has(c, i + 1) && (!at[i] || at[i]->count != 1))
            return NULL;
    }
    if (!at[0] || !at[1] || (at[3] && !(step = at[3]->items->i)))
        return NULL;
    haul__onnx_range(x->count, at[0]->items->i, at[1]->items->i, step, &first, &count);
    HAUL__ASSERT(count <= x->count && (!count || (0 <= first && first < x->count)));
    haul__numbers *y = vector(c, x->dtype, count);
    for (int64_t i = 0; y && i < count; i++)
        y->items[i] = x->items[first + i * step];
    return y;
}

/* ---- filling ---- */

haul__numbers *haul__onnx_fold_constant_of_shape(haul__onnx_call *c)
{
    const haul__numbers *sizes = haul__onnx_known(c, 0), *value = c->step->value;
    haul_shape           shape = {.ndim = 0};
    if (!is_vector(sizes) || sizes->count > 1) /* masks and the like are made on the device */
        return NULL;
    for (int64_t i = 0; i < sizes->count; i++)
        shape.dims[shape.ndim++] = sizes->items[i].i;
    haul__numbers *y = haul__onnx_new_numbers(c, value ? value->dtype : HAUL_F32, &shape);
    for (int64_t i = 0; y && i < y->count; i++)
        y->items[i] = value ? value->items[0] : (haul__number){0, 0};
    return y;
}

haul__numbers *haul__onnx_fold_range(haul__onnx_call *c)
{
    const haul__numbers *start = haul__onnx_known(c, 0), *stop = haul__onnx_known(c, 1), *step = haul__onnx_known(c, 2);
    if (!start || !stop || !step || start->dtype != HAUL_I64 || start->count != 1 || stop->count != 1 ||
        step->count != 1 || !step->items->i)
        return NULL;
    const int64_t by = step->items->i;
    int64_t       length;
    if (__builtin_sub_overflow(by > 0 ? stop->items->i : start->items->i, by > 0 ? start->items->i : stop->items->i,
                               &length) ||
        by == INT64_MIN)
        return NULL;
    const int64_t  wide = by > 0 ? by : -by, count = length <= 0 ? 0 : (length - 1) / wide + 1;
    haul__numbers *y = count > 64 ? NULL : vector(c, HAUL_I64, count); /* longer ones are tensors */
    HAUL__ASSERT(!y || y->count == count);
    for (int64_t i = 0; y && i < count; i++)
        y->items[i] = haul__number_of(start->items->i + i * by);
    return y;
}

haul__numbers *haul__onnx_fold_expand(haul__onnx_call *c)
{
    const haul__numbers *x = haul__onnx_known(c, 0), *sizes = haul__onnx_known(c, 1);
    if (!x || !sizes || x->shape.ndim > 1 || x->count != 1 || sizes->count != 1 || sizes->items->i < 0)
        return NULL;
    haul__numbers *y = vector(c, x->dtype, sizes->items->i);
    for (int64_t i = 0; y && i < y->count; i++)
        y->items[i] = x->items[0];
    return y;
}

/* ---- arithmetic ---- */

typedef enum kind { ADD, SUB, MUL, DIV, MOD, MAX, MIN, EQUAL, LESS, GREATER, LESS_EQUAL, GREATER_EQUAL, KINDS } kind;

static const char *const kind_names[KINDS] = {"Add", "Sub",   "Mul",  "Div",     "Mod",         "Max",
                                              "Min", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"};

/* False: the number does not exist. */
static bool combine(kind k, int64_t a, int64_t b, int64_t *out)
{
    switch (k) {
    case ADD: return !__builtin_add_overflow(a, b, out);
    case SUB: return !__builtin_sub_overflow(a, b, out);
    case MUL: return !__builtin_mul_overflow(a, b, out);
    case DIV:
    case MOD:
        if (!b || b == -1)
            return b && !__builtin_sub_overflow((int64_t)0, k == DIV ? a : 0, out);
        *out = k == DIV ? a / b : a % b + (a % b && (a < 0) != (b < 0) ? b : 0);
        return true;
    case MAX: *out = a > b ? a : b; return true;
    case MIN: *out = a < b ? a : b; return true;
    case EQUAL: *out = a == b; return true;
    case LESS: *out = a < b; return true;
    case GREATER: *out = a > b; return true;
    case LESS_EQUAL: *out = a <= b; return true;
    default: *out = a >= b; return true;
    }
}

static double combine_real(kind k, double a, double b)
{
    return k == ADD ? a + b : k == SUB ? a - b : k == MUL ? a * b : a / b;
}

/* Of vectors and single elements; of floats the four basic operations only. */
haul__numbers *haul__onnx_fold_binary(haul__onnx_call *c)
{
    const haul__numbers *a = haul__onnx_known(c, 0), *b = haul__onnx_known(c, 1);
    kind                 k = 0;
    if (!a || !b || haul__onnx_count(c) != 2 || a->shape.ndim > 1 || b->shape.ndim > 1 || a->dtype != b->dtype)
        return NULL;
    while (k < KINDS && strcmp(kind_names[k], c->step->row->name) != 0)
        k++;
    const bool real = haul_dtype_is_float(a->dtype);
    if (k == KINDS || (real && k > DIV) || (k == MOD && haul__onnx_int(c, "fmod", 0)) ||
        (a->count != b->count && a->count != 1 && b->count != 1))
        return NULL;
    const haul__numbers *longer =
        a->shape.ndim > b->shape.ndim || (a->shape.ndim == b->shape.ndim && b->count == 1) ? a : b;
    if ((longer->count == 1 && (a->count != 1 || b->count != 1)) || (!longer->count && a->count != b->count))
        return NULL;
    haul__numbers *y = haul__onnx_new_numbers(c, k >= EQUAL ? HAUL_BOOL : a->dtype, &longer->shape);
    HAUL__ASSERT(!y || y->count == longer->count);
    for (int64_t i = 0; y && i < y->count; i++) {
        const haul__number *p = &a->items[a->count == 1 ? 0 : i], *q = &b->items[b->count == 1 ? 0 : i];
        haul__number        v = {0, real ? combine_real(k, p->f, q->f) : 0};
        if (!real && !combine(k, p->i, q->i, &v.i))
            return NULL;
        haul__onnx_set(y, i, real ? v : haul__number_of(v.i));
    }
    return y;
}

haul__numbers *haul__onnx_fold_unary(haul__onnx_call *c)
{
    const haul__numbers *x = haul__onnx_known(c, 0);
    const char          *name = c->step->row->name;
    if (!x)
        return NULL;
    const bool real = haul_dtype_is_float(x->dtype);
    const bool is_not = !strcmp(name, "Not"), is_neg = !strcmp(name, "Neg");
    if (real ? is_not : !is_not && !is_neg)
        return NULL;
    haul__numbers *y = haul__onnx_new_numbers(c, x->dtype, &x->shape);
    for (int64_t i = 0; y && i < x->count; i++) {
        const haul__number v = x->items[i];
        const double       f = is_neg                   ? -v.f
                               : !strcmp(name, "Floor") ? floor(v.f)
                               : !strcmp(name, "Ceil")  ? ceil(v.f)
                                                        : sqrt(v.f);
        haul__onnx_set(y, i,
                       real     ? (haul__number){0, f}
                       : is_not ? haul__number_of(!v.i)
                                : haul__number_of((int64_t)(0 - (uint64_t)v.i)));
    }
    return y;
}

haul__numbers *haul__onnx_fold_where(haul__onnx_call *c)
{
    const haul__numbers *k = haul__onnx_known(c, 0), *a = haul__onnx_known(c, 1), *b = haul__onnx_known(c, 2);
    if (!is_vector(k) || !is_vector(a) || !is_vector(b) || a->dtype != b->dtype)
        return NULL;
    const int64_t count = k->count > 1 ? k->count : a->count > 1 ? a->count : b->count;
    if ((k->count != 1 && k->count != count) || (a->count != 1 && a->count != count) ||
        (b->count != 1 && b->count != count))
        return NULL;
    haul__numbers *y = vector(c, a->dtype, count);
    HAUL__ASSERT(!y || y->count == count);
    for (int64_t i = 0; y && i < count; i++)
        y->items[i] =
            k->items[k->count == 1 ? 0 : i].i ? a->items[a->count == 1 ? 0 : i] : b->items[b->count == 1 ? 0 : i];
    return y;
}

haul__numbers *haul__onnx_fold_reduce(haul__onnx_call *c)
{
    const haul__numbers *x = haul__onnx_known(c, 0);
    const bool           product = !strcmp(c->step->row->name, "ReduceProd");
    int64_t              total = product;
    if (!is_vector(x) || haul_dtype_is_float(x->dtype) || haul__onnx_int(c, "noop_with_empty_axes", 0))
        return NULL;
    for (int64_t i = 0; i < x->count; i++)
        if (!combine(product ? MUL : ADD, total, x->items[i].i, &total))
            return NULL;
    const bool     keep = haul__onnx_int(c, "keepdims", 1) != 0;
    haul__numbers *y = haul__onnx_new_numbers(c, x->dtype, &(haul_shape){.ndim = keep, .dims = {1}});
    if (y)
        haul__onnx_set(y, 0, haul__number_of(total));
    return y;
}
