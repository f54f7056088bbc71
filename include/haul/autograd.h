/* Gradients: reverse-mode automatic differentiation.
 *
 *     haul_set_requires_grad(w, true);
 *     haul_tensor *loss = haul_mse_loss(haul_matmul(x, w), y);
 *     haul_backward(loss);
 *     haul_tensor *dw = haul_tensor_grad(w);
 *
 * A result that depends on a tensor that requires a gradient carries the graph that made it. The graph is freed with
 * the last tensor that needs it. This works on every device and across devices: the gradient of a leaf is on the leaf's
 * device.
 *
 * A leaf is a tensor that no operation made, for example a parameter. */
#ifndef HAUL_AUTOGRAD_H
#define HAUL_AUTOGRAD_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Make a leaf require a gradient, or not. Returns t. Fails if t is not a leaf or has no floating dtype. */
HAUL_API haul_tensor *haul_set_requires_grad(haul_tensor *t, bool on);

/* True if the tensor requires a gradient, as a leaf or because it depends on one. False on failure. */
HAUL_API bool haul_requires_grad(const haul_tensor *t);

/* The gradient accumulated in a leaf, as a new handle that shares its memory. HAUL_NONE if there is none yet, and for
 * tensors that are not leaves. A later haul_backward puts a new tensor in its place: handles taken before keep the old
 * sum. */
HAUL_API haul_tensor *haul_tensor_grad(haul_tensor *t);

/* Replace the gradient of a leaf.
 *
 * - grad: of t's shape, dtype and device. Its memory is shared, unless elements of it share memory, as in an expanded
 *   tensor: then it is copied. HAUL_NONE removes the gradient */
HAUL_API haul_status haul_set_grad(haul_tensor *t, haul_tensor *grad);

typedef struct HAUL__DESIGNATED haul_backward_options {
    haul_tensor *y; /* the tensor to differentiate; positional */
    HAUL__GUARD(seed)
    haul_tensor *seed; /* the gradient of y itself, of y's shape; default 1, for a y with a single element */
    bool         keep; /* keep the graph, so that it can be used again: more memory */
    bool         once; /* add each gradient to its leaf as soon as it is complete: less memory; excludes `keep` */
} haul_backward_options;

/* Add d(y)/d(leaf) to the gradient of every leaf behind y:
 *
 *     haul_backward(loss);
 *     haul_backward(loss, .keep = true);
 *
 * - The pass frees what the graph holds as soon as it has used it. Neither this graph nor another one that shares a
 * part of it can be used again, even if the pass fails; no other thread may use it during the pass. `.keep = true`
 * keeps the graph.
 * - Leaf gradients change only if the whole pass succeeds. Until then the pass holds the gradients of all leaves in
 *   addition to those that the leaves have. With `.once = true` it holds no gradient longer than necessary, and adds
 *   to the gradient of a leaf in its memory if no other tensor sees that. But if it fails, some leaves may have their
 *   new gradients and others not: then set all of them anew.
 * - `.keep` and `.once` do not change the bits of gradients.
 *
 * Fails with HAUL_GRAPH, before anything changes, if y does not require a gradient, or if an earlier pass has freed a
 * part of the graph. A part that holds no tensors, for example a sum of leaves, stays usable. Fails with HAUL_GRAPH if
 * a tensor that a gradient needs was changed in place, and with HAUL_INVALID_ARGUMENT if keep and once are both true.
 */
#define haul_backward(...) haul_backward_with(HAUL__OPTIONS(haul_backward_options, .y = __VA_ARGS__))
HAUL_API haul_status haul_backward_with(const haul_backward_options *options);

/* Compute gradients without touching those of leaves: results[i] becomes d(y)/d(inputs[i]), or HAUL_NONE if y does not
 * depend on it. On failure each result is a failed tensor.
 *
 *     haul_tensor *inputs[] = {a, b}, *results[2];
 *     haul_grad(y, inputs, 2, results, .create_graph = true);
 *
 * The pass goes through the part of the graph between y and the inputs, and frees what this part holds, as
 * haul_backward does. `.keep` and `.create_graph` keep it.
 *
 * - inputs, count: the tensors to differentiate by, and their number */
