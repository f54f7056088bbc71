/* The copy verb, for the layers above. All bytes that cross a link go through here and are counted here. */
#ifndef HAUL_TRANSFER_TRANSFER_H
#define HAUL_TRANSFER_TRANSFER_H

#include "core/tensor.h"
#include "device/device.h"

/* Copies `bytes` between storages on any devices; ranges are dense. It is counted if it crosses a link. A failed copy
 * leaves `to` unchanged, unless it is `fresh`: nobody has seen a fresh storage's contents, and the copy may be
 * cheaper. */
haul_status haul__transfer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset, size_t bytes,
                           bool fresh, const char *origin);
/* The same for ranges between the same two devices, which count as one copy. Before a part is copied, ready(context,
 * its number) fills its source; NULL: nothing has to be done. Several parts need a fresh target: a failure may leave
 * some of them written. */
typedef struct haul__transfer_part {
    haul__region to, from;
    size_t       bytes;
} haul__transfer_part;
haul_status haul__transfer_parts(const haul__transfer_part *parts, int                count,
                                 haul_status (*ready)(void *context, int part), void *context, bool fresh,
                                 const char *origin);

/* The same for one range, whose elements a kernel of the device puts in another order or converts as they cross: `by`
 * has only `kernel`, `params`, `params_size`, `items` and `grain`. One of the storages is in host memory, which the
 * other one's device reaches (haul__device_reaches_host). `part` says where the elements begin, and how many bytes
 * would cross a link. Returns HAUL_UNSUPPORTED, without recording an error or copying, if the driver cannot use that
 * host memory. A failed copy leaves the target unchanged. */
haul_status haul__transfer_by(const haul__transfer_part *part, const haul__command *by, const char *origin);

/* Copies between a storage and the caller's memory, which may be changed or read when this returns. A failed copy to
 * the host may leave some of the bytes there. */
haul_status haul__transfer_from_host(haul__storage *to, size_t offset, const void *host, size_t bytes, bool fresh,
                                     const char *origin);
haul_status haul__transfer_to_host(void *host, haul__storage *from, size_t offset, size_t bytes, const char *origin);

#endif
