/* Operations that can be computed in several ways: an operation's list, and the one function that chooses from it.
 *
 * A list consists of the implementations of the call's backend and of portable kernels (backends/implementation.h).
 * Each entry in turn is offered the *forms* of the call's problem. The first form is the whole call. In later forms an
 * entry does less of it, and the operation does the rest: relu, the bias, a cast of half precision, a copy to another
 * layout. The first entry that does not refuse a form computes it. */
#ifndef HAUL_ENGINE_IMPLEMENTATION_H
#define HAUL_ENGINE_IMPLEMENTATION_H

#include "backends/implementation.h"
#include "engine/operation.h"

/* The operation defines `task`: the call, its tensors and its problem. */
struct haul__implementations {
    haul__problem of;
    /* Kernels. The reference is last and takes the last form of every problem. An entry without `refuses` ends the
     * list. */
    const haul__implementation *portable;
    /* Form i of the task's problem, valid until another one is asked for; NULL after the last. */
    const void *(*form)(void *task, int i);
    /* Runs a backend's entry on that form, through haul__call_library, which sets `refused`. */
    haul_status (*run)(void *task, const haul__implementation *by, int64_t *refused);
    /* Describes the first form: "f32 [32,10] x [10,16] + bias". */
    void (*describe)(const void *task, char *out, size_t size);
};

/* Computes the task of a call whose operation has a list, and reports which entry did (HAUL_EVENT_IMPLEMENTATION). The
 * task then holds the form that was computed. */
haul_status haul__implement(const haul__call *c, void *task);

/* True if an entry prefers the tensors of the problem, which has no buffers yet, channels-last. */
bool haul__prefers_channels_last(const haul__operation *operation, haul_device *device, const void *problem);

/* True if an entry computes products of the dtype with `inner`. */
bool haul__takes_inner(const haul__operation *operation, haul_device *device, haul_dtype dtype);

/* True if an entry of the device's backend takes the problem, which has no buffers yet. */
bool haul__library_takes(const haul__operation *operation, haul_device *device, const void *problem);

/* The names of the implementations of an operation on a device, in order of preference, for
 * haul_operation_implementations; returns how many there are. Writes at most `capacity`. */
int haul__list_implementations(const haul__operation *operation, haul_device *device, const char **names, int capacity);

#endif
