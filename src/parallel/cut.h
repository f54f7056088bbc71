/* Stages of a network (.stages of haul_parallel_new): consecutive modules on each rank.
 *
 * A network that calls its children in order is cut between two of them, at any depth: sequences within it are opened,
 * and what remains are the *units*. */
#ifndef HAUL_PARALLEL_CUT_H
#define HAUL_PARALLEL_CUT_H

#include <haul/nn.h>

typedef struct haul__cut_unit {
    char        *path; /* in the network: "layer1.0" */
    haul_module *module;
    int64_t      bytes; /* of its parameters that require a gradient */
} haul__cut_unit;

typedef struct haul__cut {
    haul__cut_unit *units;
    int             count, room;
    int             stages;
    int            *first; /* the first unit of each stage, and the number of units */
} haul__cut;

/* Cuts a module into so many stages, each with a parameter that requires a gradient. firsts: where the second stage
 * and those after it begin, "layer2,layer3.1"; NULL: so that the stage with the most bytes of parameters has as few as
 * possible. Fails if the module cannot be cut, or if a parameter or buffer would be in two stages. */
haul_status haul__cut_make(haul__cut *cut, haul_module *module, int stages, const char *firsts, const char *operation);
void        haul__cut_free(haul__cut *cut);

/* Of the names of the modules with which stages begin. */
uint32_t haul__cut_hash(const haul__cut *cut);

/* What neighbouring units have in common if they run again together in the backward pass
 * (haul_module_recompute_children); NULL: the unit is called by itself. */
const void *haul__cut_part(const haul_module *network, const haul__cut_unit *unit);

/* The stage of the parameter or buffer with this name. */
int haul__cut_stage(const haul__cut *cut, const char *name);

#endif
