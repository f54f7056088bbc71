/* Trains with a batch that is too large for the device's limit. When memory runs out, it prints the report, and repeats
 * the step with half the batch.
 *
 *     out_of_memory [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

static haul_status train_step(haul_module *net, haul_optimizer *adam, int64_t batch)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.waits = INT64_MAX); /* nothing is copied; where memory runs short, its last use is waited for */
    haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(batch, 3, 32, 32), -1, 1);
    haul_tensor *y = haul_randint(HAUL_I64, HAUL_SHAPE(batch), 0, 10);
    haul_status  status = haul_optimizer_zero_grad(adam);
    if (!status)
        status = haul_backward(haul_cross_entropy(haul_call(net, x), y));
    if (!status)
        status = haul_optimizer_step(adam);
    const haul_status exceeded = haul_scope_pop(scope);
    return exceeded ? exceeded : status;
}

int main(int argc, char **argv)
{
    haul_scope  *program = haul_scope_push();
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_set_device(device);
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_conv2d(3, 32, 3, .padding = {1, 1}), haul_nn_relu(),
                                          haul_nn_max_pool2d(2), haul_nn_flatten(1), haul_nn_linear(32 * 16 * 16, 10));
    haul_optimizer *adam = haul_adam(net, 0.001);
    haul_memory_set_tensor_limit(device, 48 << 20);
    haul_memory_record(true); /* the report then names modules */

    int64_t batch = 512;
    for (int steps = 0; steps < 3;) {
        haul_memory_report report;
        char               text[2048];
        haul_status        status = train_step(net, adam, batch);
        if (status == HAUL_OUT_OF_MEMORY && batch > 1 && !haul_memory_report_get(&report)) {
            haul_memory_report_text(&report, text, sizeof text);
            printf("batch %lld: %s", (long long)batch, text);
            haul_error_clear();
            batch /= 2;
        } else if (status) {
            break;
        } else {
            printf("step %d with batch %lld\n", ++steps, (long long)batch);
        }
    }
    haul_memory_record(false);
    haul_memory_set_limit(device, 0);

    int64_t peak;
    char    name[80];
    snprintf(name, sizeof name, "memory.%s.peak", haul_device_name(device));
    if (!haul_stat_get(name, &peak))
        printf("%s: %.0f MiB\n", name, (double)peak / 1048576);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
