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

/* The names of inputs or of results, "x, mask?, more...", taken apart. */
typedef struct haul__names {
    char       *given; /* as they were given */
    char       *text;  /* the same without separators and marks: what the names point into */
    const char *items[HAUL_MAX_ARGUMENTS];
    int         count;
    int         required; /* so many, from the first on, cannot be left out */
    bool        open;     /* the last stands for any number */
} haul__names;

typedef struct haul__module_hook {
    int64_t    id;
    haul_hook *before, *after;
    void      *context;
} haul__module_hook;

struct haul_module {
    haul__object  object;
    char         *kind;
    haul_forward *forward;
    haul__names   inputs, results;
    void         *state;
    size_t        state_bytes;
    void (*destroy_state)(void *state);
    haul_status (*clone_state)(void *to, const void *from);
    bool                 training;
    haul_device         *place; /* where inputs are moved when called; NULL: they are left where they are */
    haul__module_hook   *hooks;
    size_t               hook_count, hook_capacity;
    int64_t              hooks_added;
    haul__module_tensor *tensors;
    size_t               tensor_count, tensor_capacity;
    haul__module_child  *children;
    size_t               child_count, child_capacity;
    char               **names; /* the dotted names given out, each kept as long as the module */
    size_t               name_count, name_capacity;
};

/* A module without parameters, with what haul_module_new_with takes; errors name `operation`. */
haul_module *haul__module_make(const char *kind, const haul_module_options *options, const char *operation);

/* Take `text`, "x, mask?, more...", apart; `what` is the argument's name. On failure there is nothing to free. */
haul_status haul__names_parse(haul__names *names, const char *text, const char *operation, const char *what);
void        haul__names_free(haul__names *names);
/* The name of argument i, "x"; of what has none, the last one's. */
const char *haul__names_at(const haul__names *names, int i);

/* Run the hooks before forward, or those after it. */
haul_status haul__run_hooks(haul_module *module, haul_args *args, bool after);

/* The tensor named `name` (of `length`), or child; NULL if there is none. */
haul__module_tensor *haul__module_find_tensor(const haul_module *m, const char *name, size_t length);
haul__module_child  *haul__module_find_child(const haul_module *m, const char *name, size_t length);
/* The module that the first `length` characters of `path` name; NULL with an error that lists the names there are. */
haul_module *haul__module_walk(haul_module *module, const char *path, size_t length, const char *operation);
/* The parameter or buffer at a dotted path; NULL with an error. */
haul_tensor *haul__module_tensor_at(haul_module *module, const char *path, bool is_buffer, const char *operation);
/* Is `wanted` the module `m`, or held by it at any depth? */
bool haul__module_holds(const haul_module *m, const haul_module *wanted);

/* Call all children in the order they were added, dropping what lies between them as soon as it is used up. */
haul_tensor *haul__call_in_order(haul_module *module, haul_args *args);

/* Make parameter `name` of f32, uniform in +-1 / sqrt(fan_in): PyTorch's default for weights (kaiming_uniform with
 * a = sqrt(5)) and for biases. */
haul_status haul__module_draw_parameter(haul_module *module, const char *name, haul_shape shape, int64_t fan_in);

/* End of a constructor: pop the scope its parameters were made in; on failure drop the module and return NULL, with an
 * error of `operation`. */
haul_module *haul__module_built(haul_module *module, haul_scope *scope, haul_status status, const char *operation);

/* A positive size, else an error naming the argument. */
haul_status haul__module_size(int64_t value, const char *operation, const char *argument);
/* From 0 to 1, else an error naming the argument. */
haul_status haul__module_probability(double p, const char *operation, const char *argument);

#endif
