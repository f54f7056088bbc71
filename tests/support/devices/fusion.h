/* Turns the fusion of pointwise operations in followed steps, or machine code for them, off and on again, as
 * HAUL_WITHOUT=fusion and HAUL_WITHOUT=assembled do. */
#ifndef HAUL_TESTS_FUSION_H
#define HAUL_TESTS_FUSION_H

#include <stdatomic.h>

#include "backends/implementation.h"

static inline void set_implementation(haul__implementation_id id, bool on)
{
    haul__implementation_left_out(id); /* the variable has been read */
    if (on)
        atomic_fetch_and(&haul__without, ~(1u << id));
    else
        atomic_fetch_or(&haul__without, 1u << id);
}

static inline void set_fusion(bool on)
{
    set_implementation(HAUL__BY_fusion, on);
}

static inline void set_assembled(bool on)
{
    set_implementation(HAUL__BY_assembled, on);
}

#endif
