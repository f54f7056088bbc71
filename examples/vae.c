/* A variational autoencoder (Kingma and Welling 2014) that learns to draw discs. The encoder gives the mean and the
 * logarithm of the variance of a code, from which the decoder draws the picture again.
 *
 *     vae [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { SIZE = 16, LATENT = 3, BATCH = 64, STEPS = 400, SHOWN = 4 };

/* The distance of each pixel from a random centre, in rows or columns. Each picture has its own centre. */
static haul_tensor *distance(haul_shape axis)
{
    haul_tensor *centre = haul_uniform(HAUL_F32, HAUL_SHAPE(BATCH, 1, 1), 5, SIZE - 5);
    return haul_sub(haul_reshape(haul_arange(HAUL_F32, 0, SIZE, 1), axis), centre);
}

/* Discs at random places, with random radii: [BATCH, SIZE * SIZE]. */
static haul_tensor *draw(void)
{
    haul_tensor *radius = haul_uniform(HAUL_F32, HAUL_SHAPE(BATCH, 1, 1), 2, 4);
    haul_tensor *rows = distance(HAUL_SHAPE(1, SIZE, 1)), *columns = distance(HAUL_SHAPE(1, 1, SIZE));
    haul_tensor *disc = haul_lt(haul_add(haul_square(rows), haul_square(columns)), haul_square(radius));
    return haul_reshape(haul_cast(disc, HAUL_F32), HAUL_SHAPE(BATCH, SIZE * SIZE));
}

static haul_module *layers(int64_t in, int64_t out)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(in, 128), haul_nn_relu(), haul_nn_linear(128, out));
}

/* Pictures of codes from (-1, -1, -1) to (1, 1, 1), next to each other, as characters. */
static void show(haul_module *decoder)
{
    float        rows[SIZE][SHOWN * SIZE] = {{0}};
    haul_tensor *ends = haul_unsqueeze(haul_linspace(HAUL_F32, -1, 1, SHOWN), 1);
    haul_tensor *codes = haul_expand(ends, HAUL_SHAPE(SHOWN, LATENT));
    haul_tensor *pictures = haul_sigmoid(haul_call(decoder, codes, .mode = HAUL_EVALUATE));
    haul_read(haul_transpose(haul_reshape(pictures, HAUL_SHAPE(SHOWN, SIZE, SIZE)), 0, 1), rows, sizeof rows);
    for (int row = 0; row < SIZE; row += 2) {
        for (int column = 0; column < SHOWN * SIZE; column++)
            putchar(".:+*#"[(int)(4.99f * rows[row][column])]);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    haul_module    *encoder = layers(SIZE * SIZE, 2 * LATENT), *decoder = layers(LATENT, SIZE * SIZE);
    haul_optimizer *adam = haul_adam(haul_nn_list((haul_module *const[]){encoder, decoder}, 2), 0.003);
    for (int step = 1; step <= STEPS && !haul_error_status(); step++) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 8, .waits = 2); /* the two losses */
        haul_tensor *x = draw(), *found = haul_call(encoder, x);
        haul_tensor *mean = haul_slice(found, 1, 0, LATENT, 1),
                    *log_variance = haul_slice(found, 1, LATENT, 2 * LATENT, 1);
        haul_tensor *noise = haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, LATENT), 0, 1);
        haul_tensor *code = haul_add(mean, haul_mul(haul_exp(haul_mul_scalar(log_variance, 0.5)), noise));
        haul_tensor *error = haul_bce_with_logits(haul_call(decoder, code), x, .reduction = HAUL_REDUCE_SUM);
        haul_tensor *inner = haul_sub(haul_add(haul_square(mean), haul_exp(log_variance)), log_variance);
        haul_tensor *divergence = haul_mul_scalar(haul_sum(haul_add_scalar(inner, -1)), 0.5);
        haul_optimizer_zero_grad(adam);
        haul_train_step(adam, haul_mul_scalar(haul_add(error, divergence), 1.0 / BATCH));
        if (step == 1 || step == STEPS)
            printf("step %d: error %.1f, divergence %.1f\n", step, haul_item(error) / BATCH,
                   haul_item(divergence) / BATCH);
        haul_scope_pop(scope);
    }
    show(decoder);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
