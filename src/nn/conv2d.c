/* The convolution layer, weight [out, in / groups, height, width]. */
#include <haul/ops.h>
#include <haul/scope.h>
#include <string.h>

#include "core/error.h"
#include "core/option.h"
#include "core/shape.h"
#include "nn/module.h"

typedef struct conv2d {
    haul_conv2d_options options;
    bool                has_bias;
} conv2d;

static const char operation[] = "haul_nn_conv2d";

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const conv2d       *s = haul_module_state(m);
    haul_conv2d_options options = s->options;

    options.bias = s->has_bias ? haul_module_parameter(m, "bias") : HAUL_NONE;
    return haul_conv2d_with(args->x[0], haul_module_parameter(m, "weight"), &options);
}

static haul_status check(int64_t in, int64_t out, int64_t height, int64_t width, int64_t groups, int64_t *fan_in)
{
    if (haul__module_size(in, operation, "in_channels") || haul__module_size(out, operation, "out_channels") ||
        haul__module_size(height, operation, "kernel") || haul__module_size(width, operation, "kernel_w") ||
        haul__module_size(groups, operation, "groups"))
        return haul_error_status();
    if (in % groups || out % groups)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "groups",
                          "%lld channels in and %lld out cannot be cut into %lld groups", (long long)in, (long long)out,
                          (long long)groups);
    if (!haul__mul_size(in / groups, height, fan_in) || !haul__mul_size(*fan_in, width, fan_in))
        return haul__fail(HAUL_SHAPE, operation, "kernel", "the weight's size overflows");
    return HAUL_OK;
}

/* The pairs, which the operation completes at each call. */
static haul_status check_pairs(const haul_nn_conv2d_options *options)
{
    static const int64_t ones[2] = {1, 1}, zeros[2];
    int64_t              stride[2], padding[2], dilation[2];

    memcpy(stride, options->stride, sizeof stride);
    memcpy(padding, options->padding, sizeof padding);
    memcpy(dilation, options->dilation, sizeof dilation);
    haul_status status = haul__option_pair(operation, "stride", stride, ones, 1);
    if (!status)
        status = haul__option_pair(operation, "padding", padding, zeros, 0);
    return status ? status : haul__option_pair(operation, "dilation", dilation, ones, 1);
}

haul_module *haul_nn_conv2d_with(int64_t in_channels, int64_t out_channels, const haul_nn_conv2d_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t height = options->kernel, width = options->kernel_w ? options->kernel_w : options->kernel;
    int64_t groups = options->groups ? options->groups : 1, fan_in = 0;

    if (check(in_channels, out_channels, height, width, groups, &fan_in) || check_pairs(options))
        return NULL;
    haul_module *m = haul_module_new("conv2d", forward, .state_bytes = sizeof(conv2d));
    haul_scope  *scope = m ? haul_scope_push() : NULL;
    if (!scope)
        return NULL;
    conv2d *s = haul_module_state(m);
    s->has_bias = !options->no_bias;
    s->options.groups = groups;
    s->options.relu = options->relu;
    memcpy(s->options.stride, options->stride, sizeof s->options.stride);
    memcpy(s->options.padding, options->padding, sizeof s->options.padding);
    memcpy(s->options.dilation, options->dilation, sizeof s->options.dilation);
    haul_status status =
        haul__module_draw_parameter(m, "weight", HAUL_SHAPE(out_channels, in_channels / groups, height, width), fan_in);
    if (!status && s->has_bias)
        status = haul__module_draw_parameter(m, "bias", HAUL_SHAPE(out_channels), fan_in);
    return haul__module_built(m, scope, status, "haul_nn_conv2d");
}
