/* The buckets of a step under way: the sums over this rank's pieces, and their exchange with the other ranks.
 *
 * The gradients of a bucket are gathered as soon as the backward pass has finished all of them. In a rank's last piece
 * of a step the exchange of the bucket then begins, and the group's thread makes it while the pass goes on. Buckets
 * are exchanged in their order on all ranks: a bucket that is complete waits for those before it, so neither timing
 * nor the rank's graph changes which exchanges the ranks make.
 *
 * In a followed piece (parallel/piece.h) gradients are gathered when it is differentiated, but computed later: until
 * then they are deferred.
 *
 * Where parameters have owners (haul__flat_divide), the exchange brings a rank the sums of its own parameters only. A
 * bucket is freed when its exchange is over, and the pass waits for that where too many are under way. */
#ifndef HAUL_PARALLEL_BUCKETS_H
#define HAUL_PARALLEL_BUCKETS_H

#include "group/group.h"
#include "parallel/flat.h"
#include "parallel/sums.h"

typedef struct haul__bucket {
    haul__piece_sums sums;     /* of the own pieces that have come so far */
    haul__work      *exchange; /* under way; NULL: none */
    haul_tensor     *part;     /* with owners: what the exchange has left for this rank; holds a reference, or NULL */
    haul_tensor     *deferred; /* the numbers of this piece, which are not in `sums` yet; holds a reference, or NULL */
    int              left;     /* parameters whose gradients of this piece are not complete */
    bool             gathered; /* the numbers of this piece are in `sums`, or deferred */
    int64_t          begin_ns, end_ns; /* of the exchange, when it is over */
} haul__bucket;

typedef struct haul__buckets {
    haul__flat   *flat;
    haul_group   *group;
    haul__tree    tree;
    haul__bucket *list; /* those of flat, then the last one; room for one for each parameter and the last one */

    int64_t step;
    int     piece;
    bool    last;    /* it is the rank's last piece of the step */
    bool    defers;  /* what it gathers is deferred */
    int     begun;   /* exchanges of this step, if it is the last piece */
    int     settled; /* with owners: those of them that are over, and whose buckets are freed but for the own parts */
    int64_t pass_over_ns; /* when the backward pass of the piece had computed all gradients */

    int  *seen; /* parameters in the order in which they were complete first; NULL once that is the order of buckets */
    int   seen_count;
    bool *was_seen;
} haul__buckets;

/* `flat` and `group` must outlive it. */
haul_status haul__buckets_init(haul__buckets *b, haul__flat *flat, haul_group *group, const haul__tree *tree);
void        haul__buckets_free(haul__buckets *b);

/* A piece is differentiated from here on. The same piece may begin again until something was added to the sums. */
void haul__buckets_begin(haul__buckets *b, int64_t step, int piece, bool last, bool defers);

/* For haul__backward_once. context: haul__buckets. */
haul_status haul__buckets_take(haul_tensor *leaf, void *context);

/* The piece is differentiated: gathers the buckets that are missing. */
haul_status haul__buckets_finish(haul__buckets *b, haul_tensor *loss, double weight);

/* The same with a last bucket that was gathered before. */
haul_status haul__buckets_finish_with(haul__buckets *b, haul_tensor *rest);

/* The piece was computed: adds its deferred numbers to the sums. */
haul_status haul__buckets_add_deferred(haul__buckets *b);

/* After the last piece: waits for the exchanges. sums: that of all pieces for each bucket, flat->bucket_count + 1. They
 * are valid until haul__buckets_clear. With owners, the part of this rank, or HAUL_NONE if it has none. */
haul_status haul__buckets_wait(haul__buckets *b, haul_tensor **sums);

/* Forgets the sums. Waits for exchanges that have begun, and ignores how they end. */
void haul__buckets_clear(haul__buckets *b);

/* After haul__buckets_clear: the first call puts the gradients into buckets in the order in which rank 0 completed
 * them. Later calls, and those of a group of one rank, change nothing. */
haul_status haul__buckets_learn(haul__buckets *b);

#endif
