/* Operations that can be computed in several ways: the list of an operation, and the one harness that chooses from it.
 *
 * A list is made of what the call's backend has of its own and of portable kernels (backends/implementation.h). Each
 * entry in turn is asked about the *forms* of the call's problem. The first form is all that the call wants; in the
 * later ones an entry does less of it, and the operation does the rest: relu, the bias, a cast of halves, a copy to
 * another layout. The first entry that does not refuse a form computes it. */
#ifndef HAUL_ENGINE_IMPLEMENTATION_H
#define HAUL_ENGINE_IMPLEMENTATION_H

#include "backends/implementation.h"
#include "engine/operation.h"

/* `task` is the operation's own: the call, its tensors and its problem. */
struct haul__implementations {
    haul__problem of;
    /* Kernels, the reference last, which takes the last form of every problem. An entry without `refuses` ends them. */
    const haul__implementation *portable;
    /* Form i of the task's problem, which it keeps until it is asked for another; NULL behind the last. */
    const void *(*form)(void *task, int i);
    /* Run an entry of a backend on that form, by haul__call_library. */
    haul_status (*run)(void *task, const haul__implementation *by);
    /* The first form in words, "f32 [32,10] x [10,16] + bias". */
    void (*describe)(const void *task, char *out, size_t size);
};

/* Compute the task of a call, whose operation has such a list, and report who did (HAUL_EVENT_IMPLEMENTATION). The task
 * has the form that was computed. */
haul_status haul__implement(const haul__call *c, void *task);

/* Does an entry want the tensors of the problem, which has no buffers yet, channels-last? */
bool haul__prefers_channels_last(const haul__operation *operation, haul_device *device, const void *problem);

/* The names of what computes an operation on a device, in order of preference, as haul_operation_implementations has
 * them; how many there are. At most `capacity` are written. */
int haul__list_implementations(const haul__operation *operation, haul_device *device, const char **names, int capacity);

#endif
