/* The log of a dry run: calls of operations, the tensors and stores that they use, and the commands that they submit.
 *
 * A dry run always has a log (memory/dry_run.h). The driver writes the calls, the allocator's part of dry runs writes
 * the stores. Readers take a range of it: haul_estimate its operations, haul_program_record a whole program. */
#ifndef HAUL_PROGRAM_PROGRAM_H
#define HAUL_PROGRAM_PROGRAM_H

#include <haul/program.h>

#include "core/map.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "device/device.h"
#include "program/role.h"

typedef struct haul__operation haul__operation; /* engine/operation.h */

/* The module that is called, or whose gradient is computed. */
typedef struct haul__program_module {
    char path[sizeof((haul_program_operation *)0)->module];
    bool of_gradient;
} haul__program_module;

/* Attributes of calls, each at a multiple of 16 bytes. All zeros: there are none. */
typedef struct haul__attribute_list {
    unsigned char *bytes;
    size_t         size, room;
} haul__attribute_list;

/* Adds the attributes of a call, and returns their place in `*at`. */
haul_status haul__attributes_add(haul__attribute_list *list, const void *attributes, size_t size, size_t *at);

/* The thread's settings on which a call depends. There is no padding: two are equal if their bytes are. */
typedef struct haul__call_settings {
    haul_device *device;
    uint32_t     no_grad, placement, precision, autocast;
} haul__call_settings;

haul__call_settings haul__call_settings_now(void);

/* Makes them the thread's. */
static inline void haul__call_settings_set(const haul__call_settings *settings)
{
    haul__thread_state *s = haul__thread();
    s->device = settings->device;
    s->no_grad = settings->no_grad;
    s->words[HAUL__PLACEMENT] = settings->placement;
    s->words[HAUL__PRECISION] = settings->precision;
    s->words[HAUL__AUTOCAST] = settings->autocast;
}

/* What the driver knows of a call when it computes, and the thread's settings. */
typedef struct haul__program_form {
    haul__call_settings settings;
    haul_device        *partner;
    bool                records, into;
    uint32_t            wanted, saves, saves_results;
    uint64_t            writes;
    uint32_t            absent;     /* results that are left out */
    size_t              attributes; /* in `attributes` of the log, as infer completed them */
} haul__program_form;

/* The launch of a pointwise kernel on a processor. */
typedef struct haul__program_launch {
    int      kernel;     /* its id */
    bool     is_flat;    /* its tensors are dense in the order of the result, or repeated */
    uint32_t repeated;   /* bits of its tensors, the result first: one element is that of all */
    uint64_t scalars[2]; /* as kernels have them */
} haul__program_launch;

/* A call of an operation, or a section: a part of the program that has a name. */
typedef struct haul__program_call {
    const haul__operation *operation; /* NULL: a section */
    const char            *name;      /* lives as long as the process */
    int                    parent;    /* the call or section that it is a part of; -1: none */
    haul__program_module   module;
    bool                   listed;   /* it has succeeded, and is neither a section nor composed of others */
    bool                   in_place; /* a result may overwrite an operand of its layout */
    bool                   tiles;    /* it is a launch of a kernel that takes pointwise_params */
    haul_device           *device;   /* NULL for a section */
    double                 flops;
    int64_t                bytes;
    size_t                 value; /* its first value */
    int                    operand_count, result_count, view_of;
    haul__program_launch   launch; /* if it `tiles` */
    haul__program_form     form;
} haul__program_call;

typedef struct haul__program_store {
    haul_device         *device;
    bool                 planned;      /* the dry run allocated it */
    bool                 stays;        /* haul_memory_pin keeps it on its device */
    haul_device         *pinned_for;   /* of pinned host memory; else NULL */
    int64_t              bytes, block; /* of its elements, of the allocator's block */
    const char          *origin;
    haul__role           role;
    haul__program_module module;
    int64_t              born, freed;       /* moments; 0: before the run; INT64_MAX: not yet */
    int                  born_in, freed_in; /* the calls that were under way; -1: none */
    size_t               born_after;        /* the number of calls that were described before it was allocated */
} haul__program_store;

