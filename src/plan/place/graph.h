/* A step as a graph whose operations get a place: one of two devices each.
 *
 * All times are whole picoseconds, so that a flow equals its cut exactly. The cost of a placement is additive: the
 * times of the operations where they run, and those of the copies. A tensor is copied once to the other device if an
 * operation there uses it, however many do. Operations of one group stay together: those that write the same memory,
 * and a parameter with its gradient, its optimizer state and its update.
 *
 * A tensor has two sizes. On the device that makes it, it is resident in `home_bytes` between the operations `from` and
 * `until`; a copy has `bytes` and is resident from its first to its last use there. */
#ifndef HAUL_PLAN_PLACE_GRAPH_H
#define HAUL_PLAN_PLACE_GRAPH_H

#include <haul/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { HAUL__PLACE_DEVICES = 2 };

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
    HAUL__PLACE_OTHER,      /* data, and what a training keeps otherwise: running statistics, sums of losses */
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
    return o->call >= 0 && (o->cost[0] || o->cost[1]);
}

typedef struct haul__place_tensor {
    int              producer;
    int              from, until;
    int64_t          bytes, home_bytes;
    int64_t          copy[HAUL__PLACE_DEVICES]; /* time of a copy to that device from the other one */
    haul__place_role role;
    int              use, use_count;   /* in graph.uses */
    int              user, user_count; /* in graph.users */
} haul__place_tensor;

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

/* All zero is an empty graph without limits. */
typedef struct haul__place_graph {
    haul__place_operation *operations;
    haul__place_tensor    *tensors;
    haul__place_use       *uses; /* by tensor, then by operation, after haul__place_finish */
    haul__place_user      *users;
    haul__place_group     *groups;
    int                   *touches;
    int                   *parents; /* of operations, until haul__place_finish: those that stay together are a tree */
    size_t                 operation_count, tensor_count, use_count, user_count, group_count;
    size_t                 operation_room, tensor_room, use_room, user_room, parent_room;
    int64_t                limit[HAUL__PLACE_DEVICES]; /* bytes; 0: none */
    int64_t                most;                       /* no placement costs more, with haul__place_finish */
} haul__place_graph;

/* These return the index, or -1 with the error recorded. Operations are added in an order in which they can run. A
 * tensor is resident from its producer on; haul__place_use extends `until`. */
int         haul__place_add_operation(haul__place_graph *g, const haul__place_operation *operation);
int         haul__place_add_tensor(haul__place_graph *g, const haul__place_tensor *tensor);
haul_status haul__place_add_use(haul__place_graph *g, int tensor, int operation);

/* The two operations get the same place. */
void haul__place_join(haul__place_graph *g, int a, int b);

/* Numbers the groups, and adds up. Fails if a group can run on no device, and if a sum is too large. */
haul_status haul__place_finish(haul__place_graph *g);
void        haul__place_free(haul__place_graph *g);

/* ---- placements: a device for each group ---- */

bool haul__place_allows(const haul__place_graph *g, int group, int device);

/* The copy of a tensor: its destination, or -1 if no other group needs one. */
int haul__place_copied_to(const haul__place_graph *g, int tensor, const uint8_t *place);

/* The bytes of all copies; sets *count to how many there are unless it is NULL. */
int64_t haul__place_copied_bytes(const haul__place_graph *g, const uint8_t *place, int *count);

/* The times of the operations and those of the copies, and the former alone. */
int64_t haul__place_cost(const haul__place_graph *g, const uint8_t *place);
int64_t haul__place_computing(const haul__place_graph *g, const uint8_t *place);

/* What the cost would change by if the group changed its device, which must be allowed. */
int64_t haul__place_change(const haul__place_graph *g, uint8_t *place, int group);

typedef struct haul__place_peak {
    int64_t bytes;
    int     moment; /* the first operation at which so many are resident */
} haul__place_peak;

/* The peaks of both devices. `scratch` has HAUL__PLACE_DEVICES * (operation_count + 1) numbers. */
void haul__place_peaks(const haul__place_graph *g, const uint8_t *place, int64_t *scratch,
                       haul__place_peak peaks[HAUL__PLACE_DEVICES]);

/* The bytes of a tensor that are resident on a device at an operation. */
int64_t haul__place_resident(const haul__place_graph *g, int tensor, const uint8_t *place, int device, int moment);

#endif
