/* Following: compares each call of a step with the entries of a variant, and makes its results without computing. */
#ifndef HAUL_RECORD_FOLLOW_FOLLOW_H
#define HAUL_RECORD_FOLLOW_FOLLOW_H

#include "memory/dry_run/dry_run.h"
#include "record/follow/variant.h"

typedef struct haul__following {
    haul__follower base; /* first */
    haul__variant *v;
    uint64_t       run;    /* the number of the run */
    size_t         at;     /* the next entry */
    haul_tensor  **leaves; /* of the variant's leaves: the tensors of this run; leaf_room of them */
    size_t         leaf_room;
    int            moved;  /* the newest of the outside stores that are not where they were in the last run; -1: none */
    haul__dry_run *outer;  /* the dry run in which the step is followed; NULL: none */
    size_t         failed; /* the first entry that failed; the number of entries: none did */
    bool           frozen; /* what this run allocates is an error */
    haul__inside  *refused; /* the store that had to be allocated; NULL: none */
} haul__following;

void haul__following_init(haul__following *f);
void haul__following_free(haul__following *f);

/* So many followed steps of a variant may allocate although the recording is frozen. */
enum { HAUL__WARM_UP = 3 };

/* Calls function(context) in a scope of its own. If it does what the variant recorded, runs the variant's calls, sets
 * `*followed`, and returns what they return. Else everything is as before, and f->base.trial.why says what differs.
 * frozen: after some runs of the variant, what the step allocates is an error. */
haul_status haul__follow(haul__following *f, haul__variant *v, haul__arenas *arenas, uint64_t run, bool frozen,
                         haul_status (*function)(void *), void *context, bool *followed);

#endif
