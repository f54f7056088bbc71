/* Layers that apply one operation to each element, or along an axis. */
#include <haul/elementwise.h>
#include <haul/ops.h>

#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
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
ACTIVATION(selu)
ACTIVATION(mish)
ACTIVATION(hardswish)
ACTIVATION(hardsigmoid)
ACTIVATION(softsign)

#define WITH_NUMBER(name, number)                                                                                      \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        return haul_##name(args->x[0], *(const double *)haul_module_state(m));                                         \
    }                                                                                                                  \
    haul_module *haul_nn_##name(double number)                                                                         \
    {                                                                                                                  \
        haul_module *m = haul_module_new(#name, name##_forward, .state_bytes = sizeof number);                         \
        if (m)                                                                                                         \
            *(double *)haul_module_state(m) = number;                                                                  \
        return m;                                                                                                      \
    }

WITH_NUMBER(leaky_relu, slope)
WITH_NUMBER(elu, alpha)
WITH_NUMBER(celu, alpha)

typedef struct bounds {
    double low, high;
} bounds;

static haul_tensor *hardtanh_forward(haul_module *m, haul_args *args)
{
    const bounds *s = haul_module_state(m);
    return haul_clamp(args->x[0], s->low, s->high);
}

haul_module *haul_nn_hardtanh(double low, double high)
{
    if (!(low <= high)) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_nn_hardtanh", "low", "low is %g and high %g; low <= high is expected",
                   low, high);
        return NULL;
    }
    haul_module *m = haul_module_new("hardtanh", hardtanh_forward, .state_bytes = sizeof(bounds));
    if (m)
        *(bounds *)haul_module_state(m) = (bounds){low, high};
    return m;
}

static haul_tensor *prelu_forward(haul_module *m, haul_args *args)
{
    return haul_prelu(args->x[0], haul_module_parameter(m, "weight"));
}

haul_module *haul_nn_prelu(int64_t count, double slope)
{
    if (haul__module_size(count, "haul_nn_prelu", "count"))
        return NULL;
    haul_module *m = haul_module_new("prelu", prelu_forward);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    haul_tensor *weight = haul_full(HAUL_F32, HAUL_SHAPE(count), slope);
    return haul__module_built(
        m, scope, haul__failed(weight) ? haul_error_status() : haul_module_add_parameter(m, "weight", weight),
        "haul_nn_prelu");
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
ALONG_AXIS(glu)
