/* A picture takes on the style of another one: its elements are optimised so that the features of a network agree with
 * those of one picture, and their correlations with those of another one (Gatys, Ecker, Bethge 2016). The network and
 * the pictures are made of sines, so that the program needs no files.
 *
 *     style [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { SIDE = 24, CHANNELS = 8, LAYERS = 3, STEPS = 60 };

/* The same numbers on every machine. */
static haul_tensor *waves(haul_shape shape, double frequency)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    return haul_reshape(haul_sin(haul_mul_scalar(haul_arange(HAUL_F64, 0, (double)count, 1), frequency)), shape);
}

static void find_features(haul_tensor *const *weights, haul_tensor *x, haul_tensor **found)
{
    for (int i = 0; i < LAYERS; i++) {
        found[i] = haul_relu(haul_conv2d(x, weights[i], .padding = {1, 1}));
        x = haul_avg_pool2d(found[i], 2);
    }
}

static haul_tensor *gram(haul_tensor *x)
{
    haul_tensor *rows = haul_flatten(haul_select(x, 0, 0), 1);
    return haul_div_scalar(haul_matmul(rows, haul_transpose(rows, 0, 1)), (double)haul_tensor_count(x));
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_tensor *weights[LAYERS], *found[LAYERS], *of_styles[LAYERS], *wanted[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        weights[i] = haul_mul_scalar(waves(HAUL_SHAPE(CHANNELS, i ? CHANNELS : 3, 3, 3), 12.9898 + i), 0.4);
    haul_shape   shape = HAUL_SHAPE(1, 3, SIDE, SIDE);
    haul_tensor *content = haul_affine(waves(shape, 0.02), 0.5, 0.5),
                *style = haul_affine(waves(shape, 78.233), 0.5, 0.5);
    find_features(weights, content, wanted);
    find_features(weights, style, of_styles);
    haul_named_tensor picture = {"picture", haul_set_requires_grad(haul_clone(content), true), false};
    haul_optimizer   *adam = haul_adam(NULL, 0.02, .parameters = &picture, .count = 1);
    for (int step = 0; step < STEPS; step++) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 16, .waits = 2); /* the losses that are printed */
        haul_optimizer_zero_grad(adam);
        find_features(weights, picture.tensor, found);
        haul_tensor *of_content = haul_mse_loss(found[1], wanted[1]), *of_style = haul_scalar(0, .dtype = HAUL_F64);
        for (int i = 0; i < LAYERS; i++)
            of_style = haul_add(of_style, haul_mse_loss(gram(found[i]), gram(of_styles[i])));
        haul_backward(haul_add(of_content, haul_mul_scalar(of_style, 100)));
        haul_optimizer_step(adam);
        haul_clamp_into(haul_detach(picture.tensor), haul_detach(picture.tensor), 0, 1);
        if (step % 20 == 0 || step == STEPS - 1)
            printf("step %d: content %.5f, style %.5f\n", step, haul_item(of_content), haul_item(of_style));
        haul_scope_pop(scope);
    }
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
