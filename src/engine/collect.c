#include "engine/collect.h"

#include <string.h>

static _Thread_local haul__collected *collected;

uint32_t haul__collect_begin(haul__collected *out)
{
    uint32_t      *word = &haul__thread()->words[HAUL__DRY_RUN];
    const uint32_t before = *word;
    out->count = 0;
    collected = out;
    *word = HAUL__COLLECTS;
    return before;
}

void haul__collect_end(uint32_t before)
{
    haul__thread()->words[HAUL__DRY_RUN] = before;
    collected = NULL;
}

haul_status haul__collect(const haul__kernel *kernel, const haul__launch *l)
{
    haul__collected *c = collected;
    if (c->count || l->out_count != 1 || l->params_size != sizeof c->params || l->checks || !kernel->function)
        return haul__fail(HAUL_STATE, "haul_recording_run", NULL,
                          "%s is not the one pointwise kernel of its operation; set HAUL_WITHOUT=fusion", kernel->name);
    c->function = kernel->function;
    memcpy(&c->params, l->params, sizeof c->params);
    c->tensors[0] = l->outs[0];
    for (int i = 0; i < l->in_count; i++)
        c->tensors[1 + i] = l->ins[i];
    c->count = 1 + l->in_count;
    c->grain = l->grain;
    return HAUL_OK;
}
