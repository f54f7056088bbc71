/* Optimizers: they hold a module and change its parameters from their gradients.
 *
 * haul_optimizer_step allocates everything it needs before its first write, so that a step that fails changes nothing.
 * Parameters without a gradient are left alone. State is on the parameter's device. The parameters are those that the
 * module has when the optimizer is made. */
#ifndef HAUL_OPTIM_H
#define HAUL_OPTIM_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Private: options from a module, a learning rate and what follows; without a rate the compiler reports `missing`. */
#define HAUL__OPTIMIZER_OPTIONS(type, missing, ...)                                                                    \
    HAUL__OPTIONS(type, .module = HAUL__FIRST(__VA_ARGS__, ), .lr = (double)(HAUL__SECOND(__VA_ARGS__, missing, )),    \
                  HAUL__REST(__VA_ARGS__, ))

/* Stochastic gradient descent with PyTorch's momentum:
 *   g = grad + weight_decay p;  v = momentum v + (1 - dampening) g (v = g at first)
 *   p -= lr (nesterov ? g + momentum v : v) */
typedef struct HAUL__DESIGNATED haul_sgd_options {
    haul_module *module; /* positional */
    double       lr;     /* positional */
    HAUL__GUARD
    double momentum, dampening, weight_decay;
    bool   nesterov; /* needs momentum, no dampening */
} haul_sgd_options;
/* haul_sgd(net, 0.01, .momentum = 0.9): the learning rate is 0.01. */
#define haul_sgd(...)                                                                                                  \
    haul_sgd_with(HAUL__OPTIMIZER_OPTIONS(haul_sgd_options, haul_sgd_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_sgd_with(const haul_sgd_options *options);

/* Adam (Kingma, Ba 2015); with decoupled weight decay (Loshchilov, Hutter 2019) when .decoupled is set. */
typedef struct HAUL__DESIGNATED haul_adam_options {
    haul_module *module; /* positional */
    double       lr;     /* positional */
    HAUL__GUARD
    double betas[2]; /* default {0.9, 0.999}; {HAUL_ZERO, 0.999}: no momentum */
    double eps;      /* default 1e-8; HAUL_ZERO for zero */
    double weight_decay;
    bool   decoupled;
} haul_adam_options;
/* haul_adam(net, 0.001, .betas = {0.9, 0.99}): the learning rate is 0.001. */
#define haul_adam(...)                                                                                                 \
    haul_adam_with(HAUL__OPTIMIZER_OPTIONS(haul_adam_options, haul_adam_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_adam_with(const haul_adam_options *options);

HAUL_API haul_status  haul_optimizer_step(haul_optimizer *optimizer);
HAUL_API haul_status  haul_optimizer_zero_grad(haul_optimizer *optimizer); /* gradients become absent, as in PyTorch */
HAUL_API double       haul_optimizer_lr(const haul_optimizer *optimizer);
HAUL_API haul_status  haul_optimizer_set_lr(haul_optimizer *optimizer, double lr);
HAUL_API const char  *haul_optimizer_kind(const haul_optimizer *optimizer); /* "sgd", "adam" */
HAUL_API haul_module *haul_optimizer_module(haul_optimizer *optimizer);

/* State for checkpoints: tensors named "PARAMETER.momentum", "PARAMETER.exp_avg" ..., for Adam "PARAMETER.step", too,
 * and the number of steps taken. Reading returns how many tensors there are, none before the first step, or -1 on
 * failure. They belong to the optimizer and must be used before its next step and before its state is read or written
 * again. Writing replaces the state and needs exactly those names and shapes. State that the optimizer does not use
 * with its settings, such as momentum without .momentum, is refused. If the optimizer has a haul_grad_scaler, its state
 * is included as "grad_scaler.scale" and "grad_scaler.growth_tracker"; writing leaves the scaler as it is if these are
 * missing. After steps with a scaler, reading the state or the number of steps waits for the device. */
HAUL_API int         haul_optimizer_state(haul_optimizer *optimizer, haul_named_tensor *out, int capacity);
HAUL_API haul_status haul_optimizer_load_state(haul_optimizer *optimizer, const haul_named_tensor *tensors, int count,
                                               int64_t steps);
HAUL_API int64_t     haul_optimizer_steps(const haul_optimizer *optimizer);

/* Scale the gradients of all of a module's parameters so that their common 2-norm is at most max_norm:
 * times min(1, max_norm / (norm + 1e-6)). Returns the norm of before, a number on the device of the first gradient;
 * does not wait for it. With loss scaling: after haul_grad_scaler_unscale. */
HAUL_API haul_tensor *haul_clip_grad_norm(haul_module *module, double max_norm);

/* Loss scaling, for training with haul_autocast_begin(..., HAUL_F16): gradients that f16 would lose are lifted by
 * scaling the loss, and unscaled before the step. A step whose gradients are not all finite is skipped; the scale then
 * backs off, and grows after a number of good steps (Micikevicius et al. 2018; torch.cuda.amp.GradScaler).
 *
 *     haul_backward(haul_grad_scaler_scale(scaler, loss), HAUL_NONE);
 *     haul_grad_scaler_unscale(scaler, sgd);       only if gradients are looked at before the step
 *     haul_clip_grad_norm(net, 1);                 as here
 *     haul_grad_scaler_step(scaler, sgd);          instead of haul_optimizer_step(sgd)
 *     haul_grad_scaler_update(scaler);             after the steps of all optimizers
 *
 * The scale, and whether a step is skipped, are known to the devices only: nothing here waits, except where gradients
 * on devices of different backends have to agree. The scaler is part of its optimizer's state: saved in checkpoints,
 * and held by it. Several optimizers may share one; each optimizer has the one that made its last step. */
typedef struct haul_grad_scaler haul_grad_scaler;

typedef struct HAUL__DESIGNATED haul_grad_scaler_options {
    haul_optimizer *optimizer; /* positional */
    HAUL__GUARD
    double  init_scale;      /* default 65536 */
    double  growth, backoff; /* factors, above 1 and below 1; default 2 and 0.5 */
    int64_t growth_interval; /* good steps before the scale grows; default 2000 */
} haul_grad_scaler_options;
#define haul_grad_scaler_new(...)                                                                                      \
    haul_grad_scaler_new_with(HAUL__OPTIONS(haul_grad_scaler_options, .optimizer = __VA_ARGS__))
HAUL_API haul_grad_scaler *haul_grad_scaler_new_with(const haul_grad_scaler_options *options);

/* loss times the scale; differentiable. */
HAUL_API haul_tensor *haul_grad_scaler_scale(haul_grad_scaler *scaler, haul_tensor *loss);
/* Divide the gradients of the optimizer's parameters by the scale, in place, and look for what is not finite. Once
 * between two updates; refused for gradients of f16. */
HAUL_API haul_status haul_grad_scaler_unscale(haul_grad_scaler *scaler, haul_optimizer *optimizer);
/* The optimizer's step, skipped if something was found in its gradients, which are unscaled first if they were not yet.
 * haul_optimizer_steps counts those that were not skipped. */
HAUL_API haul_status haul_grad_scaler_step(haul_grad_scaler *scaler, haul_optimizer *optimizer);
/* Adapt the scale to what the steps since the last update found. */
HAUL_API haul_status haul_grad_scaler_update(haul_grad_scaler *scaler);
/* The scale; waits for the device. NaN on failure. */
HAUL_API double haul_grad_scaler_factor(haul_grad_scaler *scaler);

HAUL_END

#endif
