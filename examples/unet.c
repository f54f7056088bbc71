/* The library's U-Net with two inputs: a picture, and the kind of shape to mark. Each picture shows a disc and a square
 * in noise. The network learns the mask of the requested shape.
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

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    haul_module    *net = haul_model_new("unet", .input = HAUL_SHAPE(1, SIZE, SIZE), .outputs = 1, .kinds = 2);
    haul_optimizer *adam = haul_adam(net, 0.005);
    for (int step = 1; step <= STEPS && !haul_error_status(); step++) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 4, .waits = 1); /* the loss; the batch is drawn on the device */
        haul_optimizer_zero_grad(adam);
        batch        b = draw();
        haul_tensor *loss = haul_bce_with_logits(haul_call(net, b.picture, b.kind), b.mask);
        haul_backward(loss);
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
