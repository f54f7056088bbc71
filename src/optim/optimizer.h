/* Declarations shared by all optimizers: the parameters with their states, their groups, and the order of a step. */
#ifndef HAUL_OPTIM_OPTIMIZER_H
#define HAUL_OPTIM_OPTIMIZER_H

#include <haul/optim.h>

#include "core/error.h"
#include "core/object.h"
#include "engine/operation.h"

enum { HAUL__MAX_STATES = HAUL_MAX_OPTIMIZER_STATES, HAUL__MAX_SETTINGS = HAUL_MAX_OPTIMIZER_SETTINGS };

/* The most parameters that one operation changes. Its call then allocates nothing, so it cannot fail for lack of memory
 * after the first pass. */
#define HAUL__MAX_UPDATES 8

/* For steps that may be skipped: the kernels read on the device whether to skip, and how many steps were made
 * before. */
typedef struct haul__guard {
    haul_tensor *found; /* f32 []: not 0 skips the step */
    haul_tensor *made;  /* i64 [2]: steps made, in [from]; a step writes the new number to [1 - from] */
    int          from;
} haul__guard;

typedef struct haul__optimizer_entry {
    char        *name;
    int          group;
    haul_tensor *parameter;
    haul_tensor *states[HAUL__MAX_STATES]; /* NULL until the first step with a gradient, and for unused states */
    int64_t      steps;                    /* steps with this parameter, including those that `made` does not count */
    haul_tensor *made;                     /* the guard's count, at [steps & 1]; NULL: no step can have been skipped */
    haul_tensor *steps_tensor;             /* for haul_optimizer_state, if the kind saves it */
    char        *state_names[HAUL__MAX_STATES + 1];
} haul__optimizer_entry;

/* A step's work on one parameter. The parameter, its states and `grad` are dense, with the same strides, shape,
 * floating dtype and device. entry->steps already counts this step. */
typedef struct haul__update {
    haul__optimizer_entry *entry;
    haul_tensor           *parameter, *grad, *states[HAUL__MAX_STATES]; /* the entry's, or views of a part of each */
    bool                   first;                                       /* the states were allocated for this step */
    haul__guard            guard;                                       /* found == NULL: the step is never skipped */
} haul__update;

/* A number that each group has: at least `low`, below `high`. A flag is 0 or 1. */
typedef struct haul__group_setting {
    const char *name;
    double      low, high;
    bool        flag;
} haul__group_setting;

/* What a kind does for all parameters together. Its steps call a function of the program several times, all its
 * parameters are in one group, and its state is a block, the optimizer's `own`. */
typedef struct haul__joint {
    /* A step: the loss of its beginning, without a graph, which the innermost scope owns; a failed tensor on failure.
     */
    haul_tensor *(*step)(haul_optimizer *o, haul_optimizer_closure *closure, void *context);
    /* As haul_optimizer_state and haul_optimizer_load_state, without a loss scaler; tensors have names. */
    int (*state)(haul_optimizer *o, haul_named_tensor *out, int capacity);
    haul_status (*load)(haul_optimizer *o, const haul_named_tensor *tensors, int count);
    void (*free)(void *own); /* ignores NULL */
} haul__joint;

typedef struct haul__optimizer_kind haul__optimizer_kind;
struct haul__optimizer_kind {
    const char         *name;
    haul__group_setting settings[HAUL__MAX_SETTINGS + 1]; /* the first one is lr; a NULL name ends the list */
    int                 state_count;
    const char         *state_names[HAUL__MAX_STATES];
    int                 momentum;        /* the index of the setting that is a momentum, or acts as one; -1: none */
    int                 former_settings; /* checkpoints of earlier versions have only so many; 0: as many */
    bool                saves_steps;     /* saved as "PARAMETER.step", a 0-d f32 tensor as in PyTorch */
    /* The states that these settings use, a bit for each. */
    unsigned (*states)(const double *values);
    /* Optional: checks the settings against each other. */
    haul_status (*check)(const double *values, const char *operation);
    /* The kernels that an update launches, by their number from 0; -1 after the last one. They are compiled before
     * anything is written. */
    int (*kernel)(const haul__optimizer_kind *kind, const double *values, bool guarded, int number);
    /* Runs up to HAUL__MAX_UPDATES updates of one group that differ only in their tensors: device, dtype, number of
     * steps, `first` and the presence of a guard are the same. */
    haul_status (*update)(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                          int count);
    const haul__joint *joint;         /* NULL: each parameter has a state and an update of its own */
    bool               by_operations; /* operations of the public interface make its steps, not a kernel */
    /* Of a rule (optim/rules/rule.h): its operation, the kernels without and with a guard, and the scalars of step
     * number `step`, from 1. */
    const haul__operation *operation;
    int                    kernels[2];
    void (*scalars)(const double *values, double step, double *out);
};