/* An allocation or a release. */
typedef struct haul__program_change {
    int  store;
    bool freed;
} haul__program_change;

/* A command and the stores that it uses. */
typedef struct haul__program_command {
    int    call;   /* the call that submits it; -1: none */
    size_t after;  /* the number of calls that were described before */
    size_t moment; /* the number of changes before it */
    size_t use;    /* its first use */
    int    use_count;
    bool   checks; /* it checks indices */
} haul__program_command;

typedef enum haul__foresight_kind {
    HAUL__FORESEES_CALL,  /* the step comes to the call at `position`; 0: it has ended */
    HAUL__FORESEES_USE,   /* the store is used next at `position` */
    HAUL__FORESEES_RETURN /* the store returns now if `room` bytes are left then */
} haul__foresight_kind;

/* What a followed step on a device that spills knows of its next uses (memory/spill/next_use.h). */
typedef struct haul__program_foresight {
    haul__foresight_kind kind;
    const haul_device   *device; /* of a call */
    int                  store;
    uint64_t             position, end; /* the end of the step */
    int64_t              room;
    size_t               moment, after; /* the numbers of changes and of commands before it */
} haul__program_foresight;

/* A moment is a number of changes. All zero but `now` is an empty log. */
typedef struct haul__program {
    haul__program_call      *calls;
    haul_program_value      *values;
    haul__program_store     *stores;
    haul__program_command   *commands;
    haul__program_change    *changes;
    haul__program_foresight *foresights;
    int                     *uses;       /* stores */
    haul__attribute_list     attributes; /* of the calls */
    int                     *described;  /* calls that compute by themselves, in the order in which they do */
    size_t                   call_count, value_count, store_count, command_count, change_count, use_count;
    size_t                   call_room, value_room, store_room, command_room, change_room, use_room;
    size_t                   described_count, described_room, foresight_count, foresight_room;
    haul__map                outside;    /* storages from before the dry run -> the number of their store + 1 */
    int                      now;        /* the call under way; -1: none */
    bool                     incomplete; /* host memory was exhausted where a change had to be written */
} haul__program;

void haul__program_init(haul__program *p);
void haul__program_clear(haul__program *p);

/* Functions that can fail return -1, with the error recorded, if host memory is exhausted. */

/* Begins a call, or a section if `operation` is NULL; returns its number. */
int haul__program_begin(haul__program *p, const haul__operation *operation, const char *name);

/* Ends the call under way. Calls that begin within it are its parts. */
void haul__program_end(haul__program *p, int call);

/* Lists the call under way: it will compute by itself, now that its operands are ready, which may be calls of their
 * own. */
haul_status haul__program_describe(haul__program *p);

/* Adds a value of the call under way; NULL is none. `store` is the storage's store: that of a planned storage is known,
 * others are looked up. */
haul_status haul__program_add_value(haul__program *p, const haul_tensor *t, int store, bool written);

/* A store that the dry run allocates; returns its number. */
int haul__program_add_store(haul__program *p, const haul__program_store *store);

/* The store of a storage from before the dry run: -1, without an error, if it is not in the log yet. Then it is added.
 */
int haul__program_find(const haul__program *p, const haul__storage *storage);
int haul__program_add_outside(haul__program *p, const haul__storage *storage, const haul__program_store *store);

/* The store is in use no longer. The address of its storage may be used again after haul__program_forget. */
void haul__program_free_store(haul__program *p, int store);
void haul__program_forget(haul__program *p, const haul__storage *storage);

/* Adds a command, whose uses are added after it. */
haul_status haul__program_add_command(haul__program *p, bool checks);
haul_status haul__program_add_use(haul__program *p, int store);

/* Adds what a followed step knows, at this moment. */
haul_status haul__program_foresee(haul__program *p, const haul__program_foresight *foresight);

#endif
