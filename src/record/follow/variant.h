/* A variant of a recording: what one form of the step asks for, and the calls that compute it.
 *
 * `entries` are the calls that the program makes, in their order, with operands and results as references; following
 * compares them. `calls` are the operations that compute, in their order, with tensors whose storages are bound anew in
 * each run; those of a backward pass and of composite operations are among them. */
#ifndef HAUL_RECORD_FOLLOW_VARIANT_H
#define HAUL_RECORD_FOLLOW_VARIANT_H

#include <haul/program.h>

#include "base/workspace.h"
#include "engine/follow.h"
#include "program/program.h"

typedef enum haul__reference_kind { HAUL__NO_TENSOR, HAUL__INSIDE, HAUL__OUTSIDE } haul__reference_kind;

/* A tensor that the program passes to a call. */
typedef struct haul__reference {
    haul__reference_kind kind;
    bool                 requires_grad;
    bool                 tracked; /* of what a function of the program gets: a gradient flows through it */
    uint32_t             value;   /* inside: the number of the value */
    int                  outside; /* outside: the number of the outside store */
    int                  leaf;    /* the number of the leaf that it is; -1: none */
    size_t               form;    /* outside: the place of its form in `forms` */
} haul__reference;

/* A tensor that a call of the program makes. */
typedef struct haul__made {
    size_t form;
    int    store;   /* a store of the log; in a complete variant one of `stores` */
    bool   tracked; /* a gradient flows through it */
} haul__made;

/* The gradient that a pass gives to a leaf, or adds to the leaf's in place. */
typedef struct haul__leaf_change {
    int             leaf;
    bool            inside; /* the step made the leaf, so nothing is left of it if the step differs */
    haul__reference before; /* the leaf's gradient before */
    uint32_t        value;  /* the new one; 0: the same one */
} haul__leaf_change;

typedef enum haul__entry_kind {
    HAUL__ENTRY_CALL,
    HAUL__ENTRY_PASS,     /* a backward pass; gradient functions that it calls come behind it */
    HAUL__ENTRY_MARK,     /* a function that runs again in one begins */
    HAUL__ENTRY_FUNCTION, /* a function of a custom operation begins, whose references are what it gets */
    HAUL__ENTRY_END       /* it ends, and the references are its results */
} haul__entry_kind;

typedef struct haul__entry {
    haul__entry_kind       kind;
    const haul__operation *operation; /* of a call or a function */
    const char            *name;
    size_t                 attributes;
    haul__call_settings    settings;
    int                    count, result_count; /* references, and values that results become */
    bool                   into;
    size_t                 references, results;
    int                    log_call; /* its number in the log */
    int                    call;     /* the number in `calls` of the call whose attributes vary; -1: none */
    uint32_t               flags;    /* of a pass, whose references are y, the seed and the inputs */
    size_t                 composes; /* of a function that composes a call: the entry of that call */
    int                    gradient; /* of a gradient function: in `gradients`; -1: it composes a call */
    size_t                 leaf_change, leaf_change_count;
} haul__entry;

/* Memory from outside, bound in each run to the storage that the step passes. */
typedef struct haul__outside {
    int            log_store;
    haul_device   *device;
    bool           written;
    uint64_t       run;          /* the run in which it was bound */
    haul__storage *bound, *last; /* of this run, and of the last run; without references */
    int            first_handle; /* in `handles`; -1: none */
    int            next_moved;   /* in this run: another one that is not where it was in the last run; -1: none */
    bool           steady;       /* constants are made of it */
    haul__storage *prepared;     /* what the constants were made of, with a reference; NULL: nothing */
    uint64_t       version;      /* of that */
} haul__outside;

