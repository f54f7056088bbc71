/* Tensors and storages as objects, and the queries on tensors. */
#include "core/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/device.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/shape.h"
#include "core/small_blocks.h"
#include "core/thread.h"

/* ---- storage ---- */

__attribute__((noinline)) static void release_attached(haul__storage *storage)
{
    for (int i = 0; i < HAUL__ATTACHMENTS; i++) {
        haul__object_release(storage->attached[i]);
        storage->attached[i] = NULL;
    }
}

static inline bool has_attached(const haul__storage *storage)
{
    uintptr_t any = 0;
    for (int i = 0; i < HAUL__ATTACHMENTS; i++)
        any |= (uintptr_t)storage->attached[i];
    return any != 0;
}

static void storage_destroy(void *object)
{
    haul__storage *storage = object;
    if (has_attached(storage))
        release_attached(storage);
    if (storage->release)
        storage->release(storage);
    haul__guest_free(storage->deleter, storage->deleter_context);
    haul__small_free(storage, sizeof *storage);
}

static void embedded_destroy(void *object)
{
    haul__storage *storage = object;
    if (has_attached(storage))
        release_attached(storage);
    storage->release(storage);
}

static const haul__class storage_class = {.name = "storage", .destroy = storage_destroy};
static const haul__class embedded_class = {.name = "storage", .destroy = embedded_destroy};

static void storage_init(haul__storage *storage, const haul__class *type, haul_device *device)
{
    haul__object_init(&storage->object, type);
    storage->device = device;
    storage->block = NULL;
    storage->buffer = (haul__buffer){NULL, NULL};
    storage->bytes = 0;
    storage->planned = storage->lent = false;
    atomic_init(&storage->role, 0);
    atomic_init(&storage->version, 0);
    storage->uses = NULL;
    storage->release = NULL;
    storage->deleter = NULL;
    storage->deleter_context = NULL;
    for (int i = 0; i < HAUL__ATTACHMENTS; i++)
        storage->attached[i] = NULL;
}

haul__storage *haul__storage_new(haul_device *device)
{
    haul__storage *storage = haul__small_alloc(sizeof *storage);
    if (!storage) {
        haul__fail_memory(NULL, sizeof *storage);
        return NULL;
    }
    storage_init(storage, &storage_class, device);
    storage->own_uses = (haul__uses){.lock = false};
    storage->uses = &storage->own_uses;
    return storage;
}

void haul__storage_embed(haul__storage *storage, haul_device *device)
{
    storage_init(storage, &embedded_class, device);
}

/* A storage releases its own memory at once. Attached objects that end with it are queued, so this does not recurse. */
static inline void storage_release(haul__storage *storage)
{
    if (storage && haul__object_ends(&storage->object))
        storage->object.type->destroy(storage);
}

/* ---- tensor ---- */

static void tensor_destroy(void *object)
{
    haul_tensor *t = object;
    haul__object_end(&t->object);
    storage_release(t->storage);
    haul__object_release(t->node);
    haul__object_release(t->grad);
    haul__object_release(t->hooks);
    if (__builtin_expect(t->object.traced, 0))
        haul__object_bury(&t->object);
    else
        haul__small_give(t, sizeof *t);
}

/* A dead tensor no longer has its storage, which knows the device. */
static void tensor_describe(const void *object, bool dead, char *out, size_t size)
{
    const haul_tensor *t = object;
    char               text[160];
    if (!dead && !t->storage) /* not initialised yet */
        snprintf(out, size, "tensor");
    else if (dead)
        snprintf(out, size, "tensor %s%s", haul_dtype_name(t->dtype), haul__shape_text(&t->shape, text, sizeof text));
    else
        snprintf(out, size, "tensor %s", haul__tensor_text(t, text, sizeof text));
}

_Static_assert(sizeof(haul_tensor) <= HAUL__SMALL_CLASSES * HAUL__SMALL_STEP, "tensors are small blocks");

const haul__class haul__tensor_class = {.name = "tensor", .destroy = tensor_destroy, .describe = tensor_describe};
static const haul__class none_class = {.name = "HAUL_NONE"};

haul_tensor haul__none = {.object = {.type = &none_class, .refs = 1, .mark = HAUL__OBJECT_MARK},
                          .dtype = HAUL_DTYPE_NONE};

