/* Pointwise operations: every row of pointwise.def goes through `compute` below. */
#include "ops/pointwise.h"

#include <math.h>

#include "ops/autocast.h"
#include "ops/dispatch.h"
#include "ops/layout.h"

/* Elements below which a loop is not worth splitting among threads. */
#define GRAIN 16384

/* ---- gradients: the rows' expressions as functions ---- */

/* d/dx of silu'(x) and gelu'(x), for second derivatives. */
static haul_tensor *haul__silu_second(haul_tensor *x)
{
    haul_tensor *s = haul_sigmoid(x), *ds = haul_mul(s, haul_affine(s, -1, 1));
    /* s' (2 + x (1 - 2 s)) */
    return haul_mul(ds, haul_add_scalar(haul_mul(x, haul_affine(s, -2, 1)), 2));
}

static haul_tensor *haul__gelu_second(haul_tensor *x)
{
    haul_tensor *square = haul_square(x);
    haul_tensor *pdf = haul_mul_scalar(haul_exp(haul_mul_scalar(square, -0.5)), 0.39894228040143268);
    return haul_mul(pdf, haul_affine(square, -1, 2)); /* phi(x) (2 - x^2) */
}

#define NOTHING 0
#define SAVE_X  HAUL__SAVE_A
#define SAVE_A  HAUL__SAVE_A
#define SAVE_B  HAUL__SAVE_B
#define SAVE_Y  HAUL__SAVE_Y
#define ZERO    HAUL_NONE

#define CONTEXT_UNARY                                                                                                  \
    haul_tensor *g = c->g, *x = c->a, *y = c->y;                                                                       \
    const double s0 = c->s0, s1 = c->s1;                                                                               \
    (void)g, (void)x, (void)y, (void)s0, (void)s1;
#define CONTEXT_BINARY                                                                                                 \
    haul_tensor *g = c->g, *a = c->a, *b = c->b, *y = c->y;                                                            \
    (void)g, (void)a, (void)b, (void)y;

#define HAUL_UNARY(name, dtypes, formula, saves, gx, low, high)                                                        \
    static haul_tensor *gradient_##name(const haul__row_context *c)                                                    \
    {                                                                                                                  \
        CONTEXT_UNARY return gx;                                                                                       \
    }
#define HAUL_UNARY2(name, ...) HAUL_UNARY(name, __VA_ARGS__)
#define HAUL_UNARY_TO_BOOL(...)
#define HAUL_BINARY(name, dtypes, formula, saves, ga, gb, low, high)                                                   \
    static haul_tensor *gradient_a_##name(const haul__row_context *c)                                                  \
    {                                                                                                                  \
        CONTEXT_BINARY return ga;                                                                                      \
    }                                                                                                                  \
    static haul_tensor *gradient_b_##name(const haul__row_context *c)                                                  \
    {                                                                                                                  \
        CONTEXT_BINARY return gb;                                                                                      \
    }
#define HAUL_COMPARE(...)
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY2
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_BINARY
#undef HAUL_COMPARE

/* ---- the table ---- */