typedef struct haul__optimizer_group {
    double values[HAUL__MAX_SETTINGS];
    double base; /* for schedules: the rate when the first one was made */
    bool   has_base;
} haul__optimizer_group;

enum { HAUL__LR = 0 }; /* the index of the learning rate in the settings of all kinds */

struct haul_optimizer {
    haul__object                object;
    const haul__optimizer_kind *kind;
    void                  *own;    /* of optimizers of the program: a block that has the kind; of joint kinds: theirs */
    haul_module           *module; /* NULL: it was made for a list of parameters */
    int64_t                steps;  /* includes those in `skipped` */
    haul__optimizer_entry *entries; /* one for each distinct parameter; those of a group are adjacent */
    int                    count;
    haul__optimizer_group *groups;
    int                    group_count;
    double                 defaults[HAUL__MAX_SETTINGS]; /* the settings it was made with */
    bool                   offloads;                     /* it keeps its state in host memory (optim/offload.h) */

    haul_grad_scaler *scaler;                        /* holds a reference; NULL: none yet */
    haul_grad_scaler *former_scaler;                 /* holds a reference; the one before that, NULL: none */
    haul_tensor      *found;                         /* f32 []: not 0 if its last gradients were not all finite */
    haul_tensor      *skipped;                       /* i64 []: the number of skipped steps; NULL: none */
    int64_t           unscaled_round, stepped_round; /* the scaler's rounds in which that happened; 0: not yet */

    haul_optimizer *next, *previous; /* links of the list of live optimizers */
};

extern const haul__class haul__optimizer_class;

/* Checks that `optimizer`, the argument of that name, is a live optimizer; records an error if not. */
static inline haul_status haul__check_optimizer(const haul_optimizer *optimizer, const char *operation)
{
    return haul__check_object(optimizer, &haul__optimizer_class, operation, "optimizer");
}

/* The most steps that a state may say were made: f64 holds all smaller numbers, and no training reaches the largest
 * int64_t from there. */
#define HAUL__MOST_STEPS ((int64_t)9000000000000000)

/* HAUL_OK if so many steps, the argument of that name, can have been made. */
static inline haul_status haul__check_steps(int64_t steps, const char *operation, const char *argument)
{
    if (steps >= 0 && steps <= HAUL__MOST_STEPS)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %lld; 0 to %lld is expected", argument,
                      (long long)steps, (long long)HAUL__MOST_STEPS);
}

/* ---- operations that make a step ---- */

/* Operand 0 of each group of operands is the parameter. The group's other operands have its shape and layout, except
 * those that have a dtype of their own. */
haul_status haul__infer_step(haul__call *c);

/* `flops` of the operation for each element of the parameters. */
haul__cost haul__step_cost(const haul__call *c);

/* Calls `one` with the operands of each parameter. If one fails, the call knows which parameters were written
 * before. */
haul_status haul__step_each(haul__call *c,
                            haul_status (*one)(const haul__call *c, haul_tensor *const *operands, void *params),
                            void *params);

/* Calls a closure with graphs on, and checks the loss that it returns: a failed tensor, with an error recorded for
 * `operation`, if it fails. The innermost scope owns the loss. */
haul_tensor *haul__call_closure(haul_optimizer_closure *closure, void *context, const char *operation);

/* Frees the block of an optimizer of the program; NULL is ignored. */
void haul__optimizer_free_own(void *own);

