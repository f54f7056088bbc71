/* Layers of transformers and stacks of them, from the layers that exist; names are those of PyTorch's
 * TransformerEncoderLayer and TransformerDecoderLayer. */
#include <haul/layers.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transformer.h>
#include <stdio.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

enum { HIDDEN = 2048, LAYERS = 6, MOST_LAYERS = 1 << 16 };
#define DROPOUT 0.1

typedef struct layer {
    bool decodes, gelu, norm_first, final_norm;
    int  layers; /* of a stack */
} layer;

/* ---- a layer ---- */

/* A part of a layer: what its children compute of x. */
typedef haul_tensor *part_fn(haul_module *m, haul_tensor *x, haul_args *args);

/* The part's result, added to its input, with the normalisation and the dropout `number`. */
static haul_tensor *add_part(haul_module *m, int number, haul_tensor *x, part_fn *part, haul_args *args)
{
    const layer *s = haul_module_state(m);
    char         norm[16], dropout[16];
    snprintf(norm, sizeof norm, "norm%d", number);
    snprintf(dropout, sizeof dropout, "dropout%d", number);
    haul_tensor *y = part(m, s->norm_first ? haul_call_child(m, norm, x) : x, args);
    y = haul_add(x, haul_call_child(m, dropout, y));
    return s->norm_first ? y : haul_call_child(m, norm, y);
}

static haul_tensor *attend(haul_module *m, haul_tensor *x, haul_args *args)
{
    const layer *s = haul_module_state(m);
    return haul_call_child(m, "self_attn", x, HAUL_NONE, HAUL_NONE, args->x[s->decodes ? 2 : 1]);
}

static haul_tensor *attend_memory(haul_module *m, haul_tensor *x, haul_args *args)
{
    return haul_call_child(m, "multihead_attn", x, args->x[1], args->x[1], args->x[3]);
}

static haul_tensor *feed_forward(haul_module *m, haul_tensor *x, haul_args *args)
{
    const layer *s = haul_module_state(m);
    haul_tensor *h = haul_call_child(m, "linear1", x);
    (void)args;
    h = haul_call_child(m, "dropout", s->gelu ? haul_gelu(h) : haul_relu(h));
    return haul_call_child(m, "linear2", h);
}

static haul_tensor *encode(haul_module *m, haul_args *args)
{
    haul_tensor *x = add_part(m, 1, args->x[0], attend, args);
    return add_part(m, 2, x, feed_forward, args);
}

static haul_tensor *decode(haul_module *m, haul_args *args)
{
    haul_tensor *x = add_part(m, 1, args->x[0], attend, args);
    x = add_part(m, 2, x, attend_memory, args);
    return add_part(m, 3, x, feed_forward, args);
}

/* ---- a stack ---- */

static haul_tensor *encode_all(haul_module *m, haul_args *args)
{
    const layer *s = haul_module_state(m);
    haul_tensor *x = args->x[0];
    HAUL__ASSERT(s->layers > 0);
    for (int i = 0; i < s->layers; i++) {
        char name[24];
        snprintf(name, sizeof name, "layers.%d", i);
        x = s->decodes ? haul_call_child(m, name, x, args->x[1], args->x[2], args->x[3])
                       : haul_call_child(m, name, x, args->x[1]);
    }
    return s->final_norm ? haul_call_child(m, "norm", x) : x;
}

/* ---- construction ---- */

static haul_status add_numbered(haul_module *m, const char *name, int number, haul_module *child)
{
    char text[24];
    snprintf(text, sizeof text, "%s%d", name, number);
    return haul_module_add(m, text, child);
}

static haul_status add_children(haul_module *m, int64_t features, const haul_nn_transformer_options *o, double dropout)
{
    const layer  *s = haul_module_state(m);
    const int64_t hidden = o->hidden ? o->hidden : HIDDEN;
    const int     parts = s->decodes ? 3 : 2;
    haul_status   status = haul_module_add(
          m, "self_attn", haul_nn_multi_head_attention(features, o->heads, .causal = o->causal, .dropout = dropout));
    HAUL__ASSERT(parts > 1 && features % o->heads == 0);
    if (!status && s->decodes)
        status =
            haul_module_add(m, "multihead_attn", haul_nn_multi_head_attention(features, o->heads, .dropout = dropout));
    if (!status)
        status = haul_module_add(m, "linear1", haul_nn_linear(features, hidden));
    if (!status)
        status = haul_module_add(m, "dropout", haul_nn_dropout(dropout));
    if (!status)
        status = haul_module_add(m, "linear2", haul_nn_linear(hidden, features));
    for (int i = 1; i <= parts && !status; i++)
        status = add_numbered(m, "norm", i, haul_nn_layer_norm(features, .eps = o->eps));
    for (int i = 1; i <= parts && !status; i++)
        status = add_numbered(m, "dropout", i, haul_nn_dropout(dropout));
    return status;
}

