/* haul_pixel_shuffle and its inverse as layers. */
#include <haul/channels.h>

#include "nn/module.h"

#define PIXELS(name)                                                                                                   \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        return haul_##name(args->x[0], *(const int64_t *)haul_module_state(m));                                        \
    }                                                                                                                  \
    haul_module *haul_nn_##name(int64_t factor)                                                                        \
    {                                                                                                                  \
        if (haul__module_size(factor, "haul_nn_" #name, "factor"))                                                     \
            return NULL;                                                                                               \
        haul_module *m = haul_module_new(#name, name##_forward, .state_bytes = sizeof factor);                         \
        if (m)                                                                                                         \
            *(int64_t *)haul_module_state(m) = factor;                                                                 \
        return m;                                                                                                      \
    }

PIXELS(pixel_shuffle)
PIXELS(pixel_unshuffle)