#define FN(name) (void (*)(void))(name)
#define HAUL_UNARY(name, dtypes, formula, saves, gx, low, high)                                                        \
    {"haul_" #name,           #formula, HAUL__UNARY, HAUL__##dtypes,  HAUL__K_##name, saves,                           \
     {gradient_##name, NULL}, low,      high,        FN(haul_##name), NULL,           FN(haul_##name##_into)},
#define HAUL_UNARY2(name, dtypes, formula, saves, gx, low, high)                                                       \
    {"haul_" #name,           #formula, HAUL__UNARY2, HAUL__##dtypes,  HAUL__K_##name, saves,                          \
     {gradient_##name, NULL}, low,      high,         FN(haul_##name), NULL,           FN(haul_##name##_into)},
#define HAUL_UNARY_TO_BOOL(name, dtypes, formula, low, high)                                                           \
    {"haul_" #name, #formula, HAUL__UNARY_TO_BOOL, HAUL__##dtypes, HAUL__K_##name,        NOTHING, {NULL, NULL},       \
     low,           high,     FN(haul_##name),     NULL,           FN(haul_##name##_into)},
#define HAUL_BINARY(name, dtypes, formula, saves, ga, gb, low, high)                                                   \
    {"haul_" #name,                                                                                                    \
     #formula,                                                                                                         \
     HAUL__BINARY,                                                                                                     \
     HAUL__##dtypes,                                                                                                   \
     HAUL__K_##name,                                                                                                   \
     saves,                                                                                                            \
     {gradient_a_##name, gradient_b_##name},                                                                           \
     low,                                                                                                              \
     high,                                                                                                             \
     FN(haul_##name),                                                                                                  \
     FN(haul_##name##_scalar),                                                                                         \
     FN(haul_##name##_into)},
#define HAUL_COMPARE(name, formula)                                                                                    \
    {"haul_" #name,                                                                                                    \
     #formula,                                                                                                         \
     HAUL__COMPARE,                                                                                                    \
     HAUL__ANY,                                                                                                        \
     HAUL__K_##name,                                                                                                   \
     NOTHING,                                                                                                          \
     {NULL, NULL},                                                                                                     \
     -2,                                                                                                               \
     2,                                                                                                                \
     FN(haul_##name),                                                                                                  \
     FN(haul_##name##_scalar),                                                                                         \
     FN(haul_##name##_into)},

const haul__row haul__rows[] = {
#include <haul/pointwise.def>
};
const int haul__row_count = sizeof haul__rows / sizeof haul__rows[0];

#undef HAUL_UNARY
#undef HAUL_UNARY2
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_BINARY
#undef HAUL_COMPARE

enum row_index {
#define HAUL_UNARY(name, ...)         ROW_##name,
#define HAUL_UNARY2(name, ...)        ROW_##name,
#define HAUL_UNARY_TO_BOOL(name, ...) ROW_##name,
#define HAUL_BINARY(name, ...)        ROW_##name,
#define HAUL_COMPARE(name, ...)       ROW_##name,
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY2
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_BINARY
#undef HAUL_COMPARE
};

/* ---- one call ---- */

typedef struct row_call {
    const haul__row *row;
    bool             scalar; /* the scalar form of a binary row */
    double           s0, s1;
    int              arity; /* tensors */
    haul_tensor     *in[2];
} row_call;

typedef struct row_attributes {
    const haul__row *row;
    bool             scalar;
    double           s0, s1;
} row_attributes;

static haul_status row_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    const row_attributes *at = node->attributes;
    const haul__row      *row = at->row;
    haul__row_context     c = {.g = g, .s0 = at->s0, .s1 = at->s1};
    haul_tensor         **slots[3] = {&c.a, &c.b, &c.y};
    for (int i = 0; i < 3; i++)
        if (node->saved[i].alias && !(*slots[i] = haul__saved(node, i)))
            return haul_error_status();
    if (at->scalar && (row->saves & HAUL__SAVE_B)) {
        c.b = haul_full(g->dtype, HAUL_SCALAR_SHAPE, at->s0);
        if (c.b)
            c.b = haul_to(c.b, g->storage->device);
        if (!c.b)
            return haul_error_status();
    }
    for (int i = 0; i < node->edge_count; i++)
        if (haul__needs(node, i) && !(out[i] = row->gradient[i](&c)))
            return haul_error_status();
    return HAUL_OK;
}

static bool is_integral(double s)
{
    return s - s == 0 && floor(s) == s;
}

/* The dtype the row computes in; HAUL_DTYPE_NONE with an error when it does not take the operands'. */
static haul_dtype compute_dtype(const row_call *c)
{
    haul_dtype dtype = c->in[0]->dtype;
    if (c->arity == 2)
        dtype = haul_dtype_promote(dtype, c->in[1]->dtype);
    bool integral = is_integral(c->s0) && is_integral(c->s1);
    bool takes_scalars = c->scalar || c->row->form == HAUL__UNARY2;
    if (takes_scalars && !integral && !haul_dtype_is_float(dtype))
        dtype = HAUL_F32;
    else if (takes_scalars && dtype == HAUL_BOOL && c->row->form != HAUL__COMPARE)
        dtype = HAUL_I64;
    if (c->row->dtypes == HAUL__FLOAT || c->row->dtypes == HAUL__WIDE)
        dtype = haul__float_dtype(dtype);
    if (c->row->dtypes == HAUL__NUMBER && dtype == HAUL_BOOL) {
        haul__fail(HAUL_DTYPE, c->row->name, c->arity == 2 ? "a" : "x",
                   "bool operands are not accepted; cast them first, or use haul_logical_not and friends");
        return HAUL_DTYPE_NONE;
    }
    return dtype;
}

static bool to_bool(const haul__row *row)
{
    return row->form == HAUL__COMPARE || row->form == HAUL__UNARY_TO_BOOL;
}

/* Does writing `out` disturb reading `in`, other than element by element at the same place? */
static bool disturbs(const haul_tensor *out, const haul_tensor *in)
{
    if (out->storage != in->storage)
        return false;
    if (out->offset != in->offset || out->dtype != in->dtype || !haul__shape_equal(&out->shape, &in->shape))
        return true;
    for (int d = 0; d < out->shape.ndim; d++)
        if (out->shape.dims[d] > 1 && out->strides[d] != in->strides[d])
            return true;
    return false;
}

static haul_status launch(const row_call *c, haul_device *device, haul_dtype dtype, haul_tensor *y)
{
    pointwise_params p;
    haul_tensor     *operands[3] = {y, c->in[0], c->in[1]};
    haul__layout(&p, &y->shape, operands, 1 + c->arity);
    haul__layout_packs(&p, device, dtype, 1 + c->arity);
    p.scalars[0] = haul__scalar_bits(dtype, c->s0);
    p.scalars[1] = haul__scalar_bits(dtype, c->s1);
    return haul__run(c->row->name, device, c->row->kernel + (c->scalar ? 1 : 0), dtype, &y, 1, c->in, c->arity, &p,
                     sizeof p, p.items, GRAIN);
}

static haul_status broadcast(const row_call *c, haul_shape *shape)
{
    *shape = c->in[0]->shape;
    return c->arity == 2 ? haul__shape_broadcast(&c->in[0]->shape, &c->in[1]->shape, c->row->name, shape) : HAUL_OK;
}

static haul_tensor *record(const row_call *c, haul_tensor *y)
{
    if (to_bool(c->row) || !haul__records(c->in, c->arity))
        return y;
    unsigned     saves = c->row->saves;
    haul_tensor *keep[3] = {saves & HAUL__SAVE_A ? c->in[0] : NULL,
                            saves & HAUL__SAVE_B && c->arity == 2 ? c->in[1] : NULL, saves & HAUL__SAVE_Y ? y : NULL};
    row_attributes at = {c->row, c->scalar, c->s0, c->s1};
    return haul__finish(y, &(haul__record){.name = c->row->name,
                                           .backward = row_backward,
                                           .inputs = c->in,
                                           .input_count = c->arity,
                                           .saves = keep,
                                           .save_count = 3,
                                           .attributes = &at,
                                           .attributes_size = sizeof at});
}

static haul_tensor *compute_in_dtype(row_call *c, haul_device *device, haul_dtype dtype)
{
    haul_shape shape;
    if (broadcast(c, &shape))
        return NULL;
    haul_tensor *y =
        haul__pointwise_result(c->row->name, device, to_bool(c->row) ? HAUL_BOOL : dtype, &shape, c->in, c->arity);
    if (!y || launch(c, device, dtype, y))
        return NULL;
    return record(c, y);
}

static bool cast_operands(row_call *c, haul_dtype dtype)
{
    for (int i = 0; i < c->arity; i++)
        if (c->in[i]->dtype != dtype && !(c->in[i] = haul_cast(c->in[i], dtype)))
            return false;
    return true;
}

static const char *const unary_names[] = {"x"};
static const char *const binary_names[] = {"a", "b"};

static haul_device *place(row_call *c)
{
    bool         binary = c->row->form == HAUL__BINARY || c->row->form == HAUL__COMPARE;
    haul_device *device = haul__place(c->row->name, c->in, binary ? binary_names : unary_names, c->arity);
    for (int i = 0; device && i < c->arity; i++)
        if (haul__is_none(c->in[i])) {
            haul__fail(HAUL_INVALID_ARGUMENT, c->row->name, binary ? binary_names[i] : unary_names[i],
                       "%s is HAUL_NONE, but a tensor is needed here", binary ? binary_names[i] : unary_names[i]);
            return NULL;
        }
    return device;
}

static haul_tensor *compute_steps(row_call *c)
{
    haul_device *device = place(c);
    if (!device)
        return NULL;
    haul_dtype dtype = compute_dtype(c);
    if (c->row->dtypes == HAUL__WIDE && haul__autocast_begun())
        dtype = haul__autocast_wide(device, dtype);
    if (dtype == HAUL_DTYPE_NONE || !cast_operands(c, dtype))
        return NULL;
    return compute_in_dtype(c, device, dtype);
}

/* Nothing has to be moved or cast: true for almost every call. Within autocast nobody knows yet. */
static bool is_direct(const row_call *c)
{
    const haul_tensor *a = c->in[0], *b = c->in[c->arity - 1];
    return a && b && a != haul_none && b != haul_none && haul_dtype_is_float(a->dtype) && a->dtype == b->dtype &&
           a->storage->device == b->storage->device && !(c->row->dtypes == HAUL__WIDE && haul__autocast_begun());
}

static haul_tensor *compute(row_call *c)
{
    if (is_direct(c))
        return compute_steps(c);
    haul_scope *scope = haul_scope_push(); /* takes the moved and cast operands with it */
    return scope ? haul_scope_return(scope, compute_steps(c)) : NULL;
}

static haul_status compute_into_placed(row_call *c, haul_device *device, haul_tensor *out)
{
    haul_dtype dtype = compute_dtype(c);
    haul_shape shape;
    if (dtype == HAUL_DTYPE_NONE || broadcast(c, &shape))
        return haul_error_status();
    haul_status status = haul__check_out(c->row->name, out, &shape, to_bool(c->row) ? HAUL_BOOL : dtype, device);
    if (status)
        return status;
    if (haul__records(c->in, c->arity))
        return haul__fail(HAUL_GRAPH, c->row->name, "out",
                          "an operand requires a gradient, and writing into out cannot be differentiated; detach it or "
                          "turn recording off with haul_set_grad_enabled(false)");
    if (!cast_operands(c, dtype))
        return haul_error_status();
    bool indirect = false;
    for (int i = 0; i < c->arity; i++)
        indirect = indirect || disturbs(out, c->in[i]);
    if (indirect) {
        haul_tensor *y = compute_in_dtype(c, device, dtype);
        return y ? haul_copy_into(out, y) : haul_error_status();
    }
    status = launch(c, device, dtype, out);
    if (status == HAUL_OK)
        haul__written(out);
    return status;
}

static haul_status compute_into(row_call *c, haul_tensor *out)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_device *device = place(c);
    haul_status  status = device ? compute_into_placed(c, device, out) : haul_error_status();
    haul_scope_pop(scope);
    return status;
}

/* ---- the public functions ---- */

#define HAUL_UNARY(name, ...)                                                                                          \
    haul_tensor *haul_##name(haul_tensor *x)                                                                           \
    {                                                                                                                  \
        return compute(&(row_call){.row = &haul__rows[ROW_##name], .arity = 1, .in = {x}});                            \
    }                                                                                                                  \
    haul_status haul_##name##_into(haul_tensor *out, haul_tensor *x)                                                   \
    {                                                                                                                  \
        return compute_into(&(row_call){.row = &haul__rows[ROW_##name], .arity = 1, .in = {x}}, out);                  \
    }
#define HAUL_UNARY_TO_BOOL(name, ...) HAUL_UNARY(name, __VA_ARGS__)
#define HAUL_UNARY2(name, ...)                                                                                         \
    haul_tensor *haul_##name(haul_tensor *x, double s0, double s1)                                                     \
    {                                                                                                                  \
        return compute(&(row_call){.row = &haul__rows[ROW_##name], .s0 = s0, .s1 = s1, .arity = 1, .in = {x}});        \
    }                                                                                                                  \
    haul_status haul_##name##_into(haul_tensor *out, haul_tensor *x, double s0, double s1)                             \
    {                                                                                                                  \
        return compute_into(&(row_call){.row = &haul__rows[ROW_##name], .s0 = s0, .s1 = s1, .arity = 1, .in = {x}},    \
                            out);                                                                                      \
    }
#define HAUL_BINARY(name, ...)                                                                                         \
    haul_tensor *haul_##name(haul_tensor *a, haul_tensor *b)                                                           \
    {                                                                                                                  \
        return compute(&(row_call){.row = &haul__rows[ROW_##name], .arity = 2, .in = {a, b}});                         \
    }                                                                                                                  \
    haul_tensor *haul_##name##_scalar(haul_tensor *a, double s)                                                        \
    {                                                                                                                  \
        return compute(&(row_call){.row = &haul__rows[ROW_##name], .scalar = true, .s0 = s, .arity = 1, .in = {a}});   \
    }                                                                                                                  \
    haul_status haul_##name##_into(haul_tensor *out, haul_tensor *a, haul_tensor *b)                                   \
    {                                                                                                                  \
        return compute_into(&(row_call){.row = &haul__rows[ROW_##name], .arity = 2, .in = {a, b}}, out);               \
    }                                                                                                                  \
    haul_status haul_##name##_scalar_into(haul_tensor *out, haul_tensor *a, double s)                                  \
    {                                                                                                                  \
        return compute_into(                                                                                           \
            &(row_call){.row = &haul__rows[ROW_##name], .scalar = true, .s0 = s, .arity = 1, .in = {a}}, out);         \
    }
#define HAUL_COMPARE(name, ...) HAUL_BINARY(name, __VA_ARGS__)
#include <haul/pointwise.def>
