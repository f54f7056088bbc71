/* Operators of sequence models: convolution with a state, rotary positions, linear attention, caches, reversal. */
#include <haul/conv.h>
#include <haul/dtype.h>
#include <haul/indexing.h>
#include <haul/transfer.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"
#include "onnx/run.h"

#define X(i) haul__onnx_x(c, i)

/* ---- CausalConvWithState ---- */

haul_tensor *haul__onnx_causal_conv(haul__onnx_call *c)
{
    const haul_shape x = haul__onnx_shape(c, 0), w = haul__onnx_shape(c, 1);
    const char      *activation = haul__onnx_string(c, "activation", "none");
    const bool       silu = !strcmp(activation, "silu") || !strcmp(activation, "swish");
    if (x.ndim != 3 || w.ndim != 3 || w.dims[1] != 1 || w.dims[0] != x.dims[1] || w.dims[2] < 1)
        return haul__onnx_wrong(c, "the input or the weight has a wrong shape");
    if (!silu && strcmp(activation, "none") != 0)
        return haul__onnx_refuse(c, "this activation");
    const int64_t state = w.dims[2] - 1;
    haul_tensor  *past =
        haul__onnx_has(c, 3) ? X(3) : haul_zeros(haul__onnx_type(c, 0), HAUL_SHAPE(x.dims[0], x.dims[1], state));
    haul_tensor *all = state ? haul_cat((haul_tensor *const[]){past, X(0)}, 2, 2) : X(0);
    haul_tensor *y = haul_conv1d(all, X(1), .bias = haul__onnx_has(c, 2) ? X(2) : NULL, .groups = x.dims[1]);
    c->y[1] = haul_slice(all, 2, x.dims[2], x.dims[2] + state, 1);
    return silu ? haul_silu(y) : y;
}

/* ---- RotaryEmbedding ---- */

/* [batch, steps, 1, pairs]: the rows of a cache at the positions. */
static haul_tensor *rotations(haul__onnx_call *c, int i)
{
    const haul_shape at = haul__onnx_shape(c, 3), rows = haul__onnx_shape(c, i);
    if (!haul__onnx_has(c, 3))
        return haul_unsqueeze(X(i), 2);
    haul_tensor *flat = haul_index_select(X(i), 0, haul_reshape(X(3), HAUL_SHAPE(at.dims[0] * at.dims[1])));
    return haul_reshape(flat, HAUL_SHAPE(at.dims[0], at.dims[1], 1, rows.dims[1]));
}

static haul_tensor *rotated(haul_tensor *x, haul_tensor *cosine, haul_tensor *sine, int64_t size, bool interleaved)
{
    const int64_t half = size / 2;
    haul_tensor  *a = interleaved ? haul_slice(x, 3, 0, size, 2) : haul_slice(x, 3, 0, half, 1);
    haul_tensor  *b = interleaved ? haul_slice(x, 3, 1, size, 2) : haul_slice(x, 3, half, size, 1);
    haul_tensor  *real = haul_sub(haul_mul(cosine, a), haul_mul(sine, b));
    haul_tensor  *imaginary = haul_add(haul_mul(sine, a), haul_mul(cosine, b));
    haul_tensor  *parts[] = {real, imaginary};
    return interleaved ? haul_flatten(haul_stack(parts, 2, 4), 3) : haul_cat(parts, 2, 3);
}

haul_tensor *haul__onnx_rotary(haul__onnx_call *c)
{
    const haul_shape x = haul__onnx_shape(c, 0), at = haul__onnx_shape(c, 3), cosine = haul__onnx_shape(c, 1);
    const int64_t    heads = x.ndim == 4 ? x.dims[1] : haul__onnx_int(c, "num_heads", 0);
    const bool       given = haul__onnx_has(c, 3);
    if ((x.ndim != 3 && x.ndim != 4) || heads < 1 || (x.ndim == 3 && x.dims[2] % heads) || (given && at.ndim != 2) ||
        cosine.ndim != (given ? 2 : 3) || haul__onnx_shape(c, 2).ndim != cosine.ndim)
        return haul__onnx_wrong(c, "the input, a cache or the positions have a wrong shape");
    haul_tensor  *y = x.ndim == 4 ? haul_transpose(X(0), 1, 2)
                                  : haul_reshape(X(0), HAUL_SHAPE(x.dims[0], x.dims[1], heads, x.dims[2] / heads));
    const int64_t size = x.ndim == 4 ? x.dims[3] : x.dims[2] / heads;
    int64_t       turned = haul__onnx_int(c, "rotary_embedding_dim", 0);
    turned = turned ? turned : size;
    if (turned < 0 || turned > size || turned % 2 || cosine.dims[cosine.ndim - 1] != turned / 2)
        return haul__onnx_wrong(c, "rotary_embedding_dim has a wrong size");
    haul_tensor *part = rotated(y, rotations(c, 1), rotations(c, 2), turned, haul__onnx_int(c, "interleaved", 0) != 0);
    y = turned == size ? part : haul_cat((haul_tensor *const[]){part, haul_slice(y, 3, turned, size, 1)}, 2, 3);
    return x.ndim == 4 ? haul_transpose(y, 1, 2) : haul_reshape(y, x);
}

