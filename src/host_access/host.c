/* Host access to tensors: arrays in, arrays out, single values, and mapped memory. */
#include "host_access/host.h"

#include <haul/transfer.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bools.h"
#include "base/half.h"
#include "base/system/fork.h"
#include "core/guest.h"
#include "core/shape.h"
#include "engine/copy.h"
#include "events/events.h"
#include "memory/allocator.h"
#include "memory/dry_run/dry_run.h"
#include "transfer/copy.h"

/* ---- checks ---- */

/* The offset of t's first element in bytes. */
static size_t offset_of(const haul_tensor *t)
{
    return (size_t)t->offset * haul__dtype_size(t->dtype);
}

haul_tensor *haul__dense_like(const haul_tensor *t, const char *operation)
{
    haul__storage *storage = haul__storage_alloc(t->storage->device, haul_tensor_bytes(t), operation);
    haul_tensor   *dense = haul__tensor_wrap(storage, t->dtype, &t->shape, NULL, 0);
    haul__object_release(storage);
    return dense;
}

/* ---- arrays in ---- */

/* A copy of the caller's elements. Bools among them that are neither 0 nor 1 are normalised on the way. */
static haul_status bring_in(const haul__copy *copy, haul_dtype dtype)
{
    HAUL__ASSERT(copy->to.storage && (copy->from_host || !copy->bytes));
    if (dtype != HAUL_BOOL || haul__bools_are_normal(copy->from_host, copy->bytes))
        return haul__transfer(copy);
    void *normal = haul__malloc(copy->bytes);
    if (!normal)
        return haul__fail_memory(copy->operation, copy->bytes);
    memcpy(normal, copy->from_host, copy->bytes);
    haul__normalise_bools(normal, copy->bytes);
    haul__copy in = *copy;
    in.from_host = normal;
    haul_status status = haul__transfer(&in);
    haul__free(normal);
    return status;
}

haul_tensor *haul_from_host(haul_dtype dtype, haul_shape shape, const void *data)
{
    static const char operation[] = "haul_from_host";
    int64_t           count;
    haul_device      *device = haul__device_current(operation);
    if (!device || haul__check_dtype(dtype, device, operation) || haul__shape_count(&shape, operation, &count))
        return haul__failed_tensor();
    if (!data && count > 0) {
        haul__fail_null(operation, "data");
        return haul__failed_tensor();
    }
    size_t           bytes = (size_t)count * haul__dtype_size(dtype);
    haul_tensor     *t = NULL;
    haul__storage   *storage = haul__storage_alloc(device, bytes, operation);
    const haul__copy in = {
        .operation = operation, .to = {storage, 0}, .from_host = data, .bytes = bytes, .fresh = true};
    if (storage && bring_in(&in, dtype) == HAUL_OK)
        t = haul__tensor_wrap(storage, dtype, &shape, NULL, 0);
    haul__object_release(storage);
    return haul__result(haul__own(t, operation));
}

static void wait_for_users(haul__storage *storage)
{
    haul__uses_finish(storage->uses, "haul_wrap_host");
    haul__dry_run_ended(storage);
}

static haul_status check_wrap(haul_dtype dtype, const haul_shape *shape, const void *data, int64_t *count)
{
    static const char operation[] = "haul_wrap_host";
    haul_status       status = haul__device_check(haul_cpu(), operation, NULL);
    if (!status)
        status = haul__check_dtype(dtype, haul_cpu(), operation);
    if (!status)
        status = haul__shape_count(shape, operation, count);
    if (!status && !data && *count > 0)
        status = haul__fail_null(operation, "data");
    if (!status && (uintptr_t)data % haul__dtype_size(dtype) != 0)
        status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "data", "data is at %p, which is not aligned for %s",
                            data, haul_dtype_name(dtype));
    return status;
}

