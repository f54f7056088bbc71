/* Tensors from and for other libraries, by DLPack.
 *
 * What another library submits to a device is in streams that Haul does not know, so the host waits for the whole
 * device where memory changes hands: before Haul uses memory of others, and when they end their use of Haul's. What
 * Haul itself submitted is in the uses of the storage. */
#include "host_access/dlpack.h"

#include <haul/dlpack.h>
#include <haul/ops.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bools.h"
#include "base/spin.h"
#include "core/guest.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "device/device.h"
#include "device/residency.h"
#include "engine/copy.h"
#include "host_access/host.h"
#include "memory/allocator.h"
#include "memory/dry_run/dry_run.h"

static const struct {
    haul_dtype dtype;
    uint8_t    code, bits;
} dtypes[] = {
    {HAUL_BOOL, HAUL__DL_BOOL, 8},  {HAUL_U8, HAUL__DL_UINT, 8},      {HAUL_I8, HAUL__DL_INT, 8},
    {HAUL_I16, HAUL__DL_INT, 16},   {HAUL_I32, HAUL__DL_INT, 32},     {HAUL_I64, HAUL__DL_INT, 64},
    {HAUL_F16, HAUL__DL_FLOAT, 16}, {HAUL_BF16, HAUL__DL_BFLOAT, 16}, {HAUL_F32, HAUL__DL_FLOAT, 32},
    {HAUL_F64, HAUL__DL_FLOAT, 64}, {HAUL_U16, HAUL__DL_UINT, 16},    {HAUL_U32, HAUL__DL_UINT, 32},
    {HAUL_U64, HAUL__DL_UINT, 64},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* ---- from Haul ---- */

/* What the other library holds: the struct that it gets, and a reference to the memory. */
typedef struct dl_export {
    union {
        haul__dl_versioned versioned;
        haul__dl_legacy    legacy;
    } given;
    haul__storage *storage;
    int64_t        dims[2 * HAUL_MAX_DIMS]; /* shape and strides */
} dl_export;

/* Keeps the elements where they are. A thread that is moving them has the lock. */
static void fix(haul__storage *storage)
{
    if (!storage->uses)
        return;
    const bool taken = haul__residency_take();
    atomic_fetch_add(&storage->uses->fixed, 1);
    if (taken)
        haul__residency_give();
}

/* The other library may write, so a copy that spilling left in host memory no longer counts. */
static void drop_copy(haul__storage *storage)
{
    if (!storage->uses)
        return;
    haul__spin_lock(&storage->uses->lock);
    storage->uses->copied = false;
    haul__spin_unlock(&storage->uses->lock);
}

static void end(dl_export *e)
{
    HAUL__ASSERT(!e->storage->uses || atomic_load(&e->storage->uses->fixed) > 0); /* each deleter is called once */
    if (e->storage->uses)
        atomic_fetch_sub(&e->storage->uses->fixed, 1);
    haul__object_release(e->storage);
    haul__free(e);
}

/* A deleter is called when the other library has submitted its last use. If the device fails, its memory is not used
 * again either. */
static void destroy(dl_export *e)
{
    haul__error_record before;
    haul__error_save(&before);
    if (haul__device_finish(e->storage->device, "haul_to_dlpack"))
        haul__error_restore(&before);
    end(e);
}

static void delete_versioned(haul__dl_versioned *self)
{
    if (self)
        destroy(self->context);
}

static void delete_legacy(haul__dl_legacy *self)
{
    if (self)
        destroy(self->context);
}

static haul_status check(const haul_tensor *x, const char *operation)
{
    const haul_status status = haul__check_tensor(operation, "x", x);
    if (status)
        return status;
    if (!haul__device_dlpack(x->storage->device))
        return haul__fail(HAUL_DEVICE, operation, "x",
                          "x is on %s, whose memory has no addresses for other libraries; move it with haul_to(x, "
                          "haul_cpu())",
                          x->storage->device->name);
    if (x->requires_grad || x->node)
        return haul__fail(
            HAUL_STATE, operation, "x", "x %s, which another library would not follow; pass haul_detach(x)",
            x->requires_grad ? "requires a gradient" : "was computed from a tensor that requires a gradient");
    return HAUL_OK;
}

static void describe(const haul_tensor *x, dl_export *e, haul__dl_tensor *out)
{
    const size_t        size = haul__dtype_size(x->dtype);
    const haul__buffer *buffer = &x->storage->buffer;
    *out = (haul__dl_tensor){.device_type = haul__device_dlpack(x->storage->device),
                             .device_id = x->storage->device->index,
                             .ndim = x->shape.ndim,
                             .lanes = 1,
                             .shape = e->dims,
                             .strides = e->dims + HAUL_MAX_DIMS};
    if (x->count)
        out->data = (char *)(buffer->host ? buffer->host : buffer->handle) + (size_t)x->offset * size;
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == x->dtype) {
            out->code = dtypes[i].code;
            out->bits = dtypes[i].bits;
        }
    HAUL__ASSERT(out->bits == 8 * size && haul__tensor_is_sound(x));
    memcpy(out->shape, x->shape.dims, (size_t)x->shape.ndim * sizeof *out->shape);
    memcpy(out->strides, x->strides, (size_t)x->shape.ndim * sizeof *out->strides);
}

