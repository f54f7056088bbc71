/* What the thread's copies carry, and who computes, for their events. Those who know set it, and put back what was
 * there before; src/transfer and src/device read it. */
#ifndef HAUL_EVENTS_CARGO_H
#define HAUL_EVENTS_CARGO_H

#include <haul/dtype.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct haul__cargo {
    const char *tensor;   /* the name of the tensor, "features.0.weight"; NULL: none is known */
    haul_dtype  from, to; /* the dtypes of a copy that converts; HAUL_DTYPE_NONE: it does not */
    bool        ahead;    /* nobody waits for the copy yet, so it lets others pass */
    uint64_t    copy;     /* the number of the copy whose commands are being submitted; 0: of none */
    const char *way;      /* the implementation whose commands are being submitted, "onednn"; NULL: of none */
    int64_t     refused;  /* bytes of scratch memory that the thread's last library call wanted and did not get */
} haul__cargo;

extern _Thread_local haul__cargo haul__cargo_now;

/* Names the tensor of the next copies, unless they have a name already; returns the name before, to be put back into
 * haul__cargo_now.tensor. */
static inline const char *haul__cargo_name(const char *tensor)
{
    const char *before = haul__cargo_now.tensor;
    haul__cargo_now.tensor = before ? before : tensor;
    return before;
}

#endif
