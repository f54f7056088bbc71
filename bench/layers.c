/* A training step of one layer: forward, the mean of the squares of its result, backward. Recurrent layers have 32
 * sequences of 64 steps with 128 features and a state of 256; the encoder layer of a transformer 16 sequences of 64
 * positions with 256 features, 8 heads and 1024 features between its linear layers, without dropout. */
#include <haul/layers.h>
#include <haul/transformer.h>

#include "support/bench.h"

static haul_module *layer;
static haul_tensor *input;
static haul_device *device;

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

#define LAYER(label, on, count, who, kind)                                                                             \
    {                                                                                                                  \
        .name = label, .unit = "ms", .peers = who, .open = open_layer, .run = run_layer, .device = on,                 \
        .threads = count, .context = &(kind)                                                                           \
    }

static const bench_case cases[] = {
    LAYER("layer lstm, 1 thread", "cpu", 1, "torch:layer lstm 1", of_lstm),
    LAYER("layer lstm, 2 threads", "cpu", 2, "torch:layer lstm 2", of_lstm),
    LAYER("layer lstm, opencl:0", "opencl:0", 0, "layer lstm, 2 threads", of_lstm),
    LAYER("layer gru, 1 thread", "cpu", 1, "torch:layer gru 1", of_gru),
    LAYER("layer gru, 2 threads", "cpu", 2, "torch:layer gru 2", of_gru),
    LAYER("layer gru, opencl:0", "opencl:0", 0, "layer gru, 2 threads", of_gru),
    LAYER("layer encoder, 1 thread", "cpu", 1, "torch:layer encoder 1", of_encoder),
    LAYER("layer encoder, 2 threads", "cpu", 2, "torch:layer encoder 2", of_encoder),
    LAYER("layer encoder, opencl:0", "opencl:0", 0, "layer encoder, 2 threads", of_encoder),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