/* Everything but the struct's own members. NULL: the error is recorded. */
static dl_export *share(const haul_tensor *x, const char *operation)
{
    if (check(x, operation))
        return NULL;
    dl_export *e = haul__calloc(1, sizeof *e);
    if (!e) {
        haul__fail_memory(operation, sizeof *e);
        return NULL;
    }
    haul__object_keep(x->storage);
    e->storage = x->storage;
    fix(x->storage); /* the other library relies on the address */
    if (haul__host_before(x->storage, true, operation) || haul__index_faults_raise(NULL)) {
        end(e);
        return NULL;
    }
    drop_copy(x->storage);
    return e;
}

haul__dl_versioned *haul_to_dlpack(haul_tensor *x)
{
    dl_export *e = share(x, "haul_to_dlpack");
    if (!e)
        return NULL;
    haul__dl_versioned *v = &e->given.versioned;
    *v = (haul__dl_versioned){.major = HAUL__DL_MAJOR,
                              .minor = HAUL__DL_MINOR,
                              .context = e,
                              .deleter = delete_versioned,
                              .flags = haul__overlaps_itself(x) ? HAUL__DL_READ_ONLY : 0};
    describe(x, e, &v->tensor);
    return v;
}

haul__dl_legacy *haul_to_dlpack_legacy(haul_tensor *x)
{
    static const char operation[] = "haul_to_dlpack_legacy";
    if (check(x, operation))
        return NULL;
    if (haul__overlaps_itself(x)) {
        haul__fail(HAUL_STATE, operation, "x",
                   "several elements of x share memory (it was expanded), which DLPack before 1.0 cannot mark as "
                   "read-only; pass haul_contiguous(x)");
        return NULL;
    }
    dl_export *e = share(x, operation);
    if (!e)
        return NULL;
    haul__dl_legacy *l = &e->given.legacy;
    *l = (haul__dl_legacy){.context = e, .deleter = delete_legacy};
    describe(x, e, &l->tensor);
    return l;
}

/* ---- to Haul ---- */

static void release_versioned(void *tensor)
{
    haul__dl_versioned *v = tensor;
    if (v->deleter)
        v->deleter(v);
}

static void release_legacy(void *tensor)
{
    haul__dl_legacy *l = tensor;
    if (l->deleter)
        l->deleter(l);
}

/* A tensor of another library, what it is for Haul, and how it ends. */
typedef struct dl_import {
    const haul__dl_tensor *given;
    const char            *operation;
    bool                   read_only;
    void (*release)(void *tensor);
    void        *owner; /* the argument of `release` */
    haul_device *device;
    haul_dtype   dtype;
    haul_shape   shape;
    int64_t      strides[HAUL_MAX_DIMS];
    int64_t      count, extent; /* elements; from the first to behind the last one in memory */
    char        *data;          /* the first element */
} dl_import;

/* Pinned memory is the CPU's for Haul. */
static haul_status find_device(dl_import *i)
{
    const int32_t kind = i->given->device_type;
    i->device = kind == HAUL__DL_CPU || kind == HAUL__DL_CUDA_HOST ? haul_cpu()
                                                                   : haul__device_by_dlpack(kind, i->given->device_id);
    if (i->device)
        return haul__device_check(i->device, i->operation, "tensor");
    return haul__fail(HAUL_UNSUPPORTED, i->operation, "tensor",
                      "the memory is that of DLPack's device type %" PRId32 "; 1, the CPU, 2, CUDA, or 3, pinned "
                      "memory, is expected: copy the tensor there first",
                      kind);
}

static haul_status find_dtype(dl_import *i)
{
    const haul__dl_tensor *g = i->given;
    for (int k = 0; k < DTYPES; k++)
        if (dtypes[k].code == g->code && dtypes[k].bits == g->bits && g->lanes == 1) {
            i->dtype = dtypes[k].dtype;
            return haul__check_dtype(i->dtype, i->device, i->operation);
        }
    return haul__fail(
        HAUL_UNSUPPORTED, i->operation, "tensor",
        "the dtype has code %d, %d bits and %d lanes; expected are bool, u8, i8 to i64, f16, bf16, f32 and "
        "f64 of one lane",
        g->code, g->bits, g->lanes);
}

