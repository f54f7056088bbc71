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
    haul__dry_run *outer; /* the dry run in which the step is followed; NULL: none */
} haul__following;

void haul__following_init(haul__following *f);
void haul__following_free(haul__following *f);

/* Calls function(context) in a scope of its own. If it does what the variant recorded, runs the variant's calls, sets
 * `*followed`, and returns what they return. Else everything is as before, and f->base.trial.why says what differs. */
haul_status haul__follow(haul__following *f, haul__variant *v, haul__arenas *arenas, uint64_t run,
                         haul_status (*function)(void *), void *context, bool *followed);

#endif
