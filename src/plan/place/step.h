/* The graph of a training step: a program on a machine. */
#ifndef HAUL_PLAN_PLACE_STEP_H
#define HAUL_PLAN_PLACE_STEP_H

#include <haul/program.h>

#include "machine/machine.h"
#include "plan/graph/graph.h"

/* Modules that stay on a device. The pattern is that of a shell; it is for the path of a module or of one around it. */
typedef struct haul__place_pin {
    const char *pattern;
    int         device; /* of the step's: its number there */
} haul__place_pin;

typedef struct haul__place_step {
    const haul_program    *program;
    const haul__machine   *machine;
    int                    device_count;
    int                    devices[HAUL__PLACE_DEVICES]; /* their numbers on the machine; the first is the host, 0 */
    int64_t                limit[HAUL__PLACE_DEVICES];   /* bytes; 0: none */
    const haul__place_pin *pins;
    int                    pin_count;
    const bool            *held;  /* of the program's stores: the network has them; NULL: it is not known */
    bool                   ahead; /* a loader copies the data while the step before computes: it takes no time */
} haul__place_step;

/* Makes the graph.
 *
 * - An operation of the program is one of the graph. Views take no time and are left out. An operation that updates
 *   several parameters is one for each of them.
 * - Memory from before the step is an operation without cost. If nothing writes it and the network does not hold it,
 *   it is data and on the host.
 * - Memory that is written in place holds a new tensor in the group of its memory, since copies of the old values are
 *   stale. A sum of gradients that the pass makes in place is in a group of its own.
 * - A part of a store that is read is a tensor of its own. */
haul_status haul__place_graph_of(const haul__place_step *step, haul__place_graph *out);

/* The number of operations that take time, and on the device how many of them have learnt times. */
int64_t haul__place_timed(const haul_program *program);
int64_t haul__place_learnt(const haul_program *program, const haul__machine *machine, int device);

/* True if the pattern, in a shell's form, is for the path of the module or of one around it. */
bool haul__place_matches(const char *pattern, const char *module);

/* A number that two programs share only if they do the same, except by chance of 2^-64. */
uint64_t haul__place_digest(const haul_program *program);

#endif
