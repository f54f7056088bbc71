/* Weights in the memory format that a library wants. */
#include "engine/reorder.h"

#include "engine/copy.h"
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
    haul__storage *found = haul__derived_find(weight, &form);
    if (found) {
        haul_tensor *t = haul__tensor_wrap(found, weight->dtype, &weight->shape, form.layout, 0);
        haul__object_release(found);
        return haul__own(t, c->operation->name);
    }
    haul_tensor *copy = haul__temporary_strided(c, weight->dtype, &weight->shape, form.layout);
    if (!copy || haul__copy_elements(copy, weight, c->operation->name))
        return NULL;
    haul__derived_keep(weight, &form, copy->storage);
    return copy;
}
