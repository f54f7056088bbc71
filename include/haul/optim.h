/* Optimizers: changing parameters from their gradients.
 *
 *     haul_optimizer *adam = haul_adam(net, 0.001);
 *
 * and in each step of the training
 *
 *     haul_optimizer_zero_grad(adam);
 *     haul_backward(haul_cross_entropy(haul_call(net, x), y));
 *     haul_optimizer_step(adam);
 *
 * An optimizer trains the parameters that its module has when the optimizer is made. With .parameters it trains only
 * the tensors of that list, and the module may be NULL. Buffers in the list are ignored.
 *
 * Names of parameters are those of the module that holds them, otherwise those of the list; a tensor without a name is
 * called by its position in the list. State and messages use these names, so no two parameters may have the same one.
 *
 * The optimizer belongs to a scope and holds its module and parameters. Its state is on the parameters' devices.
 *
 * A mean of gradients (the velocity of haul_sgd, exp_avg of haul_adam) fades where gradients are zero. Below the
 * smallest normal number (1.2e-38; of f64 2.2e-308) it is zero: subnormal numbers would stay, and processors compute
 * with them a hundred times slower. haul_lamb and optimizers of the program make their means by operations, which
 * keep subnormal numbers.
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

/* Stochastic gradient descent, with PyTorch's momentum: haul_sgd(net, 0.01, .momentum = 0.9).
 *
 *     g = grad + weight_decay p
 *     v = momentum v + (1 - dampening) g      (at first v = g)
 *     p -= lr (nesterov ? g + momentum v : v)
 *
 * Settings for haul_optimizer_set: lr, momentum, dampening, weight_decay, nesterov. State: momentum. */
