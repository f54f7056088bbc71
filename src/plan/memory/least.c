/* The bytes that a step needs whatever is chosen.
 *
 * A choice of the model with segments that run again may need more than the step that is recorded with them, since an
 * operation of the forward pass keeps less then. So this bound is about the program: an operation needs its operands,
 * its results and its scratch memory, and memory from before the step that cannot be spilled stays. */
#include "base/numbers.h"
#include "plan/memory/bound.h"
#include "plan/memory/step.h"

static bool uses(const haul_program *p, int operation, int64_t store)
{
    const haul_program_operation *o = &p->operations[operation];
    for (int64_t v = o->value; v < o->value + o->operand_count + o->result_count; v++)
        if (p->values[v].store == store)
            return true;
    return false;
}

static bool exists(const haul__residency *lives, int operation, int64_t store)
{
    return lives->block[store] > 0 && lives->from[store] <= operation && operation <= lives->until[store];
}

/* Made in the step and not used by the operation: a step with other segments may not have it there. */
static bool is_idle(const haul__memory_step *step, int operation, int64_t store)
{
    return step->program->stores[store].kind == HAUL_STORE_INSIDE && exists(step->residency, operation, store) &&
           !uses(step->program, operation, store);
}

static int64_t needed_at(const haul__memory_step *step, const haul__memory_model *m, int operation)
{
    int64_t bytes = step->residency->bytes[operation];
    for (int64_t i = 0; i < step->program->store_count; i++)
        bytes -= is_idle(step, operation, i) ? step->residency->block[i] : 0;
    for (int i = 0; i < m->tensor_count; i++) {
        const haul__memory_tensor *t = &m->tensors[i];
        if (haul__memory_may_be_away(t, operation) && exists(step->residency, operation, t->store) &&
            !is_idle(step, operation, t->store))
            bytes -= t->bytes;
    }
    return bytes;
}

int64_t haul__memory_step_least(const haul__memory_step *step, const haul__memory_model *m)
{
    int64_t most = 0;
    if (!m->segment_count)
        return haul__memory_least(m);
    for (int i = 0; i < step->program->operation_count; i++)
        most = larger(most, needed_at(step, m, i));
    return smaller(most, haul__memory_least(m));
}
