/* A step of training the CIFAR-10 network, with 64 pictures, or ResNet-18, with 32: forward, loss, backward, SGD with
 * momentum; each by itself, and followed. The batch is on the device already. */
#include <haul/recording.h>

#include "record/follow/device_chain.h"
#include "support/bench.h"

static haul_module    *net;
static haul_optimizer *optimizer;
static haul_tensor    *pictures, *labels;
static haul_device    *device;
static haul_recording *recording;

static bool open_training(const bench_case *c)
{
    device = haul_device_get(c->device);
    if (haul_set_device(device))
        return false;
    haul_manual_seed(0);
    net = haul_model_new(c->context);
    optimizer = haul_sgd(net, 0.01, .momentum = 0.9);
    pictures = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, 3, 32, 32), -1, 1);
    labels = haul_randint(HAUL_I64, HAUL_SHAPE(c->size), 0, 10);
    return !haul_error_status();
}

static haul_status step(void *context)
{
    (void)context;
    haul_optimizer_zero_grad(optimizer);
    haul_backward(haul_cross_entropy(haul_call(net, pictures), labels));
    return haul_optimizer_step(optimizer);
}

static bool run_training(const bench_case *c, int64_t times)
{
    (void)c;
    return bench_steps(step, times);
}

static bool open_followed(const bench_case *c)
{
    haul__chain_patience = 0;
    if (!open_training(c))
        return false;
    recording = haul_recording_new(step, NULL);
    for (int i = 0; i < 3; i++)
        if (!recording || haul_recording_run(recording))
            return false;
    return true;
}

static bool run_followed(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        if (haul_recording_run(recording))
            return false;
    return !haul_device_sync(device);
}

/* `how`: training or followed. */
#define TRAINING(label, how, model, batch, on, count, who)                                                             \
    {                                                                                                                  \
        .name = label, .unit = "ms", .peers = who, .open = open_##how, .run = run_##how, .device = on,                 \
        .threads = count, .size = batch, .context = model                                                              \
    }

#define TORCH_1      "torch:train 1,torch:train channels_last 1"
#define TORCH_2      "torch:train 2,torch:train channels_last 2"
#define TORCH_RESNET "torch:train resnet18,torch:train resnet18 channels_last"

static const bench_case cases[] = {
    TRAINING("train cpu, 1 thread", training, "simplecnn", 64, "cpu", 1, TORCH_1),
    TRAINING("train cpu, 1 thread, followed", followed, "simplecnn", 64, "cpu", 1, "train cpu, 1 thread," TORCH_1),
    TRAINING("train cpu, 2 threads", training, "simplecnn", 64, "cpu", 2, TORCH_2),
    TRAINING("train cpu, 2 threads, followed", followed, "simplecnn", 64, "cpu", 2, "train cpu, 2 threads," TORCH_2),
    TRAINING("train cpu, resnet18", training, "resnet18", 32, "cpu", 0, TORCH_RESNET),
    TRAINING("train cpu, resnet18, followed", followed, "resnet18", 32, "cpu", 0, "train cpu, resnet18," TORCH_RESNET),
    TRAINING("train opencl:0", training, "simplecnn", 64, "opencl:0", 0, "torch:train 2"),
    TRAINING("train opencl:0, followed", followed, "simplecnn", 64, "opencl:0", 0, "train opencl:0,torch:train 2"),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
