/* A step as a graph whose operations get a place: one of its devices each.
 *
 * All times are whole picoseconds, so that a flow equals its cut exactly. The cost of a placement is additive: the
 * times of the operations where they run, and those of the copies. A tensor is copied once, from the device that makes
 * it, to each other device on which an operation uses it, however many do. Operations of one group stay together: those
 * that write the same memory, and a parameter with its gradient, its optimizer state and its update.
 *
 * A tensor has two sizes. On the device that makes it, it is resident in `home_bytes` between the operations `from` and
 * `until`; a copy has `bytes` and is resident from its first to its last use there. */
#ifndef HAUL_PLAN_GRAPH_GRAPH_H
#define HAUL_PLAN_GRAPH_GRAPH_H

#include <haul/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { HAUL__PLACE_DEVICES = 9 }; /* that a graph can have: the host and eight others */

/* The cost of an operation on a device that cannot run it. */
#define HAUL__PLACE_NEVER INT64_MAX
/* No sum of costs or sizes is more: JSON's readers hold numbers up to it exactly. */
#define HAUL__PLACE_MOST ((INT64_C(1) << 53) - 1)

/* The reason for memory. */
typedef enum haul__place_role {
    HAUL__PLACE_PARAMETER,
    HAUL__PLACE_GRADIENT,
    HAUL__PLACE_STATE,      /* of the optimizer */
    HAUL__PLACE_ACTIVATION, /* what the step makes and uses */
    HAUL__PLACE_WORKSPACE,  /* scratch memory of one operation */
    HAUL__PLACE_DATA,       /* what the step only reads and no parameter is: examples and their classes */
    HAUL__PLACE_OTHER,      /* what a training keeps otherwise: running statistics, sums of losses */
    HAUL__PLACE_ROLES
} haul__place_role;

typedef struct haul__place_operation {
    char        name[48], module[80];
    const char *section; /* of the program, "backward pass"; lives as long as the process */
    bool        outside; /* no module called it; `module` uses what it writes */
    int64_t     call;    /* the operation of the program; -1: memory from before the step */
    int         group;   /* with haul__place_finish */
    int64_t     cost[HAUL__PLACE_DEVICES];
} haul__place_operation;

/* What the step reads of the mini-batch, on the host from before the step. */
static inline bool haul__place_is_data(const haul__place_operation *o)
{
    return o->call < 0 && !strcmp(o->name, "data");
}

/* True for an operation of the program that costs something on a device. */
static inline bool haul__place_takes_time(const haul__place_operation *o)
{
    bool takes = false;
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++)
        takes = takes || o->cost[d];
    return takes && o->call >= 0;
}

typedef struct haul__place_tensor {
    int              producer;
    int              from, until;
    int64_t          bytes, home_bytes;
    haul__place_role role;
    int              use, use_count;   /* in graph.uses */
    int              user, user_count; /* in graph.users */
} haul__place_tensor;

/* The times of a tensor's copies: from a device, to another one. */
typedef struct haul__place_copies {
    int64_t ps[HAUL__PLACE_DEVICES][HAUL__PLACE_DEVICES];
} haul__place_copies;

/* A use of a tensor by an operation. */
typedef struct haul__place_use {
    int tensor, operation;
} haul__place_use;

/* A group other than the producer's that uses a tensor, and its first and last operation that does. */
typedef struct haul__place_user {
    int group, first, last;
} haul__place_user;

typedef struct haul__place_group {
    int64_t cost[HAUL__PLACE_DEVICES];
    int     touch, touch_count; /* the tensors that it makes or uses, in graph.touches */
} haul__place_group;

/* Empty and without limits if all is zero but the number of devices. */
typedef struct haul__place_graph {
    int                    device_count; /* 2 to HAUL__PLACE_DEVICES */
    haul__place_operation *operations;
    haul__place_tensor    *tensors;
    int64_t               *times; /* of copies: device_count * device_count for each tensor */
    haul__place_use       *uses;  /* by tensor, then by operation, after haul__place_finish */
    haul__place_user      *users;
    haul__place_group     *groups;
    int                   *touches;
    int                   *parents; /* of operations, until haul__place_finish: those that stay together are a tree */
    size_t                 operation_count, tensor_count, use_count, user_count, group_count;
    size_t                 operation_room, tensor_room, time_room, use_room, user_room, parent_room;
    int64_t                limit[HAUL__PLACE_DEVICES]; /* bytes; 0: none */
    const char *names[HAUL__PLACE_DEVICES]; /* of the devices, the caller's, for messages; NULL: only their numbers */
    int64_t     most;                       /* no placement costs more, with haul__place_finish */
} haul__place_graph;

/* These return the index, or -1 with the error recorded. Operations are added in an order in which they can run. A
 * tensor is resident from its producer on; haul__place_use extends `until`. */
int haul__place_add_operation(haul__place_graph *g, const haul__place_operation *operation);
int haul__place_add_tensor(haul__place_graph *g, const haul__place_tensor *tensor, const haul__place_copies *copies);
haul_status haul__place_add_use(haul__place_graph *g, int tensor, int operation);

/* The two operations get the same place. */
void haul__place_join(haul__place_graph *g, int a, int b);

/* Numbers the groups, and adds up. Fails if a group can run on no device, and if a sum is too large. */
haul_status haul__place_finish(haul__place_graph *g);
void        haul__place_free(haul__place_graph *g);

/* The time of a tensor's copy between two devices. */
static inline int64_t haul__place_copy_time(const haul__place_graph *g, const haul__place_tensor *t, int from, int to)
{
    const size_t n = (size_t)g->device_count;
    return g->times[((size_t)(t - g->tensors) * n + (size_t)from) * n + (size_t)to];
}

/* ---- placements: a device for each group ---- */

bool haul__place_allows(const haul__place_graph *g, int group, int device);

/* The device if the group can run there, else the first one on which it can. */
int haul__place_allowed(const haul__place_graph *g, int group, int device);

/* Everything on one device, as far as it is allowed. */
void haul__place_all_on(const haul__place_graph *g, int device, uint8_t *place);

/* True if the groups have few other places: pairs of groups move then, and random starts are tried. */
bool haul__place_is_small(const haul__place_graph *g);

/* True if a group on that device uses the tensor, which another one makes. */
bool haul__place_copies_to(const haul__place_graph *g, int tensor, const uint8_t *place, int device);

/* The time of the tensor's copies. */
int64_t haul__place_copying(const haul__place_graph *g, int tensor, const uint8_t *place);

/* The bytes of all copies; sets *count to how many there are unless it is NULL. */
int64_t haul__place_copied_bytes(const haul__place_graph *g, const uint8_t *place, int *count);

/* The times of the operations and those of the copies, and the former alone. */
int64_t haul__place_cost(const haul__place_graph *g, const uint8_t *place);
int64_t haul__place_computing(const haul__place_graph *g, const uint8_t *place);

/* What the cost would change by if the group moved to that device, which must be allowed. */
int64_t haul__place_change(const haul__place_graph *g, uint8_t *place, int group, int device);

typedef struct haul__place_peak {
    int64_t bytes;
    int     moment; /* the first operation at which so many are resident */
} haul__place_peak;

/* The peaks of all devices. `scratch` has device_count * (operation_count + 1) numbers. */
void haul__place_peaks(const haul__place_graph *g, const uint8_t *place, int64_t *scratch,
                       haul__place_peak peaks[HAUL__PLACE_DEVICES]);

/* The bytes of a tensor that are resident on a device at an operation. */
int64_t haul__place_resident(const haul__place_graph *g, int tensor, const uint8_t *place, int device, int moment);

#endif
