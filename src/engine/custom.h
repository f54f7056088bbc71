/* Operations from outside the library (haul/custom.h): each is a descriptor like ours, made from the program's. */
#ifndef HAUL_ENGINE_CUSTOM_H
#define HAUL_ENGINE_CUSTOM_H

#include <haul/custom.h>
#include <stdatomic.h>

#include "engine/operation.h"

_Static_assert((int)HAUL_CUSTOM_OPERANDS <= (int)HAUL__MAX_OPERANDS, "a call has room for all operands");
_Static_assert((int)HAUL_CUSTOM_RESULTS <= (int)HAUL__MAX_RESULTS, "a call has room for all results");
_Static_assert((int)HAUL_CUSTOM_ATTRIBUTES <= (int)HAUL__MAX_ATTRIBUTES, "a call has room for the attributes");
_Static_assert((int)HAUL_KERNEL_BUFFERS <= (int)HAUL__MAX_BUFFERS, "a launch has room for the buffers");

typedef struct haul__custom haul__custom;
struct haul__custom {
    haul__operation         operation; /* ours: `extra` is this struct */
    haul_custom_operation   own;       /* the program's, as it was when it was registered */
    haul_custom_operation  *owner;     /* where that was */
    int                     operand_count, result_count;
    int                     required; /* operands up to the last one that is not optional */
    haul_kernel             kernel;   /* a copy of what own.kernel points to */
    _Atomic(haul__custom *) next;     /* registered after it */
};

/* All that are registered, in that order. They stay. */
haul__custom               *haul__custom_first(void);
static inline haul__custom *haul__custom_next(haul__custom *custom)
{
    return atomic_load_explicit(&custom->next, memory_order_acquire);
}

/* The functions of its descriptor (custom_call.c), by what the program's says. */
void haul__custom_complete(haul__custom *custom);

/* The one that a descriptor is part of; NULL for ours. */
const haul__custom *haul__custom_of(const haul__operation *operation);

/* What computes it on a device: "operations", "host", "kernel"; NULL for nothing. */
const char *haul__custom_way(const haul__custom *custom, const haul_device *device);

/* The dtype that a kernel's word for a type stands for in a launch for `dtype`: "T", "const ACC", "I64";
 * HAUL_DTYPE_NONE for a word that is not known. */
haul_dtype haul__custom_buffer_dtype(const char *type, haul_dtype dtype);
/* Is it T? */
bool haul__custom_buffer_is_element(const char *type);

#endif
