/* The tensors of a module as a list, for this layer and those above. */
#ifndef HAUL_NN_TENSORS_H
#define HAUL_NN_TENSORS_H

#include <haul/nn.h>

#include "core/object.h"

extern const haul__class haul__module_class;

/* Checks that `module`, the argument of that name, is a live module; records an error if not. */
static inline haul_status haul__check_module(const haul_module *module, const char *operation)
{
    return haul__check_object(module, &haul__module_class, operation, "module");
}

/* Everything that haul_module_tensors lists, which the caller must haul__free. NULL on failure. */
haul_named_tensor *haul__module_tensor_list(haul_module *module, int *count);

#endif
