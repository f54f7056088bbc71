/* The fastest way to train within a memory limit: batch, accumulation, precision, the optimizer's state in host memory,
 * segments that run again, and spilling, chosen together. */
#ifndef HAUL_PLAN_CHOOSE_CHOOSE_H
#define HAUL_PLAN_CHOOSE_CHOOSE_H

#include "plan/keep.h"

/* Techniques, as bits. */
enum {
#define X(NAME, bit, text) HAUL__ALLOW_##NAME = 1 << (bit),
#include "plan/choose/techniques.def"
#undef X
};

/* The technique's name, "recompute"; NULL after the last. */
const char *haul__technique_name(int bit);

/* One way to make a step. */
typedef struct haul__choose_way {
    int64_t batch;   /* examples in a mini-batch */
    int64_t parts;   /* mini-batches in a step */
    bool    bf16;    /* else in the training's own precision */
    bool    offload; /* the optimizer's state is in host memory; else where the training has it */
} haul__choose_way;

typedef struct haul__choose_request {
    /* as haul__keep_record, for a way */
    haul_status (*record)(void *context, const haul__choose_way *way, haul__segments *segments, haul__fit_step *out);
    /* A dry run of the training in which it spills by itself what it uses latest; NULL: it is not tried. */
    haul_status (*spill)(void *context, const haul__choose_way *way, int64_t limit, haul__fit_result *out);
    void                *context;
    unsigned             allowed;    /* techniques */
    int64_t              batch;      /* examples in a mini-batch; 0: the one that trains most examples in a second */
    int64_t              most_batch; /* that is tried for 0 */
    int64_t              parts;      /* mini-batches in a step, before ACCUMULATE makes smaller ones */
    int64_t              limit;      /* bytes on the training's device */
    int64_t              host_limit; /* bytes of host memory that what leaves the device may take; 0: any number */
    const haul__machine *machine;
    int                  number; /* of the device on the machine */
} haul__choose_request;

/* The same training with another limit. */
typedef struct haul__choose_other {
    int64_t bytes; /* more or less than the limit; 0: it was not tried */
    bool    fits;
    int64_t ps; /* of a step */
} haul__choose_other;

/* What a dry run of the training that spills by itself found. */
typedef enum haul__spills {
    HAUL__SPILLS_UNTRIED,
    HAUL__SPILLS_IN,
    HAUL__SPILLS_TOO_LARGE,
    HAUL__SPILLS_NO_HOST
} haul__spills;

/* A step of `batch` examples in `accumulate` mini-batches, with the plan of the last one. All zero is empty. */
typedef struct haul__chosen {
    bool               fits;
    unsigned           used; /* techniques */
    int64_t            batch, accumulate;
    bool               bf16, offload;
    bool               by_use;             /* no list of moves fits, but the training as it spills by itself */
    haul__keep         keep;               /* of a mini-batch */
    int64_t            ps, bound, free_ps; /* of a step; the last in the training's own precision and parts */
    int64_t            free_peak;          /* likewise */
    int64_t            least;              /* bytes on the device: no allowed way needs less, by the model */
    int64_t            moved;              /* bytes that are spilled in a step */
    int64_t            spill_ps;           /* of a step: spilling costs at most that */
    int64_t            hosted;  /* bytes of host memory: what a mini-batch spills, and the optimizer's state */
    haul__spills       spills;  /* if spilling is allowed and no list of moves fits */
    int64_t            largest; /* mini-batch that was found to fit if that of the request does not; 0: none */
    haul__choose_other more, less;
} haul__chosen;

/* If nothing fits, .fits is false and the rest is of the plan that comes closest. On failure there is nothing to free.
 */
haul_status haul__choose(const haul__choose_request *r, haul__chosen *out);
void        haul__chosen_free(haul__chosen *c);

/* The difference that more or less memory would make: "388.2 MiB more would save 12.1 ms; 97.1 MiB less would cost
 * 3.4 ms". */
const char *haul__chosen_sentence(const haul__chosen *c, char *out, size_t size);

#endif
