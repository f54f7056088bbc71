/* Visits a module and all modules within it, each before its children. The stack is on the heap, so modules may be
 * nested to any depth. */
#ifndef HAUL_NN_WALK_H
#define HAUL_NN_WALK_H

#include "nn/module.h"

/* A module on the way from the root to the present one. */
typedef struct haul__walk_step {
    haul_module *module;
    size_t       next; /* its next child to visit */
    size_t       mark; /* the caller's */
    void        *of;   /* the caller's */
} haul__walk_step;

/* All zero but the root is a walk that has not begun. */
typedef struct haul__walk {
    haul_module     *root;
    haul__walk_step *steps; /* steps[0] is that of the root, steps[count - 1] that of the present module */
    size_t           count, capacity;
    bool             begun, failed;
} haul__walk;

/* The next module's step, which is valid until the next call; NULL after the last one and if memory is exhausted; then
 * `failed` is set. A module that is within several others is visited in each of them. */
haul__walk_step *haul__walk_next(haul__walk *walk);

/* The child by which the present module was reached; not for the root. */
haul__module_child *haul__walk_child(const haul__walk *walk);

/* The children of the present module are not visited. */
void haul__walk_skip(haul__walk *walk);

void haul__walk_free(haul__walk *walk);

/* Allocates all the memory that a walk needs. Fails, and records the error, if it is exhausted. */
haul_status haul__walk_reserve(haul__walk *walk, const char *operation);

/* After haul__walk_reserve: calls `visit` for each module, and frees the walk. */
typedef void haul__visit(haul_module *m, const void *context);
void         haul__walk_visit(haul__walk *walk, haul__visit *visit, const void *context);

#endif
