/* Residual networks (He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016), with torchvision's
 * names. A network for small pictures begins with a 3x3 convolution of stride 1; one for ImageNet begins with a 7x7
 * convolution of stride 2 and a max pooling. */
#include "nn/models/resnet.h"

#include <haul/scope.h>
#include <stdio.h>

#include "base/assert.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/models/pictures.h"
#include "nn/module.h"

/* ---- a block: convolutions and a shortcut ---- */

typedef struct block {
    int  convolutions; /* the children conv1, bn1, conv2, bn2 ... */
    bool projects;     /* the shortcut is a convolution where sizes change */
} block;

/* A child's result. x is dropped unless it is still needed, so that inference holds at most two results of a block. */
static haul_tensor *then(haul_module *m, const char *name, haul_tensor *x, const haul_tensor *wanted)
{
    haul_tensor *y = haul_call_child(m, name, x);
    if (!haul__failed(x) && x != wanted)
        haul_drop(x);
    return y;
}

static haul_tensor *block_forward(haul_module *m, haul_args *args)
{
    static const char *const convolutions[] = {"conv1", "conv2", "conv3"}, *const norms[] = {"bn1", "bn2", "bn3"};
    haul_tensor *x = args->x[0], *y = x;
    const block *s = haul_module_state(m);
    HAUL__ASSERT(s->convolutions == 2 || s->convolutions == 3);
    for (int i = 0; i < s->convolutions; i++) {
        y = then(m, norms[i], then(m, convolutions[i], y, x), x);
        if (i < s->convolutions - 1)
            y = then(m, "relu", y, x);
    }
    haul_tensor *sum = haul_add(y, s->projects ? haul_call_child(m, "downsample", x) : x);
    if (!haul__failed(y))
        haul_drop(y);
    y = haul_relu(sum);
    if (!haul__failed(sum))
        haul_drop(sum);
    return y;
}

static haul_module *convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
    int64_t padding = kernel / 2;
    return haul_nn_conv2d(in, out, kernel, .stride = {stride, stride}, .padding = {padding, padding}, .no_bias = true);
}

/* Adds the convolution `number` and its normalisation. */
static haul_status add_convolution(haul_module *m, int number, int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
    char name[24];
    snprintf(name, sizeof name, "conv%d", number);
    haul_status status = haul_module_add(m, name, convolution(in, out, kernel, stride));
    snprintf(name, sizeof name, "bn%d", number);
    return status ? status : haul_module_add(m, name, haul_nn_batch_norm(out));
}

/* A basic block has two 3x3 convolutions. A bottleneck has 1x1, 3x3 and 1x1, and `width` channels inside. */
static haul_status add_convolutions(haul_module *m, bool bottleneck, int64_t in, int64_t width, int64_t out,
                                    int64_t stride)
{
    haul_status status =
        bottleneck ? add_convolution(m, 1, in, width, 1, 1) : add_convolution(m, 1, in, width, 3, stride);
    if (!status)
        status = bottleneck ? add_convolution(m, 2, width, width, 3, stride) : add_convolution(m, 2, width, out, 3, 1);
    if (!status && bottleneck)
        status = add_convolution(m, 3, width, out, 1, 1);
    return status;
}

static haul_module *new_block(bool bottleneck, int64_t in, int64_t width, int64_t out, int64_t stride)
{
    haul_module *m =
        haul_module_new(bottleneck ? "bottleneck" : "basic_block", block_forward, .state_bytes = sizeof(block));
    haul_scope *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    block *s = haul_module_state(m);
    *s = (block){.convolutions = bottleneck ? 3 : 2, .projects = in != out || stride != 1};
    haul_status status = add_convolutions(m, bottleneck, in, width, out, stride);
    if (!status)
        status = haul_module_add(m, "relu", haul_nn_relu());
    if (!status && s->projects)
        status =
            haul_module_add(m, "downsample", HAUL_SEQUENTIAL(convolution(in, out, 1, stride), haul_nn_batch_norm(out)));
    return haul__module_built(m, scope, status, "haul_model_new");
}

/* ---- the network ---- */

enum { LAYERS = 4, MOST_BLOCKS = 6 };
typedef struct form {
    const char *name;
    int         blocks[LAYERS];
    bool        bottleneck;
    bool        large; /* made for ImageNet's pictures */
} form;

/* The first convolution and, for large pictures, its pooling. */
static haul_status add_stem(haul_module *m, const form *f, int64_t channels)
{
    haul_status status = haul_module_add(m, "conv1", convolution(channels, 64, f->large ? 7 : 3, f->large ? 2 : 1));
    if (!status)
        status = haul_module_add(m, "bn1", haul_nn_batch_norm(64));
    if (!status)
        status = haul_module_add(m, "relu", haul_nn_relu());
    if (!status && f->large)
        status = haul_module_add(m, "maxpool", haul_nn_max_pool2d(3, .stride = {2, 2}, .padding = {1, 1}));
    return status;
}

/* Layer i, whose first block halves the pictures, except in the first layer. */
static haul_module *new_layer(const form *f, int i)
{
    haul_module *blocks[MOST_BLOCKS];
    int64_t      width = (int64_t)64 << i, times = f->bottleneck ? 4 : 1, in = i ? width / 2 * times : 64;
    HAUL__ASSERT(i >= 0 && i < LAYERS && f->blocks[i] <= MOST_BLOCKS);
    for (int k = 0; k < f->blocks[i]; k++) {
        if (!(blocks[k] = new_block(f->bottleneck, in, width, width * times, i && !k ? 2 : 1)))
            return NULL;
        in = width * times;
    }
    return haul_nn_sequential(blocks, f->blocks[i]);
}

static haul_status build(haul_module *m, const haul_model_options *o, const form *f)
{
    haul_status status = haul__model_check_pictures(f->name, &o->input);
    if (!status)
        status = add_stem(m, f, o->input.dims[0]);
    for (int i = 0; i < LAYERS && !status; i++) {
        char name[24];
        snprintf(name, sizeof name, "layer%d", i + 1);
        status = haul_module_add(m, name, new_layer(f, i));
    }
    if (!status)
        status = haul_module_add(m, "avgpool", haul__model_average());
    if (!status)
        status = haul_module_add(m, "fc", haul_nn_linear(f->bottleneck ? 2048 : 512, o->outputs));
    return status;
}

haul_status haul__build_resnet18(haul_module *m, const haul_model_options *o)
{
    return build(m, o, &(form){.name = "resnet18", .blocks = {2, 2, 2, 2}});
}

haul_status haul__build_resnet18_imagenet(haul_module *m, const haul_model_options *o)
{
    return build(m, o, &(form){.name = "resnet18_imagenet", .blocks = {2, 2, 2, 2}, .large = true});
}

haul_status haul__build_resnet50(haul_module *m, const haul_model_options *o)
{
    return build(m, o, &(form){.name = "resnet50", .blocks = {3, 4, 6, 3}, .bottleneck = true, .large = true});
}
