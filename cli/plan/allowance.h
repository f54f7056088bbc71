/* The result of haul plan --allow, as text and JSON. */
#ifndef CLI_PLAN_ALLOWANCE_H
#define CLI_PLAN_ALLOWANCE_H

#include "cli/plan/study.h"
#include "plan/choose/choose.h"

typedef struct allowance {
    const one_training *t;
    study_request      *request;
    unsigned            allowed;
    bool                spilled;  /* the training has --spill on by itself */
    int64_t             limit;    /* of the device, in bytes */
    int64_t             overhead; /* of these, what the device takes for other things than tensors */
    haul__chosen        chosen;
    haul_plan          *split; /* the placement that took the place of `chosen`; NULL: none did */
} allowance;

/* What other limits would change; "" for a placement. */
const char *allowance_words(const allowance *a, char *out, size_t size);

/* The command that trains as planned, or makes the file with which haul train --plan does. To free; NULL when memory is
 * exhausted. */
char *allowance_command(const allowance *a);

/* For people. False after a complaint, as with JSON. */
bool show_allowance(const allowance *a);

/* One JSON object on standard output. */
bool show_allowance_json(const allowance *a);

#endif
