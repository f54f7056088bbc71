/* The cost of a training step, before anything is allocated: memory, arithmetic, and the most expensive operation.
 *
 *     estimate [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

typedef struct plan {
    haul_device *device;
    int64_t      batch;
} plan;

static haul_status step(void *context)
{
    const plan *p = context;
    haul_status status = haul_set_device(p->device);
    if (status)
        return status;
    haul_module    *net = haul_model_new("resnet18");
    haul_optimizer *adam = haul_adam(net, 0.001);
    haul_tensor    *x = haul_empty(HAUL_F32, HAUL_SHAPE(p->batch, 3, 32, 32));
    haul_tensor    *y = haul_empty(HAUL_I64, HAUL_SHAPE(p->batch));
    status = haul_backward(haul_cross_entropy(haul_call(net, x), y));
    return status ? status : haul_optimizer_step(adam);
}

static void show(const haul_estimate_result *r, int64_t batch)
{
    const haul_estimate_operation *most = &r->operations[0];
    for (int64_t i = 1; i < r->operation_count; i++)
        if (r->operations[i].flops > most->flops)
            most = &r->operations[i];
    printf("batch %4lld: %6.1f GFLOP, %5lld MiB at the peak; most for %s in %s\n", (long long)batch, r->flops / 1e9,
           (long long)(r->devices[0].peak_bytes >> 20), most->name, most->module);
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_budget(.waits = 0); /* an estimate uses no device: nothing is copied, and nobody waits */
    plan p = {.device = haul_device_get(argc > 1 ? argv[1] : "auto")};
    for (p.batch = 16; p.batch <= 1024; p.batch *= 4) {
        haul_estimate_result r;
        if (haul_estimate(step, &p, &r))
            break;
        show(&r, p.batch);
        haul_estimate_free(&r);
    }
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
