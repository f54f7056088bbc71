#include "data/synthetic/synthetic.h"

#include <stdio.h>

#include "base/alloc.h"
#include "core/error.h"
#include "data/dataset.h"

typedef struct settings {
    uint64_t      seed;
    haul__purpose purpose;
    bool          test;
} settings;

haul_draws haul__synthetic_draws(const void *context, const haul_example *e)
{
    const settings *s = context;
    return haul__draws_begin(s->seed, s->purpose, s->test, (uint64_t)e->index);
}

haul_dataset *haul__synthetic_make(const haul_synthetic_options *options, haul__purpose purpose,
                                   const haul_dataset_source *source, const char *operation)
{
    haul_dataset_source full = *source;
    char                name[32];
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    settings *s = haul__calloc(1, sizeof *s);
    if (!s) {
        haul__fail_memory(operation, sizeof *s);
        return NULL;
    }
    *s = (settings){.seed = options->seed, .purpose = purpose, .test = options->test};
    snprintf(name, sizeof name, "%s (%s)", source->name, options->test ? "test" : "train");
    full.name = name;
    full.count = options->count;
    full.close = haul__free;
    full.context = s;
    return haul__dataset_make(&full, HAUL__READ_AHEAD, operation);
}
