/* Recomputation: a deep network whose blocks run again in the backward pass, against one that keeps all tensors.
 *
 *     recompute [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { DEPTH = 16, WIDTH = 256, BATCH = 512 };

static haul_tensor *residual(haul_module *self, haul_args *args)
{
    return haul_add(args->x[0], haul_call_child(self, "body", args->x[0]));
}

static haul_module *new_net(bool recompute)
{
    haul_module *blocks[DEPTH];
    haul_manual_seed(0);
    for (int i = 0; i < DEPTH; i++) {
        blocks[i] = haul_module_new("residual", residual);
        haul_module_add(blocks[i], "body",
                        HAUL_SEQUENTIAL(haul_nn_layer_norm(WIDTH), haul_nn_linear(WIDTH, WIDTH), haul_nn_gelu(),
                                        haul_nn_dropout(0.1), haul_nn_linear(WIDTH, WIDTH)));
        haul_module_recompute(blocks[i], recompute);
    }
    return haul_nn_sequential(blocks, DEPTH);
}

/* The sum of all gradients, which shows whether they are the same. */
static double train_step(const char *name, bool recompute, haul_device *device)
{
    haul_scope       *scope = haul_scope_push();
    haul_module      *net = new_net(recompute);
    haul_tensor      *x = haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, WIDTH), 0, 1), *sum = haul_scalar(0);
    haul_memory_stats before, after;
    haul_named_tensor all[6 * DEPTH];
    haul_budget(.d2h_bytes = 8, .waits = 2); /* the loss and the sum; recomputing moves nothing */
    haul_memory_reset_peak(device);
    haul_memory_stats_get(device, &before);
    haul_tensor *loss = haul_mean(haul_square(haul_call(net, x)));
    haul_backward(loss);
    haul_memory_stats_get(device, &after);
    int count = haul_module_tensors(net, all, 6 * DEPTH);
    for (int i = 0; i < count; i++)
        sum = haul_add(sum, haul_sum(haul_tensor_grad(all[i].tensor)));
    printf("%-22s loss %.6f, %4.0f MiB at the peak\n", name, haul_item(loss),
           (double)(after.peak_allocated - before.allocated) / 1048576);
    double result = haul_item(sum);
    haul_scope_pop(scope);
    return result;
}

int main(int argc, char **argv)
{
    haul_scope  *scope = haul_scope_push();
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_set_device(device);
    double kept = train_step("all tensors kept:", false, device);
    double again = train_step("blocks recomputed:", true, device);
    printf("the gradients are %s\n", kept == again ? "the same" : "different");
    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
