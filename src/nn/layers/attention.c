/* Multi-head attention; parameters have the names and shapes of PyTorch's MultiheadAttention. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

typedef struct heads {
    int64_t features, count;
    bool    has_bias, causal;
    double  dropout;
} heads;

/* Applies the rows of in_proj from third `first` up to, but not including, third `last` to x: [N, L, features] to [N,
 * L, (last - first) features]. */
static haul_tensor *project(haul_module *m, haul_tensor *x, int first, int last)
{
    const heads *s = haul_module_state(m);
    haul_tensor *weight = haul_module_parameter(m, "in_proj_weight"), *bias = HAUL_NONE;
    int64_t      begin = first * s->features, end = last * s->features;
    if (s->has_bias)
        bias = haul_slice(haul_module_parameter(m, "in_proj_bias"), 0, begin, end, 1);
    return haul_linear(x, haul_slice(weight, 0, begin, end, 1), .bias = bias);
}

/* Third i of the projections [N, L, ...], as [N, heads, L, features / heads]. */
static haul_tensor *split_heads(const heads *s, haul_tensor *x, int i)
{
    if (haul__failed(x))
        return x;
    haul_tensor *third = haul_slice(x, 2, i * s->features, (i + 1) * s->features, 1);
    haul_shape   shape = HAUL_SHAPE(x->shape.dims[0], x->shape.dims[1], s->count, s->features / s->count);
    return haul_transpose(haul_reshape(third, shape), 1, 2);
}

static haul_status check_input(const heads *s, const haul_tensor *x, const char *name)
{
    char text[160];
    if (haul__is_none(x) || (x->shape.ndim == 3 && x->shape.dims[2] == s->features))
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, "haul_nn_multi_head_attention", name, "%s is %s; [N, length, %lld] is expected", name,
                      haul__tensor_text(x, text, sizeof text), (long long)s->features);
}

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const heads *s = haul_module_state(m);
    haul_tensor *query = args->x[0], *key = args->x[1], *value = args->x[2], *q, *k, *v;
    HAUL__ASSERT(s->count > 0 && s->features % s->count == 0);
    if (check_input(s, query, "query") || check_input(s, key, "key") || check_input(s, value, "value"))
        return haul__failed_tensor();
    if (haul__is_none(key) && haul__is_none(value)) {
        haul_tensor *all = project(m, query, 0, 3);
        q = split_heads(s, all, 0), k = split_heads(s, all, 1), v = split_heads(s, all, 2);
    } else {
        key = haul__is_none(key) ? query : key;
        q = split_heads(s, project(m, query, 0, 1), 0);
        k = split_heads(s, project(m, key, 1, 2), 0);
        v = split_heads(s, project(m, haul__is_none(value) ? key : value, 2, 3), 0);
    }
    haul_tensor *y =
        haul_attention(q, k, v, .mask = args->x[3], .causal = s->causal, .dropout = args->training ? s->dropout : 0);
    if (haul__failed(y))
        return y;
    HAUL__ASSERT(y->shape.ndim == 4 && y->shape.dims[1] == s->count);
    y = haul_reshape(haul_transpose(y, 1, 2), HAUL_SHAPE(y->shape.dims[0], y->shape.dims[2], s->features));
    return haul_call_child(m, "out_proj", y);
}

static haul_status add_parameters(haul_module *m, const heads *s)
{
    haul_tensor *weight = haul_empty(HAUL_F32, HAUL_SHAPE(3 * s->features, s->features));
    haul_module *out = NULL;
    haul_status  status = haul__status_of(weight);
    HAUL__ASSERT(s->features % s->count == 0);
    if (!status)
        status = haul_init_xavier_uniform(weight, 1);
    if (!status)
        status = haul_module_add_parameter(m, "in_proj_weight", weight);
    if (!status && s->has_bias)
        status = haul_module_add_parameter(m, "in_proj_bias", haul_zeros(HAUL_F32, HAUL_SHAPE(3 * s->features)));
    if (!status)
        status =
            (out = haul_nn_linear(s->features, s->features, .no_bias = !s->has_bias)) ? HAUL_OK : haul_error_status();
    if (!status && s->has_bias)
        status = haul_zero_into(haul_detach(haul_module_parameter(out, "bias")));
    return status ? status : haul_module_add(m, "out_proj", out);
}

haul_module *haul_nn_multi_head_attention_with(int64_t features, const haul_nn_multi_head_attention_options *options)
{
    static const char operation[] = "haul_nn_multi_head_attention";
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__module_size(features, operation, "features") || haul__module_size(options->heads, operation, "heads"))
        return NULL;
    if (features % options->heads || features > INT32_MAX) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "heads", "%lld features cannot be divided among %lld heads",
                   (long long)features, (long long)options->heads);
        return NULL;
    }
    if (haul__module_probability(options->dropout, operation, "dropout"))
        return NULL;
    haul_module *m = haul_module_new("multi_head_attention", forward, .state_bytes = sizeof(heads),
                                     .inputs = "query, key?, value?, mask?");
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    heads *s = haul_module_state(m);
    *s = (heads){features, options->heads, !options->no_bias, options->causal, options->dropout};
    return haul__module_built(m, scope, add_parameters(m, s), operation);
}
