/* Parameters of other stages (parallel/pipe.h), which this rank does not use: they have no memory. */
#ifndef HAUL_PARALLEL_ABSENT_H
#define HAUL_PARALLEL_ABSENT_H

#include "group/group.h"
#include "parallel/cut.h"
#include "parallel/flat.h"

typedef struct haul__absent haul__absent;

/* Of the parameters of `all` each belongs to the rank owners[i], as each buffer to that of its stage. All of these
 * must outlive it. NULL on failure. */
haul__absent *haul__absent_new(const haul__flat *all, const haul__cut *cut, const int *owners, haul_group *group);
/* The parameters stay as they are, and those without memory fail when they are used. */
void haul__absent_free(haul__absent *a);

/* A step begins: gives up the memory of other ranks' parameters. */
haul_status haul__absent_begin(haul__absent *a);

/* A collective: rank 0 gets all parameters and buffers. */
haul_status haul__absent_gather(haul__absent *a, const char *operation);

#endif
