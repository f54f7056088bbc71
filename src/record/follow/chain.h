/* Chains of a variant: calls of neighbouring pointwise operations that are one command. A reduction may be the last one
 * (record/follow/chain_end.h).
 *
 * The command computes the chain tile by tile: each operation's kernel runs over the elements of a tile before the next
 * tile begins. So what passes from one operation to the next stays in the caches, and a result that no other call uses
 * has only the memory of a tile. Threads share the tiles. */
#ifndef HAUL_RECORD_FOLLOW_CHAIN_H
#define HAUL_RECORD_FOLLOW_CHAIN_H

#include "record/follow/chain_end.h"
#include "record/follow/variant.h"

/* A call of the chain as its kernel runs: see engine/collect.h. */
typedef struct haul__part {
    haul__collected launch;
    int             slots[HAUL__MAX_BUFFERS]; /* of its tensors: the slot of a tile; -1: memory */
    bool            learnt;
} haul__part;

struct haul__chain {
    int              count;      /* calls */
    int              part_count; /* pointwise ones; the other one, if there is one, is the end */
    size_t           first;      /* the first call */
    haul__part      *parts;      /* NULL: it has not run yet */
    int              slots;      /* results that a tile keeps at one time */
    size_t           slot_bytes;
    int64_t          items, tile;  /* elements, of all and of a tile */
    int64_t          tiles, grain; /* a thread takes `grain` tiles at once */
    haul__chain_end *end;          /* NULL: there is none, or it has not run yet */
    int              end_slot;     /* of the end's operand; -1: memory */

    struct haul__chain_code *codes; /* machine code of neighbouring parts, in their order; others run their kernels */
    int                      code_count;
    bool                     is_at_once; /* one code is all there is, so it needs no tiles */
    int                      write_count, buffer_count;
    size_t *buffers; /* the tensors whose memory it uses, in the variant's: those that it writes come first */
    char   *name;    /* "haul_mul_scalar + haul_relu", for events */

    struct haul__device_chain *on_device; /* of devices that compile kernel text; NULL: tiles, or it has not run yet */
};

/* Describes a chain of `count` calls, the last ones that the variant has. What one call alone wrote is `within` it. */
haul_status haul__chain_make(haul__variant *v, size_t first, int count, haul__chain *out);
void        haul__chain_free(haul__chain *chain);

/* Learns what the call at `at`, which has begun, would launch; to be called for each call before the first run. */
haul_status haul__chain_learn(haul__variant *v, haul__chain *chain, int at, haul__call *c);

/* True if a part from `from` on, or the end, reads memory of the tensor. */
bool haul__chain_is_read_from(const haul__chain *chain, int from, const haul_tensor *t);

/* True if it knows all launches. In dry runs it needs none. */
bool haul__chain_is_known(const haul__chain *chain);

/* Submits the command. */
haul_status haul__chain_run(const haul__variant *v, const haul__chain *chain);

#endif
