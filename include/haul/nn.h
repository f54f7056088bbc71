/* Modules: layers, containers, and networks of your own.
 *
 * A module has a forward function, parameters, buffers (state that is not trained, for example running statistics) and
 * children. Each has a name, and names joined by dots form a path: "conv1.weight", "features.0.bias". A module belongs
 * to the scope in which it was made, and holds its children. Parameters are made on the calling thread's current
 * device, with PyTorch's default initial values, drawn from the generator of random.h in the order in which the
 * parameters are made.
 *
 *     static haul_tensor *residual(haul_module *self, haul_args *args)
 *     {
 *         return haul_add(args->x[0], haul_call_child(self, "body", args->x[0]));
 *     }
 *
 *     haul_module *block = haul_module_new("residual", residual);
 *     haul_module_add(block, "body", HAUL_SEQUENTIAL(haul_nn_linear(64, 64), haul_nn_relu()));
 *     haul_tensor *y = haul_call(block, x);
 *
 * Several threads may call one module at the same time, unless it changes itself, as batch normalisation does in
 * training. Every other function that takes a module must not run while another thread uses the module. */
#ifndef HAUL_NN_H
#define HAUL_NN_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/events.h>
#include <haul/ops.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* The maximum number of inputs, and of results, of a module. */
enum { HAUL_MAX_ARGUMENTS = 8 };

/* The arguments and results of a forward function. */
typedef struct haul_args {
    haul_tensor *x[HAUL_MAX_ARGUMENTS]; /* the inputs; HAUL_NONE for those that were omitted */
    int          count;                 /* how many inputs were given */
    haul_tensor *y[HAUL_MAX_ARGUMENTS]; /* further results: y[1], y[2] ...; HAUL_NONE unless set */
    bool         training;              /* true in training, false in evaluation */
} haul_args;

/* A forward function. Returns the first result, or a failed tensor, and puts further results into args->y. The rules of
 * scope.h for functions of the program hold, as for hooks: it closes its own scopes only, and returns. */
typedef haul_tensor *haul_forward(haul_module *self, haul_args *args);

/* Make a module of your own: haul_module_new("residual", forward). The forward function computes with haul_call_child,
 * haul_module_parameter and haul_module_state.
 *
 * - kind: a short text that haul_module_kind returns; copied */
typedef struct HAUL__DESIGNATED haul_module_options {
    haul_forward *forward; /* computes the results; positional */
    HAUL__GUARD(inputs)
    /* Names of the inputs, separated by commas: "x, mask?, more...". An input with a question mark may be omitted. The
     * last one, with dots, stands for any number of inputs, or none. The names appear in messages and traces. Default
     * "x" */
    const char *inputs;
    const char *results;          /* names of the results, "y, state"; default "y" */
    size_t      state_bytes;      /* size of zeroed memory for settings, which haul_module_state returns */
    void (*destroy)(void *state); /* frees what the state owns; called when the module ends */
    /* copies what the state owns, for haul_module_clone; `to` has the same bytes already. Needed only if `destroy` is
     * given */
    haul_status (*clone)(void *to, const void *from);
} haul_module_options;
#define haul_module_new(kind, ...)                                                                                     \
    haul_module_new_with(kind, HAUL__OPTIONS(haul_module_options, .forward = __VA_ARGS__))
HAUL_API haul_module *haul_module_new_with(const char *kind, const haul_module_options *options);

/* The state of a module of your own: `state_bytes` bytes, which are zero at first and live as long as the module. NULL
 * on failure. */
HAUL_API void *haul_module_state(haul_module *module);

/* The kind of a module: "linear", "sequential", or the text given to haul_module_new. "" on failure. */
HAUL_API const char *haul_module_kind(const haul_module *module);

/* Add a child, a parameter or a buffer to a module, which then holds it. Names must be UTF-8, new in the module, not
 * empty, and without dots. A NULL child fails. A parameter must be a leaf of a floating dtype, and then requires a
 * gradient; a buffer does not. */
