/* The planes that convolutions read (plane_copies.h). */
#ifndef HAUL_BACKENDS_CPU_CONV2D_PLANES_H
#define HAUL_BACKENDS_CPU_CONV2D_PLANES_H

#include "backends/cpu/conv2d/plane_copies.h"
#include "backends/implementation.h"

/* Those of x, without their rows. */
haul__planes haul__planes_of_x(const haul__conv2d *c);

/* Finds what follows from the other members. Returns false if distances are too large for an int64_t. */
bool haul__planes_measure(haul__planes *p);

/* Where a plane has what an element finds `down` rows and `right` columns behind it in its image. */
int64_t haul__planes_offset(const haul__planes *p, int64_t down, int64_t right);

#endif
