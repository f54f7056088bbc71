/* Backends in the child of a fork. */
#ifndef HAUL_DEVICE_FORKED_H
#define HAUL_DEVICE_FORKED_H

#include "backends/backend.h"

/* The table that replaces `original` in the child. It never calls a function of the original. */
void haul__backend_forked(const haul__backend *original, haul__backend *out);

/* The reason why the device of that name is refused in the child. */
void haul__device_forked_why(const char *name, char *out, size_t size);

#endif
