/* What moves bytes between the ranks of a group: a table of functions, one for each kind of group. No kind adds
 * numbers for a program: sums are Haul's own (group/tree.h), so they do not depend on the kind. */
#ifndef HAUL_GROUP_KIND_H
#define HAUL_GROUP_KIND_H

#include <haul/group.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* The most bytes of one message, and of all messages of a rank in one call of the table. */
enum { HAUL__GROUP_MESSAGE = 64 << 20, HAUL__GROUP_CALL = 1 << 30 };

/* Messages between two ranks of one channel arrive in order. */
typedef enum haul__group_channel { HAUL__GROUP_NOTES = 1, HAUL__GROUP_DATA, HAUL__GROUP_CONTROL } haul__group_channel;

typedef struct haul__group_kind haul__group_kind;

/* One group as its kind sees it: the kind's struct begins with this. */
typedef struct haul__engine {
    const haul__group_kind *kind;
    int                     rank, size;
} haul__engine;

/* A call of the table that has begun. */
typedef struct haul__request {
    intptr_t value;
    bool     open; /* it was begun and is not done */
} haul__request;

/* What a rank sends to or receives from each rank: the bytes, and where they are from the beginning of a buffer. */
typedef struct haul__portions {
    const int *bytes, *at;
} haul__portions;

/* Which thread makes the calls of the table. */
typedef enum haul__group_runner {
    HAUL__CALLED_AT_ONCE, /* the one that begins a work, which is over then */
    HAUL__CALLED_BY_GROUP_THREAD,
    HAUL__CALLED_BY_RANK /* the one that begins works, whenever it begins or waits for one (group/local) */
} haul__group_runner;

/* Every function but `abort` is called by one thread of a rank. Those with a request begin something and return at
 * once; its buffers stay untouched until `progress` says that it is done. */
struct haul__group_kind {
    const char        *name;
    haul__group_runner called;

    /* A group of all processes; or, with `parent`, of the ranks of `parent` that pass this color. Only the latter may
     * begin the request; *out is set when it is done. */
    haul_status (*open)(haul__engine *parent, int color, int key, haul__engine **out, haul__request *request);
    /* All ranks call it. Frees the engine: that of a rank which calls the table itself with its group, else all of them
     * when the program ends. */
    void (*close)(haul__engine *e);

    /* Each rank sends a portion of `out` to each rank, whose portion of `in` it becomes. A rank's portion for itself is
     * empty. */
    haul_status (*all_to_all)(haul__engine *e, const void *out, haul__portions sent, void *in, haul__portions got,
                              haul__request *request);
    /* Each rank has its portion of `all`, and gets those of the others. */
    haul_status (*all_gather)(haul__engine *e, void *all, haul__portions portions, haul__request *request);
    /* The library's own sum of `data`, which is changed in place: for comparisons only, because its bits depend on the
     * number of ranks. NULL: there is none. */
    haul_status (*all_reduce)(haul__engine *e, float *data, int count, haul__request *request);
    haul_status (*broadcast)(haul__engine *e, void *data, int bytes, int root, haul__request *request);
    haul_status (*send)(haul__engine *e, const void *data, int bytes, int to, haul__group_channel channel,
                        haul__request *request);
    haul_status (*receive)(haul__engine *e, void *data, int bytes, int from, haul__group_channel channel,
                           haul__request *request);
    /* Sets request->open to false if it is done. */
    haul_status (*progress)(haul__engine *e, haul__request *request);
    /* Ends all processes of the job. May not return. */
    void (*abort)(haul__engine *e);
    /* Sets library, family and version. */
    void (*describe)(const haul__engine *e, haul_group_properties *out);
    /* The name of a rank's device, which names the rank. NULL: ranks are processes. */
    const char *(*device)(const haul__engine *e, int rank);
};

extern const haul__group_kind haul__group_none, haul__group_mpi, haul__group_local;

#endif
