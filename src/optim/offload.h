/* State of optimizers in host memory. A step copies a piece of it to the device ahead of the update of that piece, and
 * back after it. Two buffers on the device take turns; the first pass of the step allocates them, so that nothing fails
 * for lack of memory once a parameter has changed. Updates are elementwise, so pieces have the bits of the whole. */
#ifndef HAUL_OPTIM_OFFLOAD_H
#define HAUL_OPTIM_OFFLOAD_H

#include "core/tensor.h"
#include "device/device.h"
#include "optim/optimizer.h"

/* The buffers for parameters of a device and a dtype. */
typedef struct haul__offload_buffers {
    haul_device *device;
    haul_dtype   dtype;
    int64_t      room;     /* elements in each */
    haul_tensor *parts[2]; /* temporaries of the step */
} haul__offload_buffers;

enum { HAUL__MOST_OFFLOAD_BUFFERS = 8 };

typedef struct haul__offload {
    haul__offload_buffers items[HAUL__MOST_OFFLOAD_BUFFERS];
    int                   count;
} haul__offload;

/* True if the state of the parameter is kept in host memory, apart from it. */
static inline bool haul__is_offloaded(const haul_optimizer *o, const haul__optimizer_entry *e)
{
    return o->offloads && haul__device_is_apart(e->parameter->storage->device);
}

/* True if state `s` of the parameter is where the optimizer keeps it. */
static inline bool haul__state_is_home(const haul_optimizer *o, const haul__optimizer_entry *e, const haul_tensor *s)
{
    const haul_tensor *p = e->parameter;
    const haul_device *home = haul__is_offloaded(o, e) ? haul_cpu() : p->storage->device;
    return s->storage->device == home && s->dtype == p->dtype && haul__tensor_same_layout(s, p);
}

/* State `s` of the parameter where the optimizer keeps it, with the parameter's dtype and layout; NULL: zeros. Returns
 * a temporary; NULL on failure. */
haul_tensor *haul__state_home(const haul_optimizer *o, const haul__optimizer_entry *e, haul_tensor *s);

/* Allocates the buffers for a step of all parameters with a gradient. */
haul_status haul__offload_begin(const haul_optimizer *o, haul__offload *out);

/* A parameter is updated in pieces. */
typedef struct haul__offload_piece {
    int64_t      first, count;           /* elements of the parameter, in the order of its memory */
    int64_t      at;                     /* the place of its states in the buffer, in elements */
    haul_tensor *home[HAUL__MAX_STATES]; /* views of the state in host memory; NULL: it is not used */
} haul__offload_piece;

/* The elements of the piece that begins with element `first`, those that its states take in a buffer, and the room of
 * one; 0 if the state is not in host memory. */
int64_t haul__offload_count(const haul_optimizer *o, const haul__optimizer_entry *e, int64_t first);
int64_t haul__offload_need(const haul_optimizer *o, const haul__optimizer_entry *e, int64_t count);
int64_t haul__offload_room(const haul__offload *x, const haul__optimizer_entry *e);

/* Makes `u` an update of the piece, whose states are copied to part `part` of the buffers, or zeroed there if u->first.
 * home: the states of the entry in host memory. */
haul_status haul__offload_bring(const haul_optimizer *o, const haul__offload *x, int part, haul_tensor *const *home,
                                haul__offload_piece *piece, haul__update *u);

/* Copies the states of an updated piece back. */
haul_status haul__offload_leave(const haul__offload_piece *piece, const haul__update *u);

#endif