HAUL_API haul_status haul_module_add(haul_module *module, const char *name, haul_module *child);
HAUL_API haul_status haul_module_add_parameter(haul_module *module, const char *name, haul_tensor *parameter);
HAUL_API haul_status haul_module_add_buffer(haul_module *module, const char *name, haul_tensor *buffer);

/* Replace the child or the parameter at a dotted path. The new parameter may have another shape, and may be one that
 * the module or another module holds already. This ties the weights of two layers:
 *
 *     haul_module_replace_parameter(net, "out.weight", haul_module_parameter(net, "embedding.weight"));
 *
 * An optimizer or average made before keeps the old parameter: make a new one. A tied parameter has the name of its
 * first path in optimizers and messages; files of weights have both names. */
HAUL_API haul_status haul_module_replace(haul_module *module, const char *path, haul_module *child);
HAUL_API haul_status haul_module_replace_parameter(haul_module *module, const char *path, haul_tensor *parameter);

/* A child, parameter or buffer by its dotted path. The module keeps it: no new reference is made. If there is none of
 * that name, the child is NULL and the tensor is a failed one; the message lists the names that exist. */
HAUL_API haul_module *haul_module_child(haul_module *module, const char *path);
HAUL_API haul_tensor *haul_module_parameter(haul_module *module, const char *path);
HAUL_API haul_tensor *haul_module_buffer(haul_module *module, const char *path);

/* A tensor with a name. */
typedef struct haul_named_tensor {
    const char  *name;      /* the dotted path; valid as long as the module, until something is added to it */
    haul_tensor *tensor;    /* the parameter or buffer */
    bool         is_buffer; /* it is a buffer */
} haul_named_tensor;

/* All parameters, then all buffers, of a module and its children, depth first in the order in which they were added.
 * Returns how many there are, -1 on failure, and fills at most `capacity` entries of `out`. A tensor held under two
 * names is listed twice. Two threads must not call this for one module at the same time: new names are kept in the
 * module. */
HAUL_API int haul_module_tensors(haul_module *module, haul_named_tensor *out, int capacity);

/* The number of elements of all parameters of a module; -1 on failure. */
HAUL_API int64_t haul_module_parameter_count(haul_module *module);

/* A module with a name. */
typedef struct haul_named_module {
    const char  *name;   /* the name; valid as long as the module has the child */
    haul_module *module; /* the module */
} haul_named_module;

/* The children of the module itself, in the order in which they were added. Returns how many there are, -1 on failure,
 * and fills at most `capacity` entries of `out`. */
HAUL_API int haul_module_children(haul_module *module, haul_named_module *out, int capacity);

/* A function for haul_module_apply: HAUL_OK, or its error, after which no further module follows. */
typedef haul_status haul_module_function(haul_module *module, void *context);

/* Call f(m, context) for the module and all modules within it, each before its children; PyTorch's apply calls it after
 * them. A module that is within several others is there for each of them. f may replace children, which it then does
 * not see. The rules of scope.h for functions of the program hold for it. */
HAUL_API haul_status haul_module_apply(haul_module *module, haul_module_function *f, void *context);

/* Remove the gradients of all parameters, as haul_optimizer_zero_grad does for those of an optimizer. */
HAUL_API haul_status haul_module_zero_grad(haul_module *module);

/* Set a module and its children to training or to evaluation, which differ for dropout and batch normalisation.
 * Training unless set. haul_call(net, x, .mode = HAUL_EVALUATE) sets the mode of one call. */
HAUL_API haul_status haul_module_train(haul_module *module, bool training);

/* True if the module is in training. False on failure. */
HAUL_API bool haul_module_is_training(const haul_module *module);

/* Make the calls of a module keep its inputs and results only, and run forward again in the backward pass, as
 * haul_checkpoint does: less memory, more work, bit-identical results. Its children are part of that; they can have the
 * setting themselves. Hooks of the module itself run once, those of its children twice. Off unless set. */
HAUL_API haul_status haul_module_recompute(haul_module *module, bool on);

/* True if forward of the module runs again in the backward pass. False on failure. */
HAUL_API bool haul_module_recomputes(const haul_module *module);

