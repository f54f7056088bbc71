/* The module's structure, for the files of this folder. */
#ifndef HAUL_NN_MODULE_H
#define HAUL_NN_MODULE_H

#include <haul/layers.h>

#include "core/map.h"
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
    size_t       part; /* this many children, from this one on, run again as one part in the backward pass; 0: none */
} haul__module_child;

/* The names of inputs or of results, parsed from "x, mask?, more...". */
typedef struct haul__names {
    char       *given; /* the text as the user gave it */
    char       *text;  /* the same without separators and marks, for the names to point into */
    const char *items[HAUL_MAX_ARGUMENTS];
    int         count;
    int         required; /* the first this many are required */
    bool        open;     /* the last one stands for any number of inputs */
} haul__names;

typedef struct haul__module_hook {
    int64_t    id;
    haul_hook *before, *after;
    void      *context;
    void (*destroy)(void *context);
} haul__module_hook;

/* Runs forward: puts the results into args->y. */
typedef haul_status haul__run(haul_module *m, haul_args *args);
/* Calls the children `first` to `end` - 1 in order. */
typedef haul_tensor *haul__run_children(haul_module *module, size_t first, size_t end, haul_tensor *x);

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
    haul__run           *run;      /* haul__forward, or a function that runs it twice */
    haul__run_children  *run_part; /* of children that are a part; NULL: none are */
    haul_device         *place;    /* the device to which inputs are moved in a call; NULL: they are not moved */
    haul__module_hook   *hooks;
    size_t               hook_count, hook_capacity;
    int64_t              hooks_added;
    haul__module_tensor *tensors;
    size_t               tensor_count, tensor_capacity;
    haul__map            numbers; /* hash of a tensor's name -> its number in `tensors` + 1 */
    haul__module_child  *children;
    size_t               child_count, child_capacity;
    char               **names; /* the dotted names that were returned; each lives as long as the module */
    size_t               name_count, name_capacity;
};

/* A module without parameters, from the arguments of haul_module_new_with; errors name `operation`. */
haul_module *haul__module_make(const char *kind, const haul_module_options *options, const char *operation);

/* Parses `text`, "x, mask?, more..."; `what` is the argument's name. After a failure there is nothing to free. */
haul_status haul__names_parse(haul__names *names, const char *text, const char *operation, const char *what);
void        haul__names_free(haul__names *names);
/* The name of argument i, "x"; further arguments have the last name. */
const char *haul__names_at(const haul__names *names, int i);

/* Runs the hooks before forward, or those after it, whose numbers are at most `newest`: hooks_added when the call
 * began. */
haul_status haul__run_hooks(haul_module *module, haul_args *args, bool after, int64_t newest);

/* The tensor or child named `name` (with `length` bytes); NULL if there is none. Tensors are found in constant time:
 * modules of other programs have thousands. */
haul__module_tensor *haul__module_find_tensor(const haul_module *m, const char *name, size_t length);
/* Notes the number of a tensor that is to be added under this name. False if memory is exhausted. */
bool                haul__module_note(haul_module *m, const char *name, size_t number);
haul__module_child *haul__module_find_child(const haul_module *m, const char *name, size_t length);
/* The module that the first `length` characters of `path` name; NULL, with an error that lists the existing names. */
haul_module *haul__module_walk(haul_module *module, const char *path, size_t length, const char *operation);
/* The parameter or buffer at a dotted path; NULL, with an error. */
haul_tensor *haul__module_tensor_at(haul_module *module, const char *path, bool is_buffer, const char *operation);
/* Fails if `m`, which is to be added as `name`, is the module `holder`, or has it inside at any depth. */
haul_status haul__module_check_outside(haul_module *m, const haul_module *holder, const char *name,
                                       const char *operation);

/* Calls all children in the order they were added; drops each intermediate result as soon as the next layer has used
 * it. */
haul_tensor *haul__call_in_order(haul_module *module, haul_args *args);
/* True if the module does nothing but that. */
bool haul__calls_in_order(const haul_module *module);

haul__run_children haul__call_children;
haul__run          haul__forward;

/* Makes the f32 parameter `name`, uniform in +-1 / sqrt(fan_in): PyTorch's default for weights (kaiming_uniform with a
 * = sqrt(5)) and for biases. */
haul_status haul__module_draw_parameter(haul_module *module, const char *name, haul_shape shape, int64_t fan_in);

/* The end of a constructor: pops the scope that owned its parameters. On failure drops the module and returns NULL,
 * with an error of `operation`. */
haul_module *haul__module_built(haul_module *module, haul_scope *scope, haul_status status, const char *operation);

/* Fails, naming the argument, unless the size is positive. */
haul_status haul__module_size(int64_t value, const char *operation, const char *argument);
/* Fails, naming the argument, unless the number is from 0 to 1. */
haul_status haul__module_probability(double p, const char *operation, const char *argument);

#endif
