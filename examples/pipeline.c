/* Four stages: load rows on the CPU, place them on a device, train a dense network there in batches of 32, compute loss
 * and accuracy on the CPU. Then a trace follows one prediction through input placement, computation and output
 * transfer.
 *
 *     pipeline [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>
#include <time.h>

enum { BATCH = 32 };

static double now_us(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

typedef struct totals {
    double loss, right, seen;
} totals;

/* Stages 2 to 4 for one batch. */
static haul_status train_batch(haul_module *net, haul_optimizer *sgd, const haul_batch *b, haul_device *device,
                               totals *sum)
{
    haul_scope *step = haul_scope_push();
    haul_budget(.h2d_bytes = BATCH * 44, .d2h_bytes = BATCH * 4, .waits = 1); /* 11 f32 a row there, one back */
    haul_optimizer_zero_grad(sgd);
    haul_tensor *x = haul_to(b->x, device), *y = haul_to(b->y, device);
    haul_tensor *logits = haul_call(net, x);
    haul_backward(haul_bce_with_logits(logits, y));
    haul_optimizer_step(sgd);

    haul_set_grad_enabled(false);
    haul_tensor *home = haul_to(logits, haul_cpu());
    haul_tensor *hit = haul_eq(haul_gt_scalar(home, 0), haul_gt_scalar(b->y, 0.5));
    sum->loss += haul_item(haul_bce_with_logits(home, b->y)) * (double)b->size;
    sum->right += haul_item(haul_sum(hit));
    sum->seen += (double)b->size;
    haul_scope_pop(step);
    return haul_error_status();
}

static void trace_prediction(haul_module *net, haul_tensor *row, haul_device *device)
{
    haul_scope *scope = haul_scope_push();
    haul_set_grad_enabled(false);
    double       t0 = now_us();
    haul_tensor *x = haul_to(row, device);
    haul_device_sync(device);
    double       t1 = now_us();
    haul_tensor *p = haul_sigmoid(haul_call(net, x));
    haul_device_sync(device);
    double       t2 = now_us();
    haul_tensor *home = haul_to(p, haul_cpu());
    double       value = haul_item(home), t3 = now_us();
    printf("input placement    cpu -> %-10s [1,10] %8.1f us\n", haul_device_name(device), t1 - t0);
    printf("dense computation  on %-13s [1,1]  %8.1f us\n", haul_device_name(device), t2 - t1);
    printf("output transfer    %-10s -> cpu [1,1]  %8.1f us\n", haul_device_name(device), t3 - t2);
    printf("prediction: %.3f\n", value);
    haul_scope_pop(scope);
}

int main(int argc, char **argv)
{
    haul_scope  *program = haul_scope_push();
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_manual_seed(7);

    /* Stage 1: the loader works on the CPU, where the thread's current device is. */
    haul_loader *loader = haul_loader_new(haul_blobs(1000, .seed = 7), .batch = BATCH, .shuffle = true, .workers = 1);
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(10, 16), haul_nn_relu(), haul_nn_linear(16, 1));
    haul_module_to(net, device);
    haul_optimizer *sgd = haul_sgd(net, 0.1, .momentum = 0.9);
    haul_tensor    *row = NULL;

    for (int epoch = 1; epoch <= 5 && !haul_error_status(); epoch++) {
        totals sum = {0};
        haul_loader_start(loader, epoch);
        for (const haul_batch *b; (b = haul_loader_next(loader));) {
            if (train_batch(net, sgd, b, device, &sum) != HAUL_OK)
                break;
            if (!row)
                row = haul_clone(haul_slice(b->x, 0, 0, 1, 1));
        }
        double accuracy = sum.right / sum.seen;
        printf("epoch %d: loss %.4f, accuracy %.3f |%.*s\n", epoch, sum.loss / sum.seen, accuracy, (int)(accuracy * 40),
               "########################################");
    }
    trace_prediction(net, row, device);

    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
