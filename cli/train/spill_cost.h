/* What --spill on would cost a training. */
#ifndef CLI_TRAIN_SPILL_COST_H
#define CLI_TRAIN_SPILL_COST_H

#include <haul/haul.h>

#include "cli/train/fit.h"

/* Of a step, by a dry run that spills, and by copies over the link that are timed now. */
typedef struct spill_cost {
    bool    fits;              /* are all operations of the step small enough? */
    int64_t bytes, back_bytes; /* to host memory, and back */
    double  seconds;           /* of these copies; NaN: not known */
} spill_cost;

/* What a dry run has found, with the seconds of its copies. */
void spill_cost_of(const dry_run_spill *spill, haul_device *device, spill_cost *out);

/* The same of a dry run with that limit. False, without an error, if the device cannot spill. Nothing is changed. */
bool spill_cost_find(struct trainer *t, int64_t limit, spill_cost *out);

/* "177.0 MiB to host memory and 150.0 MiB back in each step, about 40 ms". */
const char *spill_cost_text(char *out, size_t size, const spill_cost *c);

#endif
