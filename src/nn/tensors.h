/* The tensors of a module as a list, for this room and those above. */
#ifndef HAUL_NN_TENSORS_H
#define HAUL_NN_TENSORS_H

#include <haul/nn.h>

#include "core/object.h"

extern const haul__class haul__module_class;

/* Is `module`, the argument of that name, a module that exists? Records what is wrong. */
static inline haul_status haul__check_module(const haul_module *module, const char *operation)
{
    return haul__check_object(module, &haul__module_class, operation, "module");
}

/* All that haul_module_tensors lists, in fresh memory for haul__free. NULL on failure. */
haul_named_tensor *haul__module_tensor_list(haul_module *module, int *count);

#endif
