/* A training that fits: before anything is allocated, haul_fit chooses the segments of a network that run again in the
 * backward pass, so that a step needs at most nine tenths of its memory.
 *
 *     fit [DEVICE]     the default is a simulated GPU */
#include <haul/haul.h>
#include <stdio.h>

enum { BATCH = 16 };

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
} training;

static haul_status step(void *context, int64_t batch)
{
    training    *t = context;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(batch, 3, 32, 32)), *y = haul_zeros(HAUL_I64, HAUL_SHAPE(batch));
    haul_optimizer_zero_grad(t->sgd);
    haul_backward(haul_cross_entropy(haul_call(t->net, x), y));
    haul_optimizer_step(t->sgd);
    haul_scope_pop(scope);
    return haul_error_status();
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "sim:laptop-4g"));
    training t = {.net = haul_model_new("resnet18")};
    t.sgd = haul_sgd(t.net, 0.01);

    haul_fit_result r;
    if (!haul_fit(step, &t, &r, .module = t.net, .batch = BATCH)) /* nothing is allowed: what it takes as it is */
        printf("as it is: %.1f ms a step, %lld bytes\n", r.unlimited_step_ms, (long long)r.unlimited_peak_bytes);
    if (!haul_fit(step, &t, &r, .module = t.net, .memory_limit = r.unlimited_peak_bytes / 10 * 9, .batch = BATCH,
                  .allow = HAUL_FIT_RECOMPUTE, .apply = true))
        printf("in nine tenths: %.1f ms a step, %lld bytes, %s again\n%s\n", r.step_ms, (long long)r.peak_bytes,
               r.recomputed, r.words);

    haul_memory_stats memory;
    haul_budget(.h2d_bytes = 1 << 20, .d2h_bytes = 1 << 20, .waits = 2);
    for (int i = 0; i < 2 && !haul_error_status(); i++)
        step(&t, BATCH);
    if (!haul_memory_stats_get(haul_current_device(), &memory))
        printf("a step took %lld bytes\n", (long long)memory.peak_allocated);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
