/* Pooling over square windows that do not overlap. */
#include <haul/ops.h>

#include "nn/module.h"

typedef struct pooling {
    int64_t size;
} pooling;

#define POOLING(name)                                                                                                  \
    static haul_tensor *name##_forward(haul_module *m, haul_tensor *x)                                                 \
    {                                                                                                                  \
        return haul_##name(x, ((const pooling *)haul_module_state(m))->size);                                          \
    }                                                                                                                  \
    haul_module *haul_nn_##name(int64_t size)                                                                          \
    {                                                                                                                  \
        return pooling_new(#name, "haul_nn_" #name, name##_forward, size);                                             \
    }

static haul_module *pooling_new(const char *kind, const char *operation, haul_forward *forward, int64_t size)
{
    if (haul__module_size(size, operation, "size"))
        return NULL;
    haul_module *m = haul_module_new_with_state(kind, forward, sizeof(pooling));
    if (m)
        ((pooling *)haul_module_state(m))->size = size;
    return m;
}

POOLING(max_pool2d)
POOLING(avg_pool2d)
