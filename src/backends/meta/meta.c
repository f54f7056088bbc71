/* The meta backend: one device, "meta", whose tensors have shapes and no data. Shape rules and memory plans run on it;
 * it never receives a command. */
#include <stdio.h>

#include "backends/backend.h"
#include "base/assert.h"

static int meta_count(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return 1;
}

static haul_status meta_open(haul_device *device, int index)
{
    HAUL__ASSERT(index == 0);
    device->properties.kind = HAUL_KIND_META;
    device->properties.has_f64 = true;
    snprintf(device->model, sizeof device->model, "shapes without data");
    snprintf(device->driver, sizeof device->driver, "built in");
    return HAUL_OK;
}

const haul__backend haul__backend_meta = {
    .size = sizeof(haul__backend),
    .name = "meta",
    .count = meta_count,
    .open = meta_open,
    .synchronous = true,
    .no_data = true,
    .only_one = true,
    .precompiled = true,
};
