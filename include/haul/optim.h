/* Optimizers: they change parameters from their gradients.
 *
 * haul_optimizer_step allocates everything it needs before its first write, so that a step that fails for want of
 * memory changes nothing. Parameters without a gradient are left alone. State is on the parameter's device.
 *
 * The positional module gives the parameters, those that it has when the optimizer is made. With .parameters the
 * optimizer trains the tensors of that list only, and the module may be NULL. Buffers in the list are ignored. Names
 * are those of the module where it holds the parameter, and otherwise those of the list; a tensor without a name is
 * called by its place in the list. State and messages use these names, so no two parameters may have the same one.
 *
 * Schedules of the learning rate are in schedule.h, averages of parameters in average.h. */
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
 *   p -= lr (nesterov ? g + momentum v : v)
 * Settings: lr, momentum, dampening, weight_decay, nesterov. State: momentum. */
typedef struct HAUL__DESIGNATED haul_sgd_options {
    haul_module *module; /* positional */
    double       lr;     /* positional */
    HAUL__GUARD
    double                   momentum, dampening, weight_decay;
    bool                     nesterov; /* needs momentum, no dampening */
    const haul_named_tensor *parameters;
    int                      count;
} haul_sgd_options;
/* haul_sgd(net, 0.01, .momentum = 0.9): the learning rate is 0.01. */
#define haul_sgd(...)                                                                                                  \
    haul_sgd_with(HAUL__OPTIMIZER_OPTIONS(haul_sgd_options, haul_sgd_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_sgd_with(const haul_sgd_options *options);

/* Adam (Kingma, Ba 2015); weight decay is added to the gradient.
 * Settings: lr, beta1, beta2, eps, weight_decay. State: exp_avg, exp_avg_sq, step. */
typedef struct HAUL__DESIGNATED haul_adam_options {
    haul_module *module; /* positional */
    double       lr;     /* positional */
    HAUL__GUARD
    double                   betas[2]; /* default {0.9, 0.999}; {HAUL_ZERO, 0.999}: no momentum */
    double                   eps;      /* default 1e-8; HAUL_ZERO for zero */
    double                   weight_decay;
    const haul_named_tensor *parameters;
    int                      count;
} haul_adam_options;
/* haul_adam(net, 0.001, .betas = {0.9, 0.99}): the learning rate is 0.001. */
#define haul_adam(...)                                                                                                 \
    haul_adam_with(HAUL__OPTIMIZER_OPTIONS(haul_adam_options, haul_adam_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_adam_with(const haul_adam_options *options);

/* AdamW: Adam with decoupled weight decay (Loshchilov, Hutter 2019), p *= 1 - lr weight_decay before Adam's step.
 * Settings and state are Adam's. */
typedef struct HAUL__DESIGNATED haul_adamw_options {
    haul_module *module; /* positional */
    double       lr;     /* positional */
    HAUL__GUARD
    double                   betas[2];     /* default {0.9, 0.999}; {HAUL_ZERO, 0.999}: no momentum */
    double                   eps;          /* default 1e-8; HAUL_ZERO for zero */
    double                   weight_decay; /* default 0.01; HAUL_ZERO for none */
    const haul_named_tensor *parameters;
    int                      count;
} haul_adamw_options;
#define haul_adamw(...)                                                                                                \
    haul_adamw_with(HAUL__OPTIMIZER_OPTIONS(haul_adamw_options, haul_adamw_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_adamw_with(const haul_adamw_options *options);

/* RMSprop (Tieleman, Hinton 2012; centered: Graves 2013), with the formulas of torch.optim.RMSprop:
 *   g = grad + weight_decay p;  s = alpha s + (1 - alpha) g g
 *   centered: a = alpha a + (1 - alpha) g, d = sqrt(s - a a) + eps; otherwise d = sqrt(s) + eps
 *   momentum: b = momentum b + g / d, p -= lr b; otherwise p -= lr g / d
 * Settings: lr, alpha, eps, momentum, weight_decay, centered. State: square_avg, grad_avg, momentum_buffer. */
typedef struct HAUL__DESIGNATED haul_rmsprop_options {
    haul_module *module; /* positional */
    double       lr;     /* positional */
    HAUL__GUARD
    double                   alpha; /* default 0.99; HAUL_ZERO for zero */
    double                   eps;   /* default 1e-8; HAUL_ZERO for zero */
    double                   momentum, weight_decay;
    bool                     centered;
    const haul_named_tensor *parameters;
    int                      count;
} haul_rmsprop_options;
#define haul_rmsprop(...)                                                                                              \
    haul_rmsprop_with(HAUL__OPTIMIZER_OPTIONS(haul_rmsprop_options, haul_rmsprop_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_rmsprop_with(const haul_rmsprop_options *options);

HAUL_API haul_status  haul_optimizer_step(haul_optimizer *optimizer);
HAUL_API haul_status  haul_optimizer_zero_grad(haul_optimizer *optimizer);  /* gradients become absent, as in PyTorch */
HAUL_API const char  *haul_optimizer_kind(const haul_optimizer *optimizer); /* "sgd", "adam", "adamw", "rmsprop" */
HAUL_API haul_module *haul_optimizer_module(haul_optimizer *optimizer);     /* NULL if it was made without one */

/* ---- groups ---- */

/* Parameters are in groups that have settings of their own. All begin in group 0. A new group takes its parameters out
 * of the groups they are in, with their state, and adds those that the optimizer does not train yet. Another module
 * often has the same names: make the optimizer for a module that holds both, or give .parameters with a name for each.
 *
 *     haul_optimizer *adamw = haul_adamw(net, 1e-3);
 *     haul_optimizer_add_group(adamw, .module = haul_module_child(net, "head"), .lr = 1e-2);
 *     haul_optimizer_add_group(adamw, .names = "*.bias, *norm*", .weight_decay = HAUL_ZERO);
 *
 * Exactly one of .module, .parameters and .names selects the parameters. .names are patterns for the names of
 * parameters that the optimizer trains already, separated by commas; * matches any characters. A setting that is not
 * given is what the optimizer was made with. Giving one that this kind of optimizer does not have is an error. Returns
 * the number of the group, or -1 on failure. */
typedef struct HAUL__DESIGNATED haul_optimizer_group_options {
    HAUL__GUARD
    haul_module             *module;
    const haul_named_tensor *parameters;
    int                      count;
    const char              *names;
    double                   lr, momentum, dampening, alpha, betas[2], eps, weight_decay; /* HAUL_ZERO for zero */
} haul_optimizer_group_options;
#define haul_optimizer_add_group(optimizer, ...)                                                                       \
    haul_optimizer_add_group_with(optimizer, HAUL__OPTIONS(haul_optimizer_group_options, __VA_ARGS__))
HAUL_API int haul_optimizer_add_group_with(haul_optimizer *optimizer, const haul_optimizer_group_options *options);

HAUL_API int haul_optimizer_group_count(const haul_optimizer *optimizer); /* -1 on failure */

#define HAUL_ALL_GROUPS (-1)

/* A setting of a group by its name, such as haul_optimizer_get(sgd, 0, "lr"); NaN on failure. Setting takes
 * HAUL_ALL_GROUPS, too, and changes nothing if it fails. Flags are 0 or 1. State that is not used with the new setting,
 * such as that of a momentum that becomes 0, is dropped. */
HAUL_API double      haul_optimizer_get(const haul_optimizer *optimizer, int group, const char *setting);
HAUL_API haul_status haul_optimizer_set(haul_optimizer *optimizer, int group, const char *setting, double value);

/* The parameters of a group, or of HAUL_ALL_GROUPS. Returns how many there are, -1 on failure; fills at most `capacity`
 * entries. Names are valid as long as the optimizer. */
HAUL_API int haul_optimizer_parameters(haul_optimizer *optimizer, int group, haul_named_tensor *out, int capacity);

/* ---- state ---- */

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

/* ---- clipping ---- */

/* Which gradients to clip: haul_clip_grad_norm(net, 1) clips those of the module's parameters. With .parameters or
 * .optimizer it is those of the list or of all groups of the optimizer, and the module is NULL. With loss scaling:
 * after haul_grad_scaler_unscale. */
typedef struct HAUL__DESIGNATED haul_clip_options {
    haul_module *module; /* positional */
    double       limit;  /* positional */
    HAUL__GUARD
    const haul_named_tensor *parameters;
    int                      count;
    haul_optimizer          *optimizer;
} haul_clip_options;
#define HAUL__CLIP_OPTIONS(missing, ...)                                                                               \
    HAUL__OPTIONS(haul_clip_options, .module = HAUL__FIRST(__VA_ARGS__, ),                                             \
                  .limit = (double)(HAUL__SECOND(__VA_ARGS__, missing, )), HAUL__REST(__VA_ARGS__, ))

/* Scale the gradients so that their common 2-norm is at most the limit: times min(1, limit / (norm + 1e-6)), as in
 * torch.nn.utils.clip_grad_norm_. Returns the norm before clipping, a number on the device of the first gradient; does
 * not wait for it. */
#define haul_clip_grad_norm(...)                                                                                       \
    haul_clip_grad_norm_with(HAUL__CLIP_OPTIONS(haul_clip_grad_norm_needs_a_limit, __VA_ARGS__))
HAUL_API haul_tensor *haul_clip_grad_norm_with(const haul_clip_options *options);

/* Clamp each element of the gradients to -limit ... limit, as torch.nn.utils.clip_grad_value_. NaN stays NaN. */
#define haul_clip_grad_value(...)                                                                                      \
    haul_clip_grad_value_with(HAUL__CLIP_OPTIONS(haul_clip_grad_value_needs_a_limit, __VA_ARGS__))
HAUL_API haul_status haul_clip_grad_value_with(const haul_clip_options *options);

/* ---- loss scaling ---- */

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