haul_tensor *const haul_none = &haul__none;

/* ---- asserts ---- */

bool haul__tensor_is_sound(const haul_tensor *t)
{
    const int64_t size = (int64_t)haul__dtype_size(t->dtype);
    int64_t       count = 1, dense = 1, low = t->offset, high = t->offset, reach;
    if (t->shape.ndim < 0 || t->shape.ndim > HAUL_MAX_DIMS || size <= 0)
        return false;
    for (int d = t->shape.ndim - 1; d >= 0; d--) {
        const int64_t dim = t->shape.dims[d];
        if (dim < 0 || (t->contiguous && t->count && dim > 1 && t->strides[d] != dense) ||
            __builtin_mul_overflow(count, dim, &count) || __builtin_mul_overflow(dense, dim ? dim : 1, &dense))
            return false;
        if (t->count && (__builtin_mul_overflow(dim ? dim - 1 : 0, t->strides[d], &reach) ||
                         __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)))
            return false; /* strides of an empty tensor lead nowhere, and may be any that a program gave */
    }
    if (count != t->count)
        return false;
    return !count || !t->storage || (low >= 0 && high < (int64_t)(t->storage->bytes / (size_t)size));
}

/* ---- failed tensors ---- */

/* A tensor without storage, and the error that explains it. */
typedef struct failed_tensor {
    haul_tensor        tensor;
    haul__error_record error;
} failed_tensor;

/* Two without an owner. */
static const haul__class nobodys_class = {.name = "failed tensor"};

static failed_tensor no_scope = {
    .tensor = {.object = {.type = &nobodys_class, .refs = 1, .mark = HAUL__OBJECT_MARK},
               .dtype = HAUL_DTYPE_NONE,
               .failed = true},
    .error = {
        .status = HAUL_STATE,
        .message =
            "no scope was open on the thread to own a result; call haul_scope_push() before the first operation"}};
static failed_tensor no_memory = {.tensor = {.object = {.type = &nobodys_class, .refs = 1, .mark = HAUL__OBJECT_MARK},
                                             .dtype = HAUL_DTYPE_NONE,
                                             .failed = true},
                                  .error = {.status = HAUL_OUT_OF_MEMORY, .message = "host memory was exhausted"}};

static void failed_destroy(void *object)
{
    haul__object_free(object, sizeof(failed_tensor));
}

static const haul__class failed_class = {.name = "failed tensor", .destroy = failed_destroy};

haul_tensor *haul__failed_tensor(void)
{
    if (haul_scope_depth() == 0)
        return &no_scope.tensor;
    failed_tensor *failed = haul__object_new_zeroed(sizeof *failed, &failed_class);
    if (!failed)
        return &no_memory.tensor;
    failed->tensor.dtype = HAUL_DTYPE_NONE;
    failed->tensor.failed = true;
    if (haul_error_status() == HAUL_OK)
        haul__fail(HAUL_STATE, NULL, NULL, "a call failed and recorded no error");
    haul__error_save(&failed->error);
    HAUL__ASSERT(failed->error.status != HAUL_OK);
    return haul__own(failed, failed->error.operation);
}

haul_tensor *haul_tensor_fail(haul_status status, const char *operation, const char *argument, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    haul__error_set_list(status, operation, argument, format, arguments);
    va_end(arguments);
    return haul__failed_tensor();
}

haul_tensor *haul__result(haul_tensor *t)
{
    return t ? t : haul__failed_tensor();
}

haul_tensor *haul__result_within(haul_tensor *t, const char *operation)
{
    if (!haul__failed(t))
        return t;
    haul__fail_within(operation);
    return haul__failed_tensor();
}

/* Makes a failed tensor's error the thread's. For the two without an owner, the thread's own error says more. */
static haul_status recall(const haul_tensor *t)
{
    HAUL__ASSERT(t->failed && ((const failed_tensor *)t)->error.status);
    if (!haul__is_nobodys(&t->object) || haul_error_status() == HAUL_OK)
        haul__error_restore(&((const failed_tensor *)t)->error);
    return haul_error_status();
}

