/* Modules: layers, containers, and networks written by the user.
 *
 * A module has a forward function, parameters, buffers (state that is not trained: running statistics) and children,
 * all named; a path of names joined by dots ("conv1.weight", "features.0.bias") names each of them. A module belongs to
 * the scope it was made in and holds its children. Parameters are made on the thread's current device, initialised as
 * PyTorch does by default, drawing from the generator of random.h in the order in which they are made. */
#ifndef HAUL_NN_H
#define HAUL_NN_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/ops.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef haul_tensor *haul_forward(haul_module *self, haul_tensor *x);

/* A module of the user's own: `forward` computes with haul_call_child, haul_module_parameter and haul_module_state. */
HAUL_API haul_module *haul_module_new(const char *kind, haul_forward *forward);

/* As above with `state_bytes` of zeroed memory for its settings, reached by haul_module_state. It is freed with the
 * module and nothing else is, so it must own nothing. */
HAUL_API haul_module *haul_module_new_with_state(const char *kind, haul_forward *forward, size_t state_bytes);
HAUL_API void        *haul_module_state(haul_module *module);
HAUL_API const char  *haul_module_kind(const haul_module *module);

/* Names must be new in the module, without dots, not empty. Adding takes a reference; a NULL child fails. A parameter
 * must be a leaf of a floating dtype and comes to require a gradient; a buffer does not. */
HAUL_API haul_status haul_module_add(haul_module *module, const char *name, haul_module *child);
HAUL_API haul_status haul_module_add_parameter(haul_module *module, const char *name, haul_tensor *parameter);
HAUL_API haul_status haul_module_add_buffer(haul_module *module, const char *name, haul_tensor *buffer);

/* Children, parameters and buffers by dotted path; a fresh reference is not made: the module holds them. Where there is
 * none of that name a child is NULL and a tensor is a failed one; the error lists the names that there are. */
HAUL_API haul_module *haul_module_child(haul_module *module, const char *path);
HAUL_API haul_tensor *haul_module_parameter(haul_module *module, const char *path);
HAUL_API haul_tensor *haul_module_buffer(haul_module *module, const char *path);

/* All parameters (then all buffers) of the module and its children, depth first in the order they were added. */
typedef struct haul_named_tensor {
    const char  *name; /* dotted; valid as long as the module and unchanged by adding */
    haul_tensor *tensor;
    bool         is_buffer;
} haul_named_tensor;

/* How many there are, or -1 on failure; fills at most `capacity` entries. A tensor held under two names is there twice.
 * New names are kept in the module: not to be called by two threads at once. */
HAUL_API int     haul_module_tensors(haul_module *module, haul_named_tensor *out, int capacity);
HAUL_API int64_t haul_module_parameter_count(haul_module *module); /* elements of all parameters; -1 on failure */

/* Run forward in a scope of its own, so that what it made on the way is freed unless the graph needs it, and settings
 * of the thread that it changed are restored. A module that was placed with haul_module_place moves x to its device
 * first. Several threads may call one module, unless it changes itself: batch normalisation does in training. */
HAUL_API haul_tensor *haul_call(haul_module *module, haul_tensor *x);
HAUL_API haul_tensor *haul_call_child(haul_module *module, const char *name, haul_tensor *x);

/* Watch the modules called on this thread: `watcher` is called before and after each forward; NULL stops. For tracing:
 * tensors of the event are valid during the call only. The watcher is a subscriber to events (events.h): it may use
 * Haul, the modules that it calls are not reported, and its errors are forgotten when it returns. */
typedef struct haul_call_event {
    haul_module *module;
    const char  *path;  /* of names from the outermost module called, "features.0"; "" for that one */
    int          depth; /* 0 for the outermost */
    haul_tensor *x;     /* as given, before it is moved */
    haul_tensor *y;     /* HAUL_NONE before forward and when it failed */
    bool         done;  /* false before forward, true after */
} haul_call_event;
typedef void  haul_call_watcher(const haul_call_event *event, void *context);
HAUL_API void haul_watch_calls(haul_call_watcher *watcher, void *context);

/* Training or evaluation (dropout, batch_norm); training unless set. For the module and its children. */
HAUL_API haul_status haul_module_train(haul_module *module, bool training);
HAUL_API bool        haul_module_is_training(const haul_module *module);

/* Move parameters and buffers (and gradients) of the module and its children to `device`, all or none.
 * haul_module_place also makes the module move its input there when called and make new tensors there, so that
 * neighbouring layers can be on different devices; haul_module_to moves the place of modules that have one along. */
HAUL_API haul_status haul_module_to(haul_module *module, haul_device *device);
HAUL_API haul_status haul_module_place(haul_module *module, haul_device *device);

/* The 4-d parameters and buffers (and gradients) of the module and its children in this memory format, in place: with
 * HAUL_CHANNELS_LAST its convolutions give channels-last results. Files of weights do not change. */
HAUL_API haul_status haul_module_to_memory_format(haul_module *module, haul_memory_format format);

HAUL_END

#endif
