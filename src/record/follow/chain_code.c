#include "record/follow/chain_code.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/layout/layout.h"

static haul__draft_part describe(const haul__part *part)
{
    const haul__collected *l = &part->launch;
    haul__draft_part       out = {.count = l->count,
                                  .kernel = l->kernel,
                                  .is_flat = haul__layout_is_flat(&l->params, l->count),
                                  .has_memory = part->slots[0] < 0,
                                  .past_caches = l->params.nontemporal};
    HAUL__ASSERT(0 < l->count && l->count <= HAUL__DRAFT_TENSORS);
    memcpy(out.scalars, l->params.scalars, sizeof out.scalars);
    for (int k = 0; k < out.count; k++)
        out.tensors[k] = (haul__draft_tensor){.memory = (uintptr_t)l->tensors[k]->storage,
                                              .offset = l->params.offsets[k],
                                              .dtype = l->tensors[k]->dtype,
                                              .repeated = l->params.strides[k].of[0] == 0};
    return out;
}

/* False if the system refuses memory for it. */
static bool make_code(const haul__draft *d, haul__chain_code *out)
{
    *out = (haul__chain_code){.first = d->first, .count = d->count};
    out->assembled = haul__assemble(d->parts, d->count, d->values, d->value_count);
    for (int k = 0; k < out->assembled.memory_count && out->assembled.run; k++) {
        HAUL__ASSERT(out->assembled.memory[k] < d->value_count);
        out->places[k] = d->places[out->assembled.memory[k]];
        out->bytes[k] = d->values[out->assembled.memory[k]].is_bool ? sizeof(bool) : sizeof(float);
    }
    return out->assembled.run != NULL;
}

static void make_codes(haul__chain *x, const haul__draft_chain *chain)
{
    haul__draft d;
    for (int i = 0; i < chain->count; i++) {
        if (!haul__draft_code(&d, chain, i))
            continue;
        if (!make_code(&d, &x->codes[x->code_count]))
            return;
        x->code_count++;
        HAUL__ASSERT(x->code_count <= x->part_count / HAUL__FEWEST_CODED_PARTS);
        i += d.count - 1;
    }
}

void haul__chain_codes_make(haul__chain *x)
{
    haul__chain_codes_free(x);
    if (!haul__asm_is_on() || x->part_count < HAUL__FEWEST_CODED_PARTS || x->items < HAUL__FEWEST_CODED_ELEMENTS)
        return;
    haul__draft_part *parts = haul__calloc((size_t)x->part_count, sizeof *parts);
    x->codes = haul__calloc((size_t)x->part_count / HAUL__FEWEST_CODED_PARTS, sizeof *x->codes);
    for (int i = 0; i < x->part_count && parts; i++)
        parts[i] = describe(&x->parts[i]);
    if (parts && x->codes)
        make_codes(x, &(haul__draft_chain){parts, x->part_count, x->end ? (uintptr_t)x->end->x->storage : 0});
    x->is_at_once = x->code_count == 1 && x->codes[0].count == x->count;
    haul__free(parts);
}

void haul__chain_codes_free(haul__chain *x)
{
    for (int i = 0; i < x->code_count; i++)
        haul__assembled_free(&x->codes[i].assembled);
    haul__free(x->codes);
    x->codes = NULL;
    x->code_count = 0;
    x->is_at_once = false;
}

int64_t haul__chain_code_run(const haul__chain_code *code, void *const *addresses, int64_t first, int64_t last)
{
    const int64_t end = last - (last - first) % HAUL__ASM_ELEMENTS;
    bool          aligned = true;
    HAUL__ASSERT(first <= last && code->assembled.run);
    for (int k = 0; k < code->assembled.memory_count; k++)
        aligned = aligned && (!code->assembled.past_caches[k] ||
                              ((uintptr_t)addresses[k] + (uintptr_t)first * sizeof(float)) % HAUL__ASM_ALIGNED == 0);
    if (!aligned || first == end)
        return first;
    code->assembled.run(addresses, code->assembled.constants, first, end);
    return end;
}
