/* Data parallel training: each mini-batch of 64 examples has 8 pieces, which the ranks divide among themselves.
 *
 *     ./data_parallel
 *     mpirun -n 4 ./data_parallel
 *     ./data_parallel local:cuda:0,cuda:1
 *
 * The last command has a thread for each device. All print the same numbers on equal devices: gradients, and so the
 * weights, are bit-identical for any number of ranks up to 8. */
#include <haul/haul.h>
#include <stdio.h>

enum { BATCH = 64, PIECES = 8, EPOCHS = 3 };

typedef struct training {
    haul_module    *net;
    haul_optimizer *adamw;
    haul_parallel  *parallel;
    haul_loader    *loader;
    int64_t         step;
} training;

/* The sum of the losses of a piece. The last pieces of an epoch may have no examples. */
static haul_tensor *sum_of_losses(const training *t, const haul_batch *piece)
{
    if (!piece->size)
        return HAUL_NONE;
    return haul_bce_with_logits(haul_call(t->net, piece->x), piece->y, .reduction = HAUL_REDUCE_SUM);
}

/* The loss of the last step of an epoch. */
static double train(training *t, int64_t epoch)
{
    double last = 0;
    haul_loader_start(t->loader, epoch);
    for (const haul_batch *piece; (piece = haul_loader_next(t->loader));) {
        haul_scope *scope = haul_scope_push();
        /* What a step sends to other ranks, and its loss. */
        haul_budget(.group_bytes = 1 << 13, .d2h_bytes = 4, .waits = 1);
        haul_parallel_begin(t->parallel, t->step); /* dropout draws numbers of its own in each piece */
        haul_parallel_backward(t->parallel, sum_of_losses(t, piece), (double)piece->size);
        if (haul_parallel_ready(t->parallel)) { /* the gradients are those of the whole mini-batch */
            haul_clip_grad_norm(t->net, 1);
            haul_optimizer_step(t->adamw);
            last = haul_item(haul_parallel_loss(t->parallel));
            t->step++;
        }
        haul_scope_pop(scope);
    }
    return last;
}

/* What each rank does: a process, or a thread of haul_group_run. */
static haul_status train_all(haul_group *group, void *context)
{
    (void)context;
    training t = {.step = 0};
    t.net = HAUL_SEQUENTIAL(haul_nn_linear(10, 16, .relu = true), haul_nn_dropout(0.2), haul_nn_linear(16, 1));
    t.adamw = haul_adamw(t.net, 0.01);
    t.parallel = haul_parallel_new(t.net, .group = group, .pieces = PIECES, .seed = 1);
    t.loader =
        haul_loader_new(haul_blobs(1000, .seed = 1), .batch = BATCH / PIECES, .shuffle = true, .pieces = PIECES,
                        .first_piece = haul_parallel_first(t.parallel), .piece_count = haul_parallel_count(t.parallel));
    for (int64_t epoch = 1; epoch <= EPOCHS && haul_error_status() == HAUL_OK; epoch++) {
        const double loss = train(&t, epoch);
        if (haul_group_rank(group) == 0)
            printf("epoch %d: loss %.6f\n", (int)epoch, loss);
    }
    return haul_error_status();
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_manual_seed(1);
    if (argc > 1)
        haul_group_run(argv[1], train_all, NULL);
    else
        train_all(haul_group_get("auto"), NULL);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
