/* Optimizers whose step is a formula for each element. A file of this folder has one of them: its kernels, the numbers
 * that they share, its operation and its settings. rule.c does what all of them have in common. */
#ifndef HAUL_OPTIM_RULES_RULE_H
#define HAUL_OPTIM_RULES_RULE_H

#include "optim/optimizer.h"

/* The attributes of a rule's operation. */
typedef struct haul__rule_settings {
    double  values[HAUL__MAX_SETTINGS];
    int64_t step;        /* from 1; with a guard it is one more than the number made */
    int32_t from, first; /* the guard's; the states begin with this step */
} haul__rule_settings;

/* The operation has these operands, in this order: the parameter, the states, `made` if the kind saves its steps, the
 * gradient, and `found`. Kernels have the same buffers, without those that are absent: `made` and `found` are there in
 * the guarded form. These functions are the kind's `update` and `kernel`, and `compute` of its operation, whose `extra`
 * is the kind. */
haul_status haul__rule_update(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                              int count);
int         haul__rule_kernel(const haul__optimizer_kind *kind, const double *values, bool guarded, int number);
haul_status haul__rule_compute(haul__call *c);

/* The members that the operations of all rules have: a step of some parameters, of a kind with so many operands. */
#define HAUL__RULE_STEP(kind, operands)                                                                                \
    .dtypes = HAUL__FLOATS, .varies = true, .attributes_size = HAUL__ATTRIBUTES(haul__rule_settings),                  \
    .repeat = (operands), .extra = &(kind), .infer = haul__infer_step, .compute = haul__rule_compute,                  \
    .cost = haul__step_cost

/* All states of a kind with one state, or with two: its `states`. */
unsigned haul__rule_one_state(const double *values);
unsigned haul__rule_two_states(const double *values);

#endif
