#include "record/machine_code/foresee.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "device/device.h"
#include "ops/reduce/reduce.h"
#include "record/fuse.h"
#include "record/machine_code/draft.h"

/* A chain of the program. */
typedef struct foreseen {
    const haul__program       *log;
    const haul__program_order *order;
    haul_program              *p;
    int64_t                    numbers[HAUL__MAX_CHAIN + 1]; /* of its operations */
    haul__draft_part          *parts;                        /* of the pointwise ones */
    int                        count;                        /* of these */
    uintptr_t                  end;                          /* memory that a reduction reads; 0: none */
} foreseen;

static const haul__program_call *call_of(const foreseen *x, int64_t number)
{
    return &x->log->calls[x->order->items[number].call];
}

static uintptr_t memory_of(const haul_program_value *v)
{
    return (uintptr_t)v->store + 1;
}

static haul__draft_part describe(const foreseen *x, int64_t number)
{
    const haul_program_operation *o = &x->p->operations[number];
    const haul__program_launch   *l = &call_of(x, number)->launch;
    const haul_program_value     *v = &x->p->values[o->value], *result = v + o->operand_count;
    haul__draft_part              out = {.count = 1 + o->operand_count,
                                         .kernel = l->kernel,
                                         .scalars = {l->scalars[0], l->scalars[1]},
                                         .is_flat = l->is_flat && o->operand_count < HAUL__DRAFT_TENSORS,
                                         .has_memory = !x->p->stores[result->store].within};
    out.count = out.count < HAUL__DRAFT_TENSORS ? out.count : HAUL__DRAFT_TENSORS;
    for (int k = 0; k < out.count; k++) {
        const haul_program_value *t = k ? v + k - 1 : result;
        out.tensors[k] = (haul__draft_tensor){memory_of(t), t->offset, t->dtype, l->repeated >> k & 1};
    }
    HAUL__ASSERT(out.count > 0 && o->result_count == 1);
    return out;
}

static void find_parts(foreseen *x, int64_t first)
{
    x->count = 0;
    x->end = 0;
    for (int64_t i = first; i < x->p->operation_count && i <= haul__program_chain_end(x->p, first); i++) {
        haul_program_operation *o = &x->p->operations[i];
        if (o->fused != first)
            continue;
        if (haul__reduce_has_tiles(call_of(x, i)->operation)) {
            o->unassembled = "it is a reduction";
            x->end = memory_of(&x->p->values[o->value]);
            continue;
        }
        HAUL__ASSERT(x->count < HAUL__MAX_CHAIN && !x->end); /* a reduction is the end */
        x->numbers[x->count] = i;
        x->parts[x->count++] = describe(x, i);
    }
}

static int64_t count_elements(const foreseen *x)
{
    const haul_program_operation *o = &x->p->operations[x->numbers[0]];
    const haul_shape             *shape = &x->p->values[o->value + o->operand_count].shape;
    int64_t                       count = 1; /* a product that was checked */
    for (int d = 0; d < shape->ndim; d++)
        count *= shape->dims[d];
    return count;
}

static const char *refusal(const foreseen *x, bool is_allowed)
{
    if (!haul__asm_is_on())
        return "the processor has no AVX2, or it is off";
    if (!is_allowed)
        return "the system makes no memory executable";
    return count_elements(x) < HAUL__FEWEST_CODED_ELEMENTS ? "it has fewer than 64 elements" : NULL;
}

static void find_code(foreseen *x, const char *why)
{
    const haul__draft_chain chain = {x->parts, x->count, x->end};
    haul__draft             d;
    for (int i = 0; i < x->count; i++) {
        haul_program_operation *o = &x->p->operations[x->numbers[i]];
        if (!why && haul__draft_code(&d, &chain, i)) {
            HAUL__ASSERT(d.first == i && i + d.count <= x->count);
            for (int k = 0; k < d.count; k++)
                x->p->operations[x->numbers[i + k]].assembled = x->numbers[i];
            i += d.count - 1;
            continue;
        }
        const char *own = why ? why : haul__draft_refusal(&x->parts[i]);
        o->unassembled = own ? own : "none of its neighbours has any";
    }
}

haul_status haul__program_foresee_code(const haul__program *log, const haul__program_order *order, haul_program *p)
{
    foreseen   x = {.log = log, .order = order, .p = p};
    const bool is_allowed = haul__asm_is_on() && haul__asm_is_allowed();
    x.parts = haul__calloc(HAUL__MAX_CHAIN + 1, sizeof *x.parts);
    if (!x.parts)
        return haul__fail_memory("haul_program_record", (HAUL__MAX_CHAIN + 1) * sizeof *x.parts);
    for (int64_t i = 0; i < p->operation_count; i++) {
        if (p->operations[i].fused != i || !haul__device_is_host(p->operations[i].device))
            continue;
        find_parts(&x, i);
        find_code(&x, refusal(&x, is_allowed));
    }
    haul__free(x.parts);
    return HAUL_OK;
}
