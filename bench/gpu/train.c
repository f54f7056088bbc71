/* A step of training on pictures that lie on the device already: forward, loss, backward, SGD with momentum. */
#include "support/bench.h"

static haul_module    *net;
static haul_optimizer *optimizer;
static haul_tensor    *pictures, *labels;

static bool open_training(const bench_case *c)
{
    haul_manual_seed(0);
    net = haul_model_new((const char *)c->context);
    optimizer = haul_sgd(net, .lr = 0.01, .momentum = 0.9);
    pictures = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, 3, 32, 32), 0, 1);
    labels = haul_randint(HAUL_I64, HAUL_SHAPE(c->size), 0, 10);
    return !haul_error_status();
}

static bool step(void)
{
    haul_scope *scope = haul_scope_push();

    haul_optimizer_zero_grad(optimizer);
    haul_backward(haul_cross_entropy(haul_call(net, pictures), labels), HAUL_NONE);
    haul_optimizer_step(optimizer);
    haul_scope_pop(scope);
    return !haul_error_status();
}

static bool run_training(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        if (!step())
            return false;
    return !haul_device_sync(haul_current_device());
}

#define TRAINING(model, batch, who)                                                                                    \
    {                                                                                                                  \
        .name = "train " model " " #batch, .unit = "ms", .peers = who, .open = open_training, .run = run_training,     \
        .size = batch, .context = model                                                                                \
    }

static const bench_case cases[] = {
    TRAINING("simplecnn", 64, "torch:train simplecnn 64"),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
