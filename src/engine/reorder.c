/* Weights in the memory format that a library wants, kept with the storage until it changes. */
#include "engine/reorder.h"

#include <string.h>

#include "core/alloc.h"
#include "engine/copy.h"

/* What a storage holds: elements as they were at `version`, and which of its tensors they are. */
typedef struct reordered {
    haul__object object;
    haul_tensor *tensor;
    uint64_t     version;
    haul_dtype   dtype;
    haul_shape   shape;
    int64_t      strides[HAUL_MAX_DIMS], offset;
} reordered;

static void destroy(void *object)
{
    reordered *r = object;
    haul__object_release(r->tensor);
    haul__free(r);
}

static const haul__class reordered_class = {"reordered weight", destroy};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what all storages have */

static bool is_of(const reordered *r, const haul_tensor *t, uint64_t version, const int64_t *strides)
{
    return r && r->version == version && r->dtype == t->dtype && r->offset == t->offset &&
           haul__shape_equal(&r->shape, &t->shape) && haul__shape_same_strides(&t->shape, r->strides, t->strides) &&
           haul__shape_same_strides(&t->shape, r->tensor->strides, strides);
}

/* What is kept, as a reference of the caller's, or NULL. */
static haul_tensor *find(const haul_tensor *t, uint64_t version, const int64_t *strides)
{
    pthread_mutex_lock(&lock);
    reordered   *r = t->storage->attached[HAUL__DERIVED];
    haul_tensor *found = is_of(r, t, version, strides) ? r->tensor : NULL;
    haul__object_keep(found);
    pthread_mutex_unlock(&lock);
    return found;
}

static void keep(const haul_tensor *t, uint64_t version, haul_tensor *copy)
{
    if (copy->storage->planned && !t->storage->planned)
        return; /* a dry run leaves what existed before as it was */
    reordered *r = haul__calloc(1, sizeof *r), *old;
    if (!r)
        return; /* it is made again next time */
    haul__object_init(&r->object, &reordered_class);
    r->tensor = copy;
    haul__object_keep(copy);
    r->version = version;
    r->dtype = t->dtype;
    r->shape = t->shape;
    memcpy(r->strides, t->strides, sizeof r->strides);
    r->offset = t->offset;
    pthread_mutex_lock(&lock);
    old = t->storage->attached[HAUL__DERIVED];
    t->storage->attached[HAUL__DERIVED] = r;
    pthread_mutex_unlock(&lock);
    haul__object_release(old);
}

haul_tensor *haul__weight_in_format(const haul__call *c, haul_tensor *weight, bool channels_last)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (channels_last)
        haul__shape_strides_channels_last(&weight->shape, strides);
    else
        haul__shape_strides(&weight->shape, strides);
    if (haul__shape_same_strides(&weight->shape, weight->strides, strides))
        return weight;
    uint64_t     version = atomic_load_explicit(&weight->storage->version, memory_order_acquire);
    haul_tensor *found = find(weight, version, strides);
    if (found) { /* another call may own that handle */
        haul_tensor *handle = haul__view_as(c, found, &found->shape, found->strides, found->offset);
        haul__object_release(found);
        return handle;
    }
    haul_tensor *copy = haul__temporary_strided(c, weight->dtype, &weight->shape, strides);
    if (!copy || haul__copy_elements(copy, weight, c->operation->name))
        return NULL;
    keep(weight, version, copy);
    return copy;
}