haul_tensor *haul_wrap_host(haul_dtype dtype, haul_shape shape, void *data, void (*deleter)(void *context),
                            void *context)
{
    int64_t        count = 0;
    haul_status    status = check_wrap(dtype, &shape, data, &count);
    haul__storage *storage = status ? NULL : haul__storage_new(haul_cpu());
    if (!storage) {
        haul__guest_free(deleter, context);
        return haul__failed_tensor();
    }
    storage->buffer.host = data;
    storage->bytes = (size_t)count * haul__dtype_size(dtype);
    storage->release = wait_for_users;
    storage->deleter = deleter;
    storage->deleter_context = context;
    haul_tensor *t = haul__own(haul__tensor_wrap(storage, dtype, &shape, NULL, 0), "haul_wrap_host");
    haul__object_release(storage);
    if (t && dtype == HAUL_BOOL)
        haul__normalise_bools(data, (size_t)count);
    return haul__result(t);
}

static haul_status write_elements(haul_tensor *t, const void *data, size_t bytes, const char *name,
                                  const char *operation)
{
    haul__copy in = {.operation = operation, .note = {.tensor = name}, .from_host = data, .bytes = bytes};
    HAUL__ASSERT(haul__tensor_is_sound(t) && bytes == haul_tensor_bytes(t));
    if (t->contiguous) {
        in.to = (haul__region){t->storage, offset_of(t)};
        return bring_in(&in, t->dtype);
    }
    haul_tensor *dense = haul__dense_like(t, operation);
    if (!dense)
        return haul_error_status();
    in.to = (haul__region){dense->storage, 0};
    in.fresh = true;
    haul_status status = bring_in(&in, t->dtype);
    if (!status)
        status = haul__copy_elements(t, dense, operation);
    haul__object_release(dense);
    return status;
}

haul_status haul__write_named(haul_tensor *t, const void *data, size_t size, const char *name)
{
    static const char operation[] = "haul_write";
    haul_status       status = haul__check_tensor(operation, "t", t);
    if (status)
        return status;
    size_t bytes = haul_tensor_bytes(t);
    if (!data && bytes > 0)
        return haul__fail_null(operation, "data");
    if (size != bytes)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "size", "size is %zu; t has %zu bytes", size, bytes);
    if (haul__overlaps_itself(t))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "t",
                          "several elements of t share memory (it was expanded); write to a tensor of its own");
    status = write_elements(t, data, bytes, name, operation);
    if (!status)
        haul__storage_changed(t->storage);
    return status;
}

haul_status haul_write(haul_tensor *t, const void *data, size_t size)
{
    return haul__write_named(t, data, size, NULL);
}

/* ---- arrays out ---- */

/* Copies the elements of a dense tensor. */
static haul_status bring_out(const haul_tensor *t, void *out, const char *name, const char *operation)
{
    return haul__transfer(&(haul__copy){.operation = operation,
                                        .note = {.tensor = name},
                                        .to_host = out,
                                        .from = {t->storage, offset_of(t)},
                                        .bytes = (size_t)t->count * haul__dtype_size(t->dtype)});
}

/* The tensor itself does not change; the uses of its memory do. */
static haul_status read_elements(const haul_tensor *t, void *out, const char *name, const char *operation)
{
    haul_tensor *dense;
    haul_status  status;
    HAUL__ASSERT(haul__tensor_is_sound(t));
    if (t->contiguous)
        return bring_out(t, out, name, operation);
    dense = haul__dense_like(t, operation);
    status = dense ? haul__copy_elements(dense, (haul_tensor *)t, operation) : haul_error_status();
    if (!status)
        status = bring_out(dense, out, name, operation);
    haul__object_release(dense);
    return status;
}

haul_status haul__read_named(const haul_tensor *t, void *out, size_t size, const char *name)
{
    haul_status status = haul__check_tensor("haul_read", "t", t);
    if (status)
        return status;
    size_t bytes = haul_tensor_bytes(t);
    if (!out && bytes > 0)
        return haul__fail_null("haul_read", "out");
    if (size < bytes)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_read", "size", "size is %zu; t has %zu bytes", size, bytes);
    return read_elements(t, out, name, "haul_read");
}

