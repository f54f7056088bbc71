/* A collective under way: what it moves, how far it is, and how it ended.
 *
 * A work is a sequence of calls of the kind's table. `next` begins the following one, or says that the work is over.
 * Collectives begin with an exchange of *heads*: the number of the collective and a hash of its name and its text. If
 * these differ, or if a rank passes an error, the ranks exchange texts instead of data, and all of them get the error.
 *
 *     waiting -> heads -> data ... -> over
 *                      -> texts    -> over, failed
 *
 * 1. Of a group's collectives only the oldest that is not over runs, so all ranks run them in the same order.
 * 2. Of the receives from one rank only the oldest runs, and of the sends to one rank.
 * 3. A work that is over is not touched by the group thread any more: its owner frees it. */
#ifndef HAUL_GROUP_WORK_H
#define HAUL_GROUP_WORK_H

#include <stdatomic.h>

#include "group/direct.h"
#include "group/group.h"
#include "group/kind.h"
#include "group/messages.h"

enum { HAUL__WORK_TEXT = 512, HAUL__GROUP_HOST = 64 };

/* What ranks compare before a collective. */
typedef struct haul__work_head {
    uint64_t number, hash;
    uint64_t passes_error;
} haul__work_head;

/* What goes before the data of a send, or in the place of a message that cannot be sent. */
typedef struct haul__work_note {
    int64_t bytes;
    char    name[56], what[192], text[256];
} haul__work_note;

typedef struct haul__sum {
    haul__tree tree;
    haul_dtype dtype;
    size_t     size; /* of an element */
    int64_t    count, chunk, at;
    int        own, all, most; /* nodes of this rank, of all ranks, and of the rank that has the most of them */
    int        node;           /* the one that is sent next */
    void     **room;           /* where the segments of all nodes are; then the pointers for the tree */
    void      *memory;
    int64_t   *bounds; /* of a sum that stays in parts: where the part of each rank begins, and `count`; else NULL */
} haul__sum;

/* Tensors whose sum is computed in host memory, or with `direct` on their device. */
typedef struct haul__staged {
    haul_tensor    *result;
    haul__storage **storages; /* in host memory; those of the tensors, and then the room for other ranks' segments */
    int             count;
    bool            direct;
} haul__staged;

struct haul__work {
    haul__work *later; /* in the queue */
    haul_group *group; /* with a reference */
    const char *name;
    char        what[192];
    bool        collective; /* it has a number, and heads */
    bool        own;        /* freed when it is over, because no caller waits for it */
    int         peer;       /* of a send or receive; else -1 */
    bool        receives;
    bool        numbered; /* a message of an operation: events report it, and other ranks get its error */
    uint64_t    number;
    int64_t     begun_ns; /* when it began, or last got on */
    bool        reports;  /* events say when it begins and ends */
    int64_t     first_ns; /* when it began; 0: no other rank takes part */
    int64_t     over_ns;  /* when it was over, if first_ns is not 0 */
    int64_t     sent;     /* elements, in bytes */
    int         asked;    /* roll calls about it */
    int         leavers;  /* ranks of its group that had left at the last roll call about them; of a message: how often
                             its other rank was asked after it left, since the message last got on */
    int64_t left_ns;      /* of a message: when that was last; 0: never */

    haul_status (*next)(haul__work *w); /* sets `over`, or begins requests */
    /* NULL, or looks at work of a device: *open becomes true if it is under way. */
    haul_status (*ask)(haul__work *w, bool *open);
    haul__request requests[2];
    int           phase;
    bool          over;
    atomic_bool   done; /* for its owner */
    haul_status   status;

    /* What it moves. */
    char          *in;
    char          *out; /* NULL: nothing but `in` */
    int64_t       *in_bytes, *out_bytes;
    int64_t        bytes, at;
    int64_t        equal; /* bytes that all ranks must have: of a broadcast or a sum; else 0 */
    int            root;
    int            color, key;
    haul__engine **made; /* of a split: where the engine goes */

    haul__sum                 sum;
    haul__staged              staged;
    haul__direct_sum          direct;
    haul__work_note           note;
    struct haul__pending_get *get; /* of a request (group/offer.c); else NULL */

