/* A layer that does nothing, to replace another one. */
#include "nn/module.h"

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    (void)m;
    return args->x[0];
}

haul_module *haul_nn_identity(void)
{
    return haul_module_new("identity", forward);
}