haul_status haul_read(const haul_tensor *t, void *out, size_t size)
{
    return haul__read_named(t, out, size, NULL);
}

/* ---- single values ---- */

/* Any element, as it is stored. */
typedef union element {
    uint8_t  u8;
    int8_t   i8;
    int16_t  i16;
    int32_t  i32;
    int64_t  i64;
    uint16_t half, u16;
    uint32_t u32;
    uint64_t u64;
    float    f32;
    double   f64;
} element;

static haul_status read_element(const haul_tensor *t, element *out, const char *operation)
{
    haul_status status = haul__check_tensor(operation, "t", t);
    if (status)
        return status;
    if (t->count != 1)
        return haul__fail(HAUL_SHAPE, operation, "t", "t has %lld elements; expected one (haul_read copies all)",
                          (long long)t->count);
    if (!haul__device_is_host(t->storage->device))
        return bring_out(t, out, NULL, operation);
    status = haul__host_before(t->storage, false, operation);
    if (!status)
        status = haul__index_faults_raise(NULL);
    HAUL__ASSERT(status || offset_of(t) + haul__dtype_size(t->dtype) <= t->storage->bytes);
    if (!status)
        memcpy(out, (const char *)t->storage->buffer.host + offset_of(t), haul__dtype_size(t->dtype));
    return status;
}

/* Converting an out-of-range value is undefined in C. */
static int64_t truncate(double value)
{
    if (isnan(value))
        return 0;
    if (value >= 9223372036854775808.0)
        return INT64_MAX;
    return value <= -9223372036854775808.0 ? INT64_MIN : (int64_t)value;
}

static int64_t element_integer(haul_dtype dtype, const element *e)
{
    switch (dtype) {
    case HAUL_BOOL: return e->u8 != 0;
    case HAUL_U8: return e->u8;
    case HAUL_I8: return e->i8;
    case HAUL_I16: return e->i16;
    case HAUL_I32: return e->i32;
    case HAUL_I64: return e->i64;
    case HAUL_U16: return e->u16;
    case HAUL_U32: return e->u32;
    case HAUL_U64: return (int64_t)e->u64;
    case HAUL_F16:
    case HAUL_BF16: return truncate(haul__half_decode(dtype, e->half));
    case HAUL_F32: return truncate((double)e->f32);
    case HAUL_F64: return truncate(e->f64);
    default: return 0;
    }
}

double haul_item(const haul_tensor *t)
{
    element e;
    if (read_element(t, &e, "haul_item"))
        return NAN;
    if (t->dtype == HAUL_F32)
        return (double)e.f32;
    if (haul__is_half(t->dtype))
        return haul__half_decode(t->dtype, e.half);
    if (t->dtype == HAUL_U64)
        return (double)e.u64;
    return t->dtype == HAUL_F64 ? e.f64 : (double)element_integer(t->dtype, &e);
}

int64_t haul_item_i64(const haul_tensor *t)
{
    element e;
    return read_element(t, &e, "haul_item_i64") ? 0 : element_integer(t->dtype, &e);
}

/* ---- mapped memory ---- */

/* The attachment of a mapped storage: the mapped range, its address, and the copy if there is one. */
typedef struct mapping {
    haul__object object;
    haul_dtype   dtype;
    int          mode;
    size_t       offset, bytes;
    void        *memory;
    void        *copy; /* NULL: the storage's own memory */
} mapping;

static void destroy_mapping(void *object)
{
    mapping *m = object;
    haul__free(m->copy);
    haul__free(m);
}

static const haul__class mapping_class = {.name = "mapping", .destroy = destroy_mapping};

static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the mappings of all storages */
static char            nothing;                               /* the address for a tensor without elements */

HAUL__MUTEX_AT_FORK(HAUL__FORK_MAPPINGS, maps_lock);

