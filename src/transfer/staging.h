/* Copies between a device and pageable host memory, in chunks through pinned memory. */
#ifndef HAUL_TRANSFER_STAGING_H
#define HAUL_TRANSFER_STAGING_H

#include "transfer/copy.h"

/* The number of commands in a staged copy of this many bytes. A copy of one command happens or is refused as a
 * whole. */
int64_t haul__staged_chunks(size_t bytes);

/* About how many bytes of a staged copy to a device may be in flight when the host goes on. */
int64_t haul__staged_in_flight(size_t bytes);

/* All of these take `operation` and `ahead` from the copy, and give their commands its number. */

/* Copies host memory to a storage. When it returns, the memory may be changed, and the last chunks may be in flight.
 * Returns HAUL_UNSUPPORTED, without recording an error or copying, if there is no pinned memory. */
haul_status haul__stage_up(const haul__copy *copy, uint64_t number, haul__region to, const void *host, size_t bytes);

/* Copies a storage to host memory; done when it returns. HAUL_UNSUPPORTED as above. On failure the memory may hold some
 * of the bytes. */
haul_status haul__stage_down(const haul__copy *copy, uint64_t number, void *host, haul__region from, size_t bytes);

/* Copies between two devices by way of the host; a chunk arrives while the one before it leaves. Works without pinned
 * memory if there is none. The commands that leave the host have the next number. */
haul_status haul__stage_across(const haul__copy *copy, uint64_t number, haul__region to, haul__region from,
                               size_t bytes);

#endif
