/* Turns the fusion of pointwise operations in followed steps off and on again, as HAUL_WITHOUT=fusion does. */
#ifndef HAUL_TESTS_FUSION_H
#define HAUL_TESTS_FUSION_H

#include <stdatomic.h>

#include "backends/implementation.h"

static inline void set_fusion(bool on)
{
    haul__implementation_left_out(HAUL__BY_fusion); /* the variable has been read */
    if (on)
        atomic_fetch_and(&haul__without, ~(1u << HAUL__BY_fusion));
    else
        atomic_fetch_or(&haul__without, 1u << HAUL__BY_fusion);
}

#endif