static haul_status map_check(const haul_tensor *t, int mode)
{
    haul_status status = haul__check_tensor("haul_map", "t", t);
    if (status)
        return status;
    if (mode <= 0 || mode > (HAUL_READ | HAUL_WRITE))
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_map", "mode",
                          "mode is %d; expected HAUL_READ, HAUL_WRITE or both", mode);
    if (!t->contiguous)
        return haul__fail(HAUL_STATE, "haul_map", "t", "t is not contiguous; map haul_contiguous(t)");
    if (!haul__device_computes(t->storage->device))
        return haul__fail(HAUL_DEVICE, "haul_map", "t", "t is on %s and has no data", t->storage->device->name);
    return HAUL_OK;
}

/* Maps the memory itself. */
static haul_status map_own(const haul_tensor *t, mapping *m)
{
    haul_status status = haul__host_before(t->storage, (m->mode & HAUL_WRITE) != 0, "haul_map");
    if (!status)
        status = haul__index_faults_raise(NULL);
    m->memory = t->count > 0 ? (char *)t->storage->buffer.host + m->offset : &nothing;
    return status;
}

/* Maps a copy. It is read even for HAUL_WRITE alone, because not every element has to be written. */
static haul_status map_copy(const haul_tensor *t, mapping *m)
{
    m->memory = m->copy = haul__malloc(m->bytes);
    if (!m->copy)
        return haul__fail_memory("haul_map", m->bytes);
    return bring_out(t, m->copy, NULL, "haul_map");
}

static mapping *map_new(const haul_tensor *t, int mode)
{
    mapping *m = haul__calloc(1, sizeof *m);
    if (!m) {
        haul__fail_memory("haul_map", sizeof *m);
        return NULL;
    }
    haul__object_init(&m->object, &mapping_class);
    m->dtype = t->dtype;
    m->mode = mode;
    m->offset = offset_of(t);
    m->bytes = haul_tensor_bytes(t);
    HAUL__ASSERT(!m->bytes || m->offset + m->bytes <= t->storage->bytes); /* an empty view may begin behind the end */
    if ((haul__device_is_host(t->storage->device) ? map_own(t, m) : map_copy(t, m)) == HAUL_OK)
        return m;
    haul__object_release(m);
    return NULL;
}

void *haul_map(haul_tensor *t, int mode)
{
    mapping *m = NULL;
    if (map_check(t, mode))
        return NULL;
    haul__events_hold();
    take_lock();
    if (t->storage->attached[HAUL__MAPPING])
        haul__fail(HAUL_STATE, "haul_map", "t",
                   "t, or a tensor that shares its memory, is mapped; call haul_unmap first");
    else
        t->storage->attached[HAUL__MAPPING] = m = map_new(t, mode);
    give_lock();
    haul__events_release();
    HAUL__ASSERT(!m || m->memory);
    return m ? m->memory : NULL;
}

static haul_status unmap(haul_tensor *t)
{
    haul__storage *storage = t->storage;
    mapping       *m = storage->attached[HAUL__MAPPING];
    haul_status    status = HAUL_OK;
    if (!m)
        return haul__fail(HAUL_STATE, "haul_unmap", "t", "t is not mapped");
    bool write = (m->mode & HAUL_WRITE) != 0;
    if (write && m->dtype == HAUL_BOOL)
        haul__normalise_bools(m->memory, m->bytes);
    if (m->copy && write)
        status = haul__transfer(&(haul__copy){
            .operation = "haul_unmap", .to = {storage, m->offset}, .from_host = m->copy, .bytes = m->bytes});
    if (status)
        return status; /* still mapped, so that nothing written is lost */
    HAUL__ASSERT(!m->bytes || m->offset + m->bytes <= storage->bytes);
    if (write)
        atomic_fetch_add_explicit(&storage->version, 1, memory_order_relaxed);
    storage->attached[HAUL__MAPPING] = NULL;
    haul__object_release(m);
    return HAUL_OK;
}

haul_status haul_unmap(haul_tensor *t)
{
    haul_status status = haul__check_tensor("haul_unmap", "t", t);
    if (status)
        return status;
    haul__events_hold();
    take_lock();
    status = unmap(t);
    give_lock();
    haul__events_release();
    return status;
}
