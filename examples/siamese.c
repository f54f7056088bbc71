/* A siamese network with the triplet loss (Schroff et al. 2015): it learns embeddings of signs that are near each other
 * for two examples of one sign. They also recognise signs that training never saw.
 *
 *     siamese [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { SIZE = 8, SIGNS = 250, KNOWN = 200, BATCH = 64, STEPS = 400 };

/* Signs of these kinds with noise, on paper that becomes darker to one side: [n, SIZE * SIZE]. */
static haul_tensor *example(haul_tensor *signs, haul_tensor *kinds)
{
    int64_t      n = haul_tensor_count(kinds);
    haul_tensor *side = haul_linspace(HAUL_F32, -1, 1, SIZE);
    haul_tensor *shade = haul_mul(side, haul_uniform(HAUL_F32, HAUL_SHAPE(n, 1, 1), -4, 4));
    haul_tensor *noise = haul_uniform(HAUL_F32, HAUL_SHAPE(n, SIZE, SIZE), -0.7, 0.7);
    haul_tensor *written = haul_add(haul_add(haul_index_select(signs, 0, kinds), shade), noise);
    return haul_reshape(written, HAUL_SHAPE(n, SIZE * SIZE));
}

/* The share of signs, none of which training saw, whose nearest one is another example of the same sign. */
static double nearest(haul_module *net, haul_tensor *signs)
{
    haul_tensor *kinds = haul_arange_i64(KNOWN, SIGNS, 1);
    haul_tensor *shown = haul_call(net, example(signs, kinds)), *asked = haul_call(net, example(signs, kinds));
    haul_tensor *found = haul_argmin(haul_cdist(asked, shown), 1, false);
    haul_tensor *right = haul_eq(haul_add_scalar(found, KNOWN), kinds);
    return haul_item(haul_mean(haul_cast(right, HAUL_F32)));
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    haul_tensor    *signs = haul_cast(haul_randint(HAUL_I64, HAUL_SHAPE(SIGNS, SIZE, SIZE), 0, 2), HAUL_F32);
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_linear(SIZE * SIZE, 64), haul_nn_relu(), haul_nn_linear(64, 32));
    haul_optimizer *adam = haul_adam(net, 0.003);
    printf("unknown signs recognised: %.0f %% by their pixels\n", 100 * nearest(haul_nn_identity(), signs));
    for (int step = 1; step <= STEPS && !haul_error_status(); step++) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 4, .waits = 1); /* the loss */
        haul_tensor *kinds = haul_randint(HAUL_I64, HAUL_SHAPE(BATCH), 0, KNOWN);
        haul_tensor *later = haul_randint(HAUL_I64, HAUL_SHAPE(BATCH), 1, KNOWN);
        haul_tensor *others = haul_remainder_scalar(haul_add(kinds, later), KNOWN);
        haul_tensor *anchor = haul_call(net, example(signs, kinds)), *positive = haul_call(net, example(signs, kinds));
        haul_tensor *loss = haul_triplet_margin_loss(anchor, positive, haul_call(net, example(signs, others)));
        haul_optimizer_zero_grad(adam);
        haul_train_step(adam, loss);
        if (step == 1 || step == STEPS)
            printf("step %d: loss %.3f\n", step, haul_item(loss));
        haul_scope_pop(scope);
    }
    printf("unknown signs recognised: %.0f %% by their embeddings\n", 100 * nearest(net, signs));
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
