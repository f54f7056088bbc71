/* Copies of elements within a device, for the driver and for operations. */
#ifndef HAUL_ENGINE_COPY_H
#define HAUL_ENGINE_COPY_H

#include "core/tensor.h"

/* Copy all elements of `from`, which may broadcast, to `to` on the same device: any layouts, any dtypes. */
haul_status haul__copy_elements(haul_tensor *to, haul_tensor *from, const char *origin);

#endif
