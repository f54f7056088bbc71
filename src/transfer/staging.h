/* Copies between a device and pageable host memory, in chunks through pinned memory. */
#ifndef HAUL_TRANSFER_STAGING_H
#define HAUL_TRANSFER_STAGING_H

#include "device/device.h"

/* The number of commands in a staged copy of this many bytes. A copy of one command happens or is refused as a
 * whole. */
int64_t haul__staged_chunks(size_t bytes);

/* Copies host memory to a storage. When it returns, the memory may be changed, and the last chunks may be in flight.
 * Returns HAUL_UNSUPPORTED, without recording an error or copying, if there is no pinned memory. */
haul_status haul__stage_up(haul__storage *to, size_t offset, const void *host, size_t bytes, const char *origin);

/* Copies a storage to host memory; done when it returns. HAUL_UNSUPPORTED as above. On failure the memory may hold some
 * of the bytes. */
haul_status haul__stage_down(void *host, haul__storage *from, size_t offset, size_t bytes, const char *origin);

/* Copies between two devices by way of the host; a chunk arrives while the one before it leaves. Works without pinned
 * memory if there is none. */
haul_status haul__stage_across(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                               size_t bytes, const char *origin);

#endif