typedef struct HAUL__DESIGNATED haul_grad_options {
    haul_tensor **results; /* gets `count` tensors; positional */
    HAUL__GUARD(seed)
    haul_tensor *seed;         /* the gradient of y; default 1, for a y with a single element */
    bool         create_graph; /* record the pass itself, so that the results can be differentiated again; keeps the
                                  graph, too */
    bool keep;                 /* keep the graph, so that it can be used again */
} haul_grad_options;

#define haul_grad(y, inputs, count, ...)                                                                               \
    haul_grad_with(y, inputs, count, HAUL__OPTIONS(haul_grad_options, .results = __VA_ARGS__))
HAUL_API haul_status haul_grad_with(haul_tensor *y, haul_tensor *const *inputs, int count,
                                    const haul_grad_options *options);

/* Jacobians and products with them and with Hessians, of a y that was computed from the inputs while graphs were
 * recorded. They keep the graph of y. Results require no gradient, and are zeros where y does not depend on an input.
 * On failure each result is a failed tensor.
 *
 *     haul_tensor *inputs[] = {a}, *directions[] = {b}, *results[1];
 *     haul_hvp(y, inputs, directions, 1, results);
 *
 * The results of haul_jacobian are the derivatives of all elements of y by all of an input, [shape of y, shape of the
 * input]. It takes a backward pass for each element of y. Those of haul_hvp are the product of the Hessian of y, which
 * has a single element, with the directions. haul_jvp gives the derivative of y along the directions, the product of
 * the Jacobian with them, of y's shape. Both take two backward passes: the second one of haul_jvp is that of the first
 * with respect to its seed.
 *
 * - inputs, count: the tensors to differentiate by, and their number
 * - directions: one of the shape and on the device of each input */
HAUL_API haul_status  haul_jacobian(haul_tensor *y, haul_tensor *const *inputs, int count, haul_tensor **results);
HAUL_API haul_status  haul_hvp(haul_tensor *y, haul_tensor *const *inputs, haul_tensor *const *directions, int count,
                               haul_tensor **results);
HAUL_API haul_tensor *haul_jvp(haul_tensor *y, haul_tensor *const *inputs, haul_tensor *const *directions, int count);

/* A function that gets the gradient of a tensor in a backward pass. Returns the gradient with which the pass goes on,
 * of the same shape, dtype and device; HAUL_NONE for the given one; a failed tensor on failure. It must not change the
 * given one in place. */
typedef haul_tensor *haul_gradient_hook(haul_tensor *gradient, void *context);

/* A function that is called when haul_backward has added to the gradient of a leaf. */
typedef haul_status haul_leaf_hook(haul_tensor *leaf, void *context);

typedef struct HAUL__DESIGNATED haul_tensor_hook_options {
    haul_tensor *t; /* the tensor; positional */
    HAUL__GUARD(gradient)
    haul_gradient_hook *gradient;    /* called with the gradient of t, as PyTorch's Tensor.register_hook */
    haul_leaf_hook     *accumulated; /* for leaves; as register_post_accumulate_grad_hook */
    void               *context;     /* passed to the hooks; must stay valid until they are removed or end */
    void (*destroy)(void *context);  /* called when the hooks were removed or ended; may be NULL */
} haul_tensor_hook_options;

