/* The memory of a step on one device, and what may leave it.
 *
 * The step is a list of operations. Some tensors live from the forward to the backward pass: between two operations,
 * `leave` and `back`, nothing uses them. For each of them there are three choices:
 *
 * - keep: its block stays;
 * - spill: it is copied to host memory after `leave`, and back before its next use;
 * - recompute: its segment, operations of the forward pass, keeps nothing, and runs again before operation `back` of
 *   the segment. This is one choice for all tensors that the segment makes.
 *
 * The bytes that are resident at an operation are exact for the blocks that stay. The time of a step is that of its
 * operations, of those that run again, and of copies. Copies to and from the host are two queues. If the link does not
 * overlap, the device waits for each copy. If it does,
 *
 * - a copy to the host begins when its tensor was last used, and the block is free when it ends: an operation waits
 *   until there is memory for it;
 * - a copy back begins at the first operation from which on there is memory for it, in the order of the uses, and the
 *   operation that uses it waits for it.
 *
 * All times are whole picoseconds. */
#ifndef HAUL_PLAN_MEMORY_MODEL_H
#define HAUL_PLAN_MEMORY_MODEL_H

#include <haul/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No sum of sizes or times of a model is more, so that products with prices fit in 128 bits. */
#define HAUL__MEMORY_MOST ((INT64_C(1) << 53) - 1)

/* A tensor that may leave the device. */
typedef struct haul__memory_tensor {
    int64_t bytes, size; /* of its block, of its elements */
    int     from, until; /* the first and the last operation at which the block exists, if nothing is done */
    int     leave;       /* its last use before the gap; -1: it is away when the step begins */
    int     back;    /* its first use after the gap, at most `until`; -1: none but that of segments that run again */
    int64_t out, in; /* ps of the copies to the host and back; `in` -1: it cannot be spilled */
    int     segment; /* that makes it; -1: none */
    int     drop;    /* the last operation that uses it before its segment runs again, if it does */
    int64_t store;   /* of the program */
} haul__memory_tensor;

/* Operations of the forward pass that can run again. Segments do not overlap. */
typedef struct haul__memory_segment {
    int     first, last;      /* operations */
    int     back;             /* the operation before which they run again; it comes after `last` */
    int64_t around;           /* fixed bytes while they do, without those of `own` */
    int     read, read_count; /* tensors of others that they use: in model.reads */
    int     number;           /* of the network's segments */
} haul__memory_segment;

/* All zero is an empty model without a limit. */
typedef struct haul__memory_model {
    int                   operation_count;
    int64_t              *time;  /* ps of each operation */
    int64_t              *fixed; /* bytes at each operation that can neither be spilled nor recomputed */
    int64_t              *own;   /* of these, those that operations of the same segment have allocated */
    haul__memory_tensor  *tensors;
    haul__memory_segment *segments;
    int                  *reads; /* tensors */
    int                   tensor_count, segment_count, read_count;
    int64_t               limit;    /* bytes */
    bool                  overlaps; /* copies run while the device computes */
} haul__memory_model;

/* Room for so many, all zero. On failure the model is empty. */
haul_status haul__memory_model_new(haul__memory_model *m, int operations, int tensors, int segments, int reads);
void        haul__memory_model_free(haul__memory_model *m);

/* Fails with HAUL_INVALID_ARGUMENT if a number is out of its range, or a sum too large. */
haul_status haul__memory_model_check(const haul__memory_model *m);

/* ---- choices ---- */

/* A byte each: 1 for tensors that are spilled and for segments that run again. */
typedef struct haul__memory_choice {
    uint8_t *spilled; /* of tensors */
    uint8_t *again;   /* of segments */
} haul__memory_choice;

/* What a choice takes. */
typedef struct haul__memory_figures {
    int64_t ps;      /* of the step */
    int64_t peak;    /* bytes */
    int     peak_at; /* the operation; of a segment that runs again, `back` of the segment */
    int64_t over;    /* the most bytes beyond the limit; 0: it fits */
    int64_t excess;  /* KiB beyond the limit at all operations together */
    int64_t moved;   /* bytes that are spilled in a step */
} haul__memory_figures;

/* Arrays for haul__memory_try. */
typedef struct haul__memory_work {
    const haul__memory_model *model;
    void                     *memory;
    int                      *at, *replay; /* of operations, of segments: their places in the order of the run */
    int                      *operation;   /* of places */
    int64_t                  *time, *need; /* of places: ps, and bytes without copies under way */
    int                      *leaving;     /* of places: the first tensor that leaves after it, then `next` */
    int                      *coming;      /* of places: the first tensor that is used there again */
    int                      *next_leaving, *next_coming; /* of tensors */
    int                      *gone, *used; /* of tensors: the places between which it is away; used -1: it stays */
    int                      *queue, *out; /* tensors in the order in which they come back, and go */
    int                      *issued;      /* of tensors: the operation at which it begins to come back */
    int                      *order;       /* segments by `back` */
    int64_t                  *ready;       /* of tensors: the end of its copy */
    int                       place_count;
} haul__memory_work;

haul_status haul__memory_work_new(haul__memory_work *w, const haul__memory_model *m);
void        haul__memory_work_free(haul__memory_work *w);

/* Finds out what the choice takes. Afterwards w->issued has the operation before which each spilled tensor must be on
 * its way back, and -1 for tensors that are not spilled. */
haul__memory_figures haul__memory_try(haul__memory_work *w, const haul__memory_choice *c);

/* The times of all operations. */
int64_t haul__memory_time(const haul__memory_model *m);

#endif
