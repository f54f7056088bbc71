/* Moves of a module's tensors, each to a device of its own. */
#ifndef HAUL_NN_DISTRIBUTE_H
#define HAUL_NN_DISTRIBUTE_H

#include <haul/nn.h>

/* The device for the parameter or buffer of that name, "conv1.weight"; NULL: it stays. */
typedef haul_device *haul__device_of(const char *name, const void *context);

/* Moves each tensor with its gradient, all or none. In a dry run, tensors that existed before are back at its end. */
haul_status haul__module_distribute(haul_module *module, haul__device_of *device_of, const void *context,
                                    const char *operation);

#endif
