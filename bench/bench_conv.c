/* Convolutions and pooling, forward and with gradients: median time and GF/s, a line for each shape; and the training
 * step of the small CIFAR-10 network. Usage: bench_conv [DEVICE ...], cpu if none is given. */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct shape {
    const char *name;
    int64_t     n, c_in, size, c_out, kernel, stride, padding;
} shape;

static const shape shapes[] = {
    {"cifar conv1", 64, 3, 32, 6, 5, 1, 0},          {"cifar conv2", 64, 6, 14, 16, 5, 1, 0},
    {"resnet stem", 32, 3, 32, 64, 3, 1, 1},         {"resnet 64", 32, 64, 32, 64, 3, 1, 1},
    {"resnet 64-128 / 2", 32, 64, 32, 128, 3, 2, 1}, {"resnet 128", 32, 128, 16, 128, 3, 1, 1},
    {"resnet 256", 32, 256, 8, 256, 3, 1, 1},        {"resnet 512", 32, 512, 4, 512, 3, 1, 1},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median time of `work`, with the device idle before and after. */
#define MOST_RUNS 101

static double median(void (*work)(void *), void *context, haul_device *device)
{
    double seconds[MOST_RUNS];
    int    runs = MOST_RUNS;
    for (int i = -3; i < runs; i++) {
        double      start = now();
        haul_scope *scope = haul_scope_push();
        work(context);
        haul_scope_pop(scope);
        haul_device_sync(device);
        double took = now() - start;
        if (i >= 0)
            seconds[i] = took;
        else if (i == -1 && took > 0.02)
            runs = 7;
    }
    qsort(seconds, (size_t)runs, sizeof seconds[0], ascending);
    return seconds[runs / 2];
}

/* ---- single convolutions ---- */

typedef struct operands {
    haul_tensor *x, *weight, *bias, *dy;
    const shape *shape;
} operands;

static haul_tensor *forward_of(const operands *o)
{
    return haul_conv2d(o->x, o->weight, o->bias, .stride = {o->shape->stride},
                       .padding = {o->shape->padding, o->shape->padding});
}

static void forward(void *context)
{
    forward_of(context);
}

static void forward_backward(void *context)
{
    operands    *o = context;
    haul_tensor *gradients[3], *inputs[] = {o->x, o->weight, o->bias};
    haul_grad(forward_of(o), inputs, 3, gradients, .seed = o->dy);
}

static void run_shape(const char *name, haul_device *device, const shape *s)
{
    haul_scope *scope = haul_scope_push();
    int64_t     out = (s->size + 2 * s->padding - s->kernel) / s->stride + 1;
    operands    o = {
           .x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(s->n, s->c_in, s->size, s->size)), true),
           .weight =
               haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(s->c_out, s->c_in, s->kernel, s->kernel)), true),
           .bias = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(s->c_out)), true),
           .dy = haul_ones(HAUL_F32, HAUL_SHAPE(s->n, s->c_out, out, out)),
           .shape = s,
    };
    double flops = 2.0 * (double)(s->n * s->c_out * s->c_in * s->kernel * s->kernel * out * out);
    double one = median(forward, &o, device), all = median(forward_backward, &o, device);
    haul_scope_pop(scope);
    printf(
        "conv  %-9s %-18s %3lld x %3lld x %2lld^2 -> %3lld, %lld^2  forward %9.1f us %6.1f GF/s  with gradients %9.1f "
        "us %6.1f GF/s\n",
        name, s->name, (long long)s->n, (long long)s->c_in, (long long)s->size, (long long)s->c_out,
        (long long)s->kernel, one * 1e6, flops / one / 1e9, all * 1e6, 3 * flops / all / 1e9);
}

/* ---- a training step ---- */

static haul_tensor *network(haul_module *m, haul_tensor *x)
{
    x = haul_max_pool2d(haul_relu(haul_call_child(m, "conv1", x)), 2);
    x = haul_max_pool2d(haul_relu(haul_call_child(m, "conv2", x)), 2);
    x = haul_relu(haul_call_child(m, "fc1", haul_flatten(x, 1)));
    return haul_call_child(m, "fc3", haul_relu(haul_call_child(m, "fc2", x)));
}

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
    haul_tensor    *x, *y;
} training;

static void step(void *context)
{
    training *t = context;
    haul_optimizer_zero_grad(t->sgd);
    haul_backward(haul_cross_entropy(haul_call(t->net, t->x), t->y), HAUL_NONE);
    haul_optimizer_step(t->sgd);
}

static void run_step(const char *name, haul_device *device)
{
    haul_scope *scope = haul_scope_push();
    training    t = {.net = haul_module_new("simplecnn", network)};
    haul_module_add(t.net, "conv1", haul_nn_conv2d(3, 6, 5));
    haul_module_add(t.net, "conv2", haul_nn_conv2d(6, 16, 5));
    haul_module_add(t.net, "fc1", haul_nn_linear(400, 120));
    haul_module_add(t.net, "fc2", haul_nn_linear(120, 84));
    haul_module_add(t.net, "fc3", haul_nn_linear(84, 10));
    t.sgd = haul_sgd(t.net, .lr = 0.001, .momentum = 0.9);
    t.x = haul_ones(HAUL_F32, HAUL_SHAPE(64, 3, 32, 32));
    t.y = haul_zeros(HAUL_I64, HAUL_SHAPE(64));
    double seconds = median(step, &t, device);
    haul_scope_pop(scope);
    printf("step  %-9s small CIFAR-10 network, batch 64: %.3f ms\n", name, seconds * 1e3);
}

static void run_device(const char *name)
{
    haul_device *device = haul_device_get(name);
    if (haul_set_device(device))
        return;
    run_step(name, device);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] && !haul_error_status(); i++)
        run_shape(name, device, &shapes[i]);
}

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    for (int i = 1; i < argc; i++)
        run_device(argv[i]);
    if (argc < 2)
        run_device("cpu");
    haul_status status = haul_error_status();
    if (status)
        fprintf(stderr, "bench_conv: %s\n", haul_error_message());
    haul_scope_pop(scope);
    return status != HAUL_OK;
}
