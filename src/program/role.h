/* What memory is used for. memory/mark.h sets it; messages, reports, estimates, profiles and programs read it. */
#ifndef HAUL_PROGRAM_ROLE_H
#define HAUL_PROGRAM_ROLE_H

#include "core/tensor.h"

typedef enum haul__role {
    HAUL__ROLE_ACTIVATION, /* what operations make; the role of memory that nothing has marked */
    HAUL__ROLE_PARAMETER,
    HAUL__ROLE_GRADIENT,  /* of a leaf */
    HAUL__ROLE_STATE,     /* of the optimizer */
    HAUL__ROLE_WORKSPACE, /* scratch memory and temporaries of one operation */
    HAUL__ROLE_DATA,      /* examples, and the batches of loaders */
    HAUL__ROLE_STEP,      /* the arena of a followed step: its gradients, activations and workspace */
    HAUL__ROLE_OTHER,     /* buffers of modules, and copies of parameters in another form */
    HAUL__ROLES
} haul__role;

/* "parameters", "optimizer state"; lives as long as the process. */
const char *haul__role_name(haul__role role);

static inline haul__role haul__storage_role(const haul__storage *storage)
{
    return (haul__role)atomic_load_explicit(&storage->role, memory_order_relaxed);
}

#endif
