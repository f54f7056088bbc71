/* Reverse-mode differentiation.
 *
 * A result that depends on a tensor that requires a gradient carries the graph that made it; the graph is freed with
 * the last tensor that needs it. It works on every device and across devices: a leaf's gradient is on the leaf's
 * device. */
#ifndef HAUL_AUTOGRAD_H
#define HAUL_AUTOGRAD_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Make a leaf (a tensor no operation made) require a gradient; returns t. Only floating dtypes can. */
HAUL_API haul_tensor *haul_set_requires_grad(haul_tensor *t, bool on);
HAUL_API bool         haul_requires_grad(const haul_tensor *t); /* also of results; false on failure */

/* The gradient accumulated in a leaf, as a fresh handle that shares its memory; HAUL_NONE when there is none yet, and
 * for results. A later haul_backward puts a new tensor in its place: handles taken before keep the old sum. */
HAUL_API haul_tensor *haul_tensor_grad(haul_tensor *t);
/* Replace it by a tensor of t's shape, dtype and device, whose memory is shared; HAUL_NONE removes it. */
HAUL_API haul_status haul_set_grad(haul_tensor *t, haul_tensor *grad);

/* Add d(y)/d(leaf) to the gradient of every leaf behind y. `seed` is the gradient of y itself, of y's shape, or
 * HAUL_NONE for one when y has a single element. Leaf gradients change only if the whole pass succeeds. The graph can
 * be used again. */
HAUL_API haul_status haul_backward(haul_tensor *y, haul_tensor *seed);

/* The functional form, haul_grad(y, inputs, count, results, .create_graph = true): results[i] becomes
 * d(y)/d(inputs[i]), HAUL_NONE where y does not depend on it. Leaf gradients are not touched. On
 * failure each result is a failed tensor. */
typedef struct HAUL__DESIGNATED haul_grad_options {
    haul_tensor **results; /* `count` handles, which are written; positional */
    HAUL__GUARD
    haul_tensor *seed;         /* the gradient of y; not given: one, for a y with a single element */
    bool         create_graph; /* so that the results can be differentiated again */
} haul_grad_options;

#define haul_grad(y, inputs, count, ...)                                                                               \
    haul_grad_with(y, inputs, count, HAUL__OPTIONS(haul_grad_options, .results = __VA_ARGS__))
HAUL_API haul_status haul_grad_with(haul_tensor *y, haul_tensor *const *inputs, int count,
                                    const haul_grad_options *options);

/* x without its history: shares the memory, requires no gradient. */
HAUL_API haul_tensor *haul_detach(haul_tensor *x);

/* Whether operations on this thread record graphs; true unless set; restored when the scope is popped.
 * Returns the value before. */
HAUL_API bool haul_set_grad_enabled(bool on);
HAUL_API bool haul_grad_enabled(void);

/* Compare the gradients of `f` at `inputs` with central differences. f takes `count` tensors and returns one of any
 * shape; inputs should be f64. OK when |analytic - numeric| <= atol + rtol * |numeric| for every element. */
typedef haul_tensor *haul_function(haul_tensor *const *inputs, int count, void *context);

typedef struct HAUL__DESIGNATED haul_grad_check_options {
    void *context; /* handed to f; positional */
    HAUL__GUARD
    double step;         /* default 1e-6 */
    double tolerance[2]; /* {atol, rtol}; default {1e-5, 1e-3}; {1e-5, HAUL_ZERO}: absolute only */
} haul_grad_check_options;

#define haul_grad_check(f, inputs, count, ...)                                                                         \
    haul_grad_check_with(f, inputs, count, HAUL__OPTIONS(haul_grad_check_options, .context = __VA_ARGS__))
HAUL_API haul_status haul_grad_check_with(haul_function *f, haul_tensor *const *inputs, int count,
                                          const haul_grad_check_options *options);

HAUL_END

#endif
