/* A transformer that predicts each token of a sequence from those before it (Radford et al., "Language models are
 * unsupervised multitask learners", 2019). The embedding of tokens is the weight of the last layer, too. */
#include "nn/models/char_gpt.h"

#include <haul/autograd.h>
#include <haul/indexing.h>
#include <haul/ops.h>
#include <haul/random.h>
#include <haul/scope.h>

#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "nn/module.h"

enum { MOST_LAYERS = 1024, MOST_FEATURES = 1 << 20 };
#define DEVIATION 0.02 /* of the initial embeddings */

/* ---- a block ---- */

static haul_tensor *block_forward(haul_module *m, haul_args *args)
{
    haul_tensor *x = args->x[0];
    x = haul_add(x, haul_call_child(m, "attention", haul_call_child(m, "norm1", x)));
    haul_tensor *h = haul_gelu(haul_call_child(m, "up", haul_call_child(m, "norm2", x)));
    return haul_add(x, haul_call_child(m, "down", h));
}

static haul_module *new_block(int64_t features, int64_t heads)
{
    haul_module *m = haul_module_new("transformer_block", block_forward);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    haul_status status = haul_module_add(m, "norm1", haul_nn_layer_norm(features));
    if (!status)
        status = haul_module_add(m, "attention", haul_nn_multi_head_attention(features, heads, .causal = true));
    if (!status)
        status = haul_module_add(m, "norm2", haul_nn_layer_norm(features));
    if (!status)
        status = haul_module_add(m, "up", haul_nn_linear(features, 4 * features));
    if (!status)
        status = haul_module_add(m, "down", haul_nn_linear(4 * features, features));
    return haul__module_built(m, scope, status, "haul_model_new");
}

/* ---- the network ---- */

/* The rows of the positions that the tokens [N, length] have; fails unless length is at most the context. */
static haul_tensor *positions(haul_module *m, const haul_tensor *tokens)
{
    char         text[96];
    haul_tensor *all = haul_module_parameter(m, "position");
    if (haul__failed(tokens) || haul__failed(all))
        return haul__failed_tensor();
    if (tokens->shape.ndim == 2 && tokens->shape.dims[1] <= all->shape.dims[0])
        return haul_slice(all, 0, 0, tokens->shape.dims[1], 1);
    haul__fail(HAUL_SHAPE, "char_gpt", "tokens", "tokens is %s; [N, length] is expected, with a length of at most %lld",
               haul__shape_text(&tokens->shape, text, sizeof text), (long long)all->shape.dims[0]);
    return haul__failed_tensor();
}

haul_tensor *haul__char_gpt_forward(haul_module *m, haul_args *args)
{
    haul_tensor *x = haul_add(haul_call_child(m, "token", args->x[0]), positions(m, args->x[0]));
    return haul_call_child(m, "head", haul_call_child(m, "norm", haul_call_child(m, "blocks", x)));
}

/* The last layer takes the weight of the embedding, whose deviation is that of the positions. */
static haul_status tie(haul_module *m)
{
    haul_tensor *token = haul_module_parameter(m, "token.weight");
    haul_status  status = haul_init_normal(haul_detach(token), 0, DEVIATION);
    return status ? status : haul_module_replace_parameter(m, "head.weight", token);
}

/* The layers around the blocks, which this takes over. */
static haul_status add_layers(haul_module *m, const haul_model_options *o, haul_module *blocks)
{
    const int64_t context = o->input.dims[0], tokens = o->outputs, features = o->features;
    haul_status   status =
        blocks ? haul_module_add(m, "token", haul_nn_embedding(tokens, features)) : haul_error_status();
    if (!status)
        status = haul_module_add_parameter(m, "position",
                                           haul_normal(HAUL_F32, HAUL_SHAPE(context, features), 0, DEVIATION));
    if (!status)
        status = haul_module_add(m, "blocks", blocks);
    if (!status)
        status = haul_module_add(m, "norm", haul_nn_layer_norm(features));
    if (!status)
        status = haul_module_add(m, "head", haul_nn_linear(features, tokens, .no_bias = true));
    return status ? status : tie(m);
}

static haul_module *new_blocks(const haul_model_options *o)
{
    haul_module *blocks[MOST_LAYERS];
    for (int64_t i = 0; i < o->layers; i++)
        if (!(blocks[i] = new_block(o->features, o->heads)))
            return NULL;
    return haul_nn_sequential(blocks, (int)o->layers);
}

static haul_status check_sizes(const haul_model_options *o)
{
    if (o->layers > MOST_LAYERS)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_model_new", "layers", "layers is %lld; char_gpt has at most %d",
                          (long long)o->layers, MOST_LAYERS);
    if (o->features > MOST_FEATURES)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_model_new", "features",
                          "features is %lld; char_gpt has at most %d", (long long)o->features, MOST_FEATURES);
    if (o->features % o->heads)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_model_new", "heads",
                          "features is %lld and heads is %lld; char_gpt needs features that are a multiple of heads",
                          (long long)o->features, (long long)o->heads);
    return HAUL_OK;
}

haul_status haul__build_char_gpt(haul_module *m, const haul_model_options *o)
{
    char text[96];
    if (o->input.ndim != 1)
        return haul__fail(HAUL_SHAPE, "haul_model_new", "input",
                          "char_gpt reads tokens [context], but an example is %s; use another network",
                          haul__shape_text(&o->input, text, sizeof text));
    haul_status status = check_sizes(o);
    return status ? status : add_layers(m, o, new_blocks(o));
}
