/* Lower bounds on what a memory limit costs a step. */
#ifndef HAUL_PLAN_MEMORY_BOUND_H
#define HAUL_PLAN_MEMORY_BOUND_H

#include "plan/memory/model.h"

/* Prices: of each KiB that is resident at an operation, and shares of the copies' times.
 *
 * No choice that keeps the limit pays more than nothing for the bytes above it. So for any prices
 *
 *     the least of (added time + sum of price * (resident bytes - limit)), over all choices,
 *
 * is a lower bound on the time that the limit adds. The choices of tensors and of segments are independent in it.
 * Segments count as needing no memory while they run again, and tensors that only these read as needing none until
 * then, which can only lower the bound.
 *
 * With overlap, a step takes at least as long as its operations, as the copies to the host between the first use that
 * allows one and the last use that needs one back, and as the copies back between these. So it takes at least as long
 * as the mean of the three by any weights. */
typedef struct haul__memory_prices {
    const int64_t *kib;     /* ps, of operations */
    int            out, in; /* weights in 1/16, at most 16 together; without overlap both are 16 and do not add up */
} haul__memory_prices;

enum { HAUL__MEMORY_SHARES = 16 };

/* A model with sums that bounds need. */
typedef struct haul__memory_relaxed {
    const haul__memory_model *model;
    int64_t                  *excess; /* of operations: KiB above the limit if everything is kept; may be negative */
    int64_t                  *before; /* of operations: ps of those before it; one more for the end */
    int64_t                  *sums;   /* room for sums of prices */
    int                       last;   /* the last operation that needs a spilled tensor back */
    int                       first;  /* the first operation after which one may go; -1: before the step */
    int64_t                   kib;    /* no excess is more, and neither are all tensors together */
} haul__memory_relaxed;

haul_status haul__memory_relaxed_new(haul__memory_relaxed *r, const haul__memory_model *m);
void        haul__memory_relaxed_free(haul__memory_relaxed *r);

/* The bound by these prices, in ps: it may be negative. `choice` becomes the cheapest one, and `over` the KiB above the
 * limit with it at each operation. */
int64_t haul__memory_bound(haul__memory_relaxed *r, const haul__memory_prices *p, haul__memory_choice *choice,
                           int64_t *over);

/* With overlap, the bound by single operations: what segments do not release has left before the operation and comes
 * back after it, and no byte is copied faster than by the fastest copy. 0 without overlap. */
int64_t haul__memory_crossing_bound(const haul__memory_relaxed *r);

/* True if the tensor is not on the device at the operation if it is spilled. */
bool haul__memory_may_be_away(const haul__memory_tensor *t, int operation);

/* No choice needs less than so many bytes. */
int64_t haul__memory_least(const haul__memory_model *m);

#endif
