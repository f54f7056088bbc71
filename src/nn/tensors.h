/* The tensors of a module as a list, for this room and those above. */
#ifndef HAUL_NN_TENSORS_H
#define HAUL_NN_TENSORS_H

#include <haul/nn.h>

/* All that haul_module_tensors lists, in fresh memory for haul__free. NULL on failure. */
haul_named_tensor *haul__module_tensor_list(haul_module *module, int *count);

#endif
