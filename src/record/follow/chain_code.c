#include "record/follow/chain_code.h"

#include <string.h>

#include "base/alloc.h"

enum { FEWEST_PARTS = 2, FEWEST_ELEMENTS = 64 };

/* The parts from `first` on as the assembler takes them. */
typedef struct draft {
    const haul__chain *chain;
    int                first, count;
    haul__asm_part     parts[HAUL__ASM_PARTS];
    haul__asm_value    values[HAUL__ASM_VALUES];
    haul__code_place   places[HAUL__ASM_VALUES];
    int                value_count;
} draft;

static const haul_tensor *tensor_of(const draft *d, int value)
{
    return d->chain->parts[d->places[value].part].launch.tensors[d->places[value].tensor];
}

/* ---- values ---- */

static bool has_dtype(const haul_tensor *t)
{
    return t->dtype == HAUL_F32 || t->dtype == HAUL_BOOL;
}

/* True if all operands are dense in the order of the result, or single elements. */
static bool is_plain(const haul__part *part)
{
    const haul__collected *l = &part->launch;
    bool                   all = l->count <= 4 && l->params.ndim == 1 && l->params.strides[0].of[0] == 1;
    for (int k = 0; k < l->count && all; k++)
        all = has_dtype(l->tensors[k]) && (l->params.strides[k].of[0] == 1 || l->params.strides[k].of[0] == 0);
    return all;
}

/* The value that a part of the draft made last in the tensor's memory, or that another part reads from there; -1: none
 * does. */
static int find_value(const draft *d, int part, int tensor)
{
    const haul__collected *l = &d->chain->parts[part].launch;
    for (int i = part - d->first - 1; i >= 0; i--)
        if (tensor_of(d, d->parts[i].result)->storage == l->tensors[tensor]->storage)
            return d->parts[i].result;
    for (int v = 0; v < d->value_count; v++) {
        const haul__collected *other = &d->chain->parts[d->places[v].part].launch;
        const int              at = d->places[v].tensor;
        if (at > 0 && other->tensors[at]->storage == l->tensors[tensor]->storage &&
            other->params.offsets[at] == l->params.offsets[tensor] &&
            other->params.strides[at].of[0] == l->params.strides[tensor].of[0])
            return v;
    }
    return -1;
}

static int add_value(draft *d, int part, int tensor)
{
    const haul__collected *l = &d->chain->parts[part].launch;
    const haul_dtype       dtype = l->tensors[tensor]->dtype;
    const int              v = d->value_count++;
    d->places[v] = (haul__code_place){.part = part, .tensor = tensor, .bytes = (int)haul__dtype_size(dtype)};
    d->values[v] = (haul__asm_value){.is_bool = dtype == HAUL_BOOL};
    if (tensor > 0) {
        d->values[v].in_memory = true;
        d->values[v].repeated = l->params.strides[tensor].of[0] == 0;
    }
    return v;
}

/* A result stays in a register if no part behind those of the draft reads it. */
static void place_results(draft *d)
{
    const int end = d->first + d->count;
    for (int i = 0; i < d->count; i++) {
        haul__asm_value  *v = &d->values[d->parts[i].result];
        const haul__part *part = &d->chain->parts[d->first + i];
        v->in_memory = part->slots[0] < 0 || haul__chain_is_read_from(d->chain, end, part->launch.tensors[0]);
        v->past_caches = v->in_memory && part->launch.params.nontemporal && !v->is_bool;
    }
}

/* Adds the next part; false if it has no code. */
static bool add_part(draft *d)
{
    const int              at = d->first + d->count;
    const haul__part      *part = &d->chain->parts[at];
    const haul__collected *l = &part->launch;
    haul__asm_part        *to = &d->parts[d->count];
    if (!is_plain(part) || d->count == HAUL__ASM_PARTS || d->value_count + l->count > HAUL__ASM_VALUES)
        return false;
    *to = (haul__asm_part){.kernel = l->kernel, .operand_count = l->count - 1};
    memcpy(to->scalars, l->params.scalars, sizeof to->scalars);
    for (int k = 1; k < l->count; k++) {
        const int known = find_value(d, at, k);
        to->operands[k - 1] = known >= 0 ? known : add_value(d, at, k);
    }
    to->result = add_value(d, at, 0);
    if (!haul__asm_has(to, d->values))
        return false;
    d->count++;
    return true;
}

/* ---- code ---- */

/* As many parts from `first` on as fit, up to `most`; false if there are too few. */
static bool draft_parts(draft *d, const haul__chain *x, int first, int most)
{
    *d = (draft){.chain = x, .first = first};
    while (d->count < most && add_part(d))
        continue;
    place_results(d);
    return d->count >= FEWEST_PARTS;
}

/* True if it has made code; `*refused`: there is no memory for any. */
static bool make_code(const haul__chain *x, int first, haul__chain_code *out, bool *refused)
{
    draft d;
    for (int most = x->part_count - first; draft_parts(&d, x, first, most); most = d.count - 1) {
        *out = (haul__chain_code){.first = first, .count = d.count};
        out->assembled = haul__assemble(d.parts, d.count, d.values, d.value_count);
        for (int k = 0; k < out->assembled.memory_count && out->assembled.run; k++)
            out->places[k] = d.places[out->assembled.memory[k]];
        *refused = !out->assembled.run && !out->assembled.is_too_long;
        if (out->assembled.run || *refused)
            return !*refused;
    }
    return false;
}

void haul__chain_codes_make(haul__chain *x)
{
    bool refused = false;
    haul__chain_codes_free(x);
    if (!haul__asm_is_on() || x->part_count < FEWEST_PARTS || x->items < FEWEST_ELEMENTS)
        return;
    x->codes = haul__calloc((size_t)x->part_count / FEWEST_PARTS, sizeof *x->codes);
    for (int i = 0; x->codes && i < x->part_count && !refused; i++)
        if (make_code(x, i, &x->codes[x->code_count], &refused))
            i += x->codes[x->code_count++].count - 1;
    x->is_at_once = x->code_count == 1 && x->codes[0].count == x->count;
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
    for (int k = 0; k < code->assembled.memory_count; k++)
        aligned = aligned && (!code->assembled.past_caches[k] ||
                              ((uintptr_t)addresses[k] + (uintptr_t)first * sizeof(float)) % HAUL__ASM_ALIGNED == 0);
    if (!aligned || first == end)
        return first;
    code->assembled.run(addresses, code->assembled.constants, first, end);
    return end;
}
