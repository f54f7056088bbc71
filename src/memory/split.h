/* Free blocks that are cut to size, and free neighbours that become one block again (docs/decisions/024-splitting.md).
 *
 * The pieces of a buffer of the device are linked in the order of their addresses: `before` and `after` of a block. A
 * free block whose size is not that of a class is in the allocator's list of rests.
 *
 * On some devices (OpenCL) pieces need handles, which only the driver makes. A block that is handed out has one for
 * exactly its bytes. A free piece that was cut or joined has none, or one that is out of date; it is in the list of
 * rests, too. Its handle is made when it is taken from there, without the lock. */
#ifndef HAUL_MEMORY_SPLIT_H
#define HAUL_MEMORY_SPLIT_H

#include "memory/allocator_state.h"

/* True if it is a part of a buffer. Then the device cannot get it back alone. */
static inline bool haul__is_piece(const haul__block *block)
{
    return block->before || block->after;
}

/* A block of the class, cut from a larger free one, in no list and under way (under_way.h); NULL if there is none. Does
 * not record an error. */
haul__block *haul__split_get(struct haul__allocator *a, int bin);

/* Joins free neighbours. The caller holds the lock, and afterwards frees the chain of structures that are left over, of
 * 0 bytes, with haul__blocks_free. */
haul__block *haul__split_join(struct haul__allocator *a);

/* Releases the handle that was made for a piece, if there is one. The caller does not hold the lock. */
void haul__split_drop_handle(haul__block *block);

/* `to` takes the place of `from` among the pieces, with its handle. The caller holds the lock. */
void haul__split_replace(haul__block *to, haul__block *from);

#endif
