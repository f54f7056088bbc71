/* Finds constants: ranges, fills, and what operations make of these alone, for example a causal mask. Following
 * compares the attributes of each call, so a call without operands, or whose operands are constants, always gives the
 * same. What operations make of parameters and buffers that the step does not write, for example the cast of a frozen
 * weight, is the same while their memory and its version are. Parameters that are trained change in most steps, so what
 * operations with a gradient make of them is none. */
#include "record/constants.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "engine/operation.h"
#include "program/role.h"

/* A constant has memory of its own, which nothing else can use for the rest of the step, so a large one stays in the
 * arena and is computed each time. A step without a recording keeps casts of parameters, too, so those may be large. */
enum { MOST_BYTES = 64 << 10, MOST_PREPARED_BYTES = 64 << 20 };

typedef struct search {
    const haul__program       *log;
    const haul__program_order *order;
    const haul_program        *p;
    bool                      *constant;
    bool                      *prepared; /* of each store: it depends on memory from outside */
    int                       *writers;  /* of each store: how many operations write it */
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

/* Nothing but its attributes and the operands of this process decides what the call gives. */
static bool is_function(const haul__program_call *c)
{
    const haul__operation *o = c->operation;
    return o->compute && !o->varies && !o->is_custom && !o->between_ranks && !o->random_at && !o->blocks_at &&
           !c->form.into && !c->form.writes && haul__device_computes(c->device);
}

static bool may_be_constant(const search *x, int64_t store, bool is_prepared)
{
    const haul_program_store *s = &x->p->stores[store];
    return s->kind == HAUL_STORE_INSIDE && !s->pinned && !s->outlives &&
           s->bytes <= (is_prepared ? MOST_PREPARED_BYTES : MOST_BYTES) && x->writers[store] == 1;
}

/* Parameters, and buffers of modules, that the step only reads. */
static bool is_steady(const search *x, int64_t store)
{
    const haul_program_store *s = &x->p->stores[store];
    return s->kind == HAUL_STORE_OUTSIDE && !x->writers[store] &&
           (!strcmp(s->role, haul__role_name(HAUL__ROLE_PARAMETER)) ||
            !strcmp(s->role, haul__role_name(HAUL__ROLE_OTHER)));
}

static bool is_constant_call(const search *x, int64_t number, bool *is_prepared)
{
    const haul_program_operation *o = &x->p->operations[number];
    const haul_program_value     *values = x->p->values + o->value;
    if (!is_function(call_of(x, number)) || o->view_of >= 0 || !o->result_count)
        return false;
    *is_prepared = false;
    for (int i = 0; i < o->operand_count; i++) {
        const int64_t store = values[i].store;
        if (store >= 0 && !x->constant[store] && !is_steady(x, store))
            return false;
        *is_prepared = *is_prepared || (store >= 0 && (x->prepared[store] || !x->constant[store]));
    }
    if (*is_prepared && call_of(x, number)->form.records)
        return false;
    for (int i = o->operand_count; i < o->operand_count + o->result_count; i++)
        if (values[i].store < 0 || !may_be_constant(x, values[i].store, *is_prepared))
            return false;
    return true;
}

static void find(search *x)
{
    for (int64_t i = 0; i < x->p->operation_count; i++) {
        const haul_program_operation *o = &x->p->operations[i];
        bool                          is_prepared;
        const int                     count = is_constant_call(x, i, &is_prepared) ? o->result_count : 0;
        for (int k = 0; k < count; k++) {
            const int64_t store = x->p->values[o->value + o->operand_count + k].store;
            HAUL__ASSERT(x->writers[store] == 1 && !x->constant[store]);
            x->constant[store] = true;
            x->prepared[store] = is_prepared;
        }
    }
}

haul_status haul__program_find_constants(const haul__program *log, const haul__program_order *order,
                                         const haul_program *p, bool *constant)
{
    search x = {.log = log, .order = order, .p = p, .constant = constant};
    HAUL__ASSERT((size_t)p->operation_count == order->count);
    x.writers = haul__calloc((size_t)p->store_count + 1, sizeof *x.writers);
    x.prepared = haul__calloc((size_t)p->store_count + 1, sizeof *x.prepared);
    const bool has_memory = x.writers && x.prepared;
    if (has_memory) {
        count_writers(&x);
        find(&x);
    }
    haul__free(x.writers);
    haul__free(x.prepared);
    return has_memory ? HAUL_OK : haul__fail_memory("haul_recording_run", (size_t)p->store_count * sizeof *x.writers);
}
