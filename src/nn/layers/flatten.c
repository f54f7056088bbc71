/* Flatten: merges the axes from first_axis on. */
#include <haul/ops.h>

#include "nn/module.h"

typedef struct flatten {
    int first_axis;
} flatten;

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    return haul_flatten(args->x[0], ((const flatten *)haul_module_state(m))->first_axis);
}

haul_module *haul_nn_flatten(int first_axis)
{
    haul_module *m = haul_module_new("flatten", forward, .state_bytes = sizeof(flatten));
    if (m)
        ((flatten *)haul_module_state(m))->first_axis = first_axis;
    return m;
}
