/* The group thread: the only one that calls the MPI library.
 *
 * It runs the works of all groups that have several ranks, answers the other ranks' roll calls, and ends the job when a
 * rank is lost. It starts with the first of these groups and ends when the program exits. */
#ifndef HAUL_GROUP_THREAD_H
#define HAUL_GROUP_THREAD_H

#include "group/work.h"

/* Starts the thread, which opens the first group of `kind`; all its processes do so. *engine is that group's. If it was
 * started before, only that engine is returned. */
haul_status haul__group_thread_start(const haul__group_kind *kind, haul__engine **engine);

/* Gives the first group to the thread, which can then name its ranks. */
void haul__group_thread_know(haul_group *world);

/* Takes over a work that begins now. Returns it, or NULL with the error recorded, and frees it. */
haul__work *haul__group_thread_take(haul__work *w);
void        haul__group_thread_wait(haul__work *w);

/* Seconds that a work may wait for a rank. */
double haul__group_limit(void);
/* That of $HAUL_GROUP_LIMIT, 0 if it is not set. False if the variable has another value. */
bool haul__group_limit_given(double *seconds);
void haul__group_set_limit(double seconds);

#endif
