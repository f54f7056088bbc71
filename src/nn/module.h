/* The inside of a module, for the files of this folder. */
#ifndef HAUL_NN_MODULE_H
#define HAUL_NN_MODULE_H

#include <haul/layers.h>

#include "core/object.h"
#include "nn/tensors.h"

typedef struct haul__module_tensor {
    char        *name;
    haul_tensor *tensor;
    bool         is_buffer;
} haul__module_tensor;

typedef struct haul__module_child {
    char        *name;
    haul_module *module;
} haul__module_child;

struct haul_module {
    haul__object         object;
    char                *kind;
    haul_forward        *forward;
    void                *state;
    bool                 training;
    haul_device         *place; /* where the input is moved when called; NULL: it is left where it is */
    haul__module_tensor *tensors;
    size_t               tensor_count, tensor_capacity;
    haul__module_child  *children;
    size_t               child_count, child_capacity;
    char               **names; /* the dotted names given out, each kept as long as the module */
    size_t               name_count, name_capacity;
};

/* Call a child; `name` says in errors and to watchers which one it is. */
haul_tensor *haul__call_named(haul_module *module, const char *name, haul_tensor *x);

/* Call all children in the order they were added, dropping what lies between them as soon as it is used up. */
haul_tensor *haul__call_in_order(haul_module *module, haul_tensor *x);

/* Make parameter `name` of f32, uniform in +-1 / sqrt(fan_in): PyTorch's default for weights (kaiming_uniform with
 * a = sqrt(5)) and for biases. */
haul_status haul__module_draw_parameter(haul_module *module, const char *name, haul_shape shape, int64_t fan_in);

/* End of a constructor: pop the scope its parameters were made in; on failure drop the module and return NULL, with an
 * error of `operation`. */
haul_module *haul__module_built(haul_module *module, haul_scope *scope, haul_status status, const char *operation);

/* A positive size, else an error naming the argument. */
haul_status haul__module_size(int64_t value, const char *operation, const char *argument);

#endif
