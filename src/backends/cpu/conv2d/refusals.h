/* What the CPU's own convolutions have in common: tensors and dtypes that they do not take. */
#ifndef HAUL_BACKENDS_CPU_CONV2D_REFUSALS_H
#define HAUL_BACKENDS_CPU_CONV2D_REFUSALS_H

#include "backends/cpu/gemm/tiles.h"
#include "backends/implementation.h"

/* For those that compute with the tiles of matrix products, in f32 and f64. */
static inline const char *haul__cpu_conv2d_tiles_refuse(const haul__conv2d *c)
{
    if (c->channels_last)
        return "it takes row-major tensors only";
    if (!haul__cpu_tiles_for(c->dtype))
        return "it takes f32 and f64 only";
    return c->relu ? "it does no relu" : NULL;
}

/* For those that compute in f32. */
static inline const char *haul__cpu_conv2d_f32_refuses(const haul__conv2d *c)
{
    if (c->channels_last)
        return "it takes row-major tensors only";
    if (c->dtype != HAUL_F32)
        return "it takes f32 only";
    return c->relu ? "it does no relu" : NULL;
}

#endif