bool haul_tensor_is_valid(const haul_tensor *t)
{
    return haul__is_tensor(t);
}

haul_status haul_tensor_check(const haul_tensor *t)
{
    return haul__check_optional("haul_tensor_check", "t", t);
}

/* Sets the given strides, except those of size-1 dimensions, on which no address depends. These become the extent in
 * memory of the dimensions after them, so that equal layouts have equal strides. */
static void set_strides(haul_tensor *t, const int64_t *strides)
{
    int64_t packed = 1; /* the stride of a dimension here in a row-major tensor */
    int64_t behind = 1; /* extent in memory, in elements, of the next dimension larger than 1 */
    bool    contiguous = true;
    for (int i = t->shape.ndim - 1; i >= 0; i--) {
        const int64_t dim = t->shape.dims[i], stride = dim == 1 ? behind : strides[i];
        t->strides[i] = stride;
        contiguous = contiguous && stride == packed;
        if (dim <= 1)
            continue;
        packed *= dim; /* checked by haul__shape_count */
        if (!haul__mul_size(stride, dim, &behind))
            behind = stride;
    }
    t->contiguous = contiguous;
}

static int64_t element_count(const haul_shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; i++)
        count *= shape->dims[i]; /* checked by haul__shape_count; a zero dimension makes the whole product 0 */
    return count;
}

haul_tensor *haul__tensor_new_slowly(void)
{
    haul_tensor *t = haul__object_new(sizeof *t, &haul__tensor_class);
    if (!t) {
        haul__fail_memory(NULL, sizeof *t);
        return NULL;
    }
    haul__tensor_clear(t);
    return t;
}

void haul__tensor_describe(haul_tensor *t, haul_dtype dtype, const haul_shape *shape, const int64_t *strides,
                           int64_t offset)
{
    HAUL__ASSERT(dtype < HAUL_DTYPE_END && offset >= 0);
    t->dtype = dtype;
    t->shape = *shape;
    t->offset = offset;
    t->contiguous = true;
    if (!strides) {
        t->count = 0; /* stays only if the shape has not passed haul__shape_count */
        haul__shape_layout(shape, t->strides, &t->count);
        return;
    }
    HAUL__ASSERT(0 <= shape->ndim && shape->ndim <= HAUL_MAX_DIMS);
    t->count = element_count(shape);
    HAUL__ASSERT(t->count >= 0);
    set_strides(t, strides);
    t->contiguous = t->contiguous || t->count == 0;
}

haul_tensor *haul__tensor_wrap(haul__storage *storage, haul_dtype dtype, const haul_shape *shape,
                               const int64_t *strides, int64_t offset)
{
    haul_tensor *t = storage ? haul__tensor_new() : NULL;
    if (!t)
        return NULL;
    haul__object_keep(storage);
    t->storage = storage;
    haul__tensor_describe(t, dtype, shape, strides, offset);
    HAUL__ASSERT(!storage->bytes || haul__tensor_is_sound(t));
    return t;
}

void haul__tensor_take_over(haul_tensor *t, const haul_tensor *other)
{
    haul__storage *old = t->storage;
    HAUL__ASSERT(t->count == other->count && haul__shape_equal(&t->shape, &other->shape));
    haul__object_keep(other->storage);
    atomic_store_explicit(&other->storage->role, atomic_load_explicit(&old->role, memory_order_relaxed),
                          memory_order_relaxed);
    t->storage = other->storage;
    t->offset = other->offset;
    t->contiguous = other->contiguous;
    t->dtype = other->dtype;
    for (int i = 0; i < t->shape.ndim; i++)
        t->strides[i] = other->strides[i];
    HAUL__ASSERT(haul__tensor_is_sound(t));
    haul__object_release(old);
}

bool haul__tensor_is_gap_free(const haul_tensor *t)
{
    int64_t packed[HAUL_MAX_DIMS];
    if (t->contiguous)
        return true;
    haul__shape_strides_like(&t->shape, t->strides, packed);
    return haul__shape_same_strides(&t->shape, t->strides, packed);
}

bool haul__tensor_same_layout(const haul_tensor *a, const haul_tensor *b)
{
    if (a->contiguous || b->contiguous)
        return a->contiguous && b->contiguous;
    return haul__shape_same_strides(&a->shape, a->strides, b->strides);
}