/* ---- LinearAttention ---- */

typedef struct linear {
    haul_tensor *q, *k, *v, *decay, *beta; /* [batch, steps, heads, size]; decay and beta may be NULL */
    haul_tensor *state;                    /* [batch, heads of keys, size of a key, size of a value], f32 */
    int64_t      batch, steps, heads, kv_heads, value_size;
    double       scale;
} linear;

/* The rows of one step, as [batch, heads, rows, columns] with one row or one column. */
static haul_tensor *at_step(haul_tensor *x, int64_t step, int axis)
{
    return haul_unsqueeze(haul_select(x, 1, step), axis);
}

static haul_tensor *linear_step(linear *l, int64_t t)
{
    haul_tensor *k = at_step(l->k, t, 3), *v = at_step(l->v, t, 2);
    if (l->decay)
        l->state = haul_mul(l->state, haul_exp(at_step(l->decay, t, 3)));
    if (l->beta)
        v = haul_mul(at_step(l->beta, t, 2), haul_sub(v, haul_matmul(haul_transpose(k, 2, 3), l->state)));
    l->state = haul_add(l->state, haul_mul(k, v));
    haul_tensor *read =
        l->heads == l->kv_heads ? l->state : haul_repeat_interleave(l->state, l->heads / l->kv_heads, 1);
    haul_tensor *y = haul_mul_scalar(haul_matmul(at_step(l->q, t, 2), read), l->scale);
    return haul_reshape(y, HAUL_SHAPE(l->batch, l->heads * l->value_size));
}

/* Input i, [batch, steps, heads x size], by heads, in f32. NULL if it is left out. */
static haul_tensor *by_heads(haul__onnx_call *c, int i, int64_t heads)
{
    const haul_shape x = haul__onnx_shape(c, i);
    if (!haul__onnx_has(c, i))
        return NULL;
    return haul_reshape(haul_cast(X(i), HAUL_F32), HAUL_SHAPE(x.dims[0], x.dims[1], heads, x.dims[2] / heads));
}

static bool fits(haul__onnx_call *c, int i, const haul_shape *q, int64_t heads)
{
    const haul_shape x = haul__onnx_shape(c, i);
    return !haul__onnx_has(c, i) || (x.ndim == 3 && x.dims[0] == q->dims[0] && x.dims[1] == q->dims[1] &&
                                     x.dims[2] >= heads && x.dims[2] % heads == 0);
}

haul_tensor *haul__onnx_linear_attention(haul__onnx_call *c)
{
    enum { PAST = 3, DECAY, BETA };
    const haul_shape q = haul__onnx_shape(c, 0), v = haul__onnx_shape(c, 2), beta = haul__onnx_shape(c, BETA);
    const char      *rule = haul__onnx_string(c, "update_rule", "gated_delta");
    const bool       gated = !strncmp(rule, "gated", 5), delta = strstr(rule, "delta") != NULL;
    linear l = {.heads = haul__onnx_int(c, "q_num_heads", 0), .kv_heads = haul__onnx_int(c, "kv_num_heads", 0)};
    if (!gated && !delta && strcmp(rule, "linear") != 0)
        return haul__onnx_refuse(c, "this update_rule");
    if (l.heads < 1 || l.kv_heads < 1 || l.heads % l.kv_heads || q.ndim != 3 || v.ndim != 3 ||
        !fits(c, 0, &q, l.heads) || !fits(c, 1, &q, l.kv_heads) || !fits(c, 2, &q, l.kv_heads) ||
        !fits(c, DECAY, &q, l.kv_heads) || !fits(c, BETA, &q, 1) || gated != haul__onnx_has(c, DECAY) ||
        delta != haul__onnx_has(c, BETA) || (delta && beta.dims[2] != 1 && beta.dims[2] != l.kv_heads))
        return haul__onnx_wrong(c, "the inputs, the heads or the update_rule do not go together");
    if (q.dims[1] < 1 || q.dims[1] > INT32_MAX)
        return haul__onnx_refuse(c, "this number of steps");
    const int64_t size = q.dims[2] / l.heads;
    l.batch = q.dims[0], l.steps = q.dims[1], l.value_size = v.dims[2] / l.kv_heads;
    l.scale = haul__onnx_float(c, "scale", 0);
    l.scale = l.scale == 0 ? 1 / sqrt((double)size) : l.scale;
    l.q = by_heads(c, 0, l.heads), l.k = by_heads(c, 1, l.kv_heads), l.v = by_heads(c, 2, l.kv_heads);
    l.decay = by_heads(c, DECAY, l.kv_heads), l.beta = by_heads(c, BETA, delta ? beta.dims[2] : 1);
    l.state = haul__onnx_has(c, PAST) ? haul_cast(X(PAST), HAUL_F32)
                                      : haul_zeros(HAUL_F32, HAUL_SHAPE(l.batch, l.kv_heads, size, l.value_size));
    haul_tensor **all = haul__calloc((size_t)l.steps, sizeof(haul_tensor *));
    if (!all)
        return haul__fail_memory(HAUL__ONNX_CALL, (size_t)l.steps * sizeof *all), NULL;
    for (int64_t t = 0; t < l.steps; t++)
        all[t] = haul__failed(l.state) ? l.state : linear_step(&l, t);
    haul_tensor *y = haul_stack(all, (int)l.steps, 1);
    haul__free(all);
    c->y[1] = haul_cast(l.state, haul__onnx_type(c, haul__onnx_has(c, PAST) ? PAST : 0));
    return haul_cast(y, haul__onnx_type(c, 0));
}

