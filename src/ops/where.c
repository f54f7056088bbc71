/* haul_where and what the gradients of maximum, minimum and clamp need: choosing between operands element by element,
 * over the same loop as the rows of pointwise.def. */
#include "engine/dispatch.h"
#include "engine/layout.h"

// clang-format off
/* kernel text begins */
#ifdef HAUL_KERNEL
#if CHUNKED
#define SELECT3(name, C, T1, READ, formula)                                                                                 \
    KERNEL4(name, pointwise_params, T, out, const C, in0, const T, in1, const T, in2)                                  \
    {                                                                                                                  \
        const int last = p.ndim - 1;                                                                                   \
        const I64 t0 = p.strides[0][last], t1 = p.strides[1][last], t2 = p.strides[2][last], t3 = p.strides[3][last];  \
        for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {                                                                    \
            ROW_OF(i, 4)                                                                                               \
            GLOBAL T *o = out + at[0];                                                                                 \
            GLOBAL const C *v0 = in0 + at[1];                                                                          \
            GLOBAL const T *v1 = in1 + at[2];                                                                          \
            GLOBAL const T *v2 = in2 + at[3];                                                                          \
            if (t0 == 1 && t1 == 1 && t2 == 1 && t3 == 1)                                                              \
                EACH({                                                                                                 \
                    const T1 c = READ(v0, j);                                                                         \
                    const A a = LOAD(v1, j);                                                                           \
                    const A b = LOAD(v2, j);                                                                           \
                    STORE(o, j, formula);                                                                              \
                })                                                                                                     \
            else                                                                                                       \
                EACH({                                                                                                 \
                    const T1 c = READ(v0, j * t1);                                                                    \
                    const A a = LOAD(v1, j * t2);                                                                      \
                    const A b = LOAD(v2, j * t3);                                                                      \
                    STORE(o, j * t0, formula);                                                                         \
                })                                                                                                     \
            i += ITEMS_STEP(row);                                                                                      \
        }                                                                                                              \
    }
#else
#define SELECT3(name, C, T1, READ, formula)                                                                            \
    KERNEL4(name, pointwise_params, T, out, const C, in0, const T, in1, const T, in2)                                  \
    {                                                                                                                  \
        const int last = p.ndim - 1;                                                                                   \
        const I64 t0 = p.strides[0][last], t1 = p.strides[1][last], t2 = p.strides[2][last], t3 = p.strides[3][last];  \
        FOR_PACKS(i)                                                                                                   \
        {                                                                                                              \
            PACK_AT(i, 4)                                                                                              \
            GLOBAL T *o = out + at[0];                                                                                 \
            GLOBAL const C *v0 = in0 + at[1];                                                                          \
            GLOBAL const T *v1 = in1 + at[2];                                                                          \
            GLOBAL const T *v2 = in2 + at[3];                                                                          \
            if (IS_WHOLE) {                                                                                            \
                pack_T y;                                                                                              \
                PACK_LOAD(C, w0, v0, t1)                                                                               \
                PACK_LOAD(T, w1, v1, t2)                                                                               \
                PACK_LOAD(T, w2, v2, t3)                                                                               \
                PACK_LOOP for (int j = 0; j < PACK; j++) {                                                             \
                    const T1 c = READ(w0.of, j);                                                                       \
                    const A a = LOAD(w1.of, j), b = LOAD(w2.of, j);                                                    \
                    STORE(y.of, j, formula);                                                                           \
                }                                                                                                      \
                PACK_STORE(T, o, y);                                                                                   \
            } else                                                                                                     \
                PACK_REST for (int j = 0; j < n; j++) {                                                                \
                    const T1 c = READ(v0, j * t1);                                                                     \
                    const A a = LOAD(v1, j * t2), b = LOAD(v2, j * t3);                                                \
                    STORE(o, j * t0, formula);                                                                         \
                }                                                                                                      \
        }                                                                                                              \
    }
#endif

#define READ_BOOL(p, i) ((I32)(p)[i])
SELECT3(where, U8, I32, READ_BOOL, c ? a : b)
#if IS_FLOAT
SELECT3(select_ge, T, A, LOAD, a > b ? c : a == b ? c * LIT(0.5) : LIT(0.0))
POINTWISE2(clamp_backward, T, STORE, b >= s0 && b <= s1 ? a : LIT(0.0))
#endif
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

