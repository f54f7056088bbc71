#include "support/conformance/samples.h"

#include <math.h>

#include "ops/pointwise/internal.h"
#include "ops/recurrent/recurrent.h"
#include "support/conformance/conformance.h"

/* One of the results of haul_topk. */
static haul_tensor *topk(haul_tensor *x, int64_t k, int axis, bool largest, int which)
{
    haul_tensor *results[2];
    return haul_topk(x, k, axis, largest, &results[0], &results[1]) ? NULL : results[which];
}

/* One part of x, which has 7 elements along the axis. */
static haul_tensor *split(haul_tensor *x, int axis, int which)
{
    haul_tensor *parts[3];
    return haul_split(x, axis, (const int64_t[]){2, 4, 1}, 3, parts) ? NULL : parts[which];
}

static haul_tensor *chunk(haul_tensor *x, int axis, int which)
{
    haul_tensor *parts[3];
    return haul_chunk(x, axis, 3, parts) ? NULL : parts[which];
}

/* A message of this process to itself. What haul_send returns is 0, and carries the gradient back. */
static haul_tensor *passed_on(haul_tensor *x)
{
    haul_group  *group = haul_group_get("none");
    haul_tensor *sent = haul_send(x, 0, group), *y = haul_receive(x, 0, group);
    return haul_add(y, sent);
}

/* One of the results of haul_cummax and haul_cummin. */
static haul_tensor *running(haul_status (*call)(haul_tensor *, int, haul_tensor **, haul_tensor **), haul_tensor *x,
                            int axis, int which)
{
    haul_tensor *results[2];
    return call(x, axis, &results[0], &results[1]) ? NULL : results[which];
}

/* One of the results of haul_max_with_indices and the like. */
static haul_tensor *pair(haul_status (*call)(haul_tensor *, int, bool, haul_tensor **, haul_tensor **), haul_tensor *x,
                         int axis, bool flag, int which)
{
    haul_tensor *results[2];
    return call(x, axis, flag, &results[0], &results[1]) ? NULL : results[which];
}

/* One of the results of haul_max_pool..._indices, with padding 1 and rounded up. */
static haul_tensor *pool_pair(haul_tensor *x, int64_t size, int64_t stride, int64_t dilation, int which)
{
    haul_tensor *results[2], **y = &results[0], **at = &results[1];
    haul_status  status;
    if (haul_tensor_ndim(x) == 3)
        status = haul_max_pool1d_indices(x, y, at, size, .stride = stride, .padding = 1, .dilation = dilation,
                                         .ceil_mode = true);
    else if (haul_tensor_ndim(x) == 4)
        status = haul_max_pool2d_indices(x, y, at, size, .stride = {stride, stride}, .padding = {1, 1},
                                         .dilation = {dilation, dilation}, .ceil_mode = true);
    else
        status = haul_max_pool3d_indices(x, y, at, size, .stride = {stride, stride, stride}, .padding = {1, 1, 1},
                                         .dilation = {dilation, dilation, dilation}, .ceil_mode = true);
    return status ? NULL : results[which];
}

/* The inverse (1) or the counts (2) of haul_unique, with a fixed size. */
static haul_tensor *unique(haul_tensor *x, bool consecutive, int which)
{
    haul_tensor *inverse, *counts;
    haul_tensor *y = haul_unique(x, .consecutive = consecutive, .size = 30, .inverse = &inverse, .counts = &counts);
    return haul_tensor_is_valid(y) ? which == 1 ? inverse : counts : NULL;
}

/* One of the grids of two vectors. */
static haul_tensor *meshgrid(haul_tensor *a, haul_tensor *b, int which)
{
    haul_tensor *grids[2];
    return haul_meshgrid((haul_tensor *const[]){a, b}, 2, grids) ? NULL : grids[which];
}

/* The identity, of the shape of x. */
static haul_tensor *identity(haul_tensor *x)
{
    return haul_triu(haul_tril(haul_ones_like(x), 0), 0);
}

/* x made regular, by its diagonal. */
static haul_tensor *regular(haul_tensor *x)
{
    const int64_t n = haul_tensor_dim(x, -1);
    return haul_add(x, haul_mul_scalar(identity(x), (double)n + 2));
}

/* x made symmetric and positive definite. */
static haul_tensor *positive(haul_tensor *x)
{
    haul_tensor *square = haul_matmul(x, haul_transpose(x, -1, -2));
    return haul_add(square, haul_mul_scalar(identity(square), (double)haul_tensor_dim(x, -1)));
}

/* One of the results of haul_qr and the like. */
static haul_tensor *of_matrix(haul_status (*call)(haul_tensor *, haul_tensor **, haul_tensor **), haul_tensor *x,
                              int which)
{
    haul_tensor *results[2];
    return call(x, &results[0], &results[1]) ? NULL : results[which];
}

