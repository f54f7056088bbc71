/* A step of training on pictures that are on the device already: forward, loss, backward, SGD with momentum. f32 is as
 * networks come; tf32 lets products and convolutions round their factors, as PyTorch does in convolutions by default;
 * bf16 is autocast. The network and the pictures are channels-last for tf32 and bf16. */
#include "support/bench.h"

typedef struct network {
    const char    *model;
    haul_dtype     autocast; /* HAUL_DTYPE_NONE for none */
    haul_precision precision;
} network;

static haul_dtype      autocast;
static haul_module    *net;
static haul_optimizer *optimizer;
static haul_tensor    *pictures, *labels;

static bool open_training(const bench_case *c)
{
    const network *n = c->context;
    haul_manual_seed(0);
    net = haul_model_new(n->model);
    autocast = n->autocast;
    optimizer = haul_sgd(net, 0.01, .momentum = 0.9);
    pictures = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, 3, 32, 32), 0, 1);
    labels = haul_randint(HAUL_I64, HAUL_SHAPE(c->size), 0, 10);
    haul_set_matmul_precision(n->precision);
    if (autocast != HAUL_DTYPE_NONE || n->precision != HAUL_PRECISION_HIGHEST) {
        haul_module_to_memory_format(net, HAUL_CHANNELS_LAST);
        pictures = haul_to_memory_format(pictures, HAUL_CHANNELS_LAST);
    }
    return !haul_error_status();
}

static bool step(void)
{
    haul_scope *scope = haul_scope_push();
    haul_optimizer_zero_grad(optimizer);
    haul_autocast_state before = haul_autocast_begin("all", autocast);
    haul_tensor        *loss = haul_cross_entropy(haul_call(net, pictures), labels);
    haul_autocast_end(before);
    haul_backward(loss);
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

static const network simplecnn = {"simplecnn", HAUL_DTYPE_NONE, HAUL_PRECISION_HIGHEST},
                     resnet18 = {"resnet18", HAUL_DTYPE_NONE, HAUL_PRECISION_HIGHEST},
                     resnet18_tf32 = {"resnet18", HAUL_DTYPE_NONE, HAUL_PRECISION_HIGH},
                     resnet18_bf16 = {"resnet18", HAUL_BF16, HAUL_PRECISION_HIGHEST};

#define TRAINING(what, batch, network)                                                                                 \
    {                                                                                                                  \
        .name = "train " what, .unit = "ms", .peers = "torch:train " what, .open = open_training, .run = run_training, \
        .size = batch, .context = &network                                                                             \
    }

static const bench_case cases[] = {
    TRAINING("simplecnn 64", 64, simplecnn),
    TRAINING("resnet18 256", 256, resnet18),
    TRAINING("resnet18 256 tf32", 256, resnet18_tf32),
    TRAINING("resnet18 256 bf16", 256, resnet18_bf16),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
