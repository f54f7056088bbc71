/* The networks that the command trains, by name: a table. Layers without parameters are children, too, so that a trace
 * shows every step; they do not appear in files of weights. */
#include <haul/conv.h>
#include <haul/scope.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/list.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "nn/models/char_gpt.h"
#include "nn/models/mobilenet.h"
#include "nn/models/resnet.h"
#include "nn/models/unet.h"
#include "nn/models/vit.h"
#include "nn/module.h"

typedef struct model {
    const char *name;
    haul_shape  input;
    int64_t     outputs;
    haul_status (*build)(haul_module *m, const haul_model_options *o); /* with the input and outputs filled in */
    haul_forward *forward;                                             /* NULL: the children in order */
    const char   *inputs, *results;                                    /* their names; NULL: x and y */
    const char   *inputs_with_kinds;                                   /* NULL: there are no kinds */
    int64_t       layers, features, heads;                             /* 0: it has no choice of them */
} model;

/* The network of PyTorch's CIFAR-10 tutorial. */
static haul_status build_simplecnn(haul_module *m, const haul_model_options *o)
{
    const haul_shape *input = &o->input;
    char              text[96];
    if (input->ndim != 3 || input->dims[1] < 16 || input->dims[2] < 16)
        return haul__fail(HAUL_SHAPE, "haul_model_new", "input",
                          "simplecnn needs pictures [channels, height, width] of at least 16x16, but an example is "
                          "%s; use dense or mlp",
                          haul__shape_text(input, text, sizeof text));
    int64_t height = ((input->dims[1] - 4) / 2 - 4) / 2, width = ((input->dims[2] - 4) / 2 - 4) / 2, features;
    if (!haul__mul_size(16 * height, width, &features))
        return haul__fail(HAUL_SHAPE, "haul_model_new", "input", "the pictures' size overflows");
    HAUL__ASSERT(height > 0 && width > 0);
    haul_status status = haul_module_add(m, "conv1", haul_nn_conv2d(input->dims[0], 6, 5));
    if (!status)
        status = haul_module_add(m, "relu1", haul_nn_relu());
    if (!status)
        status = haul_module_add(m, "pool1", haul_nn_max_pool2d(2));
    if (!status)
        status = haul_module_add(m, "conv2", haul_nn_conv2d(6, 16, 5));
    if (!status)
        status = haul_module_add(m, "relu2", haul_nn_relu());
    if (!status)
        status = haul_module_add(m, "pool2", haul_nn_max_pool2d(2));
    if (!status)
        status = haul_module_add(m, "flatten", haul_nn_flatten(1));
    if (!status)
        status = haul_module_add(m, "fc1", haul_nn_linear(features, 120));
    if (!status)
        status = haul_module_add(m, "relu3", haul_nn_relu());
    if (!status)
        status = haul_module_add(m, "fc2", haul_nn_linear(120, 84));
    if (!status)
        status = haul_module_add(m, "relu4", haul_nn_relu());
    if (!status)
        status = haul_module_add(m, "fc3", haul_nn_linear(84, o->outputs));
    return status;
}

/* Dense layers with these widths, ended by 0, with relu between them: "fc1", "relu1", "fc2" ... */
static haul_status build_dense_layers(haul_module *m, const haul_model_options *o, const int64_t *widths)
{
    int64_t     in;
    haul_status status = haul__shape_count(&o->input, "haul_model_new", &in);
    if (!status && o->input.ndim != 1)
        status = haul_module_add(m, "flatten", haul_nn_flatten(1));
    for (int i = 0; !status; i++) {
        char    name[32];
        int64_t out = widths[i] ? widths[i] : o->outputs;
        snprintf(name, sizeof name, "fc%d", i + 1);
        status = haul_module_add(m, name, haul_nn_linear(in, out));
        if (!widths[i])
            break;
        snprintf(name, sizeof name, "relu%d", i + 1);
        if (!status)
            status = haul_module_add(m, name, haul_nn_relu());
        in = out;
    }
    return status;
}

static haul_status build_dense(haul_module *m, const haul_model_options *o)
{
    return build_dense_layers(m, o, (const int64_t[]){16, 0});
}

