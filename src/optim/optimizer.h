/* What all optimizers share: the parameters, each with its state, and the order in which a step is made. */
#ifndef HAUL_OPTIM_OPTIMIZER_H
#define HAUL_OPTIM_OPTIMIZER_H

#include <haul/optim.h>

#include "core/object.h"
#include "engine/operation.h"

#define HAUL__MAX_STATES 2

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
    haul_tensor *parameter;
    haul_tensor *states[HAUL__MAX_STATES]; /* NULL until the first step with a gradient */
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

typedef struct haul__optimizer_kind {
    const char *name;
    int         state_count;
    const char *state_names[HAUL__MAX_STATES];
    bool        saves_steps; /* as "PARAMETER.step", a 0-d f32 tensor as in PyTorch */
    /* Does this optimizer keep state at all, with its settings? */
    bool (*has_state)(const haul_optimizer *optimizer);
    /* Compile what update will launch, so that a step has nothing left that commonly fails. */
    haul_status (*prepare)(haul_optimizer *optimizer, haul__optimizer_entry *entry, bool guarded);
    /* Up to HAUL__MAX_UPDATES updates that differ in nothing but tensors: device, dtype, number of steps, `first` and
     * whether there is a guard are the same. */
    haul_status (*update)(haul_optimizer *optimizer, const haul__update *updates, int count);
} haul__optimizer_kind;

struct haul_optimizer {
    haul__object                object;
    const haul__optimizer_kind *kind;
    haul_module                *module;
    double                      lr;
    int64_t                     steps;   /* those in `skipped` included */
    haul__optimizer_entry      *entries; /* one for each distinct parameter the module had at the start */
    int                         count;
    void                       *settings; /* the kind's */

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

/* What operations that make a step infer: operand 0 of a group is the parameter, whose shape and layout all others of
 * the group have but those with dtypes of their own. */
haul_status haul__infer_step(haul__call *c);

/* `flops` of the operation for each element of the parameters. */
haul__cost haul__step_cost(const haul__call *c);

/* A step that the devices skip where `found` (f32 []) is not 0. */
haul_status haul__optimizer_guarded_step(haul_optimizer *optimizer, haul_tensor *found);

/* The scaler's state, as part of the optimizer's. */
#define HAUL__SCALER_SCALE   "grad_scaler.scale"
#define HAUL__SCALER_TRACKER "grad_scaler.growth_tracker"
void        haul__grad_scaler_state(haul_grad_scaler *scaler, haul_tensor **scale, haul_tensor **tracker);
haul_status haul__grad_scaler_check_state(haul_tensor *t, bool is_scale);
void        haul__grad_scaler_set_state(haul_grad_scaler *scaler, haul_tensor *scale, haul_tensor *tracker);

/* Are all parameters of the optimizer among these tensors of a module? If not: HAUL_INVALID_ARGUMENT. */
haul_status haul__optimizer_check_module(const haul_optimizer *optimizer, const haul_named_tensor *tensors, int count,
                                         const char *operation);
/* Does the optimizer have all state that belongs to the training of these tensors? HAUL_STATE if another optimizer has
 * made steps with one of them, or another scaler is in use with this one. */
haul_status haul__optimizer_check_alone(const haul_optimizer *optimizer, const haul_named_tensor *tensors, int count,
                                        const char *operation);

/* An optimizer with a copy of `settings`; owned by the innermost scope. NULL on failure. */
haul_optimizer *haul__optimizer_new(const haul__optimizer_kind *kind, haul_module *module, double lr,
                                    const void *settings, size_t settings_size, const char *operation);

/* A number of at least `low` and below `high`, else an error naming the argument. */
haul_status haul__optimizer_number(double value, double low, double high, const char *operation, const char *argument);

#endif
