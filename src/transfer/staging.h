/* Copies between a device and ordinary host memory, in chunks through pinned memory. */
#ifndef HAUL_TRANSFER_STAGING_H
#define HAUL_TRANSFER_STAGING_H

#include "device/device.h"

/* How many commands a staged copy of so many bytes is. A copy of one is done or refused as a whole. */
int64_t haul__staged_chunks(size_t bytes);

/* Copy host memory to a storage: when it returns the memory may be changed, and the last chunks may be under way.
 * HAUL_UNSUPPORTED, with nothing recorded and nothing done, where there is no pinned memory. */
haul_status haul__stage_up(haul__storage *to, size_t offset, const void *host, size_t bytes, const char *origin);

/* Copy a storage to host memory: done when it returns. HAUL_UNSUPPORTED as above. When it fails the memory may hold
 * some of the bytes. */
haul_status haul__stage_down(void *host, haul__storage *from, size_t offset, size_t bytes, const char *origin);

/* Copy between two devices by way of the host, a chunk coming while the one before it goes. Does without pinned memory
 * where there is none. */
haul_status haul__stage_across(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                               size_t bytes, const char *origin);

#endif