/* The same for a run of neighbouring children as one part, of which only the first one's input and the last one's
 * result are kept. Parts that overlap with the new one are dissolved. Fails if the module is not sequential, or
 * a model, which calls its children in order.
 *
 * - first, last: names of children; they may be the same */
HAUL_API haul_status haul_module_recompute_children(haul_module *module, const char *first, const char *last, bool on);

/* ---- Calling ---- */

/* The mode of a call and of all calls of children inside it.
 *
 * - HAUL_MODE_OF_MODULE: as haul_module_train set each module
 * - HAUL_TRAIN: training
 * - HAUL_EVALUATE: evaluation */
typedef enum haul_mode { HAUL_MODE_OF_MODULE, HAUL_TRAIN, HAUL_EVALUATE } haul_mode;

typedef struct HAUL__DESIGNATED haul_call_options {
    haul_tensor *x[HAUL_MAX_ARGUMENTS]; /* the inputs, in order; the first NULL ends them; positional */
    HAUL__GUARD(more)
    /* addresses for the results after the first; results without an address are freed */
    haul_tensor **more[HAUL_MAX_ARGUMENTS - 1];
    haul_mode     mode; /* training or evaluation; default HAUL_MODE_OF_MODULE */
} haul_call_options;

/* Call a module. Returns the first result. On failure it and those in .more are failed tensors.
 *
 *     haul_tensor *y = haul_call(net, x);
 *     haul_tensor *z = haul_call(attention, x, mask);
 *     haul_tensor *t = haul_call(lstm, x, h, c, .more = {&h, &c});
 *
 * Forward runs in a scope of its own: temporaries are freed unless the graph needs them, and settings of the thread
 * that it changed are restored. A module that was placed with haul_module_place first moves its inputs to its device.
 * Modules that call each other take up the thread's stack: a call fails with HAUL_STATE if less than 24 KiB of it are
 * left. Other functions accept modules of any depth.
 *
 * haul_call_child calls a child by its path, from a forward function. A child that is called with haul_call in its
 * module's forward function gets the same name in traces.
 *
 * - module: the module to call; for haul_call_child the module that has the child
 * - path: the dotted path of the child */
#ifndef __cplusplus
#define haul_call(module, ...) haul_call_with(module, HAUL__OPTIONS(haul_call_options, .x[0] = __VA_ARGS__))
#define haul_call_child(module, path, ...)                                                                             \
    haul_call_child_with(module, path, HAUL__OPTIONS(haul_call_options, .x[0] = __VA_ARGS__))
#endif
HAUL_API haul_tensor *haul_call_with(haul_module *module, const haul_call_options *options);
HAUL_API haul_tensor *haul_call_child_with(haul_module *module, const char *path, const haul_call_options *options);

/* A function that is called before or after a module's forward function. It may replace inputs in args->x, or results
 * in args->y. What replaces them is made in the scope of the call. */
typedef haul_status             haul_hook(haul_module *module, haul_args *args, void *context);
typedef struct HAUL__DESIGNATED haul_hook_options {
    haul_module *module; /* the module; positional */
    HAUL__GUARD(before)
    /* before: called before forward, may replace inputs. after: called after forward with all results in args->y, may
     * replace them. Give at least one */
    haul_hook *before, *after;
    void      *context; /* passed to the hooks */
    /* called when the hooks were removed, or the module was destroyed; may be NULL. If a hook removes itself, this is
     * called before the hook returns, and the hook must not use its context afterwards */
    void (*destroy)(void *context);
} haul_hook_options;

/* Add hooks to a module: haul_module_add_hook(net, .after = limit). Hooks are called in the order in which they were
 * added; children have hooks of their own. A hook that fails fails the call. It may remove hooks, itself too, and add
 * some, which are called from the next call on. Returns a positive number for haul_module_remove_hook, 0 on failure,
 * after which .destroy is not called. */
#define haul_module_add_hook(...) haul_module_add_hook_with(HAUL__OPTIONS(haul_hook_options, .module = __VA_ARGS__))
HAUL_API int64_t haul_module_add_hook_with(const haul_hook_options *options);

