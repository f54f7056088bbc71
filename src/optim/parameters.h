/* Which parameters are meant: those of a module, or a list. */
#ifndef HAUL_OPTIM_PARAMETERS_H
#define HAUL_OPTIM_PARAMETERS_H

#include <haul/nn.h>

/* The parameters of the list, or without a list of the module, each once and without buffers, in fresh memory for
 * haul__free. The module may be NULL where there is a list. A parameter of the list has the name that the module knows
 * it by, where it holds it, then the list's, which may be NULL. NULL on failure. */
haul_named_tensor *haul__parameter_list(haul_module *module, const haul_named_tensor *list, int count,
                                        const char *operation, int *out_count);

/* Fails if two of the names are the same. */
haul_status haul__check_names(const char *const *names, int count, const char *operation);

#endif
