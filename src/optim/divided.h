/* Gradients that are divided among ranks (.shard = 2 of haul_parallel_new): a rank has those of its own parameters
 * only. What looks at the gradients of all parameters asks here for what the other ranks have found. */
#ifndef HAUL_OPTIM_DIVIDED_H
#define HAUL_OPTIM_DIVIDED_H

#include <haul/optim.h>
#include <stdatomic.h>

#include "core/error.h"

typedef struct haul__divided haul__divided;
struct haul__divided {
    haul__divided *next; /* in the list of all */
    void          *context;
    int            rank, ranks;
    atomic_bool    active; /* the gradients are those of a step that is ready; other threads ask for theirs */
    bool           steps;  /* its own function makes the optimizer's step */
    /* The rank that has the parameter's gradient; -1: it is not one of these. */
    int (*owner)(const haul__divided *d, const haul_tensor *parameter);
    /* rows[rank * count + i] are this rank's numbers; on return those of all ranks are there. A collective. */
    haul_status (*gather)(const haul__divided *d, const char *operation, double *rows, int count);
    /* Passes the recorded error to the other ranks, which wait in `gather`. */
    void (*fail)(const haul__divided *d, const char *operation);
};

/* It stays in the list until it is removed. */
void haul__divided_add(haul__divided *d);
void haul__divided_remove(haul__divided *d);

/* The one that is active and has this parameter; NULL: its gradient is whole. */
haul__divided *haul__divided_of(const haul_tensor *parameter);
haul__divided *haul__divided_of_optimizer(const haul_optimizer *o);

/* Fails if the optimizer's gradients are divided and another function than haul_parallel_step makes its step. */
haul_status haul__divided_refuse(const haul_optimizer *o, const char *operation);

#endif
