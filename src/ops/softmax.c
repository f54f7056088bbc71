/* softmax and log_softmax over any axis, and their gradients.
 *
 * A row along the axis is the work of one item: its largest element, then the sum of exponentials, in SUM_LANES lanes
 * where the axis is innermost; side by side with neighbouring rows otherwise, each summed in order. */
#include "kernels/types.h"
#include "ops/dispatch.h"

// clang-format off
/* kernel text begins */
typedef struct softmax_params {
    I64 items;         /* rows: outer times inner */
    I64 length, inner; /* elements of a row, and the distance between them */
    I64 offsets[3];    /* of the buffers */
} softmax_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
#define SOFTMAX_WIDTH (CHUNKED ? 256 : 1)

/* Rows along the innermost axis; `put` is stored, where d = x - max and sum that of exp(d). */
#define SOFTMAX_ROWS(name, put)                                                                                        \
    KERNEL2(name, softmax_params, T, out, const T, x)                                                                  \
    {                                                                                                                  \
        const I64 n = p.length;                                                                                        \
        FOR_ROWS(i)                                                                                                    \
        {                                                                                                              \
            GLOBAL const T *v = x + p.offsets[1] + i * n;                                                              \
            GLOBAL T *o = out + p.offsets[0] + i * n;                                                                  \
            const A most = ROW_MAX(v, n), sum = ROW_EXP_SUM(v, n, most), log_sum = M_LOG(sum);                         \
            (void)log_sum;                                                                                             \
            EACH_OF_ROW(j, n)                                                                                          \
            {                                                                                                          \
                const A d = LOAD(v, j) - most;                                                                         \
                STORE(o, j, put);                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The range of neighbouring rows that are taken side by side, along another axis. */
#define SOFTMAX_SIDE_BY_SIDE                                                                                           \
    const I64 n = p.length, step = p.inner, side = REMAINDER(i, step), at = (i - side) * n + side;                    \
    const I64 room = CHUNKED ? M_MIN_OF(step - side, ITEMS_END - i) : 1;                                               \
    const int width = (int)M_MIN_OF(room, SOFTMAX_WIDTH);

#define SOFTMAX_COLUMNS(name, put)                                                                                     \
    KERNEL2(name, softmax_params, T, out, const T, x)                                                                  \
    {                                                                                                                  \
        for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {                                                                    \
            SOFTMAX_SIDE_BY_SIDE                                                                                       \
            GLOBAL const T *v = x + p.offsets[1] + at;                                                                 \
            GLOBAL T *o = out + p.offsets[0] + at;                                                                     \
            A most[SOFTMAX_WIDTH], sum[SOFTMAX_WIDTH];                                                                 \
            for (int l = 0; l < width; l++) most[l] = LOAD(v, l);                                                      \
            for (I64 j = 1; j < n; j++)                                                                                \
                for (int l = 0; l < width; l++) most[l] = M_MAX(most[l], LOAD(v, j * step + l));                       \
            for (int l = 0; l < width; l++) sum[l] = 0;                                                                \
            for (I64 j = 0; j < n; j++)                                                                                \
                for (int l = 0; l < width; l++) sum[l] += M_EXP(LOAD(v, j * step + l) - most[l]);                      \
            for (I64 j = 0; j < n; j++)                                                                                \
                VECTOR_LOOP for (int l = 0; l < width; l++)                                                            \
                {                                                                                                      \
                    const A d = LOAD(v, j * step + l) - most[l];                                                       \
                    STORE(o, j * step + l, put);                                                                       \
                }                                                                                                      \
            i += ITEMS_STEP(width);                                                                                    \
        }                                                                                                              \
    }

SOFTMAX_ROWS(softmax,                M_EXP(d) / sum)
SOFTMAX_ROWS(log_softmax,            d - log_sum)
SOFTMAX_COLUMNS(softmax_columns,     M_EXP(d) / sum[l])
SOFTMAX_COLUMNS(log_softmax_columns, d - M_LOG(sum[l]))

/* With y the result: dx = y (g - sum(g y)), and for the logarithm g - exp(y) sum(g). `part` is what is summed. */
#define SOFTMAX_BACKWARD_ROWS(name, part, put)                                                                         \
    KERNEL3(name, softmax_params, T, out, const T, g, const T, y)                                                      \
    {                                                                                                                  \
        const I64 n = p.length, whole = n - n % SUM_LANES;                                                             \
        FOR_ROWS(i)                                                                                                    \
        {                                                                                                              \
            GLOBAL const T *v = g + p.offsets[1] + i * n;                                                              \
            GLOBAL const T *w = y + p.offsets[2] + i * n;                                                              \
            GLOBAL T *o = out + p.offsets[0] + i * n;                                                                  \
            LANE_VALUES(A, s);                                                                                         \
            EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;                                                                 \
            for (I64 j = 0; j < whole; j += SUM_LANES)                                                                 \
                EACH_LANE(l, SUM_LANES)                                                                                \
                {                                                                                                      \
                    const A b = LOAD(v, j + l), c = LOAD(w, j + l);                                                    \
                    (void)c;                                                                                           \
                    OF_LANE(s, l) += part;                                                                             \
                }                                                                                                      \
            EACH_LANE(l, n - whole)                                                                                    \
            {                                                                                                          \
                const A b = LOAD(v, whole + l), c = LOAD(w, whole + l);                                                \
                (void)c;                                                                                               \
                OF_LANE(s, l) += part;                                                                                 \
            }                                                                                                          \
            LANE_TREE(A, s, SUM_OF)                                                                                    \
            const A sum = OF_FIRST_LANE(s);                                                                            \
            EACH_OF_ROW(j, n)                                                                                          \
            {                                                                                                          \
                const A b = LOAD(v, j), c = LOAD(w, j);                                                                \
                STORE(o, j, put);                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

#define SOFTMAX_BACKWARD_COLUMNS(name, part, put)                                                                      \
    KERNEL3(name, softmax_params, T, out, const T, g, const T, y)                                                      \
    {                                                                                                                  \
        for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {                                                                    \
            SOFTMAX_SIDE_BY_SIDE                                                                                       \
            GLOBAL const T *v = g + p.offsets[1] + at;                                                                 \
            GLOBAL const T *w = y + p.offsets[2] + at;                                                                 \
            GLOBAL T *o = out + p.offsets[0] + at;                                                                     \
            A sums[SOFTMAX_WIDTH];                                                                                     \
            for (int l = 0; l < width; l++) sums[l] = 0;                                                               \
            for (I64 j = 0; j < n; j++)                                                                                \
                for (int l = 0; l < width; l++) {                                                                      \
                    const A b = LOAD(v, j * step + l), c = LOAD(w, j * step + l);                                      \
                    (void)c;                                                                                           \
                    sums[l] += part;                                                                                   \
                }                                                                                                      \
            for (I64 j = 0; j < n; j++)                                                                                \
                VECTOR_LOOP for (int l = 0; l < width; l++)                                                            \
                {                                                                                                      \
                    const A b = LOAD(v, j * step + l), c = LOAD(w, j * step + l), sum = sums[l];                       \
                    STORE(o, j * step + l, put);                                                                       \
                }                                                                                                      \
            i += ITEMS_STEP(width);                                                                                    \
        }                                                                                                              \
    }

SOFTMAX_BACKWARD_ROWS(softmax_backward,                b * c, c * (b - sum))
SOFTMAX_BACKWARD_ROWS(log_softmax_backward,            b,     b - M_EXP(c) * sum)
SOFTMAX_BACKWARD_COLUMNS(softmax_backward_columns,     b * c, c * (b - sum))
SOFTMAX_BACKWARD_COLUMNS(log_softmax_backward_columns, b,     b - M_EXP(c) * sum)
#endif
#endif
/* kernel text ends */
// clang-format on

/* The two operations. Behind each kernel for rows comes that for other axes. */
typedef struct softmax_kind {
    const char        *name, *gradient_name;
    int                kernel, backward_kernel;
    haul__backward_fn *backward, *second;
} softmax_kind;

static const softmax_kind softmax_plain, softmax_log;

typedef struct softmax_attributes {
    int axis;
} softmax_attributes;

/* Launch over rows along `axis` of row-major operands; y is the result. `kernel` is the one for rows. */
static haul_status launch(const char *name, int kernel, haul_tensor *y, haul_tensor **in, int in_count, int axis)
{
    softmax_params p = {
        .length = 1, .inner = 1, .offsets = {y->offset, in[0]->offset, in_count > 1 ? in[1]->offset : 0}};
    if (y->shape.ndim) {
        p.length = y->shape.dims[axis];
        for (int d = axis + 1; d < y->shape.ndim; d++)
            p.inner *= y->shape.dims[d]; /* part of a product that was checked */
    }
    p.items = y->count ? y->count / p.length : 0;
    int64_t width = p.inner < 256 ? p.inner : 256; /* rows that are taken side by side */
    if (p.inner > 1)
        kernel++;
    return haul__run(name, y->storage->device, kernel, y->dtype, &y, 1, in, in_count, &p, sizeof p, p.items,
                     width * (1 + 4096 / (p.length * width + 1)));
}

/* dx from g and the result. An operation too, so that gradients of gradients work. */
static haul_tensor *softmax_gradient(const softmax_kind *kind, haul_tensor *g, haul_tensor *y, int axis)
{
    haul_tensor *in[] = {g, y};
    if (g && !g->contiguous)
        in[0] = haul_contiguous(g);
    if (!in[0] || !in[1])
        return NULL;
    haul_tensor *dx = haul__result(kind->gradient_name, y->storage->device, y->dtype, &y->shape);
    if (!dx || launch(kind->gradient_name, kind->backward_kernel, dx, in, 2, axis))
        return NULL;
    return haul__finish(dx, &(haul__record){.name = kind->gradient_name,
                                            .backward = kind->second,
                                            .inputs = in,
                                            .input_count = 2,
                                            .saves = in,
                                            .save_count = 2,
                                            .attributes = &(softmax_attributes){axis},
                                            .attributes_size = sizeof(softmax_attributes)});
}

static haul_tensor *sum_axis(haul_tensor *x, int axis)
{
    return x && x->shape.ndim ? haul_sum(x, .axes = {axis}, .count = 1, .keepdim = true) : x;
}

/* f(g, y) = y (g - sum(g y)): df/dg and df/dy, applied to u. */
static haul_status softmax_second(haul__node *node, haul_tensor *u, haul_tensor **out)
{
    int          axis = ((const softmax_attributes *)node->attributes)->axis;
    haul_tensor *g = haul__saved(node, 0), *y = haul__saved(node, 1);
    out[0] = softmax_gradient(&softmax_plain, u, y, axis);
    haul_tensor *direct = haul_mul(u, haul_sub(g, sum_axis(haul_mul(g, y), axis)));
    out[1] = haul_sub(direct, haul_mul(g, sum_axis(haul_mul(u, y), axis)));
    return out[0] && out[1] ? HAUL_OK : haul_error_status();
}

/* f(g, y) = g - exp(y) sum(g). */
static haul_status log_softmax_second(haul__node *node, haul_tensor *u, haul_tensor **out)
{
    int          axis = ((const softmax_attributes *)node->attributes)->axis;
    haul_tensor *g = haul__saved(node, 0), *ue = haul_mul(u, haul_exp(haul__saved(node, 1)));
    out[0] = haul_sub(u, sum_axis(ue, axis));
    out[1] = haul_neg(haul_mul(ue, sum_axis(g, axis)));
    return out[0] && out[1] ? HAUL_OK : haul_error_status();
}

static haul_status backward(const softmax_kind *kind, haul__node *node, haul_tensor *g, haul_tensor **out)
{
    int axis = ((const softmax_attributes *)node->attributes)->axis;
    out[0] = softmax_gradient(kind, g, haul__saved(node, 0), axis);
    return out[0] ? HAUL_OK : haul_error_status();
}

static haul_status softmax_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    return backward(&softmax_plain, node, g, out);
}

static haul_status log_softmax_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    return backward(&softmax_log, node, g, out);
}

static const softmax_kind softmax_plain = {"haul_softmax",           "haul_softmax_backward", HAUL__K_softmax,
                                           HAUL__K_softmax_backward, softmax_backward,        softmax_second};
static const softmax_kind softmax_log = {"haul_log_softmax",           "haul_log_softmax_backward", HAUL__K_log_softmax,
                                         HAUL__K_log_softmax_backward, log_softmax_backward,        log_softmax_second};

static haul_tensor *compute(const softmax_kind *kind, haul_tensor *x, int axis)
{
    haul_device *device = haul__place(kind->name, &x, (const char *const[]){"x"}, 1);
    if (!device)
        return NULL;
    bool scalar = x->shape.ndim == 0 && (axis == 0 || axis == -1);
    if (scalar)
        axis = 0;
    else if (haul__axis(axis, x->shape.ndim, kind->name, &axis))
        return NULL;
    haul_dtype dtype = haul__float_dtype(x->dtype);
    if (x->dtype != dtype && !(x = haul_cast(x, dtype)))
        return NULL;
    if (!x->contiguous && !(x = haul_contiguous(x)))
        return NULL;
    haul_tensor *y = haul__result(kind->name, device, dtype, &x->shape);
    if (!y || launch(kind->name, kind->kernel, y, &x, 1, axis))
        return NULL;
    return haul__finish(y, &(haul__record){.name = kind->name,
                                           .backward = kind->backward,
                                           .inputs = &x,
                                           .input_count = 1,
                                           .saves = &y,
                                           .save_count = 1,
                                           .attributes = &(softmax_attributes){axis},
                                           .attributes_size = sizeof(softmax_attributes)});
}

haul_tensor *haul_softmax(haul_tensor *x, int axis)
{
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, compute(&softmax_plain, x, axis)) : NULL;
}

haul_tensor *haul_log_softmax(haul_tensor *x, int axis)
{
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, compute(&softmax_log, x, axis)) : NULL;
}
