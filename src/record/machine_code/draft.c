#include "record/machine_code/draft.h"

#include <string.h>

#include "base/assert.h"

static const haul__draft_tensor *tensor_of(const haul__draft *d, int value)
{
    return &d->chain->parts[d->places[value].part].tensors[d->places[value].tensor];
}

static bool have_dtypes(const haul__draft_part *part)
{
    for (int k = 0; k < part->count; k++)
        if (part->tensors[k].dtype != HAUL_F32 && part->tensors[k].dtype != HAUL_BOOL)
            return false;
    return true;
}

/* ---- values ---- */

/* The value that a part of the draft made last in the tensor's memory, or that another part reads from there; -1: none
 * does. */
static int find_value(const haul__draft *d, const haul__draft_tensor *t)
{
    for (int i = d->count - 1; i >= 0; i--)
        if (tensor_of(d, d->parts[i].result)->memory == t->memory)
            return d->parts[i].result;
    for (int v = 0; v < d->value_count; v++) {
        const haul__draft_tensor *other = tensor_of(d, v);
        if (d->places[v].tensor > 0 && other->memory == t->memory && other->offset == t->offset &&
            other->repeated == t->repeated)
            return v;
    }
    return -1;
}

static int add_value(haul__draft *d, int part, int tensor)
{
    const haul__draft_tensor *t = &d->chain->parts[part].tensors[tensor];
    const int                 v = d->value_count++;
    HAUL__ASSERT(v < HAUL__ASM_VALUES && tensor < d->chain->parts[part].count);
    d->places[v] = (haul__draft_place){part, tensor};
    d->values[v] = (haul__asm_value){
        .is_bool = t->dtype == HAUL_BOOL, .in_memory = tensor > 0, .repeated = tensor > 0 && t->repeated};
    return v;
}

static bool is_read_from(const haul__draft_chain *x, int from, uintptr_t memory)
{
    for (int i = from; i < x->count; i++)
        for (int k = 1; k < x->parts[i].count; k++)
            if (x->parts[i].tensors[k].memory == memory)
                return true;
    return x->end == memory;
}

/* A result stays in a register if no part behind those of the draft reads it. */
static void place_results(haul__draft *d)
{
    const int end = d->first + d->count;
    HAUL__ASSERT(end <= d->chain->count);
    for (int i = 0; i < d->count; i++) {
        const haul__draft_part *part = &d->chain->parts[d->first + i];
        haul__asm_value        *v = &d->values[d->parts[i].result];
        v->in_memory = part->has_memory || is_read_from(d->chain, end, part->tensors[0].memory);
        v->past_caches = v->in_memory && part->past_caches && !v->is_bool;
    }
}

/* ---- parts ---- */

/* Adds the next part; false if it has no code. */
static bool add_part(haul__draft *d)
{
    const int               at = d->first + d->count;
    const haul__draft_part *part = &d->chain->parts[at];
    haul__asm_part         *to = &d->parts[d->count];
    if (!part->is_flat || !have_dtypes(part) || d->count == HAUL__ASM_PARTS ||
        d->value_count + part->count > HAUL__ASM_VALUES)
        return false;
    *to = (haul__asm_part){.kernel = part->kernel, .operand_count = part->count - 1};
    memcpy(to->scalars, part->scalars, sizeof to->scalars);
    for (int k = 1; k < part->count; k++) {
        const int known = find_value(d, &part->tensors[k]);
        to->operands[k - 1] = known >= 0 ? known : add_value(d, at, k);
    }
    HAUL__ASSERT(d->value_count < HAUL__ASM_VALUES);
    to->result = add_value(d, at, 0);
    if (!haul__asm_has(to, d->values))
        return false;
    d->count++;
    return true;
}

/* As many parts from `first` on as have code, up to `most`; false if there are too few. */
static bool draft_parts(haul__draft *d, const haul__draft_chain *x, int first, int most)
{
    HAUL__ASSERT(0 <= first && first + most <= x->count);
    *d = (haul__draft){.chain = x, .first = first};
    while (d->count < most && add_part(d))
        continue;
    place_results(d);
    return d->count >= HAUL__FEWEST_CODED_PARTS;
}

bool haul__draft_code(haul__draft *out, const haul__draft_chain *x, int first)
{
    for (int most = x->count - first; draft_parts(out, x, first, most); most = out->count - 1)
        if (haul__asm_fits(out->parts, out->count, out->values, out->value_count))
            return true;
    return false;
}

const char *haul__draft_refusal(const haul__draft_part *part)
{
    const haul__draft_chain alone = {.parts = part, .count = 1};
    haul__draft             d = {.chain = &alone};
    if (!have_dtypes(part))
        return "its tensors are not all f32 or bool";
    if (!part->is_flat)
        return "its operands have another layout than its result";
    return add_part(&d) ? NULL : "its kernel has no sequence of instructions";
}
