/* What can be taken back: changes of objects that existed before a dry run, or before a followed step while it may
 * still turn out to differ from its recording. */
#ifndef HAUL_CORE_TRIAL_H
#define HAUL_CORE_TRIAL_H

#include "core/thread.h"

/* ---- changes ---- */

/* A field and its value before a change. */
typedef struct haul__change {
    enum { HAUL__CHANGED_OBJECT, HAUL__CHANGED_INTEGER, HAUL__CHANGED_STATE } kind;
    void   *owner;                              /* of the field */
    void   *place;                              /* of an object or an integer */
    void   *before;                             /* an object, or NULL; of a state: what put_back gets */
    int64_t number;                             /* an integer */
    void (*put_back)(void *owner, void *state); /* of a state */
} haul__change;

/* All zeros: there are none. */
typedef struct haul__changes {
    haul__change *items;
    size_t        count, room;
} haul__changes;

/* Adds a change, with references to its owner and to the object before. */
haul_status haul__changes_add(haul__changes *changes, const haul__change *change, const char *operation);

/* Makes room for `more` changes. Fails, without an error, if host memory is exhausted. */
bool haul__changes_reserve(haul__changes *changes, size_t more);

/* Takes all changes back, the last one first, or makes them final. Then there are none. */
void haul__changes_undo(haul__changes *changes);
void haul__changes_commit(haul__changes *changes);

void haul__changes_free(haul__changes *changes); /* the memory of a list without changes */

/* ---- followed steps ---- */

/* The thread keeps it with the setting HAUL__DRY_RUN. */
typedef struct haul__trial {
    haul__object  object;
    bool          differs;  /* the step is unlike its recording, so that it cannot be followed */
    char          why[256]; /* what differs */
    haul__changes changes;
} haul__trial;

/* The thread's trial; call it only if haul__is_followed. */
haul__trial *haul__trial_now(void);

/* Ends the following: notes the first difference, and fails. */
haul_status haul__trial_differs(haul__trial *trial, const char *operation, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For functions that a followed step cannot call, because nothing has been computed yet: fails if the thread follows.
 * `what` says what they do. */
haul_status haul__refuse_followed(const char *operation, const char *what);

#endif
