/* Optimizers: they hold a module and change its parameters from their gradients.
 *
 * haul_optimizer_step allocates everything it needs before its first write, so that a step that fails changes nothing.
 * Parameters without a gradient are left alone. State lies where the parameter lies. */
#ifndef HAUL_OPTIM_H
#define HAUL_OPTIM_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Stochastic gradient descent with PyTorch's momentum:
 *   g = grad + weight_decay p;  v = momentum v + (1 - dampening) g (v = g at first)
 *   p -= lr (nesterov ? g + momentum v : v) */
typedef struct haul_sgd_options {
    haul_module *module; /* positional */
    double       lr;     /* 0 means 0.001 */
    double       momentum, dampening, weight_decay;
    bool         nesterov; /* needs momentum, no dampening */
} haul_sgd_options;
#define haul_sgd(...) haul_sgd_with(&(haul_sgd_options){.module = __VA_ARGS__})
HAUL_API haul_optimizer *haul_sgd_with(const haul_sgd_options *options);

/* Adam (Kingma, Ba 2015); with decoupled weight decay (Loshchilov, Hutter 2019) when .decoupled is set. */
typedef struct haul_adam_options {
    haul_module *module;       /* positional */
    double       lr;           /* 0 means 0.001 */
    double       beta1, beta2; /* 0 means 0.9 and 0.999 */
    double       eps;          /* 0 means 1e-8 */
    double       weight_decay;
    bool         decoupled;
} haul_adam_options;
#define haul_adam(...) haul_adam_with(&(haul_adam_options){.module = __VA_ARGS__})
HAUL_API haul_optimizer *haul_adam_with(const haul_adam_options *options);

HAUL_API haul_status  haul_optimizer_step(haul_optimizer *optimizer);
HAUL_API haul_status  haul_optimizer_zero_grad(haul_optimizer *optimizer); /* gradients become absent, as in PyTorch */
HAUL_API double       haul_optimizer_lr(const haul_optimizer *optimizer);
HAUL_API haul_status  haul_optimizer_set_lr(haul_optimizer *optimizer, double lr);
HAUL_API const char  *haul_optimizer_kind(const haul_optimizer *optimizer); /* "sgd", "adam" */
HAUL_API haul_module *haul_optimizer_module(haul_optimizer *optimizer);

/* State for checkpoints: tensors named "PARAMETER.momentum", "PARAMETER.exp_avg" ..., and the number of steps taken.
 * Reading answers how many tensors there are; writing replaces the state and wants exactly those names and shapes. */
HAUL_API int         haul_optimizer_state(haul_optimizer *optimizer, haul_named_tensor *out, int capacity);
HAUL_API haul_status haul_optimizer_load_state(haul_optimizer *optimizer, const haul_named_tensor *tensors, int count,
                                               int64_t steps);
HAUL_API int64_t     haul_optimizer_steps(const haul_optimizer *optimizer);

HAUL_END

#endif
