/* The copy verb, for the layers above. All bytes that cross a link go through here and are counted here. */
#ifndef HAUL_TRANSFER_TRANSFER_H
#define HAUL_TRANSFER_TRANSFER_H

#include "core/tensor.h"
#include "device/device.h"

/* Copy `bytes` between storages on any devices; ranges are dense. Counted when a link is crossed. A copy that fails
 * leaves `to` as it was, unless it is `fresh`: then nobody has seen what it holds, and the copy may be cheaper. */
haul_status haul__transfer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset, size_t bytes,
                           bool fresh, const char *origin);
/* Between a storage and memory of the caller's, which may be changed or read when it returns. A copy to the host that
 * fails may leave part of the bytes there. */
haul_status haul__transfer_from_host(haul__storage *to, size_t offset, const void *host, size_t bytes, bool fresh,
                                     const char *origin);
haul_status haul__transfer_to_host(void *host, haul__storage *from, size_t offset, size_t bytes, const char *origin);

#endif
