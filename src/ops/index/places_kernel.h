/* Kernel text: a mask is cut into chunks, whose true elements are counted before anything is written (places.c). */
#ifndef HAUL_OPS_INDEX_PLACES_KERNEL_H
#define HAUL_OPS_INDEX_PLACES_KERNEL_H

/* So many chunks have sums of their own. */
enum { PLACE_GROUP = 512 };

#ifdef HAUL_KERNEL
/* How many true elements precede chunk i; `chunks` for all of them. */
FUNC I64 place_of(GLOBAL const I64 *places, I64 i, I64 chunks)
{
    const I64 group = i < chunks ? QUOTIENT(i, PLACE_GROUP) : QUOTIENT(chunks + PLACE_GROUP - 1, PLACE_GROUP);
    return (i < chunks ? places[i] : 0) + places[chunks + group];
}
#endif

#endif