/* Memory that the step allocates. */
typedef struct haul__inside {
    haul_device   *device;
    int64_t        bytes, offset; /* the offset in the arena of its device; -1: memory of its own */
    bool           outlives;
    bool           constant;   /* it has the same values until a steady store changes; it has memory of its own */
    bool           filled;     /* of a constant: the memory has its values */
    haul_device   *pinned_for; /* of pinned host memory; else NULL */
    int            first_handle;
    haul__storage *storage;    /* what results use now, with a reference */
    haul__storage *bound;      /* what handles use now */
    uint64_t       run;        /* of memory of its own: the run in which it was made last */
    bool           in_block;   /* its device spills: it has a block while it is used (follow/blocks.h) */
    bool           within;     /* a chain alone uses it, so it has no memory (follow/chain.h) */
    bool           early;      /* an update that moves is the last to use it, so its place is free early */
    haul__storage  own;        /* of a store in the arena */
    void          *sub_buffer; /* the handle of its part of the arena; NULL: none */
} haul__inside;

/* A tensor as the calls see it. */
typedef struct haul__handle {
    haul_tensor tensor;
    int         next; /* the next handle of the store; -1: none */
} haul__handle;

/* A store of the program: one from outside or inside. */
typedef struct haul__variant_store {
    int outside, inside; /* -1 */
} haul__variant_store;

typedef enum haul__draws { HAUL__DRAWS_NOTHING, HAUL__DRAWS, HAUL__DRAWS_AGAIN } haul__draws;

typedef struct haul__replayed {
    const haul__operation *operation;
    haul_device           *device;
    haul__program_form     form; /* `attributes` is a place in the variant's */
    haul__draws            draws;
    int                    drawn_by; /* the call whose random numbers it uses */
    size_t                 place;    /* where the program makes the call: its number in the log's order */
    bool                   moved;    /* it computes earlier */
    bool                   once;     /* it makes constants */
    int                    chain;    /* in `chains`: the chain that it is a part of; -1: none */
    size_t                 scratch;  /* in `scratch`: memory for what it allocates */
    int                    scratch_count;
    int                    count, result_count;
    size_t                 tensors; /* operands and results, in `tensors` */
} haul__replayed;

/* Memory that the stores of a device share. The variants of a recording share it, too, because nothing in it outlives
 * a step. */
typedef struct haul__arena {
    haul_device   *device;
    int64_t        bytes;
    haul__storage *storage; /* NULL: not allocated yet */
    const void    *ran;     /* the variant that used it last (follow/places.h); NULL: none */
} haul__arena;

typedef struct haul__arenas {
    haul__arena     items[HAUL__MAX_DEVICES];
    int             count;
    uint64_t        generation; /* increases when an arena is replaced by a larger one */
    haul_tensor    *given;      /* the program's memory for the arena of its device, with a reference; NULL: none */
    haul__workspace work;       /* for host memory that commands need while they run */
} haul__arenas;

/* The arena of a device; NULL: there is none. */
haul__arena *haul__arenas_of(haul__arenas *arenas, const haul_device *device);
int64_t      haul__arenas_bytes(const haul__arenas *arenas);
void         haul__arenas_free(haul__arenas *arenas);
bool         haul__arenas_spill(const haul__arenas *arenas); /* one is on a device that spills by now */

/* A use of a store by a call. */
typedef struct haul__store_use {
    size_t store; /* inside; or outside, behind these */
    size_t next;  /* the call that uses it next, counted on in the next run; HAUL__NEVER: it ends */
    bool   is_first;
} haul__store_use;

#define HAUL__NEVER SIZE_MAX

typedef struct haul__chain haul__chain; /* follow/chain.h */

/* The bytes of an arena from the end of the segment before on, and the uses of the store that had them last. */
typedef struct haul__segment {
    int64_t     end;
    haul__uses *uses;
} haul__segment;

typedef struct haul__segments {
    haul__segment *items;
    size_t         count, room;
} haul__segments;

