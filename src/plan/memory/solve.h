/* The best choice for a step's memory within its limit, with a bound. */
#ifndef HAUL_PLAN_MEMORY_SOLVE_H
#define HAUL_PLAN_MEMORY_SOLVE_H

#include "plan/memory/model.h"

/* All zero is empty. */
typedef struct haul__memory_plan {
    haul__memory_choice  choice;
    int                 *issued;  /* of tensors: the operation before which the copy back begins; -1: not spilled */
    haul__memory_figures figures; /* .over is above 0 if nothing that fits was found */
    int64_t              bound;   /* ps: no choice that keeps the limit takes less */
    int64_t              least;   /* bytes: no choice needs less */
} haul__memory_plan;

/* Looks for the fastest choice within the limit: prices of resident memory that a subgradient method raises give
 * choices and bounds; what does not fit is repaired, and what fits is improved by changes of one or two choices. If
 * nothing is found that fits, the plan is the one found whose peak exceeds the limit least (.over), and of these the
 * one with the smallest sum over all operations (.excess). Nothing fits at all if .least is above the limit. The effort
 * is bounded by a number of steps and not by time, so the result is always the same. */
haul_status haul__memory_solve(const haul__memory_model *m, haul__memory_plan *out);

void haul__memory_plan_free(haul__memory_plan *p);

#endif
