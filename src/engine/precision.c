/* A per-thread setting: the precision of matrix products and convolutions of f32. */
#include "core/error.h"
#include "core/object.h"
#include "core/thread.h"

#include <haul/ops.h>

haul_status haul_set_matmul_precision(haul_precision precision)
{
    if (precision != HAUL_PRECISION_HIGHEST && precision != HAUL_PRECISION_HIGH)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_set_matmul_precision", "precision",
                          "%d is not a precision; use HAUL_PRECISION_HIGHEST or HAUL_PRECISION_HIGH", (int)precision);
    haul__thread()->words[HAUL__PRECISION] = precision == HAUL_PRECISION_HIGH;
    return HAUL_OK;
}

haul_precision haul_matmul_precision(void)
{
    return haul__thread()->words[HAUL__PRECISION] ? HAUL_PRECISION_HIGH : HAUL_PRECISION_HIGHEST;
}
