/* Operations from outside the library (haul/custom.h). Each is an internal descriptor made from the program's. */
#ifndef HAUL_ENGINE_CUSTOM_CUSTOM_H
#define HAUL_ENGINE_CUSTOM_CUSTOM_H

#include <haul/custom.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/operation.h"

_Static_assert((int)HAUL_CUSTOM_OPERANDS <= (int)HAUL__MAX_OPERANDS, "a call has room for all operands");
_Static_assert((int)HAUL_CUSTOM_RESULTS <= (int)HAUL__MAX_RESULTS, "a call has room for all results");
_Static_assert((int)HAUL_CUSTOM_ATTRIBUTES <= (int)HAUL__MAX_ATTRIBUTES, "a call has room for the attributes");
_Static_assert((int)HAUL_KERNEL_BUFFERS <= (int)HAUL__MAX_BUFFERS, "a launch has room for the buffers");

typedef struct haul__custom haul__custom;
struct haul__custom {
    haul__operation         operation; /* the internal descriptor; its `extra` is this struct */
    haul_custom_operation   own;       /* the program's descriptor when it was registered */
    haul_custom_operation  *owner;     /* the address of the program's descriptor */
    int                     operand_count, result_count;
    int                     required; /* operands up to the last required one */
    haul_kernel             kernel;   /* a copy of what own.kernel points to */
    _Atomic(haul__custom *) next;     /* the next registered operation */
};

/* All registered operations, in order. They are never removed. */
haul__custom               *haul__custom_first(void);
static inline haul__custom *haul__custom_next(haul__custom *custom)
{
    return atomic_load_explicit(&custom->next, memory_order_acquire);
}

/* Sets the functions of the internal descriptor (custom_call.c) according to the program's. */
void haul__custom_complete(haul__custom *custom);

/* The custom operation that a descriptor belongs to; NULL for the library's own. */
const haul__custom *haul__custom_of(const haul__operation *operation);

/* The tensors that a gradient function gets, in one order: reads them, or replaces them. */
enum { HAUL__GRADIENT_GIVEN = 2 * HAUL_CUSTOM_RESULTS + HAUL_CUSTOM_OPERANDS };
static inline void haul__gradient_given(const haul_custom_gradient *g, haul_tensor **given)
{
    memcpy(given, g->results, sizeof g->results);
    memcpy(given + HAUL_CUSTOM_RESULTS, g->saved, sizeof g->saved);
    memcpy(given + HAUL_CUSTOM_RESULTS + HAUL_CUSTOM_OPERANDS, g->saved_results, sizeof g->saved_results);
}
static inline void haul__gradient_give(haul_custom_gradient *g, haul_tensor *const *given)
{
    memcpy(g->results, given, sizeof g->results);
    memcpy(g->saved, given + HAUL_CUSTOM_RESULTS, sizeof g->saved);
    memcpy(g->saved_results, given + HAUL_CUSTOM_RESULTS + HAUL_CUSTOM_OPERANDS, sizeof g->saved_results);
}

/* Calls the gradient function with what `gradient` has, in a followed step. */
haul_status haul__custom_gradient_again(const haul__operation *operation, haul_custom_gradient *gradient);

/* What computes it on a device: "operations", "host" or "kernel"; NULL if nothing does. */
const char *haul__custom_way(const haul__custom *custom, const haul_device *device);

/* The dtype that a type word of a kernel means in a launch for `dtype`: "T", "const ACC", "I64". HAUL_DTYPE_NONE for an
 * unknown word. */
haul_dtype haul__custom_buffer_dtype(const char *type, haul_dtype dtype);
/* True if the word is T. */
bool haul__custom_buffer_is_element(const char *type);

#endif
