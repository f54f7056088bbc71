/* Attention: products of queries and keys, bias, softmax, products with values. Heads may share keys and values. */
#include <haul/dtype.h>
#include <haul/transfer.h>
#include <math.h>

#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"

#define X(i) haul__onnx_x(c, i)

enum { QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, LENGTHS };

typedef struct attention {
    haul_tensor *q, *k, *v;            /* [batch, heads, length, size] */
    int64_t      batch, queries, keys; /* keys: with those of the past */
    bool         flat;                 /* the operands were [batch, length, heads x size] */
} attention;

/* An operand as [batch, heads, length, size]. */
static haul_tensor *heads_of(haul__onnx_call *c, int i, const char *attribute)
{
    const haul_shape s = haul__onnx_shape(c, i);
    const int64_t    heads = haul__onnx_int(c, attribute, 0);
    if (s.ndim == 4)
        return X(i);
    if (s.ndim != 3 || heads < 1 || s.dims[2] % heads)
        return haul__onnx_wrong(c, "the heads do not divide the features");
    haul_tensor *x = haul_reshape(X(i), HAUL_SHAPE(s.dims[0], s.dims[1], heads, s.dims[2] / heads));
    return haul_transpose(x, 1, 2);
}

static haul_tensor *with_past(haul__onnx_call *c, int past, haul_tensor *x)
{
    return haul__onnx_has(c, past) ? haul_cat((haul_tensor *const[]){X(past), x}, 2, 2) : x;
}

static haul_status read_operands(haul__onnx_call *c, attention *a)
{
    a->flat = haul__onnx_shape(c, QUERY).ndim == 3;
    a->q = heads_of(c, QUERY, "q_num_heads");
    a->k = haul__failed(a->q) ? NULL : heads_of(c, KEY, "kv_num_heads");
    a->v = haul__failed(a->k) ? NULL : heads_of(c, VALUE, "kv_num_heads");
    a->k = haul__failed(a->v) ? NULL : with_past(c, PAST_KEY, a->k);
    a->v = haul__failed(a->k) ? NULL : with_past(c, PAST_VALUE, a->v);
    if (haul__failed(a->v))
        return haul_error_status();
    c->y[1] = a->k;
    c->y[2] = a->v;
    const haul_shape q = haul_tensor_shape(a->q), k = haul_tensor_shape(a->k);
    if (q.ndim != 4 || k.ndim != 4 || k.dims[1] < 1 || q.dims[1] % k.dims[1] || q.dims[3] < 1)
        return haul__onnx_wrong(c, "the heads do not fit"), haul_error_status();
    a->batch = q.dims[0];
    a->queries = q.dims[2];
    a->keys = k.dims[2];
    if (q.dims[1] != k.dims[1]) {
        a->k = haul_repeat_interleave(a->k, q.dims[1] / k.dims[1], 1);
        a->v = haul_repeat_interleave(a->v, q.dims[1] / k.dims[1], 1);
    }
    return haul__failed(a->v) || haul__failed(a->k) ? haul_error_status() : HAUL_OK;
}

static haul_tensor *both(haul_tensor *a, haul_tensor *b)
{
    return a ? haul_logical_and(a, b) : b;
}

/* Which keys a query sees by its place: [queries, keys], or with lengths [batch, 1, queries, keys]. NULL: all. The
 * keys before the first query, of the past or by the lengths, shift it. */
