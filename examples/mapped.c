/* Training on a dataset that is larger than the program's memory limit: 32 MiB in shards, which are memory-mapped, and
 * a limit of 8 MiB.
 *
 *     mapped [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>
#include <sys/stat.h>

enum { SHARDS = 16, ROWS = 2048, WIDTH = 255, BATCH = 256, BATCHES = SHARDS * ROWS / BATCH };

/* y = 3 * x[0] - x[1], with noise. */
static void write_shard(int number)
{
    char                    path[64];
    haul_scope             *scope = haul_scope_push();
    haul_tensor            *x = haul_normal(HAUL_F32, HAUL_SHAPE(ROWS, WIDTH), 0, 1);
    haul_tensor            *noise = haul_normal(HAUL_F32, HAUL_SHAPE(ROWS), 0, 0.1);
    haul_tensor            *y = haul_sub(haul_mul_scalar(haul_select(x, 1, 0), 3), haul_select(x, 1, 1));
    const haul_named_tensor fields[] = {{.name = "x", .tensor = x}, {.name = "y", .tensor = haul_add(y, noise)}};
    snprintf(path, sizeof path, "shards/%02d.safetensors", number);
    haul_save_safetensors(path, fields, 2, NULL, 0);
    haul_scope_pop(scope);
}

int main(int argc, char **argv)
{
    haul_scope  *program = haul_scope_push();
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_memory_set_limit(haul_cpu(), 8 << 20);
    haul_manual_seed(1);
    mkdir("shards", 0777);
    for (int i = 0; i < SHARDS; i++)
        write_shard(i);

    haul_set_device(device);
    haul_loader *loader = haul_loader_new(haul_shard_dataset("shards"), .batch = BATCH, .shuffle = true, .workers = 2);
    haul_module *net = haul_nn_linear(WIDTH, 1);
    haul_optimizer *sgd = haul_sgd(net, 0.05);
    for (int epoch = 1; epoch <= 2 && !haul_error_status(); epoch++) {
        double      sum = 0;
        haul_scope *scope = haul_scope_push();
        /* The data move to the device once, the losses back. Reading a loss waits, and the loader may wait until the
         * memory of its two tensors is free again. */
        haul_budget(.h2d_bytes = SHARDS * ROWS * (WIDTH + 1) * 4, .d2h_bytes = BATCHES * 4, .waits = 3 * BATCHES,
                    .everywhere = true); /* the workers copy */
        haul_loader_start(loader, epoch);
        for (const haul_batch *b; (b = haul_loader_next(loader));) {
            haul_scope *step = haul_scope_push();
            haul_optimizer_zero_grad(sgd);
            haul_tensor *loss = haul_mse_loss(haul_reshape(haul_call(net, b->x), HAUL_SHAPE(-1)), b->y);
            haul_backward(loss);
            haul_optimizer_step(sgd);
            sum += haul_item(loss);
            haul_scope_pop(step);
        }
        haul_scope_pop(scope);
        printf("epoch %d: loss %.3f\n", epoch, sum / (double)haul_loader_batches(loader));
    }
    haul_memory_stats stats;
    if (haul_memory_stats_get(haul_cpu(), &stats) == HAUL_OK)
        printf("32 MiB of data, at most %d MiB of memory\n", (int)((stats.peak_allocated + (1 << 20) - 1) >> 20));
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