/* Remove the hooks that haul_module_add_hook numbered `id`. */
HAUL_API haul_status haul_module_remove_hook(haul_module *module, int64_t id);

/* What haul_watch_calls reports. Tensors are valid during the call of the watcher only. */
typedef struct haul_call_event {
    haul_module            *module; /* the module that is called */
    const char             *path;   /* names from the outermost module called, "features.0"; "" for that one */
    int                     depth;  /* 0 for the outermost module */
    const haul_call_values *x;      /* the inputs as given, before they are moved */
    const haul_call_values *y;      /* the results; none before forward and if it failed */
    bool                    done;   /* false before forward, true after it */
} haul_call_event;

/* A function that watches calls. */
typedef void haul_call_watcher(const haul_call_event *event, void *context);

/* Watch the modules that the calling thread calls, for tracing: `watcher` is called before and after each forward; NULL
 * stops. The watcher is a subscriber to events (events.h): it may use Haul, the modules that it calls are not reported,
 * and its errors are forgotten when it returns.
 *
 * - context: passed to `watcher` */
HAUL_API void haul_watch_calls(haul_call_watcher *watcher, void *context);

/* ---- Copies, devices, dtypes ---- */

/* A new module of the same structure, whose parameters and buffers have the same values, dtypes and devices. Tensors
 * that are shared within the module are shared within the clone. Gradients and hooks are not copied. */
HAUL_API haul_module *haul_module_clone(haul_module *module);

/* Copy the values of all parameters and buffers of `from` to those of `to`, which must have the same names and shapes;
 * dtypes and devices may differ. Use it to keep the best weights. Changes nothing unless all fit. */
HAUL_API haul_status haul_module_copy(haul_module *to, haul_module *from);

/* Convert parameters, buffers and gradients of floating dtypes to f16, bf16, f32 or f64, in place, all or none. An
 * optimizer of the module goes on: its next step converts its state. */
HAUL_API haul_status haul_module_cast(haul_module *module, haul_dtype dtype);

/* Move parameters, buffers and gradients of a module and its children to `device`, all or none.
 *
 * haul_module_place also makes the module move its inputs there when it is called, and make new tensors there, so that
 * neighbouring layers can be on different devices. haul_module_to changes that device, too, for modules that were
 * placed. */
HAUL_API haul_status haul_module_to(haul_module *module, haul_device *device);
HAUL_API haul_status haul_module_place(haul_module *module, haul_device *device);

/* The device of all parameters and buffers of a module and its children. NULL if they are on several devices or if
 * there are none, without an error; and on failure. */
HAUL_API haul_device *haul_module_device(haul_module *module);

/* Convert the 4-d parameters, buffers and gradients of a module and its children to a memory format, in place. With
 * HAUL_CHANNELS_LAST, its convolutions give channels-last results. Files of weights do not change. */
HAUL_API haul_status haul_module_to_memory_format(haul_module *module, haul_memory_format format);

HAUL_END

#ifdef __cplusplus
/* haul_call(net, x, mask). For options other than inputs call haul_call_with. */
template <typename O, typename... T> O haul__options_of_inputs(T... x)
{
    O            options = {};
    haul_tensor *inputs[] = {x...};
    static_assert(sizeof...(x) <= HAUL_MAX_ARGUMENTS, "a module has at most HAUL_MAX_ARGUMENTS inputs");
    for (size_t i = 0; i < sizeof...(x); i++)
        options.x[i] = inputs[i];
    return options;
}
template <typename... T> haul_tensor *haul_call(haul_module *module, T... x)
{
    const haul_call_options options = haul__options_of_inputs<haul_call_options>(x...);
    return haul_call_with(module, &options);
}
template <typename... T> haul_tensor *haul_call_child(haul_module *module, const char *path, T... x)
{
    const haul_call_options options = haul__options_of_inputs<haul_call_options>(x...);
    return haul_call_child_with(module, path, &options);
}
#endif

#endif
