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

/* ---- layers; the operations of ops.h as modules, with their parameters ---- */
/* haul_nn_linear(in, out, .no_bias = true): weight [out, in] and bias [out]; x is [..., in]. */
typedef struct HAUL__DESIGNATED haul_nn_linear_options {
    int64_t out_features; /* positional */
    HAUL__GUARD
    bool no_bias;
    bool relu; /* as in haul_linear_options */
} haul_nn_linear_options;
#define haul_nn_linear(in, ...)                                                                                        \
    haul_nn_linear_with(in, HAUL__OPTIONS(haul_nn_linear_options, .out_features = __VA_ARGS__))
HAUL_API haul_module *haul_nn_linear_with(int64_t in_features, const haul_nn_linear_options *options);

/* haul_nn_conv2d(in, out, kernel, .padding = {1, 1}): weight [out, in / groups, KH, KW] and bias [out]; x is
 * [N, in, H, W]. */
typedef struct HAUL__DESIGNATED haul_nn_conv2d_options {
    int64_t kernel; /* size of a square window, else its height; positional */
    HAUL__GUARD
    int64_t kernel_w;                                   /* width of a window that is not square */
    int64_t stride[2], padding[2], dilation[2], groups; /* as in haul_conv2d */
    bool    no_bias;
    bool    relu; /* as in haul_linear_options */
} haul_nn_conv2d_options;
#define haul_nn_conv2d(in, out, ...)                                                                                   \
    haul_nn_conv2d_with(in, out, HAUL__OPTIONS(haul_nn_conv2d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv2d_with(int64_t in_channels, int64_t out_channels,
                                          const haul_nn_conv2d_options *options);

/* haul_nn_batch_norm(channels): weight and bias [channels], buffers running_mean and running_var [channels] and
 * num_batches_tracked (i64, 0-d), as in PyTorch; x is [N, channels, ...]. */
typedef struct HAUL__DESIGNATED haul_nn_batch_norm_options {
    int64_t channels; /* positional */
    HAUL__GUARD
    double momentum, eps; /* as in haul_batch_norm_options */
} haul_nn_batch_norm_options;
#define haul_nn_batch_norm(...)                                                                                        \
    haul_nn_batch_norm_with(HAUL__OPTIONS(haul_nn_batch_norm_options, .channels = __VA_ARGS__))
HAUL_API haul_module *haul_nn_batch_norm_with(const haul_nn_batch_norm_options *options);

HAUL_API haul_module *haul_nn_relu(void);
HAUL_API haul_module *haul_nn_tanh(void);
HAUL_API haul_module *haul_nn_sigmoid(void);
HAUL_API haul_module *haul_nn_gelu(void);
HAUL_API haul_module *haul_nn_dropout(double p); /* in training only; p is a probability */
HAUL_API haul_module *haul_nn_flatten(int first_axis);

/* haul_nn_max_pool2d(3, .stride = {2, 2}), with the options of haul_max_pool2d. */
#define haul_nn_max_pool2d(...) haul_nn_max_pool2d_with(HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
#define haul_nn_avg_pool2d(...) haul_nn_avg_pool2d_with(HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
HAUL_API haul_module *haul_nn_max_pool2d_with(const haul_pool2d_options *options);
HAUL_API haul_module *haul_nn_avg_pool2d_with(const haul_pool2d_options *options);

/* Children "0", "1", ... called one after the other; the input of each is dropped as soon as it is used up. */
HAUL_API haul_module *haul_nn_sequential(haul_module *const *children, int count);
#ifdef __cplusplus
extern "C++" {
template <size_t N> haul_module *haul__sequential(haul_module *const (&children)[N])
{
    return haul_nn_sequential(children, static_cast<int>(N));
}
}
#define HAUL_SEQUENTIAL(...) haul__sequential({__VA_ARGS__})
#else
#define HAUL_SEQUENTIAL(...)                                                                                           \
    haul_nn_sequential((haul_module *const[]){__VA_ARGS__}, HAUL__COUNT(haul_module *const, __VA_ARGS__))
#endif

/* ---- initialisation, in place; bounds as PyTorch's torch.nn.init ----
 * The last two want at least two dimensions, [out, in, ...]; sizes after these count as a window. */
HAUL_API haul_status haul_init_uniform(haul_tensor *t, double low, double high);
HAUL_API haul_status haul_init_normal(haul_tensor *t, double mean, double deviation);
HAUL_API haul_status haul_init_kaiming_uniform(haul_tensor *t, double a);   /* He et al. 2015; leaky slope a */
HAUL_API haul_status haul_init_xavier_uniform(haul_tensor *t, double gain); /* Glorot, Bengio 2010 */

/* ---- networks the command trains ---- */
/* Small networks by name, haul_model_new("simplecnn"): "simplecnn" (3x32x32 pictures, 10 classes; any picture of at
 * least 16x16), "dense" (10 -> 16 -> 1), "mlp" (3072 -> 256 -> 128 -> 10), "resnet18" (3x32x32 pictures, 10 classes;
 * any picture; ResNet-18 with a 3x3 first convolution and no pooling after it). NULL with the list of names for an
 * unknown one. */
typedef struct HAUL__DESIGNATED haul_model_options {
    const char *name; /* positional */
    HAUL__GUARD
    haul_shape input;   /* of one example, HAUL_SHAPE(1, 28, 28); default: as above */
    int64_t    outputs; /* classes or values to predict; default: as above */
} haul_model_options;
#define haul_model_new(...) haul_model_new_with(HAUL__OPTIONS(haul_model_options, .name = __VA_ARGS__))
HAUL_API haul_module *haul_model_new_with(const haul_model_options *options);

HAUL_END

#endif
