/* A classifier for the rows of a CSV file. The program writes the file first. Columns become fields, labels become
 * classes.
 *
 *     csv [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

static void write_flowers(const char *path)
{
    static const char *const kinds[] = {"iris", "poppy", "rose"};
    haul_draws               draws = haul_draws_new(1, 0, 0);
    FILE                    *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "id,length,width,kind\n");
    for (int i = 0; i < 600; i++) {
        int    kind = (int)haul_draw_below(&draws, 3);
        double length = 4 + kind + 0.4 * haul_draw_normal(&draws), width = 3 - kind + 0.4 * haul_draw_normal(&draws);
        fprintf(file, "%d,%.2f,%.2f,%s\n", i, length, width, kinds[kind]);
    }
    fclose(file);
}

static double accuracy(haul_module *net, haul_loader *loader)
{
    double right = 0, all = 0;
    haul_loader_start(loader, 0);
    for (const haul_batch *b; (b = haul_loader_next(loader)); all += (double)b->size)
        right += (double)haul_item_i64(haul_sum(haul_eq(haul_argmax(haul_call(net, b->x), 1, false), b->y)));
    return right / all;
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    write_flowers("flowers.csv");
    haul_dataset *parts[2] = {NULL};
    haul_dataset *table =
        haul_csv_dataset("flowers.csv", .fields = {{.name = "x", .columns = "length, width", .dtype = HAUL_F32},
                                                   {.name = "y", .columns = "kind"}});
    haul_dataset_split(parts, haul_dataset_map(table, haul_normalise("x", .mean = {5, 2}, .deviation = {1, 1})),
                       .fractions = {0.8, 0.2}, .seed = 1);
    haul_loader    *train = haul_loader_new(parts[0], .batch = 32, .shuffle = true), *test = haul_loader_new(parts[1]);
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_linear(2, 16, .relu = true), haul_nn_linear(16, 3));
    haul_optimizer *adam = haul_adam(net, 0.02);
    for (int epoch = 1; epoch <= 5 && !haul_error_status(); epoch++) {
        haul_loader_start(train, epoch);
        for (const haul_batch *b; (b = haul_loader_next(train));) {
            haul_scope *step = haul_scope_push();
            haul_budget(.waits = 0); /* nothing is copied: the loader has put the batch on the device */
            haul_optimizer_zero_grad(adam);
            haul_backward(haul_cross_entropy(haul_call(net, b->x), b->y));
            haul_optimizer_step(adam);
            haul_scope_pop(step);
        }
        if (haul_error_status())
            break;
        haul_scope *evaluation = haul_scope_push();
        /* 120 rows of two f32 and an i64, and a count of each. Reading that waits, and the loader may wait until the
         * memory of its two tensors is free again. */
        haul_budget(.h2d_bytes = 120 * 16, .d2h_bytes = 120 * 8, .waits = 120 * 3);
        haul_set_grad_enabled(false);
        printf("epoch %d: accuracy %.3f\n", epoch, accuracy(net, test));
        haul_scope_pop(evaluation);
    }
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
