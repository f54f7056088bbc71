/* Batches are put together in host memory, where the CPU's tensors lie anyway; for another device that memory is
 * pinned if it can be, and copied while the next batch is made in another slot. The device's memory is the slot's too:
 * were it given back between batches, how much is in use would depend on how far ahead the workers are, and a training
 * could run out of memory late. */
#include "data/batch.h"

#include <haul/transfer.h>
#include <string.h>

#include "core/alloc.h"
#include "core/thread.h"
#include "device/device.h"
#include "memory/allocator.h"
#include "transfer/transfer.h"

#define ORIGIN "haul_loader_next"

/* ---- memory ---- */

/* Nobody but the slot has to do with the memory any more. */
static bool is_left(const haul__storage *storage)
{
    return storage && atomic_load(&storage->object.refs) == 1 && !storage->attached[HAUL__MAPPING];
}

static haul_status renew_host(haul__storage **storage, haul_device *device, size_t bytes)
{
    if (is_left(*storage))
        return HAUL_OK;
    haul__object_release(*storage);
    *storage = haul__host_alloc_for(device, bytes, ORIGIN);
    return *storage ? HAUL_OK : haul_error_status();
}

static haul_status renew_device(haul__storage **storage, haul_device *device, size_t bytes)
{
    if (device == haul_cpu() || is_left(*storage))
        return HAUL_OK;
    haul__object_release(*storage);
    *storage = haul__storage_alloc(device, bytes, ORIGIN);
    return *storage ? HAUL_OK : haul_error_status();
}

haul_status haul__batch_slot_prepare(haul__batch_slot *slot, const haul__recipe *recipe, const char *operation)
{
    const haul_dataset *d = recipe->dataset;
    size_t              examples = (size_t)(recipe->batch < d->source.count ? recipe->batch : d->source.count);
    size_t              x_bytes = examples * (size_t)d->input_count * sizeof(float);
    size_t              y_bytes = examples * d->target_bytes;
    haul_status         status = renew_host(&slot->host_x, recipe->device, x_bytes);
    if (status == HAUL_OK)
        status = renew_host(&slot->host_y, recipe->device, y_bytes);
    if (status == HAUL_OK)
        status = renew_device(&slot->device_x, recipe->device, x_bytes);
    if (status == HAUL_OK)
        status = renew_device(&slot->device_y, recipe->device, y_bytes);
    if (status == HAUL_OK && !slot->picture && !(slot->picture = haul__malloc(2 * d->input_bytes)))
        status = haul__fail_memory(operation, 2 * d->input_bytes);
    return status;
}

/* ---- examples ---- */

static haul_status make_example(const haul__batch_slot *slot, const haul__recipe *recipe, int64_t epoch, int64_t index,
                                float *x, void *y)
{
    const haul_dataset *d = recipe->dataset;
    if (d->source.spec.input_dtype == HAUL_F32)
        return haul__dataset_read(d, index, x, y);
    const uint8_t *picture = slot->picture;
    haul_status    status = haul__dataset_read(d, index, slot->picture, y);
    if (status != HAUL_OK)
        return status;
    if (recipe->augmented) {
        uint8_t *cropped = slot->picture + d->input_bytes;
        haul__augment_one(&recipe->augment, recipe->seed, epoch, index, picture, cropped);
        picture = cropped;
    }
    haul__normalise(recipe->normaliser, picture, x, d->input_count);
    return HAUL_OK;
}

static haul_status make_examples(const haul__batch_slot *slot, const haul__recipe *recipe, int64_t epoch,
                                 const int64_t *indices, int64_t n, const atomic_bool *stop)
{
    const haul_dataset *d = recipe->dataset;
    float              *x = slot->host_x->buffer.host;
    char               *y = slot->host_y->buffer.host;
    haul_status         status = HAUL_OK;
    /* A copy of the last batch in this memory may still be under way. */
    if (x && (status = haul__host_before(slot->host_x, true, ORIGIN)) != HAUL_OK)
        return status;
    if (y && (status = haul__host_before(slot->host_y, true, ORIGIN)) != HAUL_OK)
        return status;
    for (int64_t i = 0; i < n && status == HAUL_OK && !atomic_load_explicit(stop, memory_order_relaxed); i++)
        status = make_example(slot, recipe, epoch, indices[i], x ? x + i * d->input_count : NULL,
                              y ? y + (size_t)i * d->target_bytes : NULL);
    return status;
}

/* ---- tensors ---- */

/* The first n examples in `host`, sent to `there` if that is not NULL. NULL, with the error recorded. */
static haul_tensor *as_tensor(haul__storage *host, haul__storage *there, haul_dtype dtype, const haul_shape *example,
                              int64_t n)
{
    haul_shape shape = {.ndim = example->ndim + 1, .dims = {n}};
    memcpy(shape.dims + 1, example->dims, (size_t)example->ndim * sizeof *shape.dims);
    haul_tensor *t = haul__tensor_wrap(there ? there : host, dtype, &shape, NULL, 0);
    if (t)
        haul__made_by(&t->object, ORIGIN);
    if (!t || !there)
        return t;
    if (haul__transfer(there, 0, host, 0, (size_t)t->count * haul__dtype_size(dtype), true, ORIGIN) == HAUL_OK)
        return t;
    haul__object_release(t);
    return NULL;
}

static haul_status fill(haul__batch_slot *slot, const haul__recipe *recipe, int64_t epoch, const int64_t *indices,
                        int64_t n, const atomic_bool *stop)
{
    const haul_example_spec *spec = &recipe->dataset->source.spec;
    haul_status              status = haul__is_dry() ? HAUL_OK : make_examples(slot, recipe, epoch, indices, n, stop);
    if (status != HAUL_OK || atomic_load(stop))
        return status;
    slot->x = as_tensor(slot->host_x, slot->device_x, HAUL_F32, &spec->input, n);
    slot->y =
        haul__failed(slot->x) ? NULL : as_tensor(slot->host_y, slot->device_y, spec->target_dtype, &spec->target, n);
    return haul__status_of(slot->y);
}

haul_status haul__batch_slot_fill(haul__batch_slot *slot, const haul__recipe *recipe, int64_t epoch,
                                  const int64_t *indices, int64_t n, const atomic_bool *stop, haul__error_record *error)
{
    haul__error_record before;
    haul__error_save(&before);
    haul_error_clear();
    haul_status status = fill(slot, recipe, epoch, indices, n, stop);
    if (status != HAUL_OK)
        haul__error_save(error);
    haul__error_restore(&before);
    return status;
}

void haul__batch_slot_adopt(haul__batch_slot *slot)
{
    haul__storage *all[] = {slot->host_x, slot->host_y, slot->device_x, slot->device_y};
    for (int i = 0; i < 4; i++)
        if (all[i] && all[i]->uses)
            haul__uses_init(all[i]->uses);
}

void haul__batch_slot_clear(haul__batch_slot *slot)
{
    haul__object_release(slot->x);
    haul__object_release(slot->y);
    slot->x = slot->y = NULL;
}

void haul__batch_slot_free(haul__batch_slot *slot)
{
    haul__batch_slot_clear(slot);
    haul__object_release(slot->host_x);
    haul__object_release(slot->host_y);
    haul__object_release(slot->device_x);
    haul__object_release(slot->device_y);
    haul__free(slot->picture);
    *slot = (haul__batch_slot){0};
}