/* What the three operations share: operands placed, cast to one dtype from the `first` on, broadcast, computed. */
static haul_tensor *compute(const char *operation, int kernel, haul_tensor **in, const char *const *names, int first,
                            int count, double s0, double s1)
{
    haul_device *device = haul__place(operation, in, names, count);
    if (!device)
        return NULL;
    haul_shape shape = HAUL_SCALAR_SHAPE;
    haul_dtype dtype = HAUL_DTYPE_NONE;
    for (int i = 0; i < count; i++) {
        if (haul__is_none(in[i])) {
            haul__fail(HAUL_INVALID_ARGUMENT, operation, names[i], "%s is HAUL_NONE, but a tensor is needed here",
                       names[i]);
            return NULL;
        }
        if (haul__shape_broadcast(&shape, &in[i]->shape, operation, &shape))
            return NULL;
        if (i >= first)
            dtype = dtype == HAUL_DTYPE_NONE ? in[i]->dtype : haul_dtype_promote(dtype, in[i]->dtype);
    }
    if (first == 0)
        dtype = haul__float_dtype(dtype);
    for (int i = 0; i < count; i++) {
        haul_dtype wanted = i < first ? HAUL_BOOL : dtype;
        if (in[i]->dtype != wanted && !(in[i] = haul_cast(in[i], wanted)))
            return NULL;
    }
    haul_tensor *y = haul__pointwise_result(operation, device, dtype, &shape, in, count);
    if (!y)
        return NULL;
    pointwise_params p;
    haul_tensor     *operands[4] = {y, in[0], in[1], count > 2 ? in[2] : NULL};
    haul__layout(&p, &shape, operands, 1 + count);
    p.scalars[0] = haul__scalar_bits(dtype, s0);
    p.scalars[1] = haul__scalar_bits(dtype, s1);
    haul__layout_packs(&p, device, dtype, 1 + count);
    if (haul__run(operation, device, kernel, dtype, &y, 1, in, count, &p, sizeof p, p.items, GRAIN))
        return NULL;
    return y;
}

/* A zero that broadcasts to g. */
static haul_tensor *zero_like(const haul_tensor *g)
{
    haul_tensor *zero = haul__result("haul_where", g->storage->device, g->dtype, &HAUL_SCALAR_SHAPE);
    return zero && haul_zero_into(zero) == HAUL_OK ? zero : NULL;
}

/* ---- where ---- */

static haul_status where_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    haul_tensor *condition = haul__saved(node, 0), *zero = zero_like(g);
    if (haul__needs(node, 1) && !(out[1] = haul_where(condition, g, zero)))
        return haul_error_status();
    if (haul__needs(node, 2) && !(out[2] = haul_where(condition, zero, g)))
        return haul_error_status();
    return HAUL_OK;
}

static haul_tensor *where(haul_tensor *condition, haul_tensor *a, haul_tensor *b)
{
    static const char *const names[] = {"condition", "a", "b"};
    haul_tensor             *in[] = {condition, a, b};
    if (condition && !haul__is_none(condition) && condition->dtype != HAUL_BOOL) {
        haul__fail_dtype("haul_where", "condition", condition, "a bool is expected, as comparisons give");
        return NULL;
    }
    return haul__finish(compute("haul_where", HAUL__K_where, in, names, 1, 3, 0, 0),
                        &(haul__record){.name = "haul_where",
                                        .backward = where_backward,
                                        .inputs = in,
                                        .input_count = 3,
                                        .saves = in,
                                        .save_count = 1});
}

haul_tensor *haul_where(haul_tensor *condition, haul_tensor *a, haul_tensor *b)
{
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, where(condition, a, b)) : NULL;
}

/* ---- select_ge ---- */

static haul_status select_ge_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    if (haul__needs(node, 0) && !(out[0] = haul_select_ge(g, haul__saved(node, 0), haul__saved(node, 1))))
        return haul_error_status();
    return HAUL_OK; /* piecewise constant in a and b */
}

static haul_tensor *select_ge(haul_tensor *g, haul_tensor *a, haul_tensor *b)
{
    static const char *const names[] = {"g", "a", "b"};
    haul_tensor             *in[] = {g, a, b};
    return haul__finish(compute("haul_select_ge", HAUL__K_select_ge, in, names, 0, 3, 0, 0),
                        &(haul__record){.name = "haul_select_ge",
                                        .backward = select_ge_backward,
                                        .inputs = in,
                                        .input_count = 3,
                                        .saves = in + 1,
                                        .save_count = 2});
}

haul_tensor *haul_select_ge(haul_tensor *g, haul_tensor *a, haul_tensor *b)
{
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, select_ge(g, a, b)) : NULL;
}

/* ---- clamp_backward ---- */

typedef struct clamp_attributes {
    double low, high;
} clamp_attributes;

static haul_status clamp_backward_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    const clamp_attributes *a = node->attributes;
    if (haul__needs(node, 0) && !(out[0] = haul_clamp_backward(g, haul__saved(node, 0), a->low, a->high)))
        return haul_error_status();
    return HAUL_OK;
}

static haul_tensor *clamp_backward(haul_tensor *g, haul_tensor *x, double low, double high)
{
    static const char *const names[] = {"g", "x"};
    haul_tensor             *in[] = {g, x};
    return haul__finish(compute("haul_clamp_backward", HAUL__K_clamp_backward, in, names, 0, 2, low, high),
                        &(haul__record){.name = "haul_clamp_backward",
                                        .backward = clamp_backward_backward,
                                        .inputs = in,
                                        .input_count = 2,
                                        .saves = in + 1,
                                        .save_count = 1,
                                        .attributes = &(clamp_attributes){low, high},
                                        .attributes_size = sizeof(clamp_attributes)});
}

haul_tensor *haul_clamp_backward(haul_tensor *g, haul_tensor *x, double low, double high)
{
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, clamp_backward(g, x, low, high)) : NULL;
}