static haul_module *new_layer(bool decodes, int64_t features, const haul_nn_transformer_options *o, double dropout,
                              const char *operation)
{
    haul_module *m = haul_module_new(decodes ? "transformer_decoder_layer" : "transformer_encoder_layer",
                                     decodes ? decode : encode, .state_bytes = sizeof(layer),
                                     .inputs = decodes ? "x, memory, mask?, memory_mask?" : "x, mask?");
    haul_scope *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    *(layer *)haul_module_state(m) = (layer){.decodes = decodes, .gelu = o->gelu, .norm_first = o->norm_first};
    return haul__module_built(m, scope, add_children(m, features, o, dropout), operation);
}

static haul_status add_layers(haul_module *m, int64_t features, const haul_nn_transformer_options *o, double dropout,
                              const char *operation)
{
    const layer *s = haul_module_state(m);
    haul_module *list = haul_nn_list(NULL, 0);
    haul_status  status = list ? HAUL_OK : haul_error_status();
    HAUL__ASSERT(s->layers > 0 && s->layers <= MOST_LAYERS);
    for (int i = 0; i < s->layers && !status; i++)
        status = add_numbered(list, "", i, new_layer(s->decodes, features, o, dropout, operation));
    HAUL__ASSERT(status || list->child_count == (size_t)s->layers);
    if (!status)
        status = haul_module_add(m, "layers", list);
    if (!status && s->final_norm)
        status = haul_module_add(m, "norm", haul_nn_layer_norm(features, .eps = o->eps));
    return status;
}

static haul_module *new_stack(bool decodes, int64_t features, const haul_nn_transformer_options *o, double dropout,
                              const char *operation)
{
    haul_module *m = haul_module_new(decodes ? "transformer_decoder" : "transformer_encoder", encode_all,
                                     .state_bytes = sizeof(layer),
                                     .inputs = decodes ? "x, memory, mask?, memory_mask?" : "x, mask?");
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    *(layer *)haul_module_state(m) =
        (layer){.decodes = decodes, .final_norm = o->final_norm, .layers = o->layers ? o->layers : LAYERS};
    return haul__module_built(m, scope, add_layers(m, features, o, dropout, operation), operation);
}

/* What the layers below would refuse without the name of the option. */
static haul_status check(int64_t features, const haul_nn_transformer_options *o, bool stack, const char *operation)
{
    if (!o)
        return haul__fail_null(operation, "options");
    if (haul__module_size(features, operation, "features") || haul__module_size(o->heads, operation, "heads") ||
        haul__module_probability(haul__option(o->dropout, DROPOUT), operation, "dropout"))
        return haul_error_status();
    if (features % o->heads)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "heads", "%lld features cannot be divided among %lld heads",
                          (long long)features, (long long)o->heads);
    if (o->hidden < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "hidden", "hidden is %lld; a positive size is expected",
                          (long long)o->hidden);
    if (o->eps != HAUL_ZERO && !(o->eps >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "eps", "eps is %g; 0 or more is expected", o->eps);
    if (o->layers < 0 || o->layers > MOST_LAYERS)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "layers", "layers is %d; a number from 1 to %d is expected",
                          o->layers, MOST_LAYERS);
    if (!stack && (o->layers || o->final_norm))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, o->layers ? "layers" : "final_norm",
                          "this is one layer; haul_nn_transformer_encoder and haul_nn_transformer_decoder make stacks");
    return HAUL_OK;
}

haul_module *haul_nn_transformer_encoder_layer_with(int64_t features, const haul_nn_transformer_options *o)
{
    static const char operation[] = "haul_nn_transformer_encoder_layer";
    return check(features, o, false, operation)
               ? NULL
               : new_layer(false, features, o, haul__option(o->dropout, DROPOUT), operation);
}

haul_module *haul_nn_transformer_decoder_layer_with(int64_t features, const haul_nn_transformer_options *o)
{
    static const char operation[] = "haul_nn_transformer_decoder_layer";
    return check(features, o, false, operation)
               ? NULL
               : new_layer(true, features, o, haul__option(o->dropout, DROPOUT), operation);
}

haul_module *haul_nn_transformer_encoder_with(int64_t features, const haul_nn_transformer_options *o)
{
    static const char operation[] = "haul_nn_transformer_encoder";
    return check(features, o, true, operation)
               ? NULL
               : new_stack(false, features, o, haul__option(o->dropout, DROPOUT), operation);
}

haul_module *haul_nn_transformer_decoder_with(int64_t features, const haul_nn_transformer_options *o)
{
    static const char operation[] = "haul_nn_transformer_decoder";
    return check(features, o, true, operation)
               ? NULL
               : new_stack(true, features, o, haul__option(o->dropout, DROPOUT), operation);
}