static haul_status find_shape(dl_import *i)
{
    const haul__dl_tensor *g = i->given;
    if (g->ndim < 0 || g->ndim > HAUL_MAX_DIMS)
        return haul__fail(HAUL_UNSUPPORTED, i->operation, "tensor",
                          "the tensor has %" PRId32 " dimensions; 0 to %d are expected", g->ndim, HAUL_MAX_DIMS);
    if (g->ndim && !g->shape)
        return haul__fail_null(i->operation, "tensor->dl_tensor.shape");
    i->shape.ndim = g->ndim;
    memcpy(i->shape.dims, g->shape, (size_t)g->ndim * sizeof *g->shape);
    return haul__shape_count(&i->shape, i->operation, &i->count);
}

/* The strides and how far the last element is. They are row-major if there are none, and where they lead to no other
 * element: any number may stand there. */
static haul_status find_strides(dl_import *i)
{
    int64_t next = 1, last = 0;
    for (int d = i->shape.ndim - 1; d >= 0; d--) {
        const int64_t size = i->shape.dims[d], stride = i->given->strides ? i->given->strides[d] : next;
        int64_t       reach = 0;
        i->strides[d] = next;
        if (size <= 1 || !i->count)
            continue;
        i->strides[d] = stride;
        next *= size; /* at most the count, which was checked */
        if (stride < 0)
            return haul__fail(HAUL_UNSUPPORTED, i->operation, "tensor",
                              "the stride of dimension %d is %" PRId64 "; 0 or more is expected: copy the tensor first",
                              d, stride);
        if (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last) ||
            last >= INT64_MAX / 16)
            return haul__fail(HAUL_INVALID_ARGUMENT, i->operation, "tensor",
                              "the stride of dimension %d is %" PRId64 ", which leads beyond the address space", d,
                              stride);
    }
    i->extent = i->count ? last + 1 : 0;
    HAUL__ASSERT(last >= 0 && i->extent <= INT64_MAX / 16);
    return HAUL_OK;
}

static haul_status find_memory(dl_import *i)
{
    const haul__dl_tensor *g = i->given;
    if (!i->count)
        return HAUL_OK;
    if (!g->data)
        return haul__fail_null(i->operation, "tensor->dl_tensor.data");
    const uintptr_t address = (uintptr_t)g->data + g->byte_offset;
    if (address < g->byte_offset || address % haul__dtype_size(i->dtype))
        return haul__fail(HAUL_INVALID_ARGUMENT, i->operation, "tensor",
                          "the first element is %" PRIu64 " bytes behind %p, which is not aligned for %s",
                          g->byte_offset, g->data, haul_dtype_name(i->dtype));
    i->data = (char *)g->data + g->byte_offset;
    const size_t bytes = (size_t)i->extent * haul__dtype_size(i->dtype);
    if (!haul__device_holds(i->device, i->data, bytes))
        return haul__fail(HAUL_INVALID_ARGUMENT, i->operation, "tensor",
                          "the %zu bytes from %p on are not memory of %s", bytes, (void *)i->data, i->device->name);
    return haul__device_finish(i->device, i->operation);
}

static void wait_for_users(haul__storage *storage)
{
    haul__uses_finish(storage->uses, "haul_from_dlpack");
    haul__dry_run_ended(storage);
}

/* Kernels of GPUs read vectors of up to so many bytes where a tensor's offset is a multiple of them, so buffers begin
 * there. */
enum { VECTOR = 16 };

/* A tensor that no scope owns, and that ends the import. NULL: the error is recorded, and the import has not ended. */
static haul_tensor *wrap(const dl_import *i)
{
    const bool     is_host = haul__device_is_host(i->device);
    const size_t   size = haul__dtype_size(i->dtype), before = is_host ? 0 : (uintptr_t)i->data % VECTOR;
    haul__storage *storage = haul__storage_new(i->device);
    if (!storage)
        return NULL;
    HAUL__ASSERT(before % size == 0); /* find_memory checked it */
    if (is_host)
        storage->buffer.host = i->data;
    else if (i->data)
        storage->buffer.handle = i->data - before;
    storage->bytes = before + (size_t)i->extent * size;
    storage->release = wait_for_users;
    haul_tensor *t = haul__tensor_wrap(storage, i->dtype, &i->shape, i->strides, (int64_t)(before / size));
    HAUL__ASSERT(!t || haul__tensor_is_sound(t)); /* find_strides found the extent */
    if (t) {
        storage->deleter = i->release;
        storage->deleter_context = i->owner;
    }
    haul__object_release(storage);
    return t;
}

