/* Pooling layers. The options are checked when the layer is made, the input at each call. */
#include "core/error.h"
#include "core/option.h"
#include "nn/module.h"

#define POOLING(name)                                                                                                  \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        return haul_##name##_with(args->x[0], haul_module_state(m));                                                   \
    }                                                                                                                  \
    haul_module *haul_nn_##name##_with(const haul_pool2d_options *options)                                             \
    {                                                                                                                  \
        return pooling_new(#name, "haul_nn_" #name, name##_forward, options);                                          \
    }

static haul_module *pooling_new(const char *kind, const char *operation, haul_forward *forward,
                                const haul_pool2d_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t stride[2] = {options->stride[0], options->stride[1]}, width = options->size_w;
    int64_t padding[2] = {options->padding[0], options->padding[1]};
    int64_t dilation[2] = {options->dilation[0], options->dilation[1]};
    if (haul__module_size(options->size, operation, "size") ||
        (width && haul__module_size(width, operation, "size_w")) ||
        haul__option_pair(operation, "stride", stride, (const int64_t[2]){1, 1}, 1) ||
        haul__option_pair(operation, "padding", padding, (const int64_t[2]){0, 0}, 0) ||
        haul__option_pair(operation, "dilation", dilation, (const int64_t[2]){1, 1}, 1))
        return NULL;
    haul_module *m = haul_module_new(kind, forward, .state_bytes = sizeof *options);
    if (m)
        *(haul_pool2d_options *)haul_module_state(m) = *options;
    return m;
}

POOLING(max_pool2d)
POOLING(avg_pool2d)

#define ADAPTIVE(name)                                                                                                 \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        const int64_t *size = haul_module_state(m);                                                                    \
        return haul_##name(args->x[0], size[0], size[1]);                                                              \
    }                                                                                                                  \
    haul_module *haul_nn_##name(int64_t height, int64_t width)                                                         \
    {                                                                                                                  \
        return adaptive_new(#name, "haul_nn_" #name, name##_forward, height, width);                                   \
    }

static haul_module *adaptive_new(const char *kind, const char *operation, haul_forward *forward, int64_t height,
                                 int64_t width)
{
    if (haul__module_size(height, operation, "height") || haul__module_size(width, operation, "width"))
        return NULL;
    haul_module *m = haul_module_new(kind, forward, .state_bytes = 2 * sizeof(int64_t));
    if (m) {
        int64_t *size = haul_module_state(m);
        size[0] = height;
        size[1] = width;
    }
    return m;
}

ADAPTIVE(adaptive_max_pool2d)
ADAPTIVE(adaptive_avg_pool2d)
