/* Collects parameters: those of a module, or of a list. */
#ifndef HAUL_OPTIM_PARAMETERS_H
#define HAUL_OPTIM_PARAMETERS_H

#include <haul/nn.h>

/* The parameters of the list or, without a list, of the module, each once and without buffers; the caller must
 * haul__free them. The module may be NULL if there is a list. A parameter of the list gets its name from the module if
 * the module holds it, else from the list, where it may be NULL. Returns NULL on failure. */
haul_named_tensor *haul__parameter_list(haul_module *module, const haul_named_tensor *list, int count,
                                        const char *operation, int *out_count);

/* Fails if two names are equal. */
haul_status haul__check_names(const char *const *names, int count, const char *operation);

#endif
