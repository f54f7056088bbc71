/* Backends in the child of a fork. */
#ifndef HAUL_DEVICE_FORKED_H
#define HAUL_DEVICE_FORKED_H

#include "backends/backend.h"

/* The table that takes the place of `original` in the child. It calls nothing of the original's. */
void haul__backend_forked(const haul__backend *original, haul__backend *out);

/* Why the device of that name is refused there. */
void haul__device_forked_why(const char *name, char *out, size_t size);

#endif
