/* Groups whose ranks are threads of one process, each with a device: "local:cpu,opencl:0".
 *
 * The ranks of one haul_group_run are a *crew*. Each has a thread, and a group object of its own, as a process has with
 * MPI. Bytes are copied from buffer to buffer, under the lock of the crew, by the rank that comes last.
 *
 * 1. Only the thread of a rank uses the rank's group, and groups split from it.
 * 2. A rank's works run within calls of its thread: when one begins, and while it waits for one. All its works get on
 *    then, also those of other groups, because another rank may wait for them.
 * 3. Once a crew is lost no bytes are copied, because the buffers of the rank that failed are freed. Works that wait
 * for more fail. */
#ifndef HAUL_GROUP_LOCAL_RANK_H
#define HAUL_GROUP_LOCAL_RANK_H

#include "group/work.h"

typedef struct haul__crew haul__crew;

/* The ranks of a name, without threads. NULL on failure. haul__crew_release drops the caller's reference; groups have
 * others. */
haul__crew  *haul__crew_new(const char *name, const char *operation);
void         haul__crew_release(haul__crew *crew);
int          haul__crew_size(const haul__crew *crew);
haul_device *haul__crew_device(const haul__crew *crew, int rank);

/* The calling thread becomes a rank of the crew. Its group stays until haul__rank_leave. NULL on failure. */
haul_group *haul__rank_enter(haul__crew *crew, int rank);
/* The thread is not a rank any more. Ranks that wait for it in a collective fail. */
void haul__rank_leave(void);

/* A rank has failed with the thread's recorded error: the others fail as soon as they are in a collective, and name the
 * rank. Any thread may call it. */
void haul__crew_fail(haul__crew *crew, int rank);
/* The error of a rank that has failed becomes the thread's, for `operation`: of the first one that did not fail because
 * another rank had. HAUL_OK if none has failed. */
haul_status haul__crew_status(haul__crew *crew, const char *operation);

/* The group of the calling thread, which has this name, or with NULL any; NULL if there is none, without an error. */
haul_group *haul__rank_group(const char *name);
/* True if a collective of the calling thread has failed because another rank had: the thread's error is a consequence.
 */
bool haul__rank_has_heard(void);
/* HAUL_OK if the thread is the group's rank. */
haul_status haul__rank_check(const haul_group *group, const char *operation);

/* Takes over a work that begins now. Returns it, or NULL with the error recorded, and frees it. */
haul__work *haul__rank_take(haul__work *w);
void        haul__rank_wait(haul__work *w);
/* Gets on with all works of the thread. */
void haul__rank_step(void);

#endif
