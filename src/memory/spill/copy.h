/* Copies of a block's elements outside of its device: in host memory up to the limit, and beyond it in a file. Or in
 * another process (memory/spill/elsewhere.h). */
#ifndef HAUL_MEMORY_SPILL_COPY_H
#define HAUL_MEMORY_SPILL_COPY_H

#include "memory/allocator_state.h"
#include "memory/spill/elsewhere.h"
#include "memory/spill/file.h"

typedef struct haul__spill_copy {
    struct haul__allocator  *of;
    int64_t                  bytes;
    haul__storage           *host;      /* NULL: they are in the file */
    haul__spill_part        *part;      /* NULL: they are in host memory */
    struct haul__spill_copy *next;      /* while several are dropped */
    haul__elsewhere         *elsewhere; /* the process that has them, under `number`; NULL: it is one of the above */
    int64_t                  number;
} haul__spill_copy;

/* The caller of these functions holds the lock of device/residency.h. */

/* Chooses where the block's elements go: to its present copy, or to a better place. Without room, it drops copies of
 * other blocks that are on the device. `ahead`: it takes only free host memory. Returns NULL, with the error recorded,
 * if there is no place. */
haul__spill_copy *haul__spill_copy_for(haul__block *block, bool ahead);

/* Copies the elements out of the device, or back to it. Copies to and from host memory are only submitted. */
haul_status haul__spill_copy_out(haul__spill_copy *copy, haul__storage *from);
haul_status haul__spill_copy_back(haul__spill_copy *copy, haul__storage *to, bool ahead);

/* Drops the copies of blocks that are on the device, and returns free space at the end of the file to the disk. */
void haul__spill_copies_drop(struct haul__allocator *a);

/* Any thread may call it, without locks; NULL is ignored. */
void haul__spill_copy_free(haul__spill_copy *copy);

#endif
