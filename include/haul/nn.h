/* Modules: layers, containers, and networks written by the user.
 *
 * A module has a forward function, parameters, buffers (state that is not trained: running statistics) and children,
 * all named; a path of names joined by dots ("conv1.weight", "features.0.bias") names each of them. A module belongs to
 * the scope it was made in and holds its children. Parameters are made on the thread's current device, initialised as
 * PyTorch does by default, drawing from the generator of random.h in the order in which they are made.
 *
 * Several threads may call one module, unless it changes itself: batch normalisation does in training. All else that is
 * given a module must not run while another thread uses it. */
#ifndef HAUL_NN_H
#define HAUL_NN_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/events.h>
#include <haul/ops.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Most inputs, and most results, that a module has. */
enum { HAUL_MAX_ARGUMENTS = 8 };

/* What a forward function is given, and gives. It returns the first result, or a failed tensor, and puts further ones
 * into `y`. */
typedef struct haul_args {
    haul_tensor *x[HAUL_MAX_ARGUMENTS]; /* the inputs; HAUL_NONE where none was given */
    int          count;                 /* how many were given */
    haul_tensor *y[HAUL_MAX_ARGUMENTS]; /* y[1], y[2] ...: further results, HAUL_NONE unless set */
    bool         training;              /* is this a call in training, or in evaluation? */
} haul_args;
typedef haul_tensor *haul_forward(haul_module *self, haul_args *args);

/* A module of the user's own, haul_module_new("residual", forward): `forward` computes with haul_call_child,
 * haul_module_parameter and haul_module_state. */
typedef struct HAUL__DESIGNATED haul_module_options {
    haul_forward *forward; /* positional */
    HAUL__GUARD
    /* Names of the inputs, separated by commas: "x, mask?, more...". One with a question mark may be left out; one with
     * dots, the last, stands for any number, also none. They appear in messages and traces. Default "x". */
    const char *inputs;
    const char *results;                              /* names of the results, "y, state"; default "y" */
    size_t      state_bytes;                          /* zeroed memory for settings: haul_module_state */
    void (*destroy)(void *state);                     /* frees what the state owns; called when the module ends */
    haul_status (*clone)(void *to, const void *from); /* copies what the state owns, for haul_module_clone; `to` has the
                                                         same bytes already. Needed only where `destroy` is given */
} haul_module_options;
#define haul_module_new(kind, ...)                                                                                     \
    haul_module_new_with(kind, HAUL__OPTIONS(haul_module_options, .forward = __VA_ARGS__))
HAUL_API haul_module *haul_module_new_with(const char *kind, const haul_module_options *options);
HAUL_API void        *haul_module_state(haul_module *module); /* lives as long as the module */
HAUL_API const char  *haul_module_kind(const haul_module *module);

/* Names must be new in the module, without dots, not empty. Adding takes a reference; a NULL child fails. A parameter
 * must be a leaf of a floating dtype and comes to require a gradient; a buffer does not. */
HAUL_API haul_status haul_module_add(haul_module *module, const char *name, haul_module *child);
HAUL_API haul_status haul_module_add_parameter(haul_module *module, const char *name, haul_tensor *parameter);
HAUL_API haul_status haul_module_add_buffer(haul_module *module, const char *name, haul_tensor *buffer);

/* Put another child or parameter in the place of that at a dotted path. The new parameter may have another shape, and
 * may be one that the module or another module holds already: haul_module_replace_parameter(net, "out.weight",
 * haul_module_parameter(net, "embedding.weight")) ties the two. An optimizer or average made before keeps the old
 * parameter: make it anew. A tied parameter has the name of the first path in optimizers and messages; files of weights
 * have both names. */
HAUL_API haul_status haul_module_replace(haul_module *module, const char *path, haul_module *child);
HAUL_API haul_status haul_module_replace_parameter(haul_module *module, const char *path, haul_tensor *parameter);

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

/* The children of the module itself, in the order they were added: how many there are, or -1 on failure; fills at most
 * `capacity` entries. Names are valid as long as the module has the child. */
typedef struct haul_named_module {
    const char  *name;
    haul_module *module;
} haul_named_module;
HAUL_API int haul_module_children(haul_module *module, haul_named_module *out, int capacity);

/* Training or evaluation (dropout, batch_norm); training unless set. For the module and its children. */
HAUL_API haul_status haul_module_train(haul_module *module, bool training);
HAUL_API bool        haul_module_is_training(const haul_module *module);

/* ---- calling ---- */

/* The mode of one call and all calls of children in it: that of each module, training, or evaluation. */
typedef enum haul_mode { HAUL_MODE_OF_MODULE, HAUL_TRAIN, HAUL_EVALUATE } haul_mode;

typedef struct HAUL__DESIGNATED haul_call_options {
    haul_tensor *x[HAUL_MAX_ARGUMENTS]; /* the inputs, in order; the first NULL ends them; positional */
    HAUL__GUARD
    haul_tensor      *
        *more[HAUL_MAX_ARGUMENTS - 1]; /* where the results after the first go; those not asked for are freed */
    haul_mode mode;
} haul_call_options;

