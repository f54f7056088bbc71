/* What the ranks of a crew share, for the files of this folder. */
#ifndef HAUL_GROUP_LOCAL_CREW_H
#define HAUL_GROUP_LOCAL_CREW_H

#include <pthread.h>

#include "group/local/rank.h"

enum { HAUL__CREW_DEVICE = 32, HAUL__CREW_MOST = 64, HAUL__CREW_NAME = 8 + HAUL__CREW_MOST * (HAUL__CREW_DEVICE + 1) };

typedef struct haul__meeting haul__meeting;

/* A rank of a crew. Only its thread uses the works, `seen` and `heard`. */
typedef struct haul__rank {
    haul__crew  *crew;
    int          place; /* its number in the crew */
    haul_device *device;
    haul_group  *group;        /* with a reference, while the thread is a rank */
    haul__work  *first, **end; /* its works, in the order in which they began */
    uint64_t     seen;         /* the crew's changes that its works have seen */
    bool         heard;        /* one of its works has failed because another rank had */
    bool         ended;        /* guarded by the crew's lock */
    const char  *waits;        /* in this function, guarded by the crew's lock; NULL: it computes */
    char         device_name[HAUL__CREW_DEVICE];
} haul__rank;

struct haul__crew {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    char            name[HAUL__CREW_NAME];
    uint64_t        key;
    int             size, forks;
    haul__rank      ranks[HAUL__CREW_MOST];
    haul__meeting  *world; /* of all ranks */
    /* Guarded by the lock: */
    int                references; /* of the caller of haul__crew_new, and of engines */
    uint64_t           changes;    /* anything that a rank may wait for: calls, messages, ends */
    bool               lost;
    char               why[640];
    int                failed; /* the rank that failed first, of those that had heard of no other; -1: none */
    bool               heard;  /* there are only others: the first one of these */
    haul__error_record error;  /* of that one */
};

/* ---- engine.c ---- */

/* What the ranks of one group share: of the whole crew, for ranks that have not entered. NULL if memory is exhausted.
 */
haul__meeting *haul__meeting_of_all(haul__crew *crew);
void           haul__meeting_free(haul__meeting *m);
/* The engine of a rank of the crew's world. NULL on failure. */
haul__engine *haul__local_engine_new(haul__meeting *m, int rank);
/* The rank of the crew that the engine's rank is. */
const haul__rank *haul__local_engine_rank(const haul__engine *e);

/* The first rank of the group without which a request cannot be completed, and with `ended` only one whose thread is
 * not a rank any more; -1: none. The caller has the lock. */
int haul__local_missing(const haul__engine *e, const haul__request *request, bool ended);

/* Something has changed. The caller has the lock. */
void haul__crew_changed(haul__crew *crew);

#endif
