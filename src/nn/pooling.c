/* Pooling. The window's size is checked when the layer is made, the rest when it meets a picture. */
#include "core/error.h"
#include "nn/module.h"

#define POOLING(name)                                                                                                  \
    static haul_tensor *name##_forward(haul_module *m, haul_tensor *x)                                                 \
    {                                                                                                                  \
        return haul_##name##_with(x, haul_module_state(m));                                                            \
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
    if (haul__module_size(options->size, operation, "size"))
        return NULL;
    haul_module *m = haul_module_new_with_state(kind, forward, sizeof *options);
    if (m)
        *(haul_pool2d_options *)haul_module_state(m) = *options;
    return m;
}

POOLING(max_pool2d)
POOLING(avg_pool2d)
