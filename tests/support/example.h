/* Reading one example of a dataset, as a loader's worker does. */
#ifndef SUPPORT_EXAMPLE_H
#define SUPPORT_EXAMPLE_H

#include <string.h>

#include "core/tensor.h"
#include "data/dataset.h"
#include "data/example.h"

/* Example `index`, its first two fields copied to x and y. */
static inline haul_status read_example_of(const haul_dataset *d, int64_t index, void *x, void *y)
{
    haul__example_memory memory = {.wanted = d->fields};
    haul_example         e = {.index = index, .haul__memory = &memory};
    haul_status          status = haul__dataset_read(d, &e);
    void                *out[] = {x, y};
    for (int f = 0; f < 2 && f < e.count && status == HAUL_OK; f++) {
        size_t bytes = haul__dtype_size(e.fields[f].dtype);
        for (int k = 0; k < e.fields[f].shape.ndim; k++)
            bytes *= (size_t)e.fields[f].shape.dims[k];
        memcpy(out[f], e.fields[f].data, bytes);
    }
    haul__example_memory_free(&memory);
    return status;
}

#endif