/* x made to have distinct singular values, by its diagonal. */
static haul_tensor *apart(haul_tensor *x)
{
    haul_tensor *steps = haul_arange(haul_tensor_dtype(x), 0, (double)haul_tensor_dim(x, -1), 1);
    return haul_add(x, haul_mul(identity(x), haul_mul_scalar(haul_add_scalar(steps, 1), 4)));
}

/* The same, symmetric. */
static haul_tensor *symmetric(haul_tensor *x)
{
    return apart(haul_mul_scalar(haul_add(x, haul_transpose(x, -1, -2)), 0.25));
}

/* v diag(sin(w / 8)) v^T, which does not depend on the signs of v. */
static haul_tensor *eigh_product(haul_tensor *x)
{
    haul_tensor *w, *v;
    if (haul_eigh(x, &w, &v))
        return NULL;
    return haul_matmul(haul_mul(v, haul_unsqueeze(haul_sin(haul_mul_scalar(w, 0.125)), -2)), haul_transpose(v, -1, -2));
}

/* Singular values, or u diag(sin(s)) vt. */
static haul_tensor *svd_part(haul_tensor *x, bool values)
{
    haul_tensor *u, *s, *vt;
    if (haul_svd(x, &u, &s, &vt))
        return NULL;
    return values ? s : haul_matmul(haul_mul(u, haul_unsqueeze(haul_sin(s), -2)), vt);
}

/* Both results of haul_qr, so that both have gradients. */
static haul_tensor *qr_product(haul_tensor *x)
{
    haul_tensor *q, *r;
    return haul_qr(x, &q, &r) ? NULL : haul_mul(q, haul_exp(r));
}

/* One of the states of a recurrent layer whose operands are in[0] and so on. */
enum { WITH_STATE = 1, WITH_LENGTHS = 2, REVERSE = 4, RELU = 8 };
static haul_tensor *recurrent(haul__recurrent_cell cell, haul_tensor *const *in, int with, int which)
{
    haul_tensor    *states[2];
    haul__recurrent r = {
        .x = in[0],
        .weight_ih = in[1],
        .weight_hh = in[2],
        .bias = in[3],
        .state = with & WITH_STATE ? in[4] : HAUL_NONE,
        .lengths = with & WITH_LENGTHS ? in[with & WITH_STATE ? 5 : 4] : HAUL_NONE,
        .attributes = {.reverse = (with & REVERSE) != 0, .relu = (with & RELU) != 0},
    };
    return haul__recurrent_steps(cell, &r, states) ? NULL : states[which];
}

#define SAMPLE(name, dtypes, differentiable, expression, ...)                                                          \
    static haul_tensor *run_##name(haul_tensor *const *in)                                                             \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
#include "conformance/samples.def"
#undef SAMPLE

#define NDIMS(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define V(low, high, ...)                                                                                              \
    {                                                                                                                  \
        'V', low, high, NDIMS(__VA_ARGS__),                                                                            \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define C(low, high, ...)                                                                                              \
    {                                                                                                                  \
        'C', low, high, NDIMS(__VA_ARGS__),                                                                            \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define X(below, ...)                                                                                                  \
    {                                                                                                                  \
        'X', -0.5, below - 0.5, NDIMS(__VA_ARGS__),                                                                    \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define B(...)                                                                                                         \
    {                                                                                                                  \
        'B', -1, 1, NDIMS(__VA_ARGS__),                                                                                \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define INPUT_COUNT(...) (int)(sizeof((input_spec[]){__VA_ARGS__}) / sizeof(input_spec))
#define SAMPLE(name, dtypes, differentiable, expression, ...)                                                          \
    {#name, #dtypes[0], differentiable, run_##name, INPUT_COUNT(__VA_ARGS__), {__VA_ARGS__}},
const sample samples[] = {
#include "conformance/samples.def"
};
#undef X
const int sample_count = sizeof samples / sizeof samples[0];

bool sample_takes(const sample *s, haul_dtype dtype)
{
    if (s->dtypes == 'W')
        return dtype == HAUL_F32 || dtype == HAUL_F64;
    return haul_dtype_is_float(dtype) || s->dtypes == 'A' || (s->dtypes == 'N' && dtype != HAUL_BOOL);
}

haul_shape input_shape(const input_spec *spec)
{
    haul_shape shape = {.ndim = spec->ndim};
    for (int d = 0; d < spec->ndim; d++)
        shape.dims[d] = spec->dims[d];
    return shape;
}

haul_dtype input_dtype(const input_spec *spec, haul_dtype dtype)
{
    return spec->kind == 'X' ? HAUL_I64 : spec->kind == 'B' ? HAUL_BOOL : dtype;
}

int64_t input_values(const input_spec *spec, int index, haul_dtype dtype, double *values)
{
    int64_t count = 1;
    for (int d = 0; d < spec->ndim; d++)
        count *= spec->dims[d];
    sample_values(values, count, input_dtype(spec, dtype), spec->low, spec->high, (unsigned)index + 1);
    if (spec->kind == 'X')
        for (int64_t i = 0; i < count; i++)
            values[i] = fabs(values[i]);
    return count;
}
