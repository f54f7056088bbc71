/* The bytes that a step needs whatever is chosen.
 *
 * The least of the model (bound.h) is about the model. A step may need less: an operation may release one tensor before
 * it makes another one, and the forward pass of a segment that runs again keeps less. So this bound is about the log of
 * the step. It begins with the most that was in use at once while an operation was under way, and leaves out everything
 * that may be missing then. */
#include "base/assert.h"
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

static bool is_of_segment(const haul__memory_model *m, int64_t operation)
{
    for (int s = 0; s < m->segment_count; s++)
        if (m->segments[s].first <= operation && operation <= m->segments[s].last)
            return true;
    return false;
}

/* A step in which the segment runs again may not have it there. */
static bool is_idle(const haul__memory_step *step, const haul__memory_model *m, int operation, int64_t store)
{
    return step->program->stores[store].kind == HAUL_STORE_INSIDE && exists(step->residency, operation, store) &&
           is_of_segment(m, step->residency->from[store]) && !uses(step->program, operation, store);
}

/* Spilled memory from before the step leaves after its last use, for the next step. */
static bool may_be_away(const haul__memory_step *step, const haul__memory_tensor *t, int operation)
{
    return haul__memory_may_be_away(t, operation) ||
           (t->in >= 0 && t->leave < 0 && operation > step->program->stores[t->store].last);
}

static int64_t needed_at(const haul__memory_step *step, const haul__memory_model *m, int operation)
{
    int64_t bytes = step->residency->bytes[operation];
    HAUL__ASSERT(m->operation_count == step->program->operation_count);
    for (int64_t i = 0; i < step->program->store_count; i++)
        bytes -= is_idle(step, m, operation, i) ? step->residency->block[i] : 0;
    for (int i = 0; i < m->tensor_count; i++) {
        const haul__memory_tensor *t = &m->tensors[i];
        if (may_be_away(step, t, operation) && exists(step->residency, operation, t->store) &&
            !is_idle(step, m, operation, t->store))
            bytes -= t->bytes;
    }
    return bytes;
}

int64_t haul__memory_step_least(const haul__memory_step *step, const haul__memory_model *m)
{
    int64_t most = 0;
    for (int i = 0; i < step->program->operation_count; i++)
        most = larger(most, needed_at(step, m, i));
    return most;
}
