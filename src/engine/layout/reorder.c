/* Weights in the memory format that a library prefers. */
#include "engine/layout/reorder.h"

#include "base/assert.h"
#include "engine/copy.h"
#include "memory/allocator.h"
#include "memory/derived.h"

haul_tensor *haul__weight_in_format(const haul__call *c, haul_tensor *weight, bool channels_last)
{
    haul__form form = {.dtype = weight->dtype};
    if (channels_last)
        haul__shape_strides_channels_last(&weight->shape, form.layout);
    else
        haul__shape_strides(&weight->shape, form.layout);
    if (haul__shape_same_strides(&weight->shape, weight->strides, form.layout))
        return weight;
    haul__storage *storage = haul__derived_find(weight, &form);
    const bool     found = storage != NULL;
    HAUL__ASSERT(!found || storage->bytes >= (size_t)weight->count * haul__dtype_size(weight->dtype));
    if (!found)
        storage = haul__storage_alloc_apart(c->device, (size_t)weight->count * haul__dtype_size(weight->dtype),
                                            c->operation->name);
    haul_tensor *copy =
        haul__own(haul__tensor_wrap(storage, weight->dtype, &weight->shape, form.layout, 0), c->operation->name);
    haul__object_release(storage);
    if (found || !copy)
        return copy;
    if (haul__copy_elements(copy, weight, c->operation->name))
        return NULL;
    haul__derived_keep(weight, &form, copy->storage);
    return copy;
}
