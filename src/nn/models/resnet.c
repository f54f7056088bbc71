/* Residual networks (He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016) for small pictures: the
 * first convolution is 3x3 with stride 1 and no pooling follows it. Names are torchvision's. */
#include "nn/models/resnet.h"

#include <haul/scope.h>
#include <stdio.h>

#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "nn/module.h"

/* ---- two convolutions and a shortcut ---- */

typedef struct block {
    bool projects; /* the shortcut is a convolution where sizes change */
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
    haul_tensor *x = args->x[0];
    const block *s = haul_module_state(m);
    haul_tensor *y = then(m, "relu", then(m, "bn1", then(m, "conv1", x, x), x), x);
    y = then(m, "bn2", then(m, "conv2", y, x), x);
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

static haul_module *new_block(int64_t in, int64_t out, int64_t stride)
{
    haul_module *m = haul_module_new("basic_block", block_forward, .state_bytes = sizeof(block));
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    block *s = haul_module_state(m);
    s->projects = in != out || stride != 1;
    haul_status status = haul_module_add(m, "conv1", convolution(in, out, 3, stride));
    if (!status)
        status = haul_module_add(m, "bn1", haul_nn_batch_norm(out));
    if (!status)
        status = haul_module_add(m, "relu", haul_nn_relu());
    if (!status)
        status = haul_module_add(m, "conv2", convolution(out, out, 3, 1));
    if (!status)
        status = haul_module_add(m, "bn2", haul_nn_batch_norm(out));
    if (!status && s->projects)
        status =
            haul_module_add(m, "downsample", HAUL_SEQUENTIAL(convolution(in, out, 1, stride), haul_nn_batch_norm(out)));
    return haul__module_built(m, scope, status, "haul_model_new");
}

/* ---- the network ---- */

/* [N, C, H, W] to [N, C]. */
static haul_tensor *average(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_mean(args->x[0], HAUL_AXES(2, 3));
}

haul_status haul__build_resnet18(haul_module *m, const haul_model_options *o)
{
    const haul_shape *input = &o->input;
    char              text[96];
    if (input->ndim != 3)
        return haul__fail(HAUL_SHAPE, "haul_model_new", "input",
                          "resnet18 needs pictures [channels, height, width], but an example is %s; use dense or mlp",
                          haul__shape_text(input, text, sizeof text));
    haul_status status = haul_module_add(m, "conv1", convolution(input->dims[0], 64, 3, 1));
    if (!status)
        status = haul_module_add(m, "bn1", haul_nn_batch_norm(64));
    if (!status)
        status = haul_module_add(m, "relu", haul_nn_relu());
    for (int i = 0; i < 4 && !status; i++) {
        char    name[24];
        int64_t out = (int64_t)64 << i, in = i ? out / 2 : out;
        snprintf(name, sizeof name, "layer%d", i + 1);
        status = haul_module_add(m, name, HAUL_SEQUENTIAL(new_block(in, out, i ? 2 : 1), new_block(out, out, 1)));
    }
    if (!status)
        status = haul_module_add(m, "avgpool", haul_module_new("global_avg_pool2d", average));
    if (!status)
        status = haul_module_add(m, "fc", haul_nn_linear(512, o->outputs));
    return status;
}
