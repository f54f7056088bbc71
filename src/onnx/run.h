/* A call of a loaded model. */
#ifndef HAUL_ONNX_RUN_H
#define HAUL_ONNX_RUN_H

#include <haul/nn.h>

#include "onnx/plan/plan.h"

#define HAUL__ONNX_CALL "haul_call"

/* A value in the course of a call. */
typedef struct haul__onnx_slot {
    haul_tensor         *tensor;  /* NULL: it was not made yet, or it is only on the host */
    const haul__numbers *numbers; /* NULL: it is a tensor only */
    bool                 made;    /* by the run: it goes after its last use */
} haul__onnx_slot;

typedef struct haul__onnx_run {
    const haul__onnx_plan *plan;
    haul__onnx_slot       *slots;
    haul__numbers         *numbers; /* that the run made */
} haul__onnx_run;

/* Runs the steps of a body, and drops values after their last use. */
haul_status haul__onnx_run_body(haul__onnx_run *run, const haul__onnx_body *body, bool training);

/* Empties a slot, and drops its tensor if a step made it. */
void haul__onnx_clear(haul__onnx_slot *slot);
void haul__onnx_free_numbers(haul__numbers *list);

/* Runs If, Loop or Scan, and fills the slots of the results (control.c). */
haul_status haul__onnx_control(haul__onnx_call *c);

/* The forward function of loaded models, whose state begins with a pointer to the plan. */
haul_tensor *haul__onnx_forward(haul_module *self, haul_args *args);

/* A tensor on the current device with these values. */
haul_tensor *haul__onnx_from_numbers(const haul__numbers *n);
/* Values of a tensor's elements in the host's memory. */
void haul__onnx_decode(haul__numbers *n, const void *elements);

#endif
