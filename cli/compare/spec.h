/* One side of a comparison: "cpu,threads=1,level=v3". */
#ifndef CLI_COMPARE_SPEC_H
#define CLI_COMPARE_SPEC_H

#include <stdbool.h>
#include <stdint.h>

typedef struct side_spec {
    char    device[64];
    char    level[8];      /* of the CPU's instructions; "": the highest one */
    char    dtype[8];      /* as --precision of haul train; "": f32, or that of the run */
    char    library[1024]; /* the command of another build; "": this one */
    int64_t threads;       /* 0: one per core */
} side_spec;

#define SPEC_HELP                                                                                                      \
    "Where and how this side computes: DEVICE, followed by any of ,threads=N ,level=base|v3|v4 "                       \
    ",dtype=f32|tf32|bf16|f16 ,eager ,library=PATH, where PATH is the haul command of another build"

/* False after a complaint, which names the option. */
bool spec_parse(const char *text, const char *option, side_spec *out);

#endif
