/* A generative adversarial network of convolutions (Radford et al. 2016). The generator learns to draw discs from
 * noise, and the discriminator to distinguish its pictures from others.
 *
 *     dcgan [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { SIZE = 16, NOISE = 8, BATCH = 32, STEPS = 150, SHOWN = 4 };

/* The distance of each pixel from a random centre, in rows or columns. Each picture has its own centre. */
static haul_tensor *distance(haul_shape axis)
{
    haul_tensor *centre = haul_uniform(HAUL_F32, HAUL_SHAPE(BATCH, 1, 1, 1), 5, SIZE - 5);
    return haul_sub(haul_reshape(haul_arange(HAUL_F32, 0, SIZE, 1), axis), centre);
}

/* White discs at random places on black: [BATCH, 1, SIZE, SIZE], from -1 to 1. */
static haul_tensor *draw(void)
{
    haul_tensor *rows = distance(HAUL_SHAPE(1, 1, SIZE, 1)), *columns = distance(HAUL_SHAPE(1, 1, 1, SIZE));
    haul_tensor *away = haul_add(haul_square(rows), haul_square(columns));
    return haul_clamp(haul_add_scalar(haul_neg(away), 9), -1, 1);
}

/* The mean loss if the discriminator should say yes, or no. */
static haul_tensor *judge(haul_module *discriminator, haul_tensor *pictures, bool yes)
{
    return haul_bce_with_logits(haul_call(discriminator, pictures), haul_full(HAUL_F32, HAUL_SHAPE(BATCH, 1), yes));
}

/* The first pictures, next to each other, as characters. */
static void show(haul_tensor *pictures)
{
    float        rows[SIZE][SHOWN * SIZE] = {{0}};
    haul_tensor *first = haul_select(haul_slice(pictures, 0, 0, SHOWN, 1), 1, 0);
    haul_read(haul_transpose(first, 0, 1), rows, sizeof rows);
    for (int row = 0; row < SIZE; row += 2) {
        for (int column = 0; column < SHOWN * SIZE; column++)
            putchar(".:+*#"[(int)(2.49f * (1 + rows[row][column]))]);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    haul_module *generator = HAUL_SEQUENTIAL(
        haul_nn_conv_transpose2d(NOISE, 32, 4), haul_nn_batch_norm(32), haul_nn_relu(),
        haul_nn_conv_transpose2d(32, 16, 4, .stride = {2, 2}, .padding = {1, 1}), haul_nn_batch_norm(16),
        haul_nn_relu(), haul_nn_conv_transpose2d(16, 1, 4, .stride = {2, 2}, .padding = {1, 1}), haul_nn_tanh());
    haul_module *discriminator =
        HAUL_SEQUENTIAL(haul_nn_conv2d(1, 16, 4, .stride = {2, 2}, .padding = {1, 1}), haul_nn_leaky_relu(0.2),
                        haul_nn_conv2d(16, 32, 4, .stride = {2, 2}, .padding = {1, 1}), haul_nn_batch_norm(32),
                        haul_nn_leaky_relu(0.2), haul_nn_conv2d(32, 1, 4), haul_nn_flatten(1));
    haul_optimizer *makes = haul_adam(generator, 0.001, .betas = {0.5, 0.999});
    haul_optimizer *judges = haul_adam(discriminator, 0.001, .betas = {0.5, 0.999});
    for (int step = 1; step <= STEPS && !haul_error_status(); step++) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 8, .waits = 2); /* the two losses */
        haul_tensor *made = haul_call(generator, haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, NOISE, 1, 1), 0, 1));
        haul_tensor *judged =
            haul_add(judge(discriminator, draw(), true), judge(discriminator, haul_detach(made), false));
        haul_optimizer_zero_grad(judges);
        haul_train_step(judges, judged);
        haul_tensor *fooled = judge(discriminator, made, true);
        haul_optimizer_zero_grad(makes);
        haul_train_step(makes, fooled);
        if (step == 1 || step == STEPS)
            printf("step %d: loss of the discriminator %.2f, of the generator %.2f\n", step, haul_item(judged),
                   haul_item(fooled));
        haul_scope_pop(scope);
    }
    haul_tensor *made =
        haul_call(generator, haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, NOISE, 1, 1), 0, 1), .mode = HAUL_EVALUATE);
    printf("mean of a picture %.2f, of a made one %.2f\n", haul_item(haul_mean(draw())), haul_item(haul_mean(made)));
    show(made);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
