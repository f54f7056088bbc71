/* The transposed convolution layer, weight [in, out / groups, height, width]. */
#include <haul/conv.h>
#include <string.h>

#include "core/error.h"
#include "core/option.h"
#include "nn/layers/conv.h"

typedef struct conv_transpose2d {
    haul_conv_transpose2d_options options;
    bool                          has_bias;
} conv_transpose2d;

static const char operation[] = "haul_nn_conv_transpose2d";

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const conv_transpose2d       *s = haul_module_state(m);
    haul_conv_transpose2d_options options = s->options;
    options.weight = haul_module_parameter(m, "weight");
    options.bias = s->has_bias ? haul_module_parameter(m, "bias") : HAUL_NONE;
    return haul_conv_transpose2d_with(args->x[0], &options);
}

haul_module *haul_nn_conv_transpose2d_with(int64_t in_channels, int64_t out_channels,
                                           const haul_nn_conv_transpose2d_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t height = options->kernel, width = options->kernel_w ? options->kernel_w : options->kernel;
    int64_t groups = options->groups ? options->groups : 1, fan_in = 0;
    int64_t more[2] = {options->output_padding[0], options->output_padding[1]};

    if (haul__conv_check(operation, in_channels, out_channels, height, width, groups, out_channels, &fan_in) ||
        haul__conv_check_pairs(operation, options->stride, options->padding, options->dilation) ||
        haul__option_pair(operation, "output_padding", more, (const int64_t[2]){0, 0}, 0))
        return NULL;
    haul_module *m = haul_module_new("conv_transpose2d", forward, .state_bytes = sizeof(conv_transpose2d));
    if (m) {
        conv_transpose2d *s = haul_module_state(m);
        s->has_bias = !options->no_bias;
        s->options.groups = groups;
        memcpy(s->options.stride, options->stride, sizeof s->options.stride);
        memcpy(s->options.padding, options->padding, sizeof s->options.padding);
        memcpy(s->options.output_padding, options->output_padding, sizeof s->options.output_padding);
        memcpy(s->options.dilation, options->dilation, sizeof s->options.dilation);
    }
    return haul__conv_built(m, HAUL_SHAPE(in_channels, out_channels / groups, height, width),
                            options->no_bias ? 0 : out_channels, fan_in, operation);
}
