/* What a training step would take on one device of a machine. */
#ifndef CLI_PLAN_PROSPECT_H
#define CLI_PLAN_PROSPECT_H

#include <haul/program.h>

#include "machine/machine.h"

typedef struct prospect {
    const haul__machine        *machine;
    const haul__machine_device *device;
    int64_t                     step_ps; /* the sum of the three below */
    int64_t                     compute_ps, launch_ps, copy_ps;
    int64_t                     copied_bytes; /* over the link: examples, and values that the host reads */
    int64_t                     learnt;       /* operations whose times profiles measured */
    int64_t                     peak_bytes, memory_bytes;
    char                        unmeasured[256]; /* "pool, index": classes without a rate; may be "" */
} prospect;

/* Everything runs on the device, of that number on the machine; data from before the step comes from the host. */
haul_status prospect_find(prospect *out, const haul_program *program, const haul__machine *machine, int device);

#endif
