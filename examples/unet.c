/* A U-Net (Ronneberger et al. 2015) with two inputs: a picture, and the kind of shape to mark. Each picture shows a
 * disc and a square in noise. The network learns the mask of the requested shape.
 *
 *     unet [DEVICE]
 *
 * ctest: labels=slow */
#include <haul/haul.h>
#include <stdio.h>

enum { SIZE = 32, BATCH = 16, STEPS = 150 };

typedef struct batch {
    haul_tensor *picture, *kind, *mask; /* [N, 1, H, W], [N], [N, 1, H, W] */
} batch;

/* The distance of each pixel from a random centre, in rows or columns. Each picture has its own centre. */
static haul_tensor *distance(haul_shape axis)
{
    haul_tensor *centre = haul_uniform(HAUL_F32, HAUL_SHAPE(BATCH, 1, 1, 1), 6, SIZE - 6);
    return haul_abs(haul_sub(haul_reshape(haul_arange(HAUL_F32, 0, SIZE, 1), axis), centre));
}

static batch draw(void)
{
    const haul_shape rows = HAUL_SHAPE(1, 1, SIZE, 1), columns = HAUL_SHAPE(1, 1, 1, SIZE);
    haul_tensor     *radius = haul_uniform(HAUL_F32, HAUL_SHAPE(BATCH, 1, 1, 1), 4, 7);
    haul_tensor     *away = haul_add(haul_square(distance(rows)), haul_square(distance(columns)));
    haul_tensor     *disc = haul_lt(away, haul_square(radius));
    haul_tensor     *square = haul_lt(haul_maximum(distance(rows), distance(columns)), radius);
    haul_tensor     *noise = haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, 1, SIZE, SIZE), 0, 0.2);
    haul_tensor     *kind = haul_randint(HAUL_I64, HAUL_SHAPE(BATCH), 0, 2);
    haul_tensor     *is_disc = haul_reshape(haul_eq_scalar(kind, 0), HAUL_SHAPE(BATCH, 1, 1, 1));
    return (batch){.picture = haul_add(haul_cast(haul_logical_or(disc, square), HAUL_F32), noise),
                   .kind = kind,
                   .mask = haul_cast(haul_where(is_disc, disc, square), HAUL_F32)};
}

static haul_module *block(int64_t in, int64_t out)
{
    return HAUL_SEQUENTIAL(haul_nn_conv2d(in, out, 3, .padding = {1, 1}), haul_nn_batch_norm(out), haul_nn_relu(),
                           haul_nn_conv2d(out, out, 3, .padding = {1, 1}), haul_nn_batch_norm(out), haul_nn_relu());
}

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    haul_tensor *fine = haul_call_child(m, "down1", args->x[0]);
    haul_tensor *coarse = haul_call_child(m, "down2", haul_max_pool2d(fine, 2));
    haul_tensor *x = haul_call_child(m, "middle", haul_max_pool2d(coarse, 2));
    haul_tensor *kind = haul_call_child(m, "kind", args->x[1]); /* [N, 32], added to every pixel */
    x = haul_add(x, haul_unsqueeze(haul_unsqueeze(kind, -1), -1));
    x = haul_cat((haul_tensor *[]){haul_call_child(m, "up2", x), coarse}, 2, 1);
    x = haul_cat((haul_tensor *[]){haul_call_child(m, "up1", haul_call_child(m, "join2", x)), fine}, 2, 1);
    return haul_call_child(m, "out", haul_call_child(m, "join1", x));
}

static haul_module *unet(void)
{
    haul_module *m = haul_module_new("unet", forward, .inputs = "picture, kind");
    haul_module_add(m, "down1", block(1, 8));
    haul_module_add(m, "down2", block(8, 16));
    haul_module_add(m, "middle", block(16, 32));
    haul_module_add(m, "kind", haul_nn_embedding(2, 32));
    haul_module_add(m, "up2", haul_nn_conv_transpose2d(32, 16, 2, .stride = {2, 2}));
    haul_module_add(m, "join2", block(32, 16));
    haul_module_add(m, "up1", haul_nn_conv_transpose2d(16, 8, 2, .stride = {2, 2}));
    haul_module_add(m, "join1", block(16, 8));
    haul_module_add(m, "out", haul_nn_conv2d(8, 1, 1));
    return m;
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    haul_module    *net = unet();
    haul_optimizer *adam = haul_adam(net, 0.005);
    for (int step = 1; step <= STEPS && !haul_error_status(); step++) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 4, .waits = 1); /* the loss; the batch is drawn on the device */
        haul_optimizer_zero_grad(adam);
        batch        b = draw();
        haul_tensor *loss = haul_bce_with_logits(haul_call(net, b.picture, b.kind), b.mask);
        haul_backward(loss, HAUL_NONE);
        haul_optimizer_step(adam);
        if (step == 1 || step == STEPS)
            printf("step %d: loss %.3f\n", step, haul_item(loss));
        haul_scope_pop(scope);
    }
    batch        b = draw();
    haul_tensor *marked = haul_gt_scalar(haul_call(net, b.picture, b.kind, .mode = HAUL_EVALUATE), 0);
    haul_tensor *right = haul_eq(haul_cast(marked, HAUL_F32), b.mask);
    printf("pixels right: %.1f %%\n", 100 * haul_item(haul_mean(haul_cast(right, HAUL_F32))));
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
