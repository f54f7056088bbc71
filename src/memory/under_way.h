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

/* What a thread watches while it looks for memory. Spilling for one allocation makes others, of host memory, so a
 * thread may watch several allocators, one within the other. */
typedef struct haul__under_way_watching {
    struct haul__allocator          *of;
    int64_t                          at_first, own; /* how many had ended when it began; of its own since */
    struct haul__under_way_watching *outer;
} haul__under_way_watching;

/* To be called before memory is looked for, and again before the next look. haul__under_way_unwatch ends it. */
void haul__under_way_watch(haul__under_way_watching *w, struct haul__allocator *a);
void haul__under_way_watch_again(haul__under_way_watching *w);
void haul__under_way_unwatch(haul__under_way_watching *w);

/* Waits until as many have ended as have begun now. Returns true if memory of another thread has ended being under way
 * since the watch began. Nothing of the calling thread is under way. */
bool haul__under_way_wait(const haul__under_way_watching *w);

#endif
