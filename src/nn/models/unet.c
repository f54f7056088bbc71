/* A small U-Net (Ronneberger, Fischer, Brox, "U-Net: convolutional networks for biomedical image segmentation", 2015):
 * each level of the way up sees the level of the way down that has its size. Convolutions are padded, so the result has
 * the size of the picture. */
#include "nn/models/unet.h"

#include <haul/conv.h>
#include <haul/ops.h>
#include <haul/scope.h>

#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "nn/module.h"

enum { FINE = 8, COARSE = 16, MIDDLE = 32, MULTIPLE = 4 }; /* channels of the levels; a side is a MULTIPLE */

static haul_module *block(int64_t in, int64_t out)
{
    return HAUL_SEQUENTIAL(haul_nn_conv2d(in, out, 3, .padding = {1, 1}), haul_nn_batch_norm(out), haul_nn_relu(),
                           haul_nn_conv2d(out, out, 3, .padding = {1, 1}), haul_nn_batch_norm(out), haul_nn_relu());
}

/* The child's result on x, followed by the channels of `skipped`. */
static haul_tensor *joined(haul_module *m, const char *up, haul_tensor *x, haul_tensor *skipped)
{
    return haul_cat((haul_tensor *[]){haul_call_child(m, up, x), skipped}, 2, 1);
}

/* x, with the vector of its kind added to every pixel. */
static haul_tensor *with_kind(haul_module *m, haul_tensor *x, haul_tensor *kind)
{
    return haul_add(x, haul_unsqueeze(haul_unsqueeze(haul_call_child(m, "kind", kind), -1), -1));
}

haul_tensor *haul__unet_forward(haul_module *m, haul_args *args)
{
    haul_tensor *fine = haul_call_child(m, "down1", args->x[0]);
    haul_tensor *coarse = haul_call_child(m, "down2", haul_max_pool2d(fine, 2));
    haul_tensor *x = haul_call_child(m, "middle", haul_max_pool2d(coarse, 2));
    if (args->count > 1)
        x = with_kind(m, x, args->x[1]);
    x = haul_call_child(m, "join2", joined(m, "up2", x, coarse));
    return haul_call_child(m, "out", haul_call_child(m, "join1", joined(m, "up1", x, fine)));
}

static haul_status add_layers(haul_module *m, const haul_model_options *o)
{
    haul_status status = haul_module_add(m, "down1", block(o->input.dims[0], FINE));
    if (!status)
        status = haul_module_add(m, "down2", block(FINE, COARSE));
    if (!status)
        status = haul_module_add(m, "middle", block(COARSE, MIDDLE));
    if (!status && o->kinds)
        status = haul_module_add(m, "kind", haul_nn_embedding(o->kinds, MIDDLE));
    if (!status)
        status = haul_module_add(m, "up2", haul_nn_conv_transpose2d(MIDDLE, COARSE, 2, .stride = {2, 2}));
    if (!status)
        status = haul_module_add(m, "join2", block(2 * COARSE, COARSE));
    if (!status)
        status = haul_module_add(m, "up1", haul_nn_conv_transpose2d(COARSE, FINE, 2, .stride = {2, 2}));
    if (!status)
        status = haul_module_add(m, "join1", block(2 * FINE, FINE));
    return status ? status : haul_module_add(m, "out", haul_nn_conv2d(FINE, o->outputs, 1));
}

haul_status haul__build_unet(haul_module *m, const haul_model_options *o)
{
    char text[96];
    if (o->input.ndim != 3 || o->input.dims[1] % MULTIPLE || o->input.dims[2] % MULTIPLE)
        return haul__fail(HAUL_SHAPE, "haul_model_new", "input",
                          "unet needs pictures [channels, height, width] whose sides are multiples of %d, but an "
                          "example is %s; resize the pictures",
                          MULTIPLE, haul__shape_text(&o->input, text, sizeof text));
    return add_layers(m, o);
}
