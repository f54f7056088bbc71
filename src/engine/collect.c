#include "engine/collect.h"

#include "base/assert.h"

#include <string.h>

static _Thread_local haul__collected        *collected;
static _Thread_local haul__collected_passes *passes; /* NULL: one pointwise launch is expected */

static uint32_t begin(haul__collected *one, haul__collected_passes *several)
{
    uint32_t      *word = &haul__thread()->words[HAUL__DRY_RUN];
    const uint32_t before = *word;
    HAUL__ASSERT(!one != !several && !collected && !passes); /* one at a time */
    collected = one;
    passes = several;
    *word = HAUL__COLLECTS;
    return before;
}

uint32_t haul__collect_begin(haul__collected *out)
{
    out->count = 0;
    return begin(out, NULL);
}

uint32_t haul__collect_passes_begin(haul__collected_passes *out)
{
    out->count = 0;
    return begin(NULL, out);
}

void haul__collect_end(uint32_t before)
{
    HAUL__ASSERT(!collected != !passes);
    haul__thread()->words[HAUL__DRY_RUN] = before;
    collected = NULL;
    passes = NULL;
}

static haul_status collect_pass(const haul__kernel *kernel, const haul__launch *l)
{
    haul__collected_pass *p = &passes->items[passes->count];
    const int             most = (int)(sizeof passes->items / sizeof passes->items[0]);
    HAUL__ASSERT(0 <= passes->count && passes->count <= most);
    if (passes->count == most || l->out_count != 1 || !l->in_count || l->params_size > sizeof p->params || l->checks ||
        !kernel->function)
        return haul__fail(HAUL_STATE, "haul_recording_run", NULL,
                          "%s is not one of two passes of a reduction; set HAUL_WITHOUT=fusion", kernel->name);
    passes->count++;
    p->function = kernel->function;
    memcpy(p->params, l->params, l->params_size);
    p->out = l->outs[0];
    p->items = l->items;
    p->grain = l->grain;
    return HAUL_OK;
}

haul_status haul__collect(const haul__kernel *kernel, const haul__launch *l)
{
    haul__collected *c = collected;
    if (passes)
        return collect_pass(kernel, l);
    HAUL__ASSERT(c && 1 + l->in_count <= (int)(sizeof c->tensors / sizeof *c->tensors));
    if (c->count || l->out_count != 1 || l->params_size != sizeof c->params || l->checks)
        return haul__fail(HAUL_STATE, "haul_recording_run", NULL,
                          "%s is not the one pointwise kernel of its operation; set HAUL_WITHOUT=fusion", kernel->name);
    c->function = kernel->function;
    c->kernel = l->kernel;
    memcpy(&c->params, l->params, sizeof c->params);
    c->tensors[0] = l->outs[0];
    for (int i = 0; i < l->in_count; i++)
        c->tensors[1 + i] = l->ins[i];
    c->count = 1 + l->in_count;
    c->grain = l->grain;
    return HAUL_OK;
}
