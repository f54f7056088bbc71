/* A plan: the placement of a step with its proof, its rivals, and its reasons. */
#ifndef HAUL_PLAN_PLACE_PLAN_H
#define HAUL_PLAN_PLACE_PLAN_H

#include <haul/plan.h>

#include "core/object.h"
#include "files/json.h"
#include "machine/machine.h"
#include "plan/graph/place.h"
#include "plan/place/step.h"
#include "plan/place/why.h"

enum { HAUL__PLAN_CANDIDATES = 1 + HAUL__PLACE_DEVICES }; /* the most */

/* What a plan is to be made for. */
typedef struct haul__plan_request {
    haul__machine *machine; /* to haul__free; a plan takes it over */
    int            device_count;
    int            devices[HAUL__PLACE_DEVICES]; /* their numbers on the machine; the first is the host, 0 */
    char           names[HAUL__PLACE_DEVICES][HAUL__MACHINE_NAME]; /* of the devices, as haul_device_get */
    double         percent[HAUL__PLACE_DEVICES]; /* limits as shares of what the device needs alone; 0: in bytes */
    int64_t        limit[HAUL__PLACE_DEVICES];   /* 0: the machine's memory */
    const haul__place_pin *pins;                 /* the caller's, as long as the request is used */
    int                    pin_count;
    bool                  *held;   /* of the program's stores, as in haul__place_step; a plan takes it over; or NULL */
    bool                   ahead;  /* the loader copies the data ahead (plan/place/step.h) */
    bool                   stages; /* consecutive modules on each device but the host, for micro-batches */
} haul__plan_request;

/* What a candidate takes: by the model, or by a rehearsal. */
typedef struct haul__plan_figures {
    int64_t ps;  /* the makespan: devices and links work at the same time */
    int64_t sum; /* of operations and copies that follow each other */
    int64_t peak[HAUL__PLACE_DEVICES], copied_bytes;
    int64_t waits; /* ps in which nothing is computed until a copy has arrived */
    int     copies;
} haul__plan_figures;

typedef struct haul__plan_way {
    int                    device; /* of everything; -1: the best placement */
    char                   name[HAUL__MACHINE_NAME + 8];
    const haul__placement *placement;
    haul__plan_figures     figures;
    double                 measured;     /* seconds of a step; NaN: it was not measured */
    char                   why_not[128]; /* "" if it keeps the limits */
} haul__plan_way;

/* Small, as all objects of users: freed ones can still be recognised. */
struct haul_plan {
    haul__object       object;
    haul__plan_request request; /* its names are those of the devices; nothing of a plan from a file but these */
    haul_program       program; /* empty for a plan from a file */
    haul__place_graph  graph;
    int64_t            limit[HAUL__PLACE_DEVICES]; /* of the devices; those of the graph may be lower */
    /* Of one allocation. `single` has one for each device, all there; `cheapest` is the one with the smallest sum if
     * the best one is another, with a shorter makespan, and empty otherwise. */
    haul__placement *best, *single, *cheapest;
    haul__plan_way  *ways;                     /* haul__plan_way_count: those that fit first, then the fastest */
    int64_t          needs[HAUL__PLACE_ROLES]; /* of the first device alone at its peak, by role */
    char             digests[2][17];           /* of program and machine */
    bool             spread;                   /* the best placement is the best for its makespan, not its sum */
    char           **reasons;                  /* of the graph's operations; NULL: not made yet */
};

/* ---- making ---- */

/* A plan that no scope owns yet; it takes over the program and the request's machine, also on failure. NULL: the error
 * is recorded. */
haul_plan *haul__plan_new(haul_program *program, haul__plan_request *request, const char *operation);

/* Finds the best placement within the graph's limits, in stages if the request wants them: the one with the shortest
 * makespan, if that is shorter by more than 3 % than that of the cheapest one. */
haul_status haul__plan_solve(haul_plan *p);

/* Replaces the best placement by the best one in stages, of which the longest is as short as it can be. The bound stays
 * that of all placements. */
haul_status haul__plan_stage(haul_plan *p);

/* The graph of this or another step with the plan's devices and pins, without limits. */
haul_status haul__plan_graph(const haul_plan *p, const haul_program *program, haul__place_graph *out);

/* From the certificate in a file, or in its value; `source` names the file. */
haul_plan *haul__plan_read(const haul__json *file, const char *source, const char *operation);

/* Makes the cheapest placement the best one again, if another one has a shorter makespan. The figures stay. */
void haul__plan_take_cheapest(haul_plan *p);

/* True if way `a` comes before `b`: it fits and `b` does not, or else it is faster. Decides which of them fit. */
bool haul__plan_is_better(const haul_plan *p, haul__plan_way *a, haul__plan_way *b);

/* Sorts the ways again after their figures have changed, and decides which of them fit. */
void haul__plan_sort(haul_plan *p);

/* HAUL_OK if p is a plan; else the error is recorded. */
haul_status haul__check_plan(const haul_plan *p, const char *operation);

/* The text of the certificate, to haul__free; NULL: the error is recorded. */
char *haul__plan_text(const haul_plan *p, const char *operation);

/* ---- reading ---- */

static inline int haul__plan_device_count(const haul_plan *p)
{
    return p->graph.device_count;
}

static inline int haul__plan_way_count(const haul_plan *p)
{
    return 1 + p->graph.device_count;
}

/* The way that is the plan itself. */
static inline const haul__plan_way *haul__plan_own_way(const haul_plan *p)
{
    const haul__plan_way *w = p->ways;
    while (w->device >= 0)
        w++;
    return w;
}

static inline int haul__plan_device_of(const haul_plan *p, const haul__place_operation *o)
{
    return p->best->device[o->group];
}

/* The device that gives these bits if everything runs there; "": neither does. */
const char *haul__plan_bits(const haul_plan *p, const haul__placement *placement);

/* "0.31 ms here, 0.02 ms on cuda:0, but its input would cost 0.61 ms to move" */
void haul__plan_reason(const haul_plan *p, const haul__place_why *why, char *out, size_t size);

/* Makes the reasons of all operations. */
haul_status haul__plan_explain(haul_plan *p, const char *operation);

/* ---- following ---- */

/* Moves the network's tensors to where the placement has their modules, and puts it into force for the innermost scope.
 * The devices are those of the plan's names. */
haul_status haul__plan_follow(const haul_plan *p, const haul__placement *placement, haul_module *net,
                              const char *operation);

/* Tries each way in a dry run of the step, and takes its figures from there. */
haul_status haul__plan_rehearse(haul_plan *p, haul_estimate_function *step, void *context, haul_module *net);

/* Calls the step once and records its second call, both in a dry run in which the network, if there is one, is on the
 * CPU. So the program is the same wherever the network is. *held, for haul__free, becomes what the request needs. */
haul_status haul__plan_record(haul_estimate_function *step, void *context, haul_module *net, haul_program *out,
                              bool **held, const char *operation);

#endif
