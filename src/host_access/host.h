/* Host access to tensors, for files: the tensor has a name for the events of copies. */
#ifndef HAUL_HOST_ACCESS_HOST_H
#define HAUL_HOST_ACCESS_HOST_H

#include <haul/tensor.h>

/* A row-major tensor like t, with memory of its own, that no scope owns. NULL: the error is recorded. */
haul_tensor *haul__dense_like(const haul_tensor *t, const char *operation);

/* haul_read and haul_write. `name` is that of the tensor; NULL: none is known. */
haul_status haul__read_named(const haul_tensor *t, void *out, size_t size, const char *name);
haul_status haul__write_named(haul_tensor *t, const void *data, size_t size, const char *name);

#endif
