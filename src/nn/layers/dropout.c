/* Dropout (Srivastava et al. 2014), active in training only. */
#include <haul/ops.h>

#include "core/error.h"
#include "nn/module.h"

typedef struct dropout {
    double p;
} dropout;

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    return haul_dropout(args->x[0], ((const dropout *)haul_module_state(m))->p, args->training);
}

haul_module *haul_nn_dropout(double p)
{
    if (haul__module_probability(p, "haul_nn_dropout", "p"))
        return NULL;
    haul_module *m = haul_module_new("dropout", forward, .state_bytes = sizeof(dropout));
    if (m)
        ((dropout *)haul_module_state(m))->p = p;
    return m;
}
