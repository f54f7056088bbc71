/* Layers that apply one operation to each element, or along an axis. */
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
ACTIVATION(silu)

static haul_tensor *leaky_relu_forward(haul_module *m, haul_args *args)
{
    return haul_leaky_relu(args->x[0], *(const double *)haul_module_state(m));
}

haul_module *haul_nn_leaky_relu(double slope)
{
    haul_module *m = haul_module_new("leaky_relu", leaky_relu_forward, .state_bytes = sizeof slope);
    if (m)
        *(double *)haul_module_state(m) = slope;
    return m;
}

#define ALONG_AXIS(name)                                                                                               \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        return haul_##name(args->x[0], *(const int *)haul_module_state(m));                                            \
    }                                                                                                                  \
    haul_module *haul_nn_##name(int axis)                                                                              \
    {                                                                                                                  \
        haul_module *m = haul_module_new(#name, name##_forward, .state_bytes = sizeof axis);                           \
        if (m)                                                                                                         \
            *(int *)haul_module_state(m) = axis;                                                                       \
        return m;                                                                                                      \
    }

ALONG_AXIS(softmax)
ALONG_AXIS(log_softmax)
