/* Optimizers by the names of the cases of tests/golden/optimizers_f64.json, and one with each set of states. */
#ifndef HAUL_TESTS_OPTIMIZERS_H
#define HAUL_TESTS_OPTIMIZERS_H

#include <haul/haul.h>

typedef struct optimizer_case {
    const char *name;
    haul_optimizer *(*make)(haul_module *net);
    int states; /* tensors of the parameter's shape */
} optimizer_case;

#define OPTIMIZER_CASE(id, call)                                                                                       \
    static inline haul_optimizer *optimizer_##id(haul_module *net)                                                     \
    {                                                                                                                  \
        return call;                                                                                                   \
    }

OPTIMIZER_CASE(amsgrad, haul_adam(net, 0.01, .amsgrad = true))
OPTIMIZER_CASE(amsgrad_all,
               haul_adam(net, 0.01, .amsgrad = true, .weight_decay = 0.1, .betas = {0.8, 0.95}, .eps = 1e-4))
OPTIMIZER_CASE(amsgradw, haul_adamw(net, 0.01, .amsgrad = true, .weight_decay = 0.1))
OPTIMIZER_CASE(adagrad, haul_adagrad(net, 0.1))
OPTIMIZER_CASE(adagrad_all, haul_adagrad(net, 0.1, .lr_decay = 0.5, .weight_decay = 0.1,
                                         .initial_accumulator_value = 0.25, .eps = 1e-4))
OPTIMIZER_CASE(adadelta, haul_adadelta(net, 1))
OPTIMIZER_CASE(adadelta_all, haul_adadelta(net, 0.5, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1))
OPTIMIZER_CASE(nadam, haul_nadam(net, 0.002))
OPTIMIZER_CASE(nadam_all,
               haul_nadam(net, 0.01, .weight_decay = 0.1, .momentum_decay = 0.1, .betas = {0.8, 0.95}, .eps = 1e-4))
OPTIMIZER_CASE(nadam_decoupled, haul_nadam(net, 0.01, .weight_decay = 0.1, .decoupled_weight_decay = true))
OPTIMIZER_CASE(radam, haul_radam(net, 0.001))
OPTIMIZER_CASE(radam_all, haul_radam(net, 0.01, .weight_decay = 0.1, .betas = {0.8, 0.95}, .eps = 1e-4))
OPTIMIZER_CASE(radam_decoupled, haul_radam(net, 0.01, .weight_decay = 0.1, .decoupled_weight_decay = true))
OPTIMIZER_CASE(lion, haul_lion(net, 0.01))
OPTIMIZER_CASE(lion_all, haul_lion(net, 0.01, .betas = {0.83, 0.97}, .weight_decay = 0.1))

static const optimizer_case optimizer_cases[] = {
    {"adam amsgrad", optimizer_amsgrad, 3},
    {"adam amsgrad all", optimizer_amsgrad_all, 3},
    {"adamw amsgrad", optimizer_amsgradw, 3},
    {"adagrad", optimizer_adagrad, 1},
    {"adagrad all", optimizer_adagrad_all, 1},
    {"adadelta", optimizer_adadelta, 2},
    {"adadelta all", optimizer_adadelta_all, 2},
    {"nadam", optimizer_nadam, 2},
    {"nadam all", optimizer_nadam_all, 2},
    {"nadam decoupled", optimizer_nadam_decoupled, 2},
    {"radam", optimizer_radam, 2},
    {"radam all", optimizer_radam_all, 2},
    {"radam decoupled", optimizer_radam_decoupled, 2},
    {"lion", optimizer_lion, 1},
    {"lion all", optimizer_lion_all, 1},
};
enum { OPTIMIZER_CASES = sizeof optimizer_cases / sizeof *optimizer_cases };

#endif