/* ---- places along an axis ---- */

/* A vector as a tensor of `ndim` axes that varies along one of them. */
static haul_tensor *along(haul_tensor *x, int ndim, int axis, int64_t count)
{
    haul_shape shape = {.ndim = ndim};
    for (int d = 0; d < ndim; d++)
        shape.dims[d] = d == axis ? count : 1;
    return haul_reshape(x, shape);
}

haul_tensor *haul__onnx_tensor_scatter(haul__onnx_call *c)
{
    const haul_shape x = haul__onnx_shape(c, 0), update = haul__onnx_shape(c, 1), first = haul__onnx_shape(c, 2);
    const char      *mode = haul__onnx_string(c, "mode", "linear");
    const bool       circular = !strcmp(mode, "circular");
    int              axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", -2), x.ndim, &axis))
        return NULL;
    if (axis == 0 || update.ndim != x.ndim || (haul__onnx_has(c, 2) && (first.ndim != 1 || first.dims[0] != x.dims[0])))
        return haul__onnx_wrong(c, "the axis or a shape is wrong");
    if (!circular && strcmp(mode, "linear") != 0)
        return haul__onnx_refuse(c, "this mode");
    haul_tensor *at = along(haul_arange_i64(0, update.dims[axis], 1), x.ndim, axis, update.dims[axis]);
    if (haul__onnx_has(c, 2))
        at = haul_add(at, along(X(2), x.ndim, 0, x.dims[0]));
    if (circular)
        at = haul_remainder_scalar(at, (double)x.dims[axis]);
    return haul_scatter(X(0), axis, haul_expand(at, update), X(1));
}

haul_tensor *haul__onnx_reverse_sequence(haul__onnx_call *c)
{
    const haul_shape x = haul__onnx_shape(c, 0), lengths = haul__onnx_shape(c, 1);
    const int64_t    batch = haul__onnx_int(c, "batch_axis", 1), time = haul__onnx_int(c, "time_axis", 0);
    if (x.ndim < 2 || batch < 0 || batch > 1 || time != 1 - batch || lengths.ndim != 1 ||
        lengths.dims[0] != x.dims[batch])
        return haul__onnx_wrong(c, "batch_axis, time_axis or the lengths are wrong");
    const int64_t count = x.dims[time];
    haul_tensor  *at = along(haul_arange_i64(0, count, 1), x.ndim, (int)time, count);
    haul_tensor  *n = along(haul_cast(X(1), HAUL_I64), x.ndim, (int)batch, x.dims[batch]);
    haul_tensor  *from = haul_where(haul_lt(at, n), haul_sub(haul_sub_scalar(n, 1), at), at);
    return haul_gather(X(0), (int)time, haul_expand(from, x));
}

haul_tensor *haul__onnx_swiglu(haul__onnx_call *c)
{
    const haul_shape a = haul__onnx_shape(c, 0), b = haul__onnx_shape(c, 1);
    if (a.ndim != b.ndim || memcmp(a.dims, b.dims, (size_t)a.ndim * sizeof *a.dims) != 0)
        return haul__onnx_wrong(c, "the inputs have different shapes");
    return haul_mul(haul__onnx_swish(c), X(1));
}
