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

static bool run_layer(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        haul_module_zero_grad(layer);
        const haul_status status = haul_backward(haul_mean(haul_square(haul_call(layer, input))));
        haul_scope_pop(scope);
        if (status)
            return false;
    }
    return !haul_device_sync(device);
}

#define LAYER(label, of)                                                                                               \
    {.name = label ", 1 thread",                                                                                       \
     .unit = "ms",                                                                                                     \
     .peers = "torch:" label " 1",                                                                                     \
     .open = open_layer,                                                                                               \
     .run = run_layer,                                                                                                 \
     .device = "cpu",                                                                                                  \
     .threads = 1,                                                                                                     \
     .context = &(of)},                                                                                                \
        {.name = label ", 2 threads",                                                                                  \
         .unit = "ms",                                                                                                 \
         .peers = "torch:" label " 2",                                                                                 \
         .open = open_layer,                                                                                           \
         .run = run_layer,                                                                                             \
         .device = "cpu",                                                                                              \
         .threads = 2,                                                                                                 \
         .context = &(of)},                                                                                            \
    {                                                                                                                  \
        .name = label ", opencl:0", .unit = "ms", .peers = label ", 2 threads", .open = open_layer, .run = run_layer,  \
        .device = "opencl:0", .context = &(of)                                                                         \
    }

static const bench_case cases[] = {LAYER("layer lstm", of_lstm), LAYER("layer gru", of_gru),
                                   LAYER("layer encoder", of_encoder)};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
