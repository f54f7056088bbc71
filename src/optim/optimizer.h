/* What all optimizers share: the parameters, each with its state, their groups, and the order in which a step is made.
 */
#ifndef HAUL_OPTIM_OPTIMIZER_H
#define HAUL_OPTIM_OPTIMIZER_H

#include <haul/optim.h>

#include "core/object.h"
#include "engine/operation.h"

enum { HAUL__MAX_STATES = 3, HAUL__MAX_SETTINGS = 6 };

/* Parameters that one operation changes at most. Its call then needs no memory, so that it cannot fail for want of it
 * when the first pass is over. */
#define HAUL__MAX_UPDATES 8

/* Where a step may be skipped: the kernels read on the device whether it is, and how many were made before. */
typedef struct haul__guard {
    haul_tensor *found; /* f32 []: not 0 skips the step */
    haul_tensor *made;  /* i64 [2]: steps made, in [from]; a step leaves the new number in [1 - from] */
    int          from;
} haul__guard;

typedef struct haul__optimizer_entry {
    char        *name;
    int          group;
    haul_tensor *parameter;
    haul_tensor *states[HAUL__MAX_STATES]; /* NULL until the first step with a gradient, and where it is not used */
    int64_t      steps;                    /* made with this parameter, those that `made` does not count included */
    haul_tensor *made;                     /* of haul__guard, at [steps & 1]; NULL: no step can have been skipped */
    haul_tensor *steps_tensor;             /* for haul_optimizer_state, where the kind saves them */
    char        *state_names[HAUL__MAX_STATES + 1];
} haul__optimizer_entry;

/* What a step does to a parameter. The parameter, its states and `grad` are dense, with the same strides, of one shape,
 * floating dtype and device. entry->steps counts this step already. */
typedef struct haul__update {
    haul__optimizer_entry *entry;
    haul_tensor           *grad;
    bool                   first; /* the states were made for this step */
    haul__guard            guard; /* found == NULL: the step is made in any case */
} haul__update;

/* A number that each group has: at least `low`, below `high`. A flag is 0 or 1. */
typedef struct haul__group_setting {
    const char *name;
    double      low, high;
    bool        flag;
} haul__group_setting;

typedef struct haul__optimizer_kind {
    const char         *name;
    haul__group_setting settings[HAUL__MAX_SETTINGS + 1]; /* the first is lr; a name of NULL ends the list */
    int                 state_count;
    const char         *state_names[HAUL__MAX_STATES];
    int                 momentum;    /* which setting is, or has the part of, a momentum */
    bool                saves_steps; /* as "PARAMETER.step", a 0-d f32 tensor as in PyTorch */
    /* Which states these settings use, a bit for each. */
    unsigned (*states)(const double *values);
    /* Optional: what settings must be to each other. */
    haul_status (*check)(const double *values, const char *operation);
    /* The kernel that an update launches. It is compiled before anything is written. */
    int (*kernel)(const double *values, bool guarded);
    /* Up to HAUL__MAX_UPDATES updates of one group that differ in nothing but tensors: device, dtype, number of steps,
     * `first` and whether there is a guard are the same. */
    haul_status (*update)(const double *values, const haul__update *updates, int count);
} haul__optimizer_kind;

typedef struct haul__optimizer_group {
    double values[HAUL__MAX_SETTINGS];
    double base; /* of schedules: the rate when the first one was made */
    bool   has_base;
} haul__optimizer_group;

enum { HAUL__LR = 0 }; /* of all kinds */

struct haul_optimizer {
    haul__object                object;
    const haul__optimizer_kind *kind;
    haul_module                *module;  /* NULL: it was made for a list */
    int64_t                     steps;   /* those in `skipped` included */
    haul__optimizer_entry      *entries; /* one for each distinct parameter, those of a group next to each other */
    int                         count;
    haul__optimizer_group      *groups;
    int                         group_count;
    double                      defaults[HAUL__MAX_SETTINGS]; /* what it was made with */

    haul_grad_scaler *scaler;                        /* kept; NULL: none yet */
    haul_grad_scaler *former_scaler;                 /* kept; the one before that, NULL: none */
    haul_tensor      *found;                         /* f32 []: its last gradients were not all finite */
    haul_tensor      *skipped;                       /* i64 []: steps that were; NULL: none */
    int64_t           unscaled_round, stepped_round; /* of the scaler, in which that was done; 0: not yet */

