/* Moves elements between tensors on any device and the host memory that files are read into and written from. */
#include "host_access/view.h"

#include <haul/ops.h>
#include <haul/transfer.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "device/device.h"
#include "host_access/host.h"
#include "memory/allocator.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are written in the host's byte order, which must be little-endian"
#endif

haul_status haul__host_view_begin(haul__host_view *view, haul_tensor *t, const char *name, const char *operation)
{
    haul__storage *storage = t->storage;
    haul_status    status;
    HAUL__ASSERT(haul__tensor_is_sound(t));
    *view = (haul__host_view){.bytes = haul_tensor_bytes(t)};
    if (view->bytes && t->contiguous && storage->buffer.host && storage->device == haul_cpu()) {
        if ((status = haul__host_before(storage, false, operation)) || (status = haul__index_faults_raise(NULL)))
            return status;
        view->data = (const char *)storage->buffer.host + (size_t)t->offset * haul__dtype_size(t->dtype);
        return HAUL_OK;
    }
    if (!(view->copy = haul__malloc(view->bytes)))
        return haul__fail_memory(operation, view->bytes);
    view->data = view->copy;
    if ((status = haul__read_named(t, view->copy, view->bytes, name)) == HAUL_OK)
        return HAUL_OK;
    haul__host_view_end(view);
    return haul__fail_within(operation);
}

void haul__host_view_end(haul__host_view *view)
{
    haul__free(view->copy);
    *view = (haul__host_view){0};
}

/* In memory pinned for the device, if possible. */
static haul_tensor *host_tensor(haul_device *device, haul_dtype dtype, const haul_shape *shape, const char *operation)
{
    int64_t     count;
    haul_status status = haul__check_dtype(dtype, haul_cpu(), operation);
    if (status || haul__shape_count(shape, operation, &count))
        return NULL;
    haul__storage *storage = haul__host_alloc_for(device, (size_t)count * haul__dtype_size(dtype), operation);
    haul_tensor   *t = haul__tensor_wrap(storage, dtype, shape, NULL, 0);
    HAUL__ASSERT(!t || (haul__device_is_host(t->storage->device) && t->contiguous));
    haul__object_release(storage);
    return haul__own(t, operation);
}

haul_status haul__loading_begin(haul__loading *loading, haul_dtype dtype, const haul_shape *shape,
                                const char *operation)
{
    haul_status status;
    *loading = (haul__loading){.device = haul__device_current(operation)};
    if (!loading->device)
        return haul_error_status();
    if (!(loading->scope = haul__scope_push(NULL)))
        return haul_error_status();
    if ((status = haul_set_device(haul_cpu())))
        goto failed;
    loading->host = host_tensor(loading->device, dtype, shape, operation);
    if (!loading->host) {
        status = haul_error_status();
        goto failed;
    }
    loading->bytes = haul_tensor_bytes(loading->host);
    loading->memory = loading->bytes ? loading->host->storage->buffer.host : loading;
    if (!loading->bytes || (status = haul__host_before(loading->host->storage, true, operation)) == HAUL_OK)
        return HAUL_OK;
failed:
    haul_scope_pop(loading->scope);
    return status;
}

haul_tensor *haul__loading_end(haul__loading *loading, haul_status status)
{
    if (status) {
        haul_scope_pop(loading->scope);
        return haul__failed_tensor();
    }
    haul_tensor *result = loading->device == haul_cpu() ? loading->host : haul_to(loading->host, loading->device);
    return haul__result(haul_scope_return(loading->scope, result));
}