static haul_status build_mlp(haul_module *m, const haul_model_options *o)
{
    return build_dense_layers(m, o, (const int64_t[]){256, 128, 0});
}

static const model models[] = {
    {.name = "simplecnn", .input = {3, {3, 32, 32}}, .outputs = 10, .build = build_simplecnn},
    {.name = "dense", .input = {1, {10}}, .outputs = 1, .build = build_dense},
    {.name = "mlp", .input = {1, {3072}}, .outputs = 10, .build = build_mlp},
    {.name = "resnet18", .input = {3, {3, 32, 32}}, .outputs = 10, .build = haul__build_resnet18},
    {.name = "resnet18_imagenet", .input = {3, {3, 224, 224}}, .outputs = 1000, .build = haul__build_resnet18_imagenet},
    {.name = "resnet50", .input = {3, {3, 224, 224}}, .outputs = 1000, .build = haul__build_resnet50},
    {.name = "mobilenet_v2", .input = {3, {3, 224, 224}}, .outputs = 1000, .build = haul__build_mobilenet_v2},
    {.name = "vit_tiny",
     .input = {3, {3, 224, 224}},
     .outputs = 1000,
     .build = haul__build_vit_tiny,
     .forward = haul__vit_tiny_forward},
    {.name = "char_gpt",
     .input = {1, {64}},
     .outputs = 128,
     .build = haul__build_char_gpt,
     .forward = haul__char_gpt_forward,
     .inputs = "tokens",
     .results = "logits",
     .layers = 2,
     .features = 32,
     .heads = 4},
    {.name = "unet",
     .input = {3, {3, 32, 32}},
     .outputs = 3,
     .build = haul__build_unet,
     .forward = haul__unet_forward,
     .inputs = "picture",
     .results = "logits",
     .inputs_with_kinds = "picture, kind"},
};

static const model *find(const char *name)
{
    char names[200] = "";
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (!strcmp(models[i].name, name))
            return &models[i];
        haul__list_add(names, sizeof names, "%s", models[i].name);
    }
    haul__fail(HAUL_INVALID_ARGUMENT, "haul_model_new", "name", "unknown model '%.60s'; use one of %s", name, names);
    return NULL;
}

static haul_status check_kinds(const model *found, const haul_model_options *options)
{
    if (!options->kinds || (options->kinds > 0 && found->inputs_with_kinds))
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, "haul_model_new", "kinds",
                      found->inputs_with_kinds ? "kinds is %lld; it must be at least 0"
                                               : "kinds is %lld, but %s has one input; leave it out",
                      (long long)options->kinds, found->name);
}

/* Sets *size to the model's own unless it was given. */
static haul_status take_size(const model *found, const char *argument, int64_t own, int64_t *size)
{
    if (*size < 0 || (*size && !own))
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_model_new", argument,
                          own ? "%s is %lld; it must be at least 1, or 0 for the default"
                              : "%s is %lld, but the sizes of %s follow from its input; leave it out",
                          argument, (long long)*size, found->name);
    *size = *size ? *size : own;
    return HAUL_OK;
}

static haul_status take_sizes(const model *found, haul_model_options *o)
{
    haul_status status = take_size(found, "layers", found->layers, &o->layers);
    if (!status)
        status = take_size(found, "features", found->features, &o->features);
    return status ? status : take_size(found, "heads", found->heads, &o->heads);
}

haul_module *haul_model_new_with(const haul_model_options *options)
{
    if (!options || !options->name) {
        haul__fail_null("haul_model_new", "name");
        return NULL;
    }
    haul_model_options o = *options;
    const model       *found = find(o.name);
    if (!found || check_kinds(found, options) || take_sizes(found, &o))
        return NULL;
    haul_module *m =
        haul_module_new(found->name, found->forward ? found->forward : haul__call_in_order,
                        .inputs = options->kinds ? found->inputs_with_kinds : found->inputs, .results = found->results);
    haul_scope *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    if (!o.input.ndim)
        o.input = found->input;
    if (!o.outputs)
        o.outputs = found->outputs;
    return haul__module_built(m, scope, found->build(m, &o), "haul_model_new");
}
