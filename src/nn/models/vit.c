/* A small vision transformer: that of Dosovitskiy and others, "An image is worth 16x16 words", 2021, with the sizes of
 * DeiT-Tiny (Touvron and others, "Training data-efficient image transformers", 2021). A picture is cut into patches,
 * which are the tokens; a class token stands before them. Names are those of torchvision's VisionTransformer. */
#include "nn/models/vit.h"

#include <haul/ops.h>
#include <haul/random.h>
#include <haul/scope.h>
#include <stdio.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "nn/module.h"

enum { FEATURES = 192, HEADS = 3, LAYERS = 12, HIDDEN = 4 * FEATURES };
enum { LARGE_PATCH = 16, SMALL_PATCH = 4, LARGE_PICTURE = 96 }; /* pixels */
#define EPS       1e-6
#define DEVIATION 0.02 /* of the initial positions */

/* ---- a block ---- */

static haul_tensor *block_forward(haul_module *m, haul_args *args)
{
    haul_tensor *x = args->x[0];
    x = haul_add(x, haul_call_child(m, "self_attention", haul_call_child(m, "ln_1", x)));
    return haul_add(x, haul_call_child(m, "mlp", haul_call_child(m, "ln_2", x)));
}

static haul_module *new_block(void)
{
    haul_module *m = haul_module_new("transformer_block", block_forward);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    haul_status status = haul_module_add(m, "ln_1", haul_nn_layer_norm(FEATURES, .eps = EPS));
    if (!status)
        status = haul_module_add(m, "self_attention", haul_nn_multi_head_attention(FEATURES, HEADS));
    if (!status)
        status = haul_module_add(m, "ln_2", haul_nn_layer_norm(FEATURES, .eps = EPS));
    if (!status)
        status = haul_module_add(m, "mlp",
                                 HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, HIDDEN), haul_nn_gelu(), haul_nn_dropout(0),
                                                 haul_nn_linear(HIDDEN, FEATURES)));
    return haul__module_built(m, scope, status, "haul_model_new");
}

/* ---- the network ---- */

/* Cuts the picture into patches: [N, C, H, W] to [N, patches, FEATURES]. */
static haul_tensor *tokens(haul_module *m, haul_tensor *picture)
{
    haul_tensor *x = haul_call_child(m, "conv_proj", picture);
    return haul_transpose(haul_reshape(x, HAUL_SHAPE(haul__failed(x) ? 0 : x->shape.dims[0], FEATURES, -1)), 1, 2);
}

/* The encoder: adds the positions, then calls blocks and the last normalisation. */
static haul_tensor *encoder_forward(haul_module *m, haul_args *args)
{
    haul_tensor *x = haul_add(args->x[0], haul_module_parameter(m, "pos_embedding"));
    return haul_call_child(m, "ln", haul_call_child(m, "layers", x));
}

haul_tensor *haul__vit_tiny_forward(haul_module *m, haul_args *args)
{
    haul_tensor *x = tokens(m, args->x[0]);
    if (haul__failed(x))
        return x;
    haul_tensor *first =
        haul_expand(haul_module_parameter(m, "class_token"), HAUL_SHAPE(x->shape.dims[0], 1, FEATURES));
    x = haul_call_child(m, "encoder", haul_cat((haul_tensor *[]){first, x}, 2, 1));
    return haul_call_child(m, "heads", haul_select(x, 1, 0));
}

static haul_module *new_layers(void)
{
    haul_module *m = haul_module_new("layers", haul__call_in_order);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    haul_status status = HAUL_OK;
    for (int i = 0; i < LAYERS && !status; i++) {
        char name[32];
        snprintf(name, sizeof name, "encoder_layer_%d", i);
        status = haul_module_add(m, name, new_block());
    }
    return haul__module_built(m, scope, status, "haul_model_new");
}

static haul_module *new_encoder(int64_t count)
{
    haul_module *m = haul_module_new("encoder", encoder_forward);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    haul_status status = haul_module_add_parameter(m, "pos_embedding",
                                                   haul_normal(HAUL_F32, HAUL_SHAPE(1, count, FEATURES), 0, DEVIATION));
    if (!status)
        status = haul_module_add(m, "layers", new_layers());
    if (!status)
        status = haul_module_add(m, "ln", haul_nn_layer_norm(FEATURES, .eps = EPS));
    return haul__module_built(m, scope, status, "haul_model_new");
}

static haul_module *new_heads(int64_t outputs)
{
    haul_module *m = haul_module_new("heads", haul__call_in_order);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    return haul__module_built(m, scope, haul_module_add(m, "head", haul_nn_linear(FEATURES, outputs)),
                              "haul_model_new");
}

haul_status haul__build_vit_tiny(haul_module *m, const haul_model_options *o)
{
    char           text[96];
    const int64_t *dims = o->input.dims;
    const bool     picture = o->input.ndim == 3 && dims[1] > 0 && dims[2] > 0;
    int64_t        patch = picture && dims[1] >= LARGE_PICTURE && dims[2] >= LARGE_PICTURE ? LARGE_PATCH : SMALL_PATCH;
    if (!picture || dims[1] % patch || dims[2] % patch)
        return haul__fail(HAUL_SHAPE, "haul_model_new", "input",
                          "vit_tiny needs pictures [channels, height, width] whose sides are multiples of %d, of %d "
                          "from %dx%d on, but an example is %s; resize the pictures",
                          SMALL_PATCH, LARGE_PATCH, LARGE_PICTURE, LARGE_PICTURE,
                          haul__shape_text(&o->input, text, sizeof text));
    int64_t count;
    if (!haul__mul_size(dims[1] / patch, dims[2] / patch, &count))
        return haul__fail(HAUL_SHAPE, "haul_model_new", "input", "the pictures' size overflows");
    HAUL__ASSERT(count > 0 && dims[1] % patch == 0 && dims[2] % patch == 0);
    haul_status status = haul_module_add_parameter(m, "class_token", haul_zeros(HAUL_F32, HAUL_SHAPE(1, 1, FEATURES)));
    if (!status)
        status = haul_module_add(m, "conv_proj", haul_nn_conv2d(dims[0], FEATURES, patch, .stride = {patch, patch}));
    if (!status)
        status = haul_module_add(m, "encoder", new_encoder(count + 1));
    if (!status)
        status = haul_module_add(m, "heads", new_heads(o->outputs));
    return status;
}