/* Add a hook to a tensor that requires a gradient:
 *
 *     static haul_tensor *halve(haul_tensor *gradient, void *context)
 *     {
 *         return haul_mul_scalar(gradient, 0.5);
 *     }
 *
 *     int64_t id = haul_tensor_add_hook(h, .gradient = halve);
 *
 * - `gradient` is called in haul_backward and haul_grad as soon as the gradient of t is complete, before anything is
 *   computed from it. For a leaf that is the gradient of this pass alone. With .create_graph what the hook computes is
 *   recorded, else nothing is.
 * - `accumulated` is called by haul_backward: with .once as soon as the leaf has its gradient, so it can make an
 *   optimizer's step and remove the gradient; else after all leaves have theirs.
 * - Several hooks of a tensor are called in the order in which they were added, each with the gradient of the last. The
 *   rules of scope.h for functions of the program hold. A hook may remove itself; .destroy is then called while the
 *   hook runs.
 * - If a hook fails, so does the pass, with the hook's error. After an `accumulated` that fails, leaves keep their new
 *   gradients.
 * - The hooks of a leaf end with it, those of a result with the graph. They belong to the tensor, not to the handle:
 *   clones do not have them. A recorded step in which a hook is called runs as it is; haul_recording_report_get says
 *   so.
 *
 * Returns a positive number for haul_tensor_remove_hook, 0 on failure. Fails with HAUL_GRAPH if t requires no gradient,
 * and if .accumulated is given for a tensor that is not a leaf; with HAUL_INVALID_ARGUMENT without a hook. */
#define haul_tensor_add_hook(...) haul_tensor_add_hook_with(HAUL__OPTIONS(haul_tensor_hook_options, .t = __VA_ARGS__))
HAUL_API int64_t haul_tensor_add_hook_with(const haul_tensor_hook_options *options);

/* Remove the hooks that haul_tensor_add_hook numbered `id`. */
HAUL_API haul_status haul_tensor_remove_hook(haul_tensor *t, int64_t id);

/* x without its history: a view that shares the memory and requires no gradient. */
HAUL_API haul_tensor *haul_detach(haul_tensor *x);

/* True if operations on the calling thread record graphs: unless set otherwise. Popping the scope restores it.
 * haul_set_grad_enabled returns the value before. Switch recording off for evaluation: results then need no memory for
 * gradients. */
HAUL_API bool haul_set_grad_enabled(bool on);
HAUL_API bool haul_grad_enabled(void);

/* Where NaN is searched for.
 *
 * - HAUL_ANOMALY_OFF: nowhere
 * - HAUL_ANOMALY_BACKWARD: in the gradients that backward passes compute, as torch.autograd.detect_anomaly does
 * - HAUL_ANOMALY_ALL: also in the results of operations, and in what they write */
typedef enum haul_anomaly { HAUL_ANOMALY_OFF, HAUL_ANOMALY_BACKWARD, HAUL_ANOMALY_ALL } haul_anomaly;

/* Find the operation that makes the first NaN, on the calling thread: off unless set otherwise. Popping the scope
 * restores it. For debugging, because it looks at every gradient.
 *
 *     haul_set_anomaly_detection(HAUL_ANOMALY_BACKWARD);
 *     haul_tensor *loss = haul_mse_loss(haul_call(net, x), y);
 *     if (haul_backward(loss))
 *         printf("%s\n", haul_error_message());
 *
 * - A backward pass fails with HAUL_GRAPH at the first gradient with a NaN. The message names the forward operation
 *   whose gradient it is, its operands with their shapes, and the module and the label in which it ran, if detection
 *   was on then. It also says if a sum of gradients of several uses made the NaN.
 * - With HAUL_ANOMALY_ALL each operation that the program calls fails with HAUL_STATE if its result has a NaN, and the
 *   message says whether an operand had one already. An operation that writes in place, for example a step of an
 *   optimizer, fails after it has written. Operations within an operation are not searched. Data in which NaN stands
 *   for a missing value cannot be used then.
 *
 * Each tensor that is searched takes two operations and, on a device, one wait for a byte, which sync reports, ledgers
 * and budgets count as "anomaly detection". A recorded step runs as it is, as with a subscriber of operations; within
 * one it cannot be switched on. Dry runs and `meta` have no values, so nothing is searched there. Another
 * value fails with HAUL_INVALID_ARGUMENT. */
