/* The 1-d convolution layer, weight [out, in / groups, length]. */
#include <haul/conv.h>

#include "core/error.h"
#include "nn/layers/conv.h"

typedef struct conv1d {
    haul_conv1d_options options;
    bool                has_bias;
} conv1d;

static const char operation[] = "haul_nn_conv1d";

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const conv1d       *s = haul_module_state(m);
    haul_conv1d_options options = s->options;
    options.weight = haul_module_parameter(m, "weight");
    options.bias = s->has_bias ? haul_module_parameter(m, "bias") : HAUL_NONE;
    return haul_conv1d_with(args->x[0], &options);
}

haul_status haul__conv_check_number(const char *of, int64_t value, const char *name, int64_t least)
{
    int64_t meant = value == HAUL_ZERO ? 0 : value;
    if (value && meant < least)
        return haul__fail(HAUL_INVALID_ARGUMENT, of, name, "%s is %lld; it must be at least %lld", name,
                          (long long)meant, (long long)least);
    return HAUL_OK;
}

haul_module *haul_nn_conv1d_with(int64_t in_channels, int64_t out_channels, const haul_nn_conv1d_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t groups = options->groups ? options->groups : 1, fan_in = 0;

    if (haul__conv_check(operation, in_channels, out_channels, options->kernel, 1, groups, in_channels, &fan_in) ||
        haul__conv_check_number(operation, options->stride, "stride", 1) ||
        haul__conv_check_number(operation, options->padding, "padding", 0) ||
        haul__conv_check_number(operation, options->dilation, "dilation", 1))
        return NULL;
    haul_module *m = haul_module_new("conv1d", forward, .state_bytes = sizeof(conv1d));
    if (m)
        *(conv1d *)haul_module_state(m) = (conv1d){.has_bias = !options->no_bias,
                                                   .options = {.stride = options->stride,
                                                               .padding = options->padding,
                                                               .dilation = options->dilation,
                                                               .groups = groups,
                                                               .relu = options->relu,
                                                               .same = options->same}};
    return haul__conv_built(m, HAUL_SHAPE(out_channels, in_channels / groups, options->kernel),
                            options->no_bias ? 0 : out_channels, fan_in, operation);
}
