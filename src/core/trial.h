/* A followed step while it may still turn out to differ from its recording: what it changes in objects that existed
 * before is noted, so that it can be taken back. The thread keeps the trial with the setting HAUL__DRY_RUN. */
#ifndef HAUL_CORE_TRIAL_H
#define HAUL_CORE_TRIAL_H

#include "core/thread.h"

/* A field and its value before a change. */
typedef struct haul__change {
    void   *place;
    void   *owner, *before; /* references, of a field that refers to an object */
    int64_t number;         /* of a field that is an integer */
    bool    is_object;
} haul__change;

typedef struct haul__trial {
    haul__object  object;
    bool          differs;  /* the step is unlike its recording, so that it cannot be followed */
    char          why[256]; /* what differs */
    haul__change *changes;
    size_t        count, room;
} haul__trial;

/* The thread's trial; call it only if haul__is_followed. */
haul__trial *haul__trial_now(void);

/* Ends the following: notes the first difference, and fails. */
haul_status haul__trial_differs(haul__trial *trial, const char *operation, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For functions that a followed step cannot call, because nothing has been computed yet: fails if the thread follows.
 * `what` says what they do. */
haul_status haul__refuse_followed(const char *operation, const char *what);

/* Notes the value of `place`, a field of `owner`: a reference to an object, which may be NULL, or an integer. */
haul_status haul__trial_keep_object(haul__trial *trial, void *owner, void *place, const char *operation);
haul_status haul__trial_keep_integer(haul__trial *trial, void *owner, int64_t *place, const char *operation);

/* Takes all changes back, or makes them final. */
void haul__trial_undo(haul__trial *trial);
void haul__trial_commit(haul__trial *trial);

void haul__trial_free(haul__trial *trial); /* the memory of a trial without changes */

#endif