HAUL_API haul_status  haul_set_anomaly_detection(haul_anomaly detection);
HAUL_API haul_anomaly haul_anomaly_detection(void);

/* A function of tensors, for haul_checkpoint and haul_grad_check: takes `count` tensors and returns one of any shape.
 */
typedef haul_tensor *haul_function(haul_tensor *const *inputs, int count, void *context);

typedef struct HAUL__DESIGNATED haul_recompute_options {
    void *context; /* passed to `f`; must be valid until it is released; positional */
    HAUL__GUARD(release)
    /* called once with the context, when `f` cannot run any more: at the end of the call if no graph was recorded or if
     * it failed, else when the graph is freed, on the thread that does so. It must not use the graph */
    void (*release)(void *context);
} haul_recompute_options;

/* Compute f(inputs) without keeping the tensors that its gradient needs. The backward pass runs `f` again and needs
 * them only while it goes through this part of the network: less memory, but the work of the forward pass is done
 * twice.
 *
 *     static haul_tensor *gate(haul_tensor *const *in, int count, void *context)
 *     {
 *         return haul_mul(haul_tanh(in[0]), haul_sigmoid(in[1]));
 *     }
 *
 *     haul_tensor *in[] = {a, b}, *y = haul_checkpoint(gate, in, 2, NULL);
 *
 * - Gradients are bit-identical to those of f(inputs); gradients of gradients, up to rounding. Other tensors that `f`
 *   reads, for example parameters, get their gradients, too.
 * - The second run has the random numbers, device, autocast, precision and placement policy of the first one, and
 *   modules that `f` calls have the same modes. haul_batch_norm does not update its running statistics again.
 * - `f` must compute the same both times. Other side effects happen twice, unless `f` checks haul_recomputing. It must
 *   not seed or set the generator that it draws from, and cannot call haul_backward or haul_grad on what it computes.
 * - Until the backward pass, changing an input or a parameter in place is an error: the pass fails with HAUL_GRAPH. So
 *   is moving a parameter.
 * - Calls may be nested. If nothing is recorded, `f` is simply called.
 * - haul_module_recompute does this for a module. It also works for several results.
 *
 * - f: the function; if it fails, so does this call or the backward pass. The rules of scope.h for functions of the
 *   program hold for it
 * - inputs, count: passed to `f`; HAUL_NONE is allowed. If count is 0, inputs may be NULL */
#define haul_checkpoint(f, inputs, count, ...)                                                                         \
    haul_checkpoint_with(f, inputs, count, HAUL__OPTIONS(haul_recompute_options, .context = __VA_ARGS__))
HAUL_API haul_tensor *haul_checkpoint_with(haul_function *f, haul_tensor *const *inputs, int count,
                                           const haul_recompute_options *options);

/* True while a backward pass of the calling thread runs a function again. Functions with side effects, for example
 * counters, skip them then. */
HAUL_API bool haul_recomputing(void);

typedef struct HAUL__DESIGNATED haul_grad_check_options {
    void *context; /* passed to `f`; positional */
    HAUL__GUARD(step)
    double step;         /* step of the differences; default 1e-6 */
    double tolerance[2]; /* {atol, rtol}; default {1e-5, 1e-3}; {1e-5, HAUL_ZERO} is absolute only */
} haul_grad_check_options;

/* Compare the gradients of `f` at `inputs` with central differences: for testing gradients of your own. Returns HAUL_OK
 * if |analytic - numeric| <= atol + rtol |numeric| for every element.
 *
 * - f: the function
 * - inputs, count: leaves at which to compare; they should be f64 */
#define haul_grad_check(f, inputs, count, ...)                                                                         \
    haul_grad_check_with(f, inputs, count, HAUL__OPTIONS(haul_grad_check_options, .context = __VA_ARGS__))
HAUL_API haul_status haul_grad_check_with(haul_function *f, haul_tensor *const *inputs, int count,
                                          const haul_grad_check_options *options);

HAUL_END

#endif