/* A tensor with a copy of the elements, which has ended the import. NULL: the error is recorded. */
static haul_tensor *copy(const dl_import *i, haul_tensor *t)
{
    haul_tensor *dense = haul__dense_like(t, i->operation);
    if (dense && haul__copy_elements(dense, t, i->operation)) {
        haul__object_release(dense);
        dense = NULL;
    }
    haul__object_release(t);
    return dense;
}

/* Moves `at`, the position of an element in all dimensions but the last one, on. False after the last one. */
static bool next_row(const haul_tensor *t, int64_t *at, int64_t *offset)
{
    for (int d = t->shape.ndim - 2; d >= 0; d--) {
        *offset += t->strides[d];
        if (++at[d] < t->shape.dims[d])
            return true;
        *offset -= at[d] * t->strides[d];
        at[d] = 0;
    }
    return false;
}

/* The same on a device that is not the host. */
static haul_status normalise_there(haul_tensor *t, const char *operation)
{
    haul_scope  scope;
    haul_status status = haul__refuse_dry(operation);
    if (status || (status = haul__scope_open(&scope, operation)))
        return status;
    haul_tensor *bytes = haul__tensor_wrap(t->storage, HAUL_U8, &t->shape, t->strides, t->offset);
    haul_tensor *truth = bytes ? haul_ne_scalar(bytes, 0) : NULL;
    status = haul__status_of(truth);
    if (!status)
        status = haul__copy_elements(t, truth, operation);
    haul__object_release(bytes);
    haul__scope_close(&scope);
    return status;
}

/* Bools other than 0 and 1 become 1. */
static haul_status normalise(haul_tensor *t, const char *operation)
{
    const int         last = t->shape.ndim - 1;
    const int64_t     size = last < 0 ? 1 : t->shape.dims[last], stride = last < 0 ? 1 : t->strides[last];
    int64_t           at[HAUL_MAX_DIMS] = {0}, offset = 0;
    const haul_status status = t->count ? haul__host_before(t->storage, true, operation) : HAUL_OK;
    if (status || !t->count)
        return status;
    do {
        for (int64_t k = 0; k < size; k++)
            haul__normalise_bools((char *)t->storage->buffer.host + offset + k * stride, 1);
    } while (next_row(t, at, &offset));
    return HAUL_OK;
}

static haul_status find_all(dl_import *i)
{
    haul_status status = find_device(i);
    if (!status)
        status = find_dtype(i);
    if (!status)
        status = find_shape(i);
    if (!status)
        status = find_strides(i);
    return status ? status : find_memory(i);
}

static haul_tensor *take(dl_import *i)
{
    haul_tensor *t = find_all(i) ? NULL : wrap(i);
    if (!t) {
        haul__guest_free(i->release, i->owner);
        return haul__failed_tensor();
    }
    if (i->read_only)
        t = copy(i, t);
    const bool is_host = haul__device_is_host(i->device);
    if (t && i->dtype == HAUL_BOOL && (is_host ? normalise : normalise_there)(t, i->operation)) {
        haul__object_release(t);
        t = NULL;
    }
    return haul__result(haul__own(t, i->operation));
}

haul_tensor *haul_from_dlpack(haul__dl_versioned *tensor)
{
    static const char operation[] = "haul_from_dlpack";
    if (!tensor) {
        haul__fail_null(operation, "tensor");
        return haul__failed_tensor();
    }
    dl_import i = {.given = &tensor->tensor, .operation = operation, .release = release_versioned, .owner = tensor};
    if (tensor->major != HAUL__DL_MAJOR) {
        haul__fail(HAUL_UNSUPPORTED, operation, "tensor",
                   "the tensor is of DLPack %" PRIu32 ".%" PRIu32 "; 1 is expected", tensor->major, tensor->minor);
        haul__guest_free(i.release, i.owner);
        return haul__failed_tensor();
    }
    i.read_only = tensor->flags & HAUL__DL_READ_ONLY;
    return take(&i);
}

haul_tensor *haul_from_dlpack_legacy(haul__dl_legacy *tensor)
{
    static const char operation[] = "haul_from_dlpack_legacy";
    if (!tensor) {
        haul__fail_null(operation, "tensor");
        return haul__failed_tensor();
    }
    dl_import i = {.given = &tensor->tensor, .operation = operation, .release = release_legacy, .owner = tensor};
    return take(&i);
}