typedef struct haul__variant {
    haul__entry          *entries;
    haul__reference      *references;
    haul__made           *made; /* by the number of the value */
    uint32_t             *results;
    haul__leaf_change    *leaf_changes;
    haul_custom_gradient *gradients;  /* what gradient functions get, without tensors */
    haul_tensor          *forms;      /* dtype, shape, strides, offset, count */
    haul__attribute_list  attributes; /* of entries and of calls */
    haul__outside        *outsides;
    haul__inside         *insides;
    haul__variant_store  *stores;
    haul__handle         *handles;
    haul_tensor         **tensors;
    haul__replayed       *calls;
    haul__storage       **scratch; /* stores that no handle names */
    haul__program_module *modules; /* of the calls */
    int                  *moved;   /* the calls that move, in the order in which the program makes them */
    haul__chain          *chains;
    haul__store_use      *uses;                        /* of the calls, one after the other; NULL: not listed yet */
    size_t               *first_use;                   /* of each call, and their end */
    haul__arenas          needed;                      /* without memory */
    haul__segments        segments[HAUL__MAX_DEVICES]; /* of the arenas `needed` (follow/places.h) */
    uint64_t              generation; /* of the arenas in which its stores are, + 1; 0: they have no places */
    size_t      entry_count, reference_count, made_count, result_count, leaf_change_count, form_count, gradient_count;
    size_t      entry_room, reference_room, made_room, result_room, leaf_change_room, form_room, gradient_room;
    size_t      outside_count, inside_count, store_count, handle_count, tensor_count, call_count, outside_room;
    size_t      scratch_count, moved_count, use_count, chain_count;
    uint64_t    position;  /* of the first call of the run (memory/spill/next_use.h) */
    bool        in_blocks; /* so are some of its stores */
    bool        apart;     /* its stores have records of uses of their own (follow/places.h) */
    int         leaf_count;
    uint32_t    base;         /* added to the numbers of values */
    haul__node *marker;       /* the graph of results through which a gradient flows */
    char        refused[256]; /* why the step cannot be followed; "": it can */
    uint64_t    used;         /* the step in which it was followed last */
    int64_t     runs;         /* so many times it was followed */
    bool        constant;     /* it has calls that make constants */
    bool        early_placed; /* what updates that move use is in the arena */
    bool        settled;      /* the last run, if there was one, found all its memory in places, so updates move */
} haul__variant;

/* Records function(context) in a dry run. Returns NULL, with the error recorded, if that fails. A variant whose
 * `refused` is set has no calls. */
haul__variant *haul__variant_record(haul_status (*function)(void *context), void *context, const char *operation);
void           haul__variant_free(haul__variant *v); /* NULL is ignored */

/* For the recorder: turns its log into calls, and plans their memory. `v` has all that the recorder writes. */
haul_status haul__variant_complete(haul__variant *v, const haul__program *log, const char *operation);

/* Makes the arenas that the variant needs, and places its stores in them. */
haul_status haul__variant_prepare(haul__variant *v, haul__arenas *arenas);

/* Takes its stores out of the arenas, and frees the memory of those outside of them that no tensor of the program uses.
 * The next run places them again. */
void haul__variant_give_back(haul__variant *v);

/* Frees memory apart from the arena, in which the next run may find a place. */
void haul__variant_end_run(haul__variant *v);

/* For the run of another variant: leaves memory that outlived the last run to the program, which may free it before the
 * next one. */
void haul__variant_let_go(haul__variant *v);

/* After a run that differed: frees memory outside of the arenas that no tensor uses, but for constants. */
void haul__variant_drop(haul__variant *v);

/* Memory for a store that outlives the step: that of the last run, if nothing holds it but `holders` references, or
 * other memory. */
haul_status haul__inside_renew(haul__inside *s, int holders);
/* True if these references and its own are all that hold the memory of the last run. */
bool haul__inside_is_free(const haul__inside *s, int holders);
void haul__inside_leave(haul__inside *s); /* its place in the arena */
void haul__inside_embed(haul__inside *s); /* leaves the memory that it has for a storage without any, `own` */

/* The handles from the first one on use the storage. */
void haul__handles_bind(haul__variant *v, int first, haul__storage *storage);

/* Runs the calls, when the step was followed to its end. frozen: what a call allocates is an error. */
haul_status haul__variant_run(haul__variant *v, haul__arenas *arenas, bool frozen);

#endif
