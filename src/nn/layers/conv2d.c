/* The convolution layer, weight [out, in / groups, height, width], and functions that all convolution layers share. */
#include <haul/ops.h>
#include <haul/scope.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "core/scope.h"
#include "core/shape.h"
#include "nn/layers/conv.h"

typedef struct conv2d {
    haul_conv2d_options options;
    bool                has_bias;
} conv2d;

static const char operation[] = "haul_nn_conv2d";

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const conv2d       *s = haul_module_state(m);
    haul_conv2d_options options = s->options;
    options.weight = haul_module_parameter(m, "weight");
    options.bias = s->has_bias ? haul_module_parameter(m, "bias") : HAUL_NONE;
    return haul_conv2d_with(args->x[0], &options);
}

haul_status haul__conv_check(const char *of, int64_t in, int64_t out, int64_t height, int64_t width, int64_t groups,
                             int64_t second, int64_t *fan_in)
{
    if (haul__module_size(in, of, "in_channels") || haul__module_size(out, of, "out_channels") ||
        haul__module_size(height, of, "kernel") || haul__module_size(width, of, "kernel_w") ||
        haul__module_size(groups, of, "groups"))
        return haul_error_status();
    if (in % groups || out % groups)
        return haul__fail(HAUL_INVALID_ARGUMENT, of, "groups",
                          "%lld channels in and %lld out cannot be cut into %lld groups", (long long)in, (long long)out,
                          (long long)groups);
    HAUL__ASSERT(second == in || second == out);
    if (!haul__mul_size(second / groups, height, fan_in) || !haul__mul_size(*fan_in, width, fan_in))
        return haul__fail(HAUL_SHAPE, of, "kernel", "the weight's size overflows");
    HAUL__ASSERT(*fan_in > 0);
    return HAUL_OK;
}

haul_status haul__conv_check_pairs(const char *of, const int64_t stride[2], const int64_t padding[2],
                                   const int64_t dilation[2])
{
    static const int64_t ones[2] = {1, 1}, zeros[2];
    int64_t              pairs[3][2] = {{stride[0], stride[1]}, {padding[0], padding[1]}, {dilation[0], dilation[1]}};
    haul_status          status = haul__option_pair(of, "stride", pairs[0], ones, 1);
    if (!status)
        status = haul__option_pair(of, "padding", pairs[1], zeros, 0);
    return status ? status : haul__option_pair(of, "dilation", pairs[2], ones, 1);
}

haul_module *haul__conv_built(haul_module *m, haul_shape weight, int64_t out, int64_t fan_in, const char *of)
{
    haul_scope *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    haul_status status = haul__module_draw_parameter(m, "weight", weight, fan_in);
    if (!status && out)
        status = haul__module_draw_parameter(m, "bias", HAUL_SHAPE(out), fan_in);
    return haul__module_built(m, scope, status, of);
}

haul_module *haul_nn_conv2d_with(int64_t in_channels, int64_t out_channels, const haul_nn_conv2d_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t height = options->kernel, width = options->kernel_w ? options->kernel_w : options->kernel;
    int64_t groups = options->groups ? options->groups : 1, fan_in = 0;

    if (haul__conv_check(operation, in_channels, out_channels, height, width, groups, in_channels, &fan_in) ||
        haul__conv_check_pairs(operation, options->stride, options->padding, options->dilation))
        return NULL;
    haul_module *m = haul_module_new("conv2d", forward, .state_bytes = sizeof(conv2d));
    if (m) {
        conv2d *s = haul_module_state(m);
        s->has_bias = !options->no_bias;
        s->options.groups = groups;
        s->options.relu = options->relu;
        s->options.same = options->same;
        memcpy(s->options.stride, options->stride, sizeof s->options.stride);
        memcpy(s->options.padding, options->padding, sizeof s->options.padding);
        memcpy(s->options.dilation, options->dilation, sizeof s->options.dilation);
    }
    return haul__conv_built(m, HAUL_SHAPE(out_channels, in_channels / groups, height, width),
                            options->no_bias ? 0 : out_channels, fan_in, operation);
}