    /* Arrays of one element for each rank. */
    haul__work_head *heads;
    int             *counts[4];
    char            *texts; /* [size][HAUL__WORK_TEXT] */
    void            *copy;  /* of the data of a send */

    haul__error_record *error;      /* of a failed work, or the one that it passes */
    bool                together;   /* all ranks have passed errors: the group can go on */
    bool                of_another; /* the error says that another rank has failed */
};

struct haul_group {
    haul__object        object;
    haul__engine       *engine;
    haul__direct        direct; /* how data of devices moves; without a library through host memory */
    haul_group         *next;   /* of all groups */
    int64_t             number; /* from 1 on; on this process only */
    uint64_t            key;    /* the same on all of the group's ranks */
    int                 rank, size;
    char                apart[HAUL__DIRECT_WHY + 160]; /* why its devices cannot be connected; "": they can */
    int                *places;                        /* ranks of the first group: where control messages go */
    haul_group_member  *members;
    atomic_ullong       splits;
    int64_t             offers;                            /* guarded by the lock of the works */
    atomic_ullong       begun;                             /* collectives */
    atomic_llong        sent_bytes;                        /* elements only */
    atomic_llong        exchange_ns, hidden_ns;            /* of gradients */
    int64_t            *messages_sent, *messages_received; /* of operations, to and from each rank */
    haul__own_message  *own_messages;
    bool                broken; /* a collective has failed: guarded by the lock of the works */
    haul__error_record *why;
};

/* A work for `group`, or NULL with the error recorded. */
haul__work *haul__work_new(haul_group *group, const haul__group_call *call);
void        haul__work_drop(haul__work *w);

/* Passes a new work on, and returns it: it runs at once on this thread, or on the group thread. */
haul__work *haul__work_start(haul__work *w);

/* Gets on with a work. Returns true if anything has changed. The thread's error goes to a work that fails. */
bool haul__work_step(haul__work *w);

/* The work is over and has failed with the thread's recorded error. */
void haul__work_fail(haul__work *w);

/* A request of it has begun and is not done, so the library uses its memory. */
bool haul__work_has_request(const haul__work *w);

/* True if an earlier work of the list that begins with `first` must be over before `w` runs: 1 and 2 above. */
bool haul__work_must_wait(const haul__work *w, const haul__work *first);

/* The work has failed, and its group cannot be used any more; and the work fails, because that was so before. */
void haul__work_break_group(haul__work *w);
void haul__work_refuse_broken(haul__work *w);

/* A group that no scope owns yet, with members of this process's host. NULL on failure. */
haul_group *haul__group_new(haul__engine *engine, uint64_t key);

/* For `next`. */
haul_status haul__work_over(haul__work *w);
/* Counts elements that this rank sends: in a work, and otherwise. */
void haul__work_sends(haul__work *w, int64_t bytes);
void haul__group_sends(haul_group *group, int64_t bytes);

/* Copies the result of a sum in host memory to its tensor. */
haul_status haul__staged_finish(haul__work *w);

/* ---- sum.c, for sums on devices ---- */

/* Where the segment of a rank begins in the present chunk; of rank `size`, where the last one ends. */
int64_t haul__sum_segment(const haul__work *w, int rank);
int     haul__sum_nodes(const haul__work *w, int rank);
/* Sets how many nodes there are, and how many elements a chunk has. */
void haul__sum_measure(haul__work *w);
/* The bytes that the segments of all nodes have in a chunk, at most. */
size_t haul__sum_room(const haul__work *w);
/* Sets `next`, and keeps the tensors' storages. On a failure the caller drops the work. */
haul_status haul__direct_sum_prepare(haul__work *w, haul_tensor *const *sums);

/* Splits a group, which is a collective. */
haul__work *haul__work_split(haul_group *group, int color, int key, haul__engine **made);

/* How many collectives the group of this key has begun on this process; 0 if there is none. */
uint64_t haul__group_begun(uint64_t key);

/* For tests: the most bytes of a message, and of a rank's messages in one call of the table. */
extern int64_t haul__group_message_bytes, haul__group_call_bytes;

#endif
