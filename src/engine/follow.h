/* Recording and following: the step functions of recordings (record/) see each call here.
 *
 * In a dry run that becomes a recording, the recorder is called after each call that the program makes. In a followed
 * step, the follower is called in the place of each call: it makes the results, and nothing is computed. A backward
 * pass is one call. Functions of custom operations that call operations run in a followed step, too. */
#ifndef HAUL_ENGINE_FOLLOW_H
#define HAUL_ENGINE_FOLLOW_H

#include <haul/custom.h>

#include "core/trial.h"
#include "engine/operation.h"

/* A call as the program makes it. `outs` or `results` is NULL; both are if there are no results. */
typedef struct haul__asked {
    const haul__operation *operation;
    const void            *attributes;
    haul_tensor *const    *operands;
    int                    count;
    haul_tensor *const    *outs;
    haul_tensor          **results;
} haul__asked;

/* What identifies a backward pass. */
typedef struct haul__asked_pass {
    const char  *operation;
    haul_tensor *y, *seed; /* seed may be HAUL_NONE */
    uint32_t     flags;    /* its options */

    haul_tensor *const *inputs; /* of haul_grad; NULL: none */
    int                 input_count;
    haul_tensor       **gradients; /* of the inputs: the follower writes them, with references; NULL: none arrived */
} haul__asked_pass;

/* A function of a custom operation that calls operations. */
typedef struct haul__asked_function {
    const haul__operation      *operation;
    const haul_custom_gradient *gradient; /* what a gradient function gets; NULL: the function composes a call */
    haul_tensor *const         *given;    /* the tensors that it gets, with NULL or HAUL_NONE for absent ones */
    int                         count;
    struct { /* of the recorder */
        size_t entry;
        int    floor;
        bool   in_pass, in_gradient, ignored;
    } outer;
} haul__asked_function;

typedef struct haul__recorder haul__recorder;
struct haul__recorder {
    haul_status (*call)(haul__recorder *recorder, int call,
                        const haul__asked *asked); /* `call`: its number in the log */
    haul_status (*begin_pass)(haul__recorder *recorder, const haul__asked_pass *pass);
    void (*end_pass)(haul__recorder *recorder);
    /* The last pass was that of haul_grad, and these are the gradients that the program gets. */
    haul_status (*gradients)(haul__recorder *recorder, haul_tensor *const *gradients, int count);
    /* A function of a custom operation begins, and ends; results: NULL if it failed. */
    haul_status (*begin_function)(haul__recorder *recorder, haul__asked_function *function);
    haul_status (*end_function)(haul__recorder *recorder, const haul__asked_function *function,
                                haul_tensor *const *results, int count);
    /* A function that will run again in the backward pass begins; its calls follow. */
    haul_status (*mark)(haul__recorder *recorder, const char *name);
    /* The pass is about to replace the leaf's gradient, or has added to it: then `gradient` is the leaf's. */
    haul_status (*leaf)(haul__recorder *recorder, haul_tensor *leaf, haul_tensor *gradient);
    /* The step does something that cannot be followed. */
    void (*refuse)(haul__recorder *recorder, const char *why);
};

typedef struct haul__follower haul__follower;
struct haul__follower {
    haul__trial trial;
    haul_status (*call)(haul__follower *follower, const haul__asked *asked);
    haul_status (*pass)(haul__follower *follower, const haul__asked_pass *pass);
    haul_status (*mark)(haul__follower *follower, const char *name);
};

/* The recorder of the thread's dry run; NULL: it does not become a recording. */
haul__recorder *haul__recorder_now(void);

/* For the thread's recorder or follower, if it has one. */
haul_status haul__follow_mark(const char *name);

/* For the thread's recorder, if it has one. The second one follows each success of the first. */
haul_status haul__record_begin_function(haul__asked_function *function);
haul_status haul__record_end_function(const haul__asked_function *function, haul_tensor *const *results, int count);

/* Call it only if haul__is_followed. */
haul__follower *haul__follower_now(void);

#endif
