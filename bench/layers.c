/* A training step of one layer: forward, the mean of the squares of its result, backward; by itself, and followed on
 * two threads. Recurrent layers have 32 sequences of 64 steps with 128 features and a state of 256; the encoder layer
 * of a transformer 16 sequences of 64 positions with 256 features, 8 heads and 1024 features between its linear layers,
 * without dropout. */
#include <haul/layers.h>
#include <haul/transformer.h>

#include "support/bench.h"

static haul_module    *layer;
static haul_tensor    *input;
static haul_device    *device;
static haul_recording *recording;

static haul_module *lstm(void)
{
    return haul_nn_lstm(128, 256);
}

static haul_module *gru(void)
{
    return haul_nn_gru(128, 256);
}

static haul_module *encoder(void)
{
    return haul_nn_transformer_encoder_layer(256, 8, .hidden = 1024, .dropout = HAUL_ZERO);
}

typedef struct layer_kind {
    haul_module *(*make)(void);
    haul_shape input;
} layer_kind;

static const layer_kind of_lstm = {lstm, {3, {32, 64, 128}}}, of_gru = {gru, {3, {32, 64, 128}}},
                        of_encoder = {encoder, {3, {16, 64, 256}}};

static bool open_layer(const bench_case *c)
{
    const layer_kind *kind = c->context;
    device = haul_device_get(c->device);
    if (haul_set_device(device))
        return false;
    haul_manual_seed(0);
    layer = kind->make();
    input = haul_uniform(HAUL_F32, kind->input, -1, 1);
    return !haul_error_status();
}

static haul_status step(void *context)
{
    (void)context;
    haul_module_zero_grad(layer);
    return haul_backward(haul_mean(haul_square(haul_call(layer, input))));
}

static bool run_layer(const bench_case *c, int64_t times)
{
    (void)c;
    return bench_steps(step, times);
}

static bool open_followed(const bench_case *c)
{
    if (!open_layer(c))
        return false;
    recording = bench_follow(step);
    return recording;
}

static bool run_followed(const bench_case *c, int64_t times)
{
    (void)c;
    return bench_followed(recording, times);
}

#define CASE(label, how, on, count, who, kind)                                                                         \
    {                                                                                                                  \
        .name = label, .unit = "ms", .peers = who, .open = open_##how, .run = run_##how, .device = on,                 \
        .threads = count, .context = &(kind)                                                                           \
    }

#define TORCH(name, count) "torch:layer " name " " count ",torch:layer " name " " count " compiled"

#define LAYER(name, kind)                                                                                              \
    CASE("layer " name ", 1 thread", layer, "cpu", 1, TORCH(name, "1"), kind),                                         \
        CASE("layer " name ", 2 threads", layer, "cpu", 2, TORCH(name, "2"), kind),                                    \
        CASE("layer " name ", 2 threads, followed", followed, "cpu", 2, "layer " name ", 2 threads," TORCH(name, "2"), \
             kind),                                                                                                    \
        CASE("layer " name ", opencl:0", layer, "opencl:0", 0, "layer " name ", 2 threads", kind)

static const bench_case cases[] = {LAYER("lstm", of_lstm), LAYER("gru", of_gru), LAYER("encoder", of_encoder)};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
