/* Layers that are one pointwise operation. */
#include <haul/ops.h>

#include "nn/module.h"

#define ACTIVATION(name)                                                                                               \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        (void)m;                                                                                                       \
        return haul_##name(args->x[0]);                                                                                \
    }                                                                                                                  \
    haul_module *haul_nn_##name(void)                                                                                  \
    {                                                                                                                  \
        return haul_module_new(#name, name##_forward);                                                                 \
    }

ACTIVATION(relu)
ACTIVATION(tanh)
ACTIVATION(sigmoid)
ACTIVATION(gelu)
