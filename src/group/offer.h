/* What a rank has for the others: numbered parts of memory, which they get when they ask. It is not a collective: the
 * group thread of the rank that has a part answers, whatever its program does meanwhile, so ranks may ask for different
 * parts, and differently often.
 *
 *     closed --open--> open --close--> closed        a request waits until the offer is open in its epoch
 *
 * An epoch is the time from one opening to the next: its number is how often the offer was opened.
 *
 * All ranks of a group begin the same offers in the same order. An offer lives until all ranks have ended theirs: up to
 * then the others may ask. */
#ifndef HAUL_GROUP_OFFER_H
#define HAUL_GROUP_OFFER_H

#include "group/group.h"

typedef struct haul__offer haul__offer;

/* An offer of `count` parts, closed and without memory. NULL on failure. `released` is called when no rank asks any
 * more, in any thread. */
haul__offer *haul__offer_begin(haul_group *group, int count, void (*released)(void *context), void *context);
/* This rank needs nothing any more, and does not touch the offer afterwards. NULL is ignored. */
void haul__offer_end(haul__offer *offer);

/* The memory of a part of an offer that is closed. */
void haul__offer_set(haul__offer *offer, int part, const void *data, size_t bytes);

/* Answers the requests of this epoch. The memory must not change meanwhile. The error of haul__offer_fail is cleared.
 */
void haul__offer_open(haul__offer *offer, int64_t epoch);
/* Waits for answers that are under way. */
void haul__offer_close(haul__offer *offer);
/* Requests that wait, and later ones, get the thread's recorded error until the offer is opened again. */
void haul__offer_fail(haul__offer *offer);

/* Gets a part from another rank, in the epoch of the own offer, which must be open. `call` is for errors. */
haul_status haul__offer_get(haul__offer *offer, const haul__group_call *call, int from, int part, void *to,
                            size_t bytes);
/* Begins to. No other request of the offer may begin, and it may not close, before haul__work_wait returned. `to` must
 * stay. NULL on failure. */
haul__work *haul__offer_get_begin(haul__offer *offer, const haul__group_call *call, int from, int part, void *to,
                                  size_t bytes);

/* ---- for the group thread ---- */

/* Gets on with all offers. Returns true if there are any. */
bool haul__offers_poll(bool *changed);
/* The program exits: all offers end. */
void haul__offers_leave(void);

#endif
