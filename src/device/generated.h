/* Kernels whose text is made while the program runs. */
#ifndef HAUL_DEVICE_GENERATED_H
#define HAUL_DEVICE_GENERATED_H

#include "backends/backend.h"

/* The kernel k_NAME of a text, compiled for `dtype` on first use and kept for the life of the process; the same text
 * gives the same kernel. `shown` is its name in events, and lives as long as the process. Returns NULL, with the error
 * recorded, if it does not compile. */
const haul__kernel *haul__kernel_of_text(haul_device *device, const char *name, const char *text, haul_dtype dtype,
                                         const char *shown);

#endif
