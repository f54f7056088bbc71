/* Fetching parameters of other ranks ahead (parallel/parts.h): while a layer computes, the parameter that comes next is
 * on its way to host memory. One is at a time.
 *
 * Which one that is: the one that came next in the last step, or in the last time between steps. If another parameter
 * comes than then, the next one is not fetched ahead, so a graph that changes each time fetches little in vain. */
#ifndef HAUL_PARALLEL_AHEAD_H
#define HAUL_PARALLEL_AHEAD_H

#include "group/offer.h"

typedef struct haul__ahead haul__ahead;

/* For `count` parameters. NULL on failure, without a recorded error. */
haul__ahead *haul__ahead_new(int count);
/* Waits for the one on its way. NULL is ignored. */
void haul__ahead_free(haul__ahead *a);

/* Parameter `item` has come. Returns the one that is expected next; -1: none is. */
int haul__ahead_note(haul__ahead *a, int item);

/* Begins to fetch a parameter from rank `from`. Nothing else of the offer may be on its way. If it fails, the parameter
 * comes when it is used. */
void haul__ahead_begin(haul__ahead *a, haul__offer *offer, const haul__group_call *call, int from, int item,
                       size_t bytes);

/* Waits for the parameter on its way, if there is one. If it is `item` and has come, copies it and returns true. */
bool haul__ahead_take(haul__ahead *a, int item, void *to, size_t bytes);

/* Before parameters change: waits for the one on its way, which is dropped. What comes from here on is part of a step,
 * or is not. */
void haul__ahead_stop(haul__ahead *a, bool step);

/* For tests: how many parameters were taken that had come ahead, and how many were dropped. */
extern _Atomic int64_t haul__ahead_taken, haul__ahead_dropped;

#endif
