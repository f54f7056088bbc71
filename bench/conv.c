/* Convolutions, forward and with all gradients: those of the small CIFAR-10 network and of a ResNet. */
#include "support/bench.h"

typedef struct shape {
    int64_t n, c_in, size, c_out, kernel, stride, padding;
} shape;

static const shape *s;
static haul_tensor *x, *weight, *bias, *dy;

static int64_t out_size(void)
{
    return (s->size + 2 * s->padding - s->kernel) / s->stride + 1;
}

static bool open_conv(const bench_case *c)
{
    s = c->context;
    x = haul_uniform(HAUL_F32, HAUL_SHAPE(s->n, s->c_in, s->size, s->size), -1, 1);
    weight = haul_uniform(HAUL_F32, HAUL_SHAPE(s->c_out, s->c_in, s->kernel, s->kernel), -1, 1);
    bias = haul_uniform(HAUL_F32, HAUL_SHAPE(s->c_out), -1, 1);
    dy = haul_uniform(HAUL_F32, HAUL_SHAPE(s->n, s->c_out, out_size(), out_size()), -1, 1);
    return !haul_error_status();
}

static haul_tensor *conv(void)
{
    return haul_conv2d(x, weight, .bias = bias, .stride = {s->stride, s->stride}, .padding = {s->padding, s->padding});
}

static bool run_forward(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_drop(conv());
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool open_gradients(const bench_case *c)
{
    if (!open_conv(c))
        return false;
    haul_set_requires_grad(x, true);
    haul_set_requires_grad(weight, true);
    haul_set_requires_grad(bias, true);
    return !haul_error_status();
}

static bool run_gradients(const bench_case *c, int64_t times)
{
    haul_tensor *gradients[3], *inputs[] = {x, weight, bias};
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        haul_grad(conv(), inputs, 3, gradients, .seed = dy);
        haul_scope_pop(scope);
    }
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

/* Rows and columns of the result. */
#define OUT(size, kernel, stride, padding) (((size) + 2 * (padding) - (kernel)) / (stride) + 1)
#define PEER(family, passes, n, c_in, size_in, c_out, kernel, stride, padding)                                         \
    "torch:" family " " #passes " " #n " " #c_in " " #size_in " " #c_out " " #kernel " " #stride " " #padding
#define CASE(label, passes, how_open, how_run, n, c_in, size_in, c_out, kernel, stride, padding)                       \
    {                                                                                                                  \
        .name = label, .unit = "GF/s",                                                                                 \
        .amount = 2e-9 * (passes) * (n) * (c_in) * (c_out) * (kernel) *                                                \
                  (kernel)*OUT(size_in, kernel, stride, padding) * OUT(size_in, kernel, stride, padding),              \
        .peers = PEER("conv", passes, n, c_in, size_in, c_out, kernel, stride, padding) "," PEER(                      \
            "conv channels_last", passes, n, c_in, size_in, c_out, kernel, stride, padding),                           \
        .limit = "limit multiply-add", .open = how_open, .run = how_run, .context = &(const shape)                     \
        {                                                                                                              \
            n, c_in, size_in, c_out, kernel, stride, padding                                                           \
        }                                                                                                              \
    }
#define CONV(label, ...)                                                                                               \
    CASE(label, 1, open_conv, run_forward, __VA_ARGS__),                                                               \
        CASE(label ", gradients", 3, open_gradients, run_gradients, __VA_ARGS__)

static const bench_case cases[] = {
    CONV("conv cifar 3-6, 5x5", 64, 3, 32, 6, 5, 1, 0),       CONV("conv cifar 6-16, 5x5", 64, 6, 14, 16, 5, 1, 0),
    CONV("conv resnet 3-64", 32, 3, 32, 64, 3, 1, 1),         CONV("conv resnet 64-64", 32, 64, 32, 64, 3, 1, 1),
    CONV("conv resnet 64-128 / 2", 32, 64, 32, 128, 3, 2, 1), CONV("conv resnet 128-128", 32, 128, 16, 128, 3, 1, 1),
    CONV("conv resnet 256-256", 32, 256, 8, 256, 3, 1, 1),    CONV("conv resnet 512-512", 32, 512, 4, 512, 3, 1, 1),
    CONV("conv 64-256, 1x1", 32, 64, 32, 256, 1, 1, 0),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