static haul_tensor *seen(haul__onnx_call *c, const attention *a)
{
    const bool    causal = haul__onnx_int(c, "is_causal", 0) != 0, has_lengths = haul__onnx_has(c, LENGTHS);
    const int64_t left = haul__onnx_int(c, "left_window_size", -1), right = haul__onnx_int(c, "right_window_size", -1);
    haul_tensor  *lengths = NULL, *mask = NULL;
    if (!causal && left < 0 && right < 0 && !has_lengths)
        return NULL;
    haul_tensor *keys = haul_arange_i64(0, a->keys, 1);
    haul_tensor *queries = haul_unsqueeze(haul_arange_i64(0, a->queries, 1), 1);
    haul_tensor *behind = haul_sub(keys, queries);
    if (has_lengths) {
        lengths = haul_reshape(haul_cast(X(LENGTHS), HAUL_I64), HAUL_SHAPE(a->batch, 1, 1, 1));
        behind = haul_add_scalar(haul_sub(behind, lengths), (double)a->queries);
        mask = haul_lt(keys, lengths);
    } else if (haul__onnx_has(c, PAST_KEY)) {
        behind = haul_sub_scalar(behind, (double)haul__onnx_shape(c, PAST_KEY).dims[2]);
    }
    if (causal)
        mask = both(mask, haul_le_scalar(behind, 0));
    if (right >= 0)
        mask = both(mask, haul_le_scalar(behind, (double)right));
    if (left >= 0)
        mask = both(mask, haul_ge_scalar(behind, -(double)left));
    return mask;
}

/* Keys that a mask does not reach are hidden. */
static haul_tensor *whole_mask(haul__onnx_call *c, const attention *a)
{
    const haul_shape s = haul__onnx_shape(c, MASK);
    const int64_t    missing = s.ndim ? a->keys - s.dims[s.ndim - 1] : 0;
    haul_tensor     *mask = X(MASK);
    if (missing <= 0 || s.dims[s.ndim - 1] == 1)
        return mask;
    return haul_pad(mask, HAUL_PADS(0, missing),
                    .value = haul__onnx_type(c, MASK) == HAUL_BOOL ? 0 : -(double)INFINITY);
}

static haul_tensor *biased(haul__onnx_call *c, const attention *a, haul_tensor *scores)
{
    haul_tensor *place = seen(c, a);
    if (haul__onnx_has(c, MASK)) {
        haul_tensor *mask = whole_mask(c, a);
        scores = haul__onnx_type(c, MASK) == HAUL_BOOL
                     ? haul_masked_fill(scores, haul_logical_not(mask), -(double)INFINITY)
                     : haul_add(scores, mask);
    }
    return place ? haul_masked_fill(scores, haul_logical_not(place), -(double)INFINITY) : scores;
}

/* Rows in which all keys are hidden are 0. */
static haul_tensor *weights_of(haul__onnx_call *c, haul_tensor *scores)
{
    const haul_dtype wide = haul__onnx_dtype(haul__onnx_int(c, "softmax_precision", 0));
    haul_tensor     *x = wide == HAUL_DTYPE_NONE ? scores : haul_cast(scores, wide);
    haul_tensor     *hidden = haul_eq_scalar(haul_max(x, HAUL_AXES(-1), .keepdim = true), -(double)INFINITY);
    return haul_cast(haul_masked_fill(haul_softmax(x, -1), hidden, 0), haul__onnx_type(c, QUERY));
}

haul_tensor *haul__onnx_attention(haul__onnx_call *c)
{
    attention     a = {.q = NULL};
    const int64_t shown = haul__onnx_int(c, "qk_matmul_output_mode", 0);
    const double  cap = haul__onnx_float(c, "softcap", 0);
    if (read_operands(c, &a))
        return NULL;
    const double scale = haul__onnx_float(c, "scale", 1 / sqrt((double)haul_tensor_shape(a.q).dims[3]));
    const double root = sqrt(fabs(scale));
    haul_tensor *q = haul_mul_scalar(a.q, scale < 0 ? -root : root), *k = haul_mul_scalar(a.k, root);
    haul_tensor *stages[4];
    stages[0] = haul_matmul(q, haul_transpose(k, 2, 3));
    stages[1] = cap == 0 ? stages[0] : haul_mul_scalar(haul_tanh(haul_div_scalar(stages[0], cap)), cap);
    stages[2] = biased(c, &a, stages[1]);
    stages[3] = weights_of(c, stages[2]);
    c->y[3] = stages[shown < 0 || shown > 3 ? 0 : shown];
    haul_tensor *y = haul_matmul(stages[3], a.v);
    if (!a.flat || haul__failed(y))
        return y;
    const haul_shape s = haul_tensor_shape(y);
    return haul_reshape(haul_transpose(y, 1, 2), HAUL_SHAPE(s.dims[0], s.dims[2], s.dims[1] * s.dims[3]));
}
