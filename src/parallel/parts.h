/* Parameters of which each rank keeps only its own (.shard = 3 of haul_parallel_new). The owner of a parameter offers
 * it (group/offer.h). The others have no memory for it, until a command or the host uses it: then it comes from its
 * owner (memory/spill/elsewhere.h). What has come stays until so many bytes are there, so that a layer that is used
 * twice needs it once, and the last layers of a forward pass are there for the backward pass.
 *
 * Small parameters stay whole on all ranks, because a request for each costs more than its memory. So do those whose
 * memory cannot be given up on some rank, for example because two parameters share it. */
#ifndef HAUL_PARALLEL_PARTS_H
#define HAUL_PARALLEL_PARTS_H

#include "group/group.h"
#include "parallel/flat.h"

typedef struct haul__parts haul__parts;

/* Tests change these: up to how many bytes a parameter is whole, and how many bytes may have come. */
extern size_t  haul__parts_whole;
extern int64_t haul__parts_room;

/* All ranks call it. `flat` and `owners` must outlive it. NULL on failure. */
haul__parts *haul__parts_new(const haul__flat *flat, const int *owners, haul_group *group);
/* Parameters that have not come are lost for this rank. NULL is ignored. */
void haul__parts_free(haul__parts *p);

/* A collective, at the beginning of a step: all ranks have changed the parameters as they like. Divides those that are
 * not. */
haul_status haul__parts_begin(haul__parts *p);

/* Before and after the owners update their parameters. The first one is a collective: no rank asks afterwards.
 * `status`: of all that came before. If it is not HAUL_OK, other ranks that ask get the recorded error. Returns it, or
 * what fails here. */
haul_status haul__parts_close(haul__parts *p, const char *operation);
haul_status haul__parts_open(haul__parts *p, haul_status status);

/* A collective: rank 0 gets all parameters, and keeps them until the next step. Ranks may have changed them before. */
haul_status haul__parts_gather(haul__parts *p, const char *operation);

/* True if each rank has this parameter only if it is its own. */
bool haul__parts_divides(const haul__parts *p, int item);

#endif
