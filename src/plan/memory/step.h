/* The memory model of a training step: a program, and when its stores exist. */
#ifndef HAUL_PLAN_MEMORY_STEP_H
#define HAUL_PLAN_MEMORY_STEP_H

#include "machine/machine.h"
#include "plan/memory/solve.h"
#include "record/residency.h"

typedef struct haul__memory_step {
    const haul_program    *program;
    const haul__residency *residency;
    const haul__machine   *machine;
    int                    number;  /* of the device on the machine */
    const int             *segment; /* of operations: the segment of the network that they are of, or -1; NULL: none */
    int                    segment_count;
    bool                   spills; /* tensors may be spilled */
    int64_t                limit;  /* bytes */
} haul__memory_step;

enum { HAUL__MEMORY_TENSORS = 192 };

/* Makes the model.
 *
 * - The forward pass ends before the first operation of a backward pass.
 * - A tensor is a store on the device that a segment makes or reads, or with `spills` any that is idle for a while. Its
 *   gap is the longest one between two uses; memory from before the step may be away from one step to the next.
 * - Of more than HAUL__MEMORY_TENSORS the largest ones are tensors; the others stay.
 * - A segment can run again if its operations follow each other in the forward pass and it is in the backward pass.
 *   The model has only these. */
haul_status haul__memory_model_of(const haul__memory_step *step, haul__memory_model *out);

/* Bytes: no step with spilled tensors or other segments running again needs less, one gap for each tensor. */
int64_t haul__memory_step_least(const haul__memory_step *step, const haul__memory_model *m);

/* The plan's spilling as moves of the program's stores. The caller must haul__free(out->moves). */
haul_status haul__memory_schedule(const haul__memory_step *step, const haul__memory_model *m,
                                  const haul__memory_plan *p, haul__spill_schedule *out);

#endif
