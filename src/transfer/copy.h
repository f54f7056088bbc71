/* The copy verb, for the layers above: a copy is a value, and one function carries it out. All bytes that cross a link
 * go through it and are counted there. */
#ifndef HAUL_TRANSFER_COPY_H
#define HAUL_TRANSFER_COPY_H

#include "device/device.h"

/* Dense ranges of two storages. */
typedef struct haul__copy_range {
    haul__region to, from;
    size_t       bytes;
} haul__copy_range;

/* Ranges between the same two devices, which count as one copy. Before a range is copied, ready(context, its number)
 * fills its source; NULL: nothing has to be done. */
typedef struct haul__copy_ranges {
    const haul__copy_range *items;
    int                     count;
    haul_status (*ready)(void *context, int range);
    void *context;
} haul__copy_ranges;

/* The dtypes of a copy whose elements are converted before they cross, on their way or after that. */
typedef struct haul__conversion {
    haul_dtype from, to; /* equal: nothing is converted */
} haul__conversion;

/* What the event of a copy says of it. */
typedef struct haul__copy_note {
    const char *tensor; /* the tensor's name: "features.0.weight"; NULL: none is known */
    bool        placed; /* HAUL_PLACE_AUTO asked for the copy */
} haul__copy_note;

/* Members that a copy does not need are 0. */
typedef struct haul__copy {
    const char     *operation; /* the operation that it is for: "haul_to"; never NULL */
    haul__copy_note note;

    /* Dense ranges on any devices. A region without a storage is memory of the caller, who may change or read it when
     * haul__transfer returns. */
    haul__region to, from;
    union {
        const void *from_host;
        void       *to_host;
    };
    size_t                   bytes;
    const haul__copy_ranges *ranges; /* instead of `to`, `from` and `bytes`; NULL: there is one range */

    /* The target's contents were not used yet, so a failure may leave some of them written. Several ranges need that.
     * Otherwise a failed copy leaves the target unchanged, except for memory of the caller. */
    bool             fresh;
    bool             ahead; /* an upload that is not needed yet, so it lets others pass */
    haul__conversion conversion;

    /* The kernel that copies the elements, in another order or converted: the command has only `kernel`, `params`,
     * `params_size`, `items` and `grain`. One of the storages is in host memory, which the other one's device reaches
     * (haul__device_reaches_host). The regions say where the elements begin, and `bytes` how many would cross a link.
     * NULL: the driver copies. */
    const haul__command *by;
} haul__copy;

/* Copies; it is counted if it crosses a link. Returns HAUL_UNSUPPORTED, without recording an error or copying, if the
 * driver cannot use the host memory of a copy by a kernel. */
haul_status haul__transfer(const haul__copy *copy);

#endif
