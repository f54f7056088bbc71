/* The state of the group thread (thread.c), and what it does apart from works: control messages (roll_call.c) and the
 * end of a job (ending.c).
 *
 * 1. Only the group thread calls the kind's table, except for `abort`.
 * 2. `lock` guards the list of works, the groups' `broken` and `why`, and the flags below. It is not held while the
 *    table is called.
 * 3. Once `lost` is set, the table is not called any more, except for `abort`.
 * 4. A broken group has no request: the line is lost if one is open when the group breaks. */
#ifndef HAUL_GROUP_LINE_H
#define HAUL_GROUP_LINE_H

#include <pthread.h>

#include "group/work.h"

typedef struct haul__line {
    pthread_mutex_t    lock;
    pthread_cond_t     come;     /* a work has come, or the program exits */
    pthread_cond_t     finished; /* a work is over, or the thread has started */
    haul__work        *first, **end;
    haul__engine      *engine; /* of the first group */
    haul_group        *world;  /* the first group; NULL until it is known */
    bool               opened, open_failed, exiting, lost, closed;
    bool               lost_at_exit; /* lost after the program had ended, so that it reports nothing */
    int                forks;        /* haul__fork_count() when it started */
    pthread_t          thread;
    int64_t            lost_ns;
    atomic_bool        aborting; /* the library's abort was called, which may call exit() */
    haul__error_record error;    /* why it could not open, or was lost */
} haul__line;

extern haul__line haul__group_line;

/* The ranks of a work's group were asked, and the job cannot go on: all works fail with the thread's recorded error,
 * which the other ranks get, too. */
void haul__line_lose(void);

/* ---- roll_call.c ---- */

/* The first group was opened. Fails if there is no memory. */
haul_status haul__roll_call_begin(void);
/* Receives and answers control messages, and ends roll calls. */
void haul__roll_call_poll(void);
/* A work has waited for the limit: ask all ranks where they are. */
void haul__roll_call_about(haul__work *w);
/* Asks where the ranks of the work's group are if one of them has left since the last call about the work. About a
 * message it asks if its other rank has left. */
void haul__roll_call_leavers(haul__work *w);
/* The work is over, so that its roll call is not needed any more. */
void haul__roll_call_forget(const haul__work *w);
/* Passes a text to all ranks: the job ends. */
void haul__roll_call_end(const char *text);
/* The program exits. True if all other ranks do so as well, and no message is under way. */
bool haul__roll_call_leave(void);

/* ---- ending.c ---- */

/* Closes the library, which waits for all ranks to close theirs. Ends this process if that takes longer than the limit.
 */
void haul__line_close(void);

/* Ends the job and this process. Does not return. */
_Noreturn void haul__end_job(void);

#endif
