/* Memory under way: neither in use nor free, because a thread is obtaining it from the device, giving it back, or
 * taking it from the free blocks. Each of these ends by itself. So an allocation that finds no memory waits for those
 * that have begun, and looks again, before it fails.
 *
 * A thread whose memory is under way takes no locks but those of streams and of the driver, and its subscribers hear of
 * events after the end. So another thread may wait for it whatever it holds, but the lock of a stream. */
#ifndef HAUL_MEMORY_UNDER_WAY_H
#define HAUL_MEMORY_UNDER_WAY_H

#include "memory/allocator_state.h"

/* Memory of the calling thread is under way from now on. The caller holds the allocator's lock, under which the memory
 * was counted as reserved or left the free blocks. */
void haul__under_way_begin(struct haul__allocator *a);

/* It is in use, free, or back at the device. The caller does not hold the lock. */
void haul__under_way_end(struct haul__allocator *a);

/* To be called before memory is looked for. */
void haul__under_way_watch(struct haul__allocator *a);

/* Waits until as many have ended as have begun now. Returns true if memory of another thread has ended being under way
 * since the calling thread's haul__under_way_watch. Nothing of the calling thread is under way. */
bool haul__under_way_wait(struct haul__allocator *a);

#endif