/* Call a module: haul_call(net, x), haul_call(attention, x, mask), haul_call(lstm, x, h, c, .more = {&h, &c}),
 * haul_call(net, x, .mode = HAUL_EVALUATE). Returns the first result. On failure it and those in `more` are failed
 * tensors.
 *
 * Forward runs in a scope of its own, so that what it made on the way is freed unless the graph needs it, and settings
 * of the thread that it changed are restored. A module that was placed with haul_module_place moves its inputs to its
 * device first. A child that is called by haul_call within the forward function of its module has its name, as with
 * haul_call_child. */
#ifndef __cplusplus
#define haul_call(module, ...) haul_call_with(module, HAUL__OPTIONS(haul_call_options, .x[0] = __VA_ARGS__))
#define haul_call_child(module, path, ...)                                                                             \
    haul_call_child_with(module, path, HAUL__OPTIONS(haul_call_options, .x[0] = __VA_ARGS__))
#endif
HAUL_API haul_tensor *haul_call_with(haul_module *module, const haul_call_options *options);
HAUL_API haul_tensor *haul_call_child_with(haul_module *module, const char *path, const haul_call_options *options);

/* Hooks: `before` is called before forward and may replace inputs in args->x; `after` is called after it, with all
 * results in args->y, and may replace them. What replaces them is made in the scope of the call. A hook that fails
 * fails the call. Hooks of a module are called in the order in which they were added; children have hooks of their own.
 */
typedef haul_status             haul_hook(haul_module *module, haul_args *args, void *context);
typedef struct HAUL__DESIGNATED haul_hook_options {
    haul_module *module; /* positional */
    HAUL__GUARD
    haul_hook *before, *after; /* at least one */
    void      *context;
} haul_hook_options;
/* haul_module_add_hook(net, .after = limit): a positive number for haul_module_remove_hook, 0 on failure. */
#define haul_module_add_hook(...) haul_module_add_hook_with(HAUL__OPTIONS(haul_hook_options, .module = __VA_ARGS__))
HAUL_API int64_t     haul_module_add_hook_with(const haul_hook_options *options);
HAUL_API haul_status haul_module_remove_hook(haul_module *module, int64_t id);

/* Watch the modules called on this thread: `watcher` is called before and after each forward; NULL stops. For tracing:
 * tensors of the event are valid during the call only. The watcher is a subscriber to events (events.h): it may use
 * Haul, the modules that it calls are not reported, and its errors are forgotten when it returns. */
typedef struct haul_call_event {
    haul_module            *module;
    const char             *path;  /* of names from the outermost module called, "features.0"; "" for that one */
    int                     depth; /* 0 for the outermost */
    const haul_call_values *x;     /* the inputs as given, before they are moved */
    const haul_call_values *y;     /* the results; none before forward and when it failed */
    bool                    done;  /* false before forward, true after */
} haul_call_event;
typedef void  haul_call_watcher(const haul_call_event *event, void *context);
HAUL_API void haul_watch_calls(haul_call_watcher *watcher, void *context);

/* ---- copies, devices, dtypes ---- */

/* A new module of the same structure, with parameters and buffers of its own that have the same values, dtypes and
 * devices. What is shared within the module is shared within the clone. Gradients and hooks are not copied. */
HAUL_API haul_module *haul_module_clone(haul_module *module);

/* Copy the values of all parameters and buffers of `from` to those of `to`, which must have the same names and shapes;
 * dtypes and devices may differ. For best weights and for averages. Changes nothing unless all fit. */
HAUL_API haul_status haul_module_copy(haul_module *to, haul_module *from);

/* Parameters, buffers and gradients of floating dtypes become f16, bf16, f32 or f64, in place, all or none. An
 * optimizer goes on: its state is cast by its next step. */
HAUL_API haul_status haul_module_cast(haul_module *module, haul_dtype dtype);

/* Move parameters and buffers (and gradients) of the module and its children to `device`, all or none.
 * haul_module_place also makes the module move its input there when called and make new tensors there, so that
 * neighbouring layers can be on different devices; haul_module_to moves the place of modules that have one along. */
HAUL_API haul_status haul_module_to(haul_module *module, haul_device *device);
HAUL_API haul_status haul_module_place(haul_module *module, haul_device *device);

/* The 4-d parameters and buffers (and gradients) of the module and its children in this memory format, in place: with
 * HAUL_CHANNELS_LAST its convolutions give channels-last results. Files of weights do not change. */
HAUL_API haul_status haul_module_to_memory_format(haul_module *module, haul_memory_format format);

HAUL_END

#ifdef __cplusplus
/* haul_call(net, x, mask). With other options than inputs call haul_call_with. */
template <typename... T> haul_tensor *haul_call(haul_module *module, T... x)
{
    haul_call_options options = {};
    haul_tensor      *inputs[] = {x...};
    static_assert(sizeof...(x) <= HAUL_MAX_ARGUMENTS, "a module has at most HAUL_MAX_ARGUMENTS inputs");
    for (size_t i = 0; i < sizeof...(x); i++)
        options.x[i] = inputs[i];
    return haul_call_with(module, &options);
}
template <typename... T> haul_tensor *haul_call_child(haul_module *module, const char *path, T... x)
{
    haul_call_options options = {};
    haul_tensor      *inputs[] = {x...};
    static_assert(sizeof...(x) <= HAUL_MAX_ARGUMENTS, "a module has at most HAUL_MAX_ARGUMENTS inputs");
    for (size_t i = 0; i < sizeof...(x); i++)
        options.x[i] = inputs[i];
    return haul_call_child_with(module, path, &options);
}
#endif

#endif