typedef struct HAUL__DESIGNATED haul_sgd_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(momentum)
    /* momentum: decay of the velocity v; default 0. dampening: part of a new gradient that the velocity leaves out;
     * default 0. weight_decay: times the parameter, added to the gradient; default 0 */
    double                   momentum, dampening, weight_decay;
    bool                     nesterov;   /* Nesterov's momentum; needs .momentum, and no .dampening */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
} haul_sgd_options;
#define haul_sgd(...)                                                                                                  \
    haul_sgd_with(HAUL__OPTIMIZER_OPTIONS(haul_sgd_options, haul_sgd_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_sgd_with(const haul_sgd_options *options);

/* Adam (Kingma, Ba 2015): haul_adam(net, 0.001, .betas = {0.9, 0.99}). Weight decay is added to the gradient;
 * haul_adamw decouples it. With .amsgrad the denominator has the largest mean of squares so far (Reddi, Kale, Kumar
 * 2018).
 *
 * Settings for haul_optimizer_set: lr, beta1, beta2, eps, weight_decay, amsgrad. State: exp_avg, exp_avg_sq,
 * max_exp_avg_sq (with .amsgrad), step. */
typedef struct HAUL__DESIGNATED haul_adam_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(betas)
    double                   betas[2]; /* decay of the means of gradients and of their squares; default {0.9, 0.999} */
    double                   eps;      /* added to the denominator; default 1e-8; HAUL_ZERO for zero */
    double                   weight_decay; /* times the parameter, added to the gradient */
    bool                     amsgrad;      /* divide by the largest mean of squares so far */
    const haul_named_tensor *parameters;   /* the parameters, instead of those of a module */
    int                      count;        /* the number of .parameters */
} haul_adam_options;
#define haul_adam(...)                                                                                                 \
    haul_adam_with(HAUL__OPTIMIZER_OPTIONS(haul_adam_options, haul_adam_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_adam_with(const haul_adam_options *options);

/* AdamW, Adam with decoupled weight decay (Loshchilov, Hutter 2019): p *= 1 - lr weight_decay before Adam's step.
 * Settings and state are those of haul_adam. */
typedef struct HAUL__DESIGNATED haul_adamw_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(betas)
    double                   betas[2]; /* decay of the means of gradients and of their squares; default {0.9, 0.999} */
    double                   eps;      /* added to the denominator; default 1e-8; HAUL_ZERO for zero */
    double                   weight_decay; /* factor of the decay; default 0.01; HAUL_ZERO for none */
    bool                     amsgrad;      /* divide by the largest mean of squares so far */
    const haul_named_tensor *parameters;   /* the parameters, instead of those of a module */
    int                      count;        /* the number of .parameters */
} haul_adamw_options;
#define haul_adamw(...)                                                                                                \
    haul_adamw_with(HAUL__OPTIMIZER_OPTIONS(haul_adamw_options, haul_adamw_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_adamw_with(const haul_adamw_options *options);

/* RMSprop (Tieleman, Hinton 2012; centered: Graves 2013), with the formulas of torch.optim.RMSprop:
 *
 *     g = grad + weight_decay p
 *     s = alpha s + (1 - alpha) g g
 *     d = sqrt(s) + eps
 *     p -= lr g / d
 *
 * With .centered: a = alpha a + (1 - alpha) g and d = sqrt(s - a a) + eps, where s - a a is at least s times the
 * dtype's rounding error: gradients that hardly change do not make it negative, as they do in PyTorch. With .momentum:
 * b = momentum b + g / d and p -= lr b.
 *
 * Settings for haul_optimizer_set: lr, alpha, eps, momentum, weight_decay, centered. State: square_avg, grad_avg,
 * momentum_buffer. */
typedef struct HAUL__DESIGNATED haul_rmsprop_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(alpha)
    double alpha; /* decay of the mean of squares; default 0.99; HAUL_ZERO for zero */
    double eps;   /* added to the denominator; default 1e-8; HAUL_ZERO for zero */
    /* momentum: decay of the velocity b; default 0. weight_decay: times the parameter, added to the gradient; default 0
     */
    double                   momentum, weight_decay;
    bool                     centered;   /* divide by an estimate of the standard deviation */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
} haul_rmsprop_options;
#define haul_rmsprop(...)                                                                                              \
    haul_rmsprop_with(HAUL__OPTIMIZER_OPTIONS(haul_rmsprop_options, haul_rmsprop_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_rmsprop_with(const haul_rmsprop_options *options);

/* Adagrad (Duchi, Hazan, Singer 2011), with the formulas of torch.optim.Adagrad: haul_adagrad(net, 0.01).
 *
 *     g = grad + weight_decay p
 *     s = s + g g      (at first s = initial_accumulator_value + g g)
 *     p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps)
 *
 * Settings for haul_optimizer_set: lr, lr_decay, weight_decay, initial_accumulator_value, eps. State: sum, step. */
typedef struct HAUL__DESIGNATED haul_adagrad_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(lr_decay)
    double                   lr_decay;     /* how fast the rate falls with the number t of steps; default 0 */
    double                   weight_decay; /* times the parameter, added to the gradient; default 0 */
    double                   initial_accumulator_value; /* the first value of the sum of squares; default 0 */
    double                   eps;        /* added to the denominator; default 1e-10; HAUL_ZERO for zero */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
} haul_adagrad_options;
#define haul_adagrad(...)                                                                                              \
    haul_adagrad_with(HAUL__OPTIMIZER_OPTIONS(haul_adagrad_options, haul_adagrad_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_adagrad_with(const haul_adagrad_options *options);

/* Adadelta (Zeiler 2012), with the formulas of torch.optim.Adadelta, whose rate is 1 by default: haul_adadelta(net, 1).
 *
 *     g = grad + weight_decay p
 *     s = rho s + (1 - rho) g g
 *     d = sqrt(u + eps) / sqrt(s + eps) * g
 *     u = rho u + (1 - rho) d d
 *     p -= lr d
 *
 * Settings for haul_optimizer_set: lr, rho, eps, weight_decay. State: square_avg, acc_delta. */
typedef struct HAUL__DESIGNATED haul_adadelta_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(rho)
    double                   rho;          /* decay of the means of squares; default 0.9; HAUL_ZERO for zero */
    double                   eps;          /* added to both roots; default 1e-6; HAUL_ZERO for zero */
    double                   weight_decay; /* times the parameter, added to the gradient; default 0 */
    const haul_named_tensor *parameters;   /* the parameters, instead of those of a module */
    int                      count;        /* the number of .parameters */
} haul_adadelta_options;
#define haul_adadelta(...)                                                                                             \
    haul_adadelta_with(HAUL__OPTIMIZER_OPTIONS(haul_adadelta_options, haul_adadelta_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_adadelta_with(const haul_adadelta_options *options);

/* NAdam, Adam with Nesterov's momentum (Dozat 2016), with the formulas of torch.optim.NAdam: haul_nadam(net, 0.002).
 *
 *     m, v as in haul_adam
 *     d = sqrt(v / (1 - beta2^t)) + eps
 *     mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2)
 *     p -= lr (1 - mu_t) / (1 - mu_1 ... mu_t) * g / d + lr mu_(t+1) / (1 - mu_1 ... mu_(t+1)) * m / d
 *
 * PyTorch keeps the product of the mu as state. Haul computes it from the settings and the number of steps, so it is
 * that of the present beta1 if that changes.
 *
 * Settings for haul_optimizer_set: lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled_weight_decay. State:
 * exp_avg, exp_avg_sq, step. */
typedef struct HAUL__DESIGNATED haul_nadam_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(betas)
    double betas[2];       /* decay of the means of gradients and of their squares; default {0.9, 0.999} */
    double eps;            /* added to the denominator; default 1e-8; HAUL_ZERO for zero */
    double weight_decay;   /* times the parameter, added to the gradient, or the factor of the decay; default 0 */
    double momentum_decay; /* how fast the momentum reaches beta1; default 4e-3; HAUL_ZERO for zero */
    bool   decoupled_weight_decay;       /* p *= 1 - lr weight_decay before the step instead, as in AdamW */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
} haul_nadam_options;
#define haul_nadam(...)                                                                                                \
    haul_nadam_with(HAUL__OPTIMIZER_OPTIONS(haul_nadam_options, haul_nadam_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_nadam_with(const haul_nadam_options *options);

/* RAdam, Adam with a rectified rate (Liu et al. 2020), with the formulas of torch.optim.RAdam: haul_radam(net, 0.001).
 *
 *     m, v as in haul_adam
 *     rho_max = 2 / (1 - beta2) - 1
 *     rho = rho_max - 2 t beta2^t / (1 - beta2^t)
 *     rho > 5: r = sqrt((rho - 4) (rho - 2) rho_max / ((rho_max - 4) (rho_max - 2) rho))
 *              p -= lr r / (1 - beta1^t) * m * sqrt(1 - beta2^t) / (sqrt(v) + eps)
 *     else:    p -= lr / (1 - beta1^t) * m
 *
 * Settings for haul_optimizer_set: lr, beta1, beta2, eps, weight_decay, decoupled_weight_decay. State: exp_avg,
 * exp_avg_sq, step. */
typedef struct HAUL__DESIGNATED haul_radam_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(betas)
    double betas[2];     /* decay of the means of gradients and of their squares; default {0.9, 0.999} */
    double eps;          /* added to the denominator; default 1e-8; HAUL_ZERO for zero */
    double weight_decay; /* times the parameter, added to the gradient, or the factor of the decay; default 0 */
    bool   decoupled_weight_decay;       /* p *= 1 - lr weight_decay before the step instead, as in AdamW */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
} haul_radam_options;
#define haul_radam(...)                                                                                                \
    haul_radam_with(HAUL__OPTIMIZER_OPTIONS(haul_radam_options, haul_radam_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_radam_with(const haul_radam_options *options);

/* Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", program 1): haul_lion(net, 1e-4). Its steps
 * have the size lr for every element, so the rate is 3 to 10 times smaller than AdamW's, and weight_decay as many times
 * larger. Weight decay is decoupled. PyTorch has no Lion.
 *
 *     p = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) grad)
 *     m = beta2 m + (1 - beta2) grad
 *
 * Settings for haul_optimizer_set: lr, beta1, beta2, weight_decay. State: exp_avg. */
typedef struct HAUL__DESIGNATED haul_lion_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(betas)
    double betas[2];     /* the share of the mean in the direction, and the decay of the mean; default {0.9, 0.99} */
    double weight_decay; /* factor of the decay; default 0 */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
} haul_lion_options;
#define haul_lion(...)                                                                                                 \
    haul_lion_with(HAUL__OPTIMIZER_OPTIONS(haul_lion_options, haul_lion_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_lion_with(const haul_lion_options *options);

/* LAMB (You et al. 2020, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", algorithm 2):
 * haul_lamb(net, 0.01). Adam's direction with decoupled weight decay, scaled to the norm of each parameter, for large
 * batches. PyTorch has no LAMB.
 *
 *     m, v as in haul_adam
 *     r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p
 *     p -= lr |p| / |r| r      (p -= lr r where |p| or |r| is 0)
 *
 * A step is made of operations, because it needs the norms of whole parameters: it takes several commands for each, and
 * if it runs out of memory, some parameters have changed. A recorded step runs as it is. haul_optimizer_set_offload and
 * haul_grad_scaler_step fail with HAUL_UNSUPPORTED.
 *
 * Settings for haul_optimizer_set: lr, beta1, beta2, eps, weight_decay. State: exp_avg, exp_avg_sq, step. */
typedef struct HAUL__DESIGNATED haul_lamb_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(betas)
    double                   betas[2]; /* decay of the means of gradients and of their squares; default {0.9, 0.999} */
    double                   eps;      /* added to the denominator; default 1e-6; HAUL_ZERO for zero */
    double                   weight_decay; /* times the parameter, added to the direction; default 0 */
    const haul_named_tensor *parameters;   /* the parameters, instead of those of a module */
    int                      count;        /* the number of .parameters */
} haul_lamb_options;
#define haul_lamb(...)                                                                                                 \
    haul_lamb_with(HAUL__OPTIMIZER_OPTIONS(haul_lamb_options, haul_lamb_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_lamb_with(const haul_lamb_options *options);

/* How haul_lbfgs finds the length of a step.
 *
 * - HAUL_LBFGS_NONE: it is the learning rate
 * - HAUL_LBFGS_STRONG_WOLFE: a search along the direction, until the strong Wolfe conditions hold */
typedef enum haul_line_search { HAUL_LBFGS_NONE = 0, HAUL_LBFGS_STRONG_WOLFE = 1 } haul_line_search;

/* L-BFGS (Liu, Nocedal 1989; the line search: Nocedal, Wright 2006, algorithms 3.5 and 3.6), with the steps of
 * torch.optim.LBFGS, whose rate is 1 by default: haul_lbfgs(net, 1, .line_search = HAUL_LBFGS_STRONG_WOLFE). A step
 * makes up to .max_iter iterations and computes the loss in each: haul_optimizer_step_closure makes it, and
 * haul_optimizer_step refuses to. A step ends early when no element of the gradient is above .tolerance_grad, or when
 * the loss, the parameters, or the derivative along the direction change by less than .tolerance_change.
 *
 * The parameters have one dtype, are on one device, and form one group: haul_optimizer_add_group refuses. Parameters
 * without a gradient count as if it was zero.
 *
 * Memory: a vector has the size of all parameters (in f32 for f16 and bf16). The state is 2 vectors, and 2 more after
 * each iteration, until there are .history_size pairs: with the default up to 202 times the parameters. A step needs
 * about 8 vectors more.
 *
 * Waits: the host decides when the iterations end, so it waits once for each evaluation of the loss, and once or twice
 * for each iteration. A recorded step runs as it is. haul_optimizer_set_offload and haul_grad_scaler_step fail with
 * HAUL_UNSUPPORTED.
 *
 * Settings for haul_optimizer_set: lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size, line_search.
 * State: lbfgs.d, lbfgs.prev_flat_grad, lbfgs.numbers, lbfgs.old_dirs.N and lbfgs.old_stps.N. */
typedef struct HAUL__DESIGNATED haul_lbfgs_options {
    haul_module *module; /* the module, or NULL if .parameters is given; positional */
    double       lr;     /* the learning rate; positional */
    HAUL__GUARD(max_iter)
    int              max_iter;           /* the most iterations of a step; default 20 */
    int              max_eval;           /* stop after so many evaluations of the loss; default 1.25 max_iter */
    double           tolerance_grad;     /* of the largest element of the gradient; default 1e-7; HAUL_ZERO for zero */
    double           tolerance_change;   /* of the loss and the parameters; default 1e-9; HAUL_ZERO for zero */
    int              history_size;       /* the most pairs of vectors that are kept; default 100 */
    haul_line_search line_search;        /* default HAUL_LBFGS_NONE */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
} haul_lbfgs_options;
#define haul_lbfgs(...)                                                                                                \
    haul_lbfgs_with(HAUL__OPTIMIZER_OPTIONS(haul_lbfgs_options, haul_lbfgs_needs_a_learning_rate, __VA_ARGS__))
HAUL_API haul_optimizer *haul_lbfgs_with(const haul_lbfgs_options *options);

/* ---- Optimizers of the program ----
 * Checkpoints, groups, clipping, schedules, averages and early stopping work with them as with the others. */

/* The maximum numbers of settings and of states of an optimizer of the program. */
enum {
    HAUL_MAX_OPTIMIZER_SETTINGS = 8, /* of settings */
    HAUL_MAX_OPTIMIZER_STATES = 3    /* of states */
};

/* A step's work on one parameter. */
typedef struct haul_optimizer_update {
    haul_tensor *parameter; /* to be changed in place */
    haul_tensor *gradient;  /* of its shape, dtype and device; must not be changed */
    /* the states of this parameter, in the order of .states, of its shape, dtype and device; zeros before the first
     * step; to be changed in place */
    haul_tensor  *states[HAUL_MAX_OPTIMIZER_STATES];
    const double *settings; /* of the parameter's group, in the order of .settings */
    int64_t       step;     /* the number of this step of the parameter, from 1 */
} haul_optimizer_update;

/* Changes a parameter. Called with graphs off, on the parameter's device, in a scope of its own. The rules of scope.h
 * for functions of the program hold. */
typedef haul_status haul_optimizer_function(const haul_optimizer_update *update, void *context);

/* A number that each group has. */
typedef struct haul_optimizer_setting {
    const char *name;  /* for haul_optimizer_set */
    double      value; /* at first, in all groups */
    double      least; /* the least allowed value; default 0: give it for a setting that may be negative */
    double      below; /* allowed values are below it; default: all are */
} haul_optimizer_setting;

typedef struct HAUL__DESIGNATED haul_optimizer_options {
    haul_optimizer_function *function; /* makes a step of one parameter; positional */
    HAUL__GUARD(module)
    haul_module             *module;     /* the module */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
    /* the settings; the first one is "lr", which schedules change */
    haul_optimizer_setting settings[HAUL_MAX_OPTIMIZER_SETTINGS];
    const char            *states[HAUL_MAX_OPTIMIZER_STATES]; /* names of the states, as in checkpoints */
    void                  *context;                           /* passed to the function; must outlive the optimizer */
} haul_optimizer_options;

/* Make an optimizer whose steps a function of the program makes:
 *
 *     static haul_status sign_sgd(const haul_optimizer_update *u, void *context)
 *     {
 *         haul_tensor *p = u->parameter, *m = u->states[0];
 *         haul_lerp_scalar_into(m, u->gradient, m, u->settings[1]);
 *         return haul_sub_into(p, p, haul_mul_scalar(haul_sign(m), u->settings[0]));
 *     }
 *
 *     haul_optimizer *o = haul_optimizer_new("sign_sgd", sign_sgd, .module = net,
 *                                            .settings = {{"lr", 0.01}, {"momentum", 0.9, .below = 1}},
 *                                            .states = {"momentum"});
 *
 * - kind: its name, which haul_optimizer_kind returns. Names are copied.
 * - A setting with the name "momentum" or "beta1" is the one that haul_schedule_one_cycle changes.
 * - State is called "PARAMETER.STATE", and with at least one state there is "PARAMETER.step", too.
 * - If the function fails, haul_optimizer_step fails with its error, and parameters before this one are changed.
 * - A recorded step is followed as long as the numbers that the function passes to operations stay the same: a rate
 *   that changes, or a correction that depends on the step, makes it run as it is.
 * - haul_optimizer_set_offload and haul_grad_scaler_step do not support it: they fail with HAUL_UNSUPPORTED.
 *
 * Fails with HAUL_INVALID_ARGUMENT for a name that is empty, occurs twice, or has spaces or commas; for a state named
 * "step"; for a first setting other than "lr"; and for a value out of its range. */
#define haul_optimizer_new(kind, ...)                                                                                  \
    haul_optimizer_new_with(kind, HAUL__OPTIONS(haul_optimizer_options, .function = __VA_ARGS__))
HAUL_API haul_optimizer *haul_optimizer_new_with(const char *kind, const haul_optimizer_options *options);

/* ---- Steps ---- */

/* Make one step: change each parameter from its gradient. Parameters without a gradient stay as they are. A step of
 * a built-in optimizer other than LAMB allocates everything before its first write: if it runs out of memory, it
 * changes nothing. LAMB and optimizers of the program may already have changed some parameters. */
HAUL_API haul_status haul_optimizer_step(haul_optimizer *optimizer);

/* Computes the loss and the gradients, and returns the loss, a tensor of one element. The rules of scope.h for
 * functions of the program hold. It fails if it returns NULL or a failed tensor, or records an error. */
typedef haul_tensor *haul_optimizer_closure(void *context);

/* Make one step with a function that computes the loss:
 *
 *     typedef struct fitting {
 *         haul_module    *net;
 *         haul_optimizer *optimizer;
 *         haul_tensor    *x, *y;
 *     } fitting;
 *
 *     static haul_tensor *closure(void *context)
 *     {
 *         const fitting *f = context;
 *         haul_optimizer_zero_grad(f->optimizer);
 *         haul_tensor *loss = haul_mse_loss(haul_call(f->net, f->x), f->y);
 *         haul_backward(loss);
 *         return loss;
 *     }
 *
 *     fitting      f = {net, haul_lbfgs(net, 1), x, y};
 *     haul_tensor *loss = haul_optimizer_step_closure(f.optimizer, closure, &f);
 *
 * haul_lbfgs calls it as often as it needs, each time with other parameters. For other optimizers this is one call of
 * the closure and then haul_optimizer_step. The closure runs with graphs on, in a scope of its own.
 *
 * Returns the loss of the first call, without a graph. If the closure fails, the step fails with its error; of
 * haul_lbfgs, parameters then have the values of the last iteration that was complete, or, without a line search, those
 * for which the closure failed. The next step goes on from there. */
HAUL_API haul_tensor *haul_optimizer_step_closure(haul_optimizer *optimizer, haul_optimizer_closure *closure,
                                                  void *context);

/* Remove the gradients of all parameters: they are absent afterwards, as in PyTorch. */
HAUL_API haul_status haul_optimizer_zero_grad(haul_optimizer *optimizer);

/* The kind of an optimizer: "sgd", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "nadam", "radam", "lion", "lamb",
 * "lbfgs", or that given to haul_optimizer_new. "" on failure. */
HAUL_API const char *haul_optimizer_kind(const haul_optimizer *optimizer);

/* The module of an optimizer; NULL if it was made without one, and on failure. */
HAUL_API haul_module *haul_optimizer_module(haul_optimizer *optimizer);

/* ---- Groups: settings for some of the parameters ----
 * Every parameter is in a group, which has settings of its own. At first all are in group 0. */

/* Make a group of parameters with settings of its own. Returns its number, -1 on failure.
 *
 *     haul_optimizer *adamw = haul_adamw(net, 1e-3);
 *     haul_optimizer_add_group(adamw, .module = haul_module_child(net, "head"), .lr = 1e-2);
 *     haul_optimizer_add_group(adamw, .names = "*.bias, *norm*", .weight_decay = HAUL_ZERO);
 *
 * Exactly one of .module, .parameters and .names selects the parameters. They leave the groups in which they are, with
 * their state; parameters that the optimizer does not train yet are added. Another module often has the same names:
 * make the optimizer for a module that holds both, or give .parameters with a name for each.
 *
 * A setting that this kind of optimizer does not have is an error. */
typedef struct HAUL__DESIGNATED haul_optimizer_group_options {
    HAUL__GUARD(module)
    haul_module             *module;     /* the parameters of this module */
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
    /* patterns for the names of parameters that the optimizer already trains, separated by commas; * matches any
     * characters */
    const char *names;
    /* settings of the group; default that of the optimizer; HAUL_ZERO for zero */
    double lr, momentum, dampening, alpha, rho, betas[2], eps, weight_decay, lr_decay, momentum_decay;
} haul_optimizer_group_options;
#define haul_optimizer_add_group(optimizer, ...)                                                                       \
    haul_optimizer_add_group_with(optimizer, HAUL__OPTIONS(haul_optimizer_group_options, __VA_ARGS__))
HAUL_API int haul_optimizer_add_group_with(haul_optimizer *optimizer, const haul_optimizer_group_options *options);

/* The number of groups of an optimizer; -1 on failure. */
HAUL_API int haul_optimizer_group_count(const haul_optimizer *optimizer);

/* All groups of an optimizer, instead of the number of one. */
#define HAUL_ALL_GROUPS (-1)

/* Read or change a setting of a group by its name: haul_optimizer_set(sgd, 0, "lr", 0.01). The entries of haul_sgd and
 * the other optimizers list the names. Flags are 0 or 1. Reading returns NaN on failure. Changing takes
 * HAUL_ALL_GROUPS, too, and changes nothing if it fails. State that the new setting does not use is dropped, for
 * example that of a momentum that becomes 0. */
HAUL_API double      haul_optimizer_get(const haul_optimizer *optimizer, int group, const char *setting);
HAUL_API haul_status haul_optimizer_set(haul_optimizer *optimizer, int group, const char *setting, double value);

/* The parameters of a group, or of HAUL_ALL_GROUPS. Returns how many there are, -1 on failure, and fills at most
 * `capacity` entries of `out`. Names are valid as long as the optimizer. */
HAUL_API int haul_optimizer_parameters(haul_optimizer *optimizer, int group, haul_named_tensor *out, int capacity);

/* ---- State, which checkpoints hold ---- */

/* Keep the state in host memory, pinned if possible, between the steps; or, with false, next to the parameters again.
 * For parameters on a device with memory of its own: those on the CPU have their state there anyway. State that exists
 * moves in the next step. Off at first.
 *
 * A step updates parameters on their device, so they are bit-identical. Their state comes to the device in pieces of
 * 256 Ki elements, each ahead of its update, and leaves behind it, through two buffers that are free outside of steps.
 * So the memory of Adam's state, twice that of the parameters, is needed on the host instead of the device, and each
 * step moves it over the link, both ways. A step that has no room for the buffers fails and changes nothing. */
HAUL_API haul_status haul_optimizer_set_offload(haul_optimizer *optimizer, bool on);

/* The state of an optimizer: tensors named "PARAMETER.momentum", "PARAMETER.exp_avg" and so on, and for Adam
 * "PARAMETER.step". Returns how many there are, none before the first step, or -1 on failure, and fills at most
 * `capacity` entries of `out`. The tensors belong to the optimizer and must be used before its next step and before its
 * state is read or written again.
 *
 * If the optimizer has a haul_grad_scaler, the scaler's state is included as "grad_scaler.scale" and
 * "grad_scaler.growth_tracker". After steps with a scaler, reading the state waits for the device. */
HAUL_API int haul_optimizer_state(haul_optimizer *optimizer, haul_named_tensor *out, int capacity);

/* Replace the state of an optimizer. `tensors` must have exactly the names and shapes that haul_optimizer_state gives.
 * Fails if it has state that the optimizer does not use with its settings, for example momentum without .momentum. A
 * scaler stays as it is if its state is missing.
 *
 * - steps: the number of steps made so far, at most 9e15 */
HAUL_API haul_status haul_optimizer_load_state(haul_optimizer *optimizer, const haul_named_tensor *tensors, int count,
                                               int64_t steps);

/* The number of steps made so far; -1 on failure. After steps with a scaler this waits for the device. */
HAUL_API int64_t haul_optimizer_steps(const haul_optimizer *optimizer);

/* ---- Clipping ----
 * Both functions clip the gradients of a module's parameters, of a list, or of all groups of an optimizer; for the last
 * two the module is NULL. With loss scaling, clip after haul_grad_scaler_unscale. */

typedef struct HAUL__DESIGNATED haul_clip_options {
    haul_module *module; /* the module, or NULL with .parameters or .optimizer; positional */
    double       limit;  /* the limit; positional */
    HAUL__GUARD(parameters)
    const haul_named_tensor *parameters; /* the parameters, instead of those of a module */
    int                      count;      /* the number of .parameters */
    haul_optimizer          *optimizer;  /* all groups of this optimizer, instead of a module */
} haul_clip_options;
#define HAUL__CLIP_OPTIONS(missing, ...)                                                                               \
    HAUL__OPTIONS(haul_clip_options, .module = HAUL__FIRST(__VA_ARGS__, ),                                             \
                  .limit = (double)(HAUL__SECOND(__VA_ARGS__, missing, )), HAUL__REST(__VA_ARGS__, ))

/* Scale gradients so that their common 2-norm is at most the limit: haul_clip_grad_norm(net, 1). The factor is min(1,
 * limit / (norm + 1e-6)), as in torch.nn.utils.clip_grad_norm_. Returns the norm before clipping, without dimensions,
 * on the device of the first gradient. It is infinite only if f32, or f64 if a gradient is f64, does not hold it. Does
 * not wait for it. */
#define haul_clip_grad_norm(...)                                                                                       \
    haul_clip_grad_norm_with(HAUL__CLIP_OPTIONS(haul_clip_grad_norm_needs_a_limit, __VA_ARGS__))
HAUL_API haul_tensor *haul_clip_grad_norm_with(const haul_clip_options *options);

/* Clamp each element of the gradients to -limit ... limit, as torch.nn.utils.clip_grad_value_. NaN stays NaN. */
#define haul_clip_grad_value(...)                                                                                      \
    haul_clip_grad_value_with(HAUL__CLIP_OPTIONS(haul_clip_grad_value_needs_a_limit, __VA_ARGS__))
HAUL_API haul_status haul_clip_grad_value_with(const haul_clip_options *options);

/* ---- Loss scaling ---- */

/* Loss scaling, for training with haul_autocast_begin(..., HAUL_F16). The loss is multiplied by a scale, so that f16
 * does not lose small gradients, and the gradients are divided by it before the step. A step whose gradients are not
 * all finite is skipped. The scale then backs off, and grows again after a number of good steps (Micikevicius et al.
 * 2018; torch.cuda.amp.GradScaler). It does not back off below 1, or below the first scale where that is less, and it
 * does not grow beyond what f32 holds.
 *
 *     haul_backward(haul_grad_scaler_scale(scaler, loss));
 *     haul_grad_scaler_unscale(scaler, sgd);
 *     haul_clip_grad_norm(net, 1);
 *     haul_grad_scaler_step(scaler, sgd);
 *     haul_grad_scaler_update(scaler);
 *
 * haul_grad_scaler_unscale is needed only if gradients are used before the step, as for clipping. haul_grad_scaler_step
 * replaces haul_optimizer_step. haul_grad_scaler_update comes after the steps of all optimizers.
 *
 * Only the devices know the scale, and whether a step is skipped: nothing here waits, except where gradients on devices
 * of different backends have to agree. The scaler belongs to the state of its optimizer, which holds it and saves it in
 * checkpoints. Several optimizers may share one scaler; each optimizer has the scaler that made its last step. */
typedef struct haul_grad_scaler haul_grad_scaler;

typedef struct HAUL__DESIGNATED haul_grad_scaler_options {
    haul_optimizer *optimizer; /* the optimizer; positional */
    HAUL__GUARD(init_scale)
    double init_scale; /* the first scale; default 65536 */
    /* growth: factor after good steps, above 1; default 2. backoff: factor after a skipped step, below 1; default 0.5
     */
    double  growth, backoff;
    int64_t growth_interval; /* good steps before the scale grows; default 2000 */
} haul_grad_scaler_options;

/* Make a loss scaler for an optimizer. It belongs to a scope. */
#define haul_grad_scaler_new(...)                                                                                      \
    haul_grad_scaler_new_with(HAUL__OPTIONS(haul_grad_scaler_options, .optimizer = __VA_ARGS__))
HAUL_API haul_grad_scaler *haul_grad_scaler_new_with(const haul_grad_scaler_options *options);

/* The loss times the scale: call haul_backward on it. */
HAUL_API haul_tensor *haul_grad_scaler_scale(haul_grad_scaler *scaler, haul_tensor *loss);

/* Divide the gradients of the optimizer's parameters by the scale, in place, and check that they are finite. Can be
 * called once between two updates. Refuses gradients of f16. */
HAUL_API haul_status haul_grad_scaler_unscale(haul_grad_scaler *scaler, haul_optimizer *optimizer);

/* Make the optimizer's step, unless a gradient is not finite. Gradients that were not unscaled yet are unscaled first.
 * haul_optimizer_steps counts only steps that were not skipped. */
HAUL_API haul_status haul_grad_scaler_step(haul_grad_scaler *scaler, haul_optimizer *optimizer);

/* Adapt the scale to the steps since the last update. */
HAUL_API haul_status haul_grad_scaler_update(haul_grad_scaler *scaler);

/* Fails with HAUL_STATE if the last 20 steps or more were all skipped although the scale was the least one: then
 * gradients are not finite for another reason, and training makes no progress. Waits for the device, so call it now and
 * then, for example once in each epoch. The scaler goes on as before. */
HAUL_API haul_status haul_grad_scaler_check(haul_grad_scaler *scaler);

/* The scale. Waits for the device. NaN on failure. */
HAUL_API double haul_grad_scaler_factor(haul_grad_scaler *scaler);

HAUL_END

#endif
