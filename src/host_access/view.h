/* The elements of tensors as host memory, for readers and writers of files. */
#ifndef HAUL_HOST_ACCESS_VIEW_H
#define HAUL_HOST_ACCESS_VIEW_H

#include <haul/scope.h>
#include <haul/tensor.h>

/* The elements of t, row-major: its own memory if possible, else a copy. */
typedef struct haul__host_view {
    const void *data;
    size_t      bytes;
    void       *copy;
} haul__host_view;

/* `name` is that of t for the event of a copy; NULL: none is known. */
haul_status haul__host_view_begin(haul__host_view *view, haul_tensor *t, const char *name, const char *operation);
void        haul__host_view_end(haul__host_view *view);

/* A tensor that is read from a file. Fill `memory` (`bytes` bytes, row-major), then end the loading with the status of
 * the read. The result is on the thread's current device and the innermost scope owns it; it is a failed tensor on
 * failure. */
typedef struct haul__loading {
    haul_scope  *scope;
    haul_tensor *host;
    haul_device *device;
    void        *memory;
    size_t       bytes;
} haul__loading;

haul_status  haul__loading_begin(haul__loading *loading, haul_dtype dtype, const haul_shape *shape,
                                 const char *operation);
haul_tensor *haul__loading_end(haul__loading *loading, haul_status status);

#endif