    haul_optimizer *next, *previous; /* among all that are alive */
};

extern const haul__class haul__optimizer_class;

/* Is `optimizer`, the argument of that name, an optimizer that exists? Records what is wrong. */
static inline haul_status haul__check_optimizer(const haul_optimizer *optimizer, const char *operation)
{
    return haul__check_object(optimizer, &haul__optimizer_class, operation, "optimizer");
}

/* ---- operations that make a step ---- */

/* Operand 0 of a group of operands is the parameter, whose shape and layout all others of the group have but those with
 * dtypes of their own. */
haul_status haul__infer_step(haul__call *c);

/* `flops` of the operation for each element of the parameters. */
haul__cost haul__step_cost(const haul__call *c);

/* Runs `one` on the operands of each parameter. If one fails, the call knows which parameters were written before. */
haul_status haul__step_each(haul__call *c,
                            haul_status (*one)(const haul__call *c, haul_tensor *const *operands, void *params),
                            void *params);

/* A step that the devices skip where `found` (f32 []) is not 0. */
haul_status haul__optimizer_guarded_step(haul_optimizer *optimizer, haul_tensor *found);

/* ---- making ---- */

/* What every optimizer is made of. */
typedef struct haul__optimizer_source {
    haul_module             *module; /* NULL: there is a list */
    const haul_named_tensor *parameters;
    int                      count;
} haul__optimizer_source;

/* An optimizer with these settings, which are checked; owned by the innermost scope. NULL on failure. */
haul_optimizer *haul__optimizer_new(const haul__optimizer_kind *kind, const haul__optimizer_source *source,
                                    const double *values, const char *operation);

/* An entry for the parameter, called `name`; with NULL, by its number. */
bool haul__optimizer_fill_entry(const haul__optimizer_kind *kind, haul__optimizer_entry *e, haul_tensor *parameter,
                                const char *name, int number);
void haul__optimizer_free_entry(haul__optimizer_entry *e);

/* Put other entries in place of those of now; what reads the entries of optimizers of other threads does not see half
 * of it. */
void haul__optimizer_set_entries(haul_optimizer *o, haul__optimizer_entry *entries, int count);

/* A number of at least `low` and below `high`, else an error naming the argument. */
haul_status haul__optimizer_number(double value, double low, double high, const char *operation, const char *argument);

/* ---- settings ---- */

int         haul__optimizer_setting_count(const haul__optimizer_kind *kind);
int         haul__optimizer_setting(const haul__optimizer_kind *kind, const char *name); /* -1: it has none of it */
haul_status haul__optimizer_check_settings(const haul__optimizer_kind *kind, const double *values,
                                           const char *operation);
/* The values of all groups one after the other, which are checked. */
haul_status haul__optimizer_set_all(haul_optimizer *o, const double *values, const char *operation);

/* ---- state ---- */

/* The scaler's state, as part of the optimizer's. */
#define HAUL__SCALER_SCALE   "grad_scaler.scale"
#define HAUL__SCALER_TRACKER "grad_scaler.growth_tracker"
void        haul__grad_scaler_state(haul_grad_scaler *scaler, haul_tensor **scale, haul_tensor **tracker);
haul_status haul__grad_scaler_check_state(haul_tensor *t, bool is_scale);
void        haul__grad_scaler_set_state(haul_grad_scaler *scaler, haul_tensor *scale, haul_tensor *tracker);

/* Are all parameters of the optimizer among these tensors of a module? If not: HAUL_INVALID_ARGUMENT. */
haul_status haul__optimizer_check_module(const haul_optimizer *optimizer, const haul_named_tensor *tensors, int count,
                                         const char *operation);
/* Do the optimizers of the list have all state that belongs to the training of these tensors? HAUL_STATE if another
 * optimizer has made steps with one of them, or another scaler is in use with one of the list. */
haul_status haul__optimizer_check_alone(haul_optimizer *const *list, int list_count, const haul_named_tensor *tensors,
                                        int count, const char *operation);

#endif
