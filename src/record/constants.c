/* Finds constants: ranges, fills, and what operations make of these alone, for example a causal mask. Following
 * compares the attributes of each call, so a call without operands, or whose operands are constants, always gives the
 * same. */
#include "record/constants.h"

#include "base/alloc.h"
#include "core/error.h"
#include "engine/operation.h"

/* A constant has memory of its own, which nothing else can use for the rest of the step, so a large one stays in the
 * arena and is computed each time. */
enum { MOST_BYTES = 64 << 10 };

typedef struct search {
    const haul__program       *log;
    const haul__program_order *order;
    const haul_program        *p;
    bool                      *constant;
    int                       *writers; /* of each store: how many operations write it */
} search;

static const haul__program_call *call_of(const search *x, int64_t number)
{
    return &x->log->calls[x->order->items[number].call];
}

/* Views share the store of their operand. */
static void count_writers(search *x)
{
    for (int64_t i = 0; i < x->p->operation_count; i++) {
        const haul_program_operation *o = &x->p->operations[i];
        for (int64_t k = o->value; k < o->value + o->operand_count + o->result_count && o->view_of < 0; k++)
            if (x->p->values[k].store >= 0 && (k >= o->value + o->operand_count || x->p->values[k].written))
                x->writers[x->p->values[k].store]++;
    }
}

/* Nothing but its attributes and operands decides what the call gives. */
static bool is_function(const haul__program_call *c)
{
    const haul__operation *o = c->operation;
    return o->compute && !o->varies && !o->is_custom && !o->random_at && !o->blocks_at && !c->form.into &&
           !c->form.writes && haul__device_computes(c->device);
}

static bool may_be_constant(const search *x, int64_t store)
{
    const haul_program_store *s = &x->p->stores[store];
    return s->kind == HAUL_STORE_INSIDE && !s->pinned && !s->outlives && s->bytes <= MOST_BYTES &&
           x->writers[store] == 1;
}

static bool is_constant_call(const search *x, int64_t number)
{
    const haul_program_operation *o = &x->p->operations[number];
    const haul_program_value     *values = x->p->values + o->value;
    if (!is_function(call_of(x, number)) || o->view_of >= 0 || !o->result_count)
        return false;
    for (int i = 0; i < o->operand_count; i++)
        if (values[i].store >= 0 && !x->constant[values[i].store])
            return false;
    for (int i = o->operand_count; i < o->operand_count + o->result_count; i++)
        if (values[i].store < 0 || !may_be_constant(x, values[i].store))
            return false;
    return true;
}

static void find(search *x)
{
    for (int64_t i = 0; i < x->p->operation_count; i++) {
        const haul_program_operation *o = &x->p->operations[i];
        const int                     count = is_constant_call(x, i) ? o->result_count : 0;
        for (int k = 0; k < count; k++)
            x->constant[x->p->values[o->value + o->operand_count + k].store] = true;
    }
}

haul_status haul__program_find_constants(const haul__program *log, const haul__program_order *order,
                                         const haul_program *p, bool *constant)
{
    search x = {.log = log, .order = order, .p = p, .constant = constant};
    x.writers = haul__calloc((size_t)p->store_count + 1, sizeof *x.writers);
    if (!x.writers)
        return haul__fail_memory("haul_recording_run", (size_t)p->store_count * sizeof *x.writers);
    count_writers(&x);
    find(&x);
    haul__free(x.writers);
    return HAUL_OK;
}