/* A step that the device skips if `found` (f32 []) is not 0. */
haul_status haul__optimizer_guarded_step(haul_optimizer *optimizer, haul_tensor *found);

/* ---- making ---- */

/* What an optimizer is made for: the parameters of a module, or a list. */
typedef struct haul__optimizer_source {
    haul_module             *module; /* NULL: a list is given */
    const haul_named_tensor *parameters;
    int                      count;
} haul__optimizer_source;

/* Reads the option betas, whose defaults are 0.9 and `second`, into two settings that follow each other. */
haul_status haul__optimizer_read_betas(double settings[2], const double betas[2], double second, const char *operation);

/* An optimizer with these settings, which are checked; the innermost scope owns it. NULL on failure. */
haul_optimizer *haul__optimizer_new(const haul__optimizer_kind *kind, const haul__optimizer_source *source,
                                    const double *values, const char *operation);

/* An entry for the parameter, called `name` or, if that is NULL, by its number. */
bool haul__optimizer_fill_entry(const haul__optimizer_kind *kind, haul__optimizer_entry *e, haul_tensor *parameter,
                                const char *name, int number);
void haul__optimizer_free_entry(haul__optimizer_entry *e);

/* Replaces the entries under the lock of the list, so that other threads that read them see either the old or the new
 * ones. */
void haul__optimizer_set_entries(haul_optimizer *o, haul__optimizer_entry *entries, int count);

/* Fails, naming the argument, unless the number is at least `low` and below `high`. */
haul_status haul__optimizer_number(double value, double low, double high, const char *operation, const char *argument);

/* ---- settings ---- */

int         haul__optimizer_setting_count(const haul__optimizer_kind *kind);
int         haul__optimizer_setting(const haul__optimizer_kind *kind,
                                    const char                 *name); /* its index; -1: the kind lacks this setting */
haul_status haul__optimizer_check_settings(const haul__optimizer_kind *kind, const double *values,
                                           const char *operation);
/* Sets the values of all groups, one after the other; they are checked. */
haul_status haul__optimizer_set_all(haul_optimizer *o, const double *values, const char *operation);

/* ---- state ---- */

/* Checks that `scaler`, the argument of that name, is a live scaler; records an error if not. */
haul_status haul__check_grad_scaler(const haul_grad_scaler *scaler, const char *operation);

/* True if the gradients of this round, until the next haul_grad_scaler_update, were unscaled. */
bool haul__grad_scaler_has_unscaled(const haul_grad_scaler *scaler, const haul_optimizer *optimizer);

/* The steps that were made with the entry's parameter. Waits for the device if some may have been skipped. */
haul_status haul__optimizer_entry_steps(const haul__optimizer_entry *e, int64_t *steps);

/* The entry gets other states, HAUL__MAX_STATES of which some may be NULL, and its number of steps. */
void haul__optimizer_entry_set(haul__optimizer_entry *e, haul_tensor *const *states, int64_t steps);

/* The scaler's state, as part of the optimizer's. */
#define HAUL__SCALER_SCALE   "grad_scaler.scale"
#define HAUL__SCALER_TRACKER "grad_scaler.growth_tracker"
void        haul__grad_scaler_state(haul_grad_scaler *scaler, haul_tensor **scale, haul_tensor **tracker);
haul_status haul__grad_scaler_check_state(haul_tensor *t, bool is_scale);
void        haul__grad_scaler_set_state(haul_grad_scaler *scaler, haul_tensor *scale, haul_tensor *tracker);

/* Fails with HAUL_INVALID_ARGUMENT unless all parameters of the optimizer are among these tensors of a module. */
haul_status haul__optimizer_check_module(const haul_optimizer *optimizer, const haul_named_tensor *tensors, int count,
                                         const char *operation);
/* Fails with HAUL_STATE unless the optimizers of the list have all state that belongs to the training of these tensors:
 * no other optimizer has made steps with one of them, and no other scaler is in use with one of the list. */
haul_status haul__optimizer_check_alone(haul_optimizer *const *list, int list_count, const haul_named_tensor *tensors,
                                        int count, const char *operation);

#endif
