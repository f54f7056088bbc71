/* A step of training a network: the CIFAR-10 network, ResNet-18, a small GPT, a U-Net. Forward, loss, backward, SGD
 * with momentum; each by itself, and followed. The batch is on the device already. */
#include <string.h>

#include "record/follow/device_chain.h"
#include "support/bench.h"

static haul_module    *net;
static haul_optimizer *optimizer;
static haul_tensor    *input, *labels;
static int64_t         token_kinds; /* 0: the examples are pictures */
static haul_device    *device;
static haul_recording *recording;

/* A network, the tensors that it takes, and the classes of a picture, a pixel or a token. */
typedef struct training {
    const char *model;
    bool        takes_tokens;
    haul_shape  input, labels; /* of an example */
    int64_t     classes;
} training;

static const training simplecnn = {"simplecnn", false, {3, {3, 32, 32}}, {0}, 10},
                      resnet18 = {"resnet18", false, {3, {3, 32, 32}}, {0}, 10},
                      char_gpt = {"char_gpt", true, {1, {64}}, {1, {64}}, 128},
                      unet = {"unet", false, {3, {3, 32, 32}}, {2, {32, 32}}, 3};

static haul_shape of_batch(int64_t size, const haul_shape *example)
{
    haul_shape s = {example->ndim + 1, {size}};
    memcpy(s.dims + 1, example->dims, (size_t)example->ndim * sizeof *s.dims);
    return s;
}

static bool open_training(const bench_case *c)
{
    const training *t = c->context;
    device = haul_device_get(c->device);
    if (haul_set_device(device))
        return false;
    haul_manual_seed(0);
    net = haul_model_new(t->model);
    optimizer = haul_sgd(net, 0.01, .momentum = 0.9);
    const haul_shape shape = of_batch(c->size, &t->input), of_labels = of_batch(c->size, &t->labels);
    input = t->takes_tokens ? haul_randint(HAUL_I64, shape, 0, t->classes) : haul_uniform(HAUL_F32, shape, -1, 1);
    labels = haul_randint(HAUL_I64, of_labels, 0, t->classes);
    if (t->takes_tokens)
        labels = haul_flatten(labels, 0);
    token_kinds = t->takes_tokens ? t->classes : 0;
    return !haul_error_status();
}

static haul_status step(void *context)
{
    (void)context;
    haul_optimizer_zero_grad(optimizer);
    haul_tensor *y = haul_call(net, input);
    haul_backward(haul_cross_entropy(token_kinds ? haul_reshape(y, HAUL_SHAPE(-1, token_kinds)) : y, labels));
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
    recording = bench_follow(step);
    return recording;
}

static bool run_followed(const bench_case *c, int64_t times)
{
    (void)c;
    return bench_followed(recording, times);
}

/* `how`: training or followed. */
#define TRAINING(label, how, model, batch, on, count, who)                                                             \
    {                                                                                                                  \
        .name = label, .unit = "ms", .peers = who, .open = open_##how, .run = run_##how, .device = on,                 \
        .threads = count, .size = batch, .context = &(model)                                                           \
    }

/* By itself and followed, which is compared with both. */
#define TRAININGS(label, model, batch, on, count, who)                                                                 \
    TRAINING(label, training, model, batch, on, count, who),                                                           \
        TRAINING(label ", followed", followed, model, batch, on, count, label "," who)

#define PLAIN(model, count)    "torch:train " #model " " count ",torch:train " #model " " count " compiled"
#define PICTURES(model, count) PLAIN(model, count) ",torch:train " #model " channels_last " count

static const bench_case cases[] = {
    TRAININGS("train cpu, 1 thread", simplecnn, 64, "cpu", 1, PICTURES(simplecnn, "1")),
    TRAININGS("train cpu, 2 threads", simplecnn, 64, "cpu", 2, PICTURES(simplecnn, "2")),
    TRAININGS("train cpu, char_gpt", char_gpt, 64, "cpu", 2, PLAIN(char_gpt, "2")),
    TRAININGS("train cpu, resnet18", resnet18, 32, "cpu", 2, PICTURES(resnet18, "2")),
    TRAININGS("train cpu, unet", unet, 64, "cpu", 2, PICTURES(unet, "2")),
    TRAININGS("train opencl:0", simplecnn, 64, "opencl:0", 0, "train cpu, 2 threads,torch:train simplecnn 2"),
    TRAININGS("train opencl:0, char_gpt", char_gpt, 64, "opencl:0", 0, "train cpu, char_gpt"),
    TRAININGS("train opencl:0, resnet18", resnet18, 32, "opencl:0", 0, "train cpu, resnet18"),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
