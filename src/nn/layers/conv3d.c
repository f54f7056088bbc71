/* Convolution layers of volumes, and the transposed one of sequences. */
#include <haul/ops.h>
#include <haul/volume.h>
#include <string.h>

#include "core/error.h"
#include "core/shape.h"
#include "nn/layers/conv.h"
#include "ops/pool/triple.h"

/* ---- volumes ---- */

typedef struct conv3d {
    haul_conv3d_options           options;    /* of haul_nn_conv3d */
    haul_conv_transpose3d_options transposed; /* of haul_nn_conv_transpose3d */
    bool                          has_bias;
} conv3d;

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const conv3d       *s = haul_module_state(m);
    haul_conv3d_options options = s->options;
    options.weight = haul_module_parameter(m, "weight");
    options.bias = s->has_bias ? haul_module_parameter(m, "bias") : HAUL_NONE;
    return haul_conv3d_with(args->x[0], &options);
}

static haul_tensor *forward_transposed(haul_module *m, haul_args *args)
{
    const conv3d                 *s = haul_module_state(m);
    haul_conv_transpose3d_options options = s->transposed;
    options.weight = haul_module_parameter(m, "weight");
    options.bias = s->has_bias ? haul_module_parameter(m, "bias") : HAUL_NONE;
    return haul_conv_transpose3d_with(args->x[0], &options);
}

/* Checks triples, whose defaults the operation fills in at each call. */
static haul_status check_triples(const char *of, const int64_t stride[3], const int64_t padding[3],
                                 const int64_t more[3], const int64_t dilation[3])
{
    static const int64_t ones[3] = {1, 1, 1}, zeros[3];
    int64_t              meant[3];
    if (haul__option_triple(of, "stride", stride, ones, 1, meant) ||
        haul__option_triple(of, "padding", padding, zeros, 0, meant) ||
        haul__option_triple(of, "output_padding", more, zeros, 0, meant))
        return haul_error_status();
    return haul__option_triple(of, "dilation", dilation, ones, 1, meant);
}

/* The size of the kernel, and *fan_in as of haul__conv_check. */
static haul_status check_kernel(const char *of, int64_t in, int64_t out, int64_t k[3], int64_t groups, int64_t second,
                                int64_t *fan_in)
{
    k[1] = k[1] ? k[1] : k[0];
    k[2] = k[2] ? k[2] : k[0];
    if (haul__module_size(k[0], of, "kernel") || haul__module_size(k[1], of, "kernel_h") ||
        haul__module_size(k[2], of, "kernel_w") || haul__conv_check(of, in, out, k[0], k[1], groups, second, fan_in))
        return haul_error_status();
    return haul__mul_size(*fan_in, k[2], fan_in) ? HAUL_OK
                                                 : haul__fail(HAUL_SHAPE, of, "kernel", "the weight's size overflows");
}

haul_module *haul_nn_conv3d_with(int64_t in_channels, int64_t out_channels, const haul_nn_conv3d_options *o)
{
    static const char operation[] = "haul_nn_conv3d";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t k[3] = {o->kernel, o->kernel_h, o->kernel_w}, groups = o->groups ? o->groups : 1, fan_in = 0;
    if (check_kernel(operation, in_channels, out_channels, k, groups, in_channels, &fan_in) ||
        check_triples(operation, o->stride, o->padding, (const int64_t[3]){0}, o->dilation))
        return NULL;
    haul_module *m = haul_module_new("conv3d", forward, .state_bytes = sizeof(conv3d));
    if (m) {
        conv3d *s = haul_module_state(m);
        s->has_bias = !o->no_bias;
        s->options.groups = groups;
        s->options.relu = o->relu;
        s->options.same = o->same;
        memcpy(s->options.stride, o->stride, sizeof o->stride);
        memcpy(s->options.padding, o->padding, sizeof o->padding);
        memcpy(s->options.dilation, o->dilation, sizeof o->dilation);
    }
    return haul__conv_built(m, HAUL_SHAPE(out_channels, in_channels / groups, k[0], k[1], k[2]),
                            o->no_bias ? 0 : out_channels, fan_in, operation);
}

haul_module *haul_nn_conv_transpose3d_with(int64_t in_channels, int64_t out_channels,
                                           const haul_nn_conv_transpose3d_options *o)
{
    static const char operation[] = "haul_nn_conv_transpose3d";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t k[3] = {o->kernel, o->kernel_h, o->kernel_w}, groups = o->groups ? o->groups : 1, fan_in = 0;
    if (check_kernel(operation, in_channels, out_channels, k, groups, out_channels, &fan_in) ||
        check_triples(operation, o->stride, o->padding, o->output_padding, o->dilation))
        return NULL;
    haul_module *m = haul_module_new("conv_transpose3d", forward_transposed, .state_bytes = sizeof(conv3d));
    if (m) {
        conv3d *s = haul_module_state(m);
        s->has_bias = !o->no_bias;
        s->transposed.groups = groups;
        memcpy(s->transposed.stride, o->stride, sizeof o->stride);
        memcpy(s->transposed.padding, o->padding, sizeof o->padding);
        memcpy(s->transposed.output_padding, o->output_padding, sizeof o->output_padding);
        memcpy(s->transposed.dilation, o->dilation, sizeof o->dilation);
    }
    return haul__conv_built(m, HAUL_SHAPE(in_channels, out_channels / groups, k[0], k[1], k[2]),
                            o->no_bias ? 0 : out_channels, fan_in, operation);
}

/* ---- sequences ---- */

typedef struct conv_transpose1d {
    haul_conv_transpose1d_options options;
    bool                          has_bias;
} conv_transpose1d;

static haul_tensor *forward_line(haul_module *m, haul_args *args)
{
    const conv_transpose1d       *s = haul_module_state(m);
    haul_conv_transpose1d_options options = s->options;
    options.weight = haul_module_parameter(m, "weight");
    options.bias = s->has_bias ? haul_module_parameter(m, "bias") : HAUL_NONE;
    return haul_conv_transpose1d_with(args->x[0], &options);
}

haul_module *haul_nn_conv_transpose1d_with(int64_t in_channels, int64_t out_channels,
                                           const haul_nn_conv_transpose1d_options *o)
{
    static const char operation[] = "haul_nn_conv_transpose1d";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t groups = o->groups ? o->groups : 1, fan_in = 0;
    if (haul__conv_check(operation, in_channels, out_channels, o->kernel, 1, groups, out_channels, &fan_in) ||
        haul__conv_check_number(operation, o->stride, "stride", 1) ||
        haul__conv_check_number(operation, o->padding, "padding", 0) ||
        haul__conv_check_number(operation, o->output_padding, "output_padding", 0) ||
        haul__conv_check_number(operation, o->dilation, "dilation", 1))
        return NULL;
    haul_module *m = haul_module_new("conv_transpose1d", forward_line, .state_bytes = sizeof(conv_transpose1d));
    if (m)
        *(conv_transpose1d *)haul_module_state(m) = (conv_transpose1d){.has_bias = !o->no_bias,
                                                                       .options = {.stride = o->stride,
                                                                                   .padding = o->padding,
                                                                                   .output_padding = o->output_padding,
                                                                                   .dilation = o->dilation,
                                                                                   .groups = groups}};
    return haul__conv_built(m, HAUL_SHAPE(in_channels, out_channels / groups, o->kernel), o->no_bias ? 0 : out_channels,
                            fan_in, operation);
}