haul_tensor *haul__tensor_alias(const haul_tensor *t)
{
    haul_tensor *alias = haul__tensor_new();
    if (!alias)
        return NULL;
    haul__object_keep(t->storage);
    alias->storage = t->storage;
    haul__tensor_take_form(alias, t);
    alias->followed = t->followed;
    return alias;
}

char *haul__tensor_text(const haul_tensor *t, char *buffer, size_t size)
{
    char shape[200];
    if (haul__failed(t))
        snprintf(buffer, size, t ? "a failed tensor" : "NULL");
    else if (haul__is_none(t))
        snprintf(buffer, size, "HAUL_NONE");
    else
        snprintf(buffer, size, "%s%s on %s", haul_dtype_name(t->dtype),
                 haul__shape_text(&t->shape, shape, sizeof shape), haul_device_name(t->storage->device));
    return buffer;
}

haul_status haul__check_tensor(const char *operation, const char *argument, const haul_tensor *t)
{
    if (haul__is_none(t))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is HAUL_NONE, but a tensor is needed here",
                          argument);
    return haul__check_optional(operation, argument, t);
}

haul_status haul__check_optional(const char *operation, const char *argument, const haul_tensor *t)
{
    if (haul__is_tensor(t) || haul__is_none(t))
        return HAUL_OK;
    if (t && (t->object.type == &failed_class || t->object.type == &nobodys_class))
        return recall(t);
    return haul__refuse_object(t, &haul__tensor_class, operation, argument);
}

/* ---- queries ---- */

/* True if t is a tensor that can be queried. */
static bool check(const haul_tensor *t, const char *operation)
{
    if (haul__is_tensor(t))
        return true;
    if (haul__is_none(t))
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "t", "t is HAUL_NONE, which has no shape, dtype or device");
    else
        haul__check_optional(operation, "t", t);
    return false;
}

static bool check_axis(const haul_tensor *t, int axis, const char *operation, int *out)
{
    return check(t, operation) && haul__axis(axis, t->shape.ndim, operation, out) == HAUL_OK;
}

int haul_tensor_ndim(const haul_tensor *t)
{
    return check(t, "haul_tensor_ndim") ? t->shape.ndim : -1;
}

int64_t haul_tensor_dim(const haul_tensor *t, int axis)
{
    int i;
    return check_axis(t, axis, "haul_tensor_dim", &i) ? t->shape.dims[i] : -1;
}

int64_t haul_tensor_stride(const haul_tensor *t, int axis)
{
    int i;
    return check_axis(t, axis, "haul_tensor_stride", &i) ? t->strides[i] : -1;
}

haul_shape haul_tensor_shape(const haul_tensor *t)
{
    return check(t, "haul_tensor_shape") ? t->shape : (haul_shape){.ndim = -1};
}

int64_t haul_tensor_count(const haul_tensor *t)
{
    return check(t, "haul_tensor_count") ? t->count : -1;
}

size_t haul_tensor_bytes(const haul_tensor *t)
{
    return check(t, "haul_tensor_bytes") ? (size_t)t->count * haul__dtype_size(t->dtype) : 0;
}

haul_dtype haul_tensor_dtype(const haul_tensor *t)
{
    return check(t, "haul_tensor_dtype") ? t->dtype : HAUL_DTYPE_NONE;
}

haul_device *haul_tensor_device(const haul_tensor *t)
{
    return check(t, "haul_tensor_device") ? t->storage->device : haul__device_invalid();
}

bool haul_tensor_is_contiguous(const haul_tensor *t)
{
    return check(t, "haul_tensor_is_contiguous") && t->contiguous;
}

bool haul_tensor_is_channels_last(const haul_tensor *t)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (!check(t, "haul_tensor_is_channels_last") || t->shape.ndim != 4)
        return false;
    haul__shape_strides_channels_last(&t->shape, strides);
    return t->count == 0 || haul__shape_same_strides(&t->shape, t->strides, strides);
}

uint64_t haul_tensor_version(const haul_tensor *t)
{
    return check(t, "haul_tensor_version") ? atomic_load_explicit(&t->storage->version, memory_order_acquire) : 0;
}
