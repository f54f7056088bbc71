/* Runs functions of custom operations in a followed step. They get tensors that stand for what they got when the step
 * was recorded, so anything else that they read shows in their calls. */
#include "record/follow/function.h"

#include "base/assert.h"
#include "core/scope.h"
#include "engine/custom/custom.h"
#include "engine/driver.h"
#include "record/follow/match.h"

static haul_status stand_in(haul__following *f, const haul__entry *e, haul_tensor **given)
{
    for (int i = 0; i < e->count; i++) {
        given[i] = haul__follow_stand_in(f, &f->v->references[e->references + (size_t)i]);
        if (!given[i])
            return haul_error_status();
    }
    return HAUL_OK;
}

/* The function has made all of its calls, and returns what it did. */
static haul_status check_results(haul__following *f, haul_tensor *const *results)
{
    const haul__entry *e = &f->v->entries[f->at];
    if (f->base.trial.differs || f->at == f->v->entry_count || e->kind != HAUL__ENTRY_END)
        return haul__trial_differs(&f->base.trial, NULL, "a function of a custom operation ends after call %zu", f->at);
    for (int i = 0; i < e->count; i++)
        if (!haul__follow_is_reference(f, &f->v->references[e->references + (size_t)i], results[i]))
            return haul__trial_differs(&f->base.trial, e->name, "a function of %s gives another result %d", e->name,
                                       i + 1);
    f->at++;
    return HAUL_OK;
}

static haul_status compose(haul__following *f, const haul__entry *e, const void *attributes)
{
    haul__call   c;
    haul_tensor *given[HAUL__MAX_OPERANDS];
    HAUL__ASSERT(e->kind == HAUL__ENTRY_FUNCTION && e->gradient < 0 && e->count <= HAUL__MAX_OPERANDS);
    const int   results = haul__custom_of(e->operation)->result_count;
    haul_status status = stand_in(f, e, given);
    if (status)
        return status;
    haul__call_settings_set(&e->settings); /* the innermost scope restores the thread's */
    haul__call_begin(&c, e->operation, attributes, e->count, results);
    c.operands = given;
    status = e->operation->compose(&c);
    return status ? status : check_results(f, c.results);
}

haul_status haul__follow_compose(haul__following *f, const haul__entry *e, const void *attributes)
{
    haul_scope  scope;
    haul_status status = haul__scope_open(&scope, e->name);
    if (status)
        return status;
    status = compose(f, e, attributes);
    haul__scope_close(&scope);
    return status;
}

static haul_status differentiate(haul__following *f, const haul__entry *e)
{
    haul_tensor *given[HAUL__GRADIENT_GIVEN];
    HAUL__ASSERT(0 <= e->gradient && (size_t)e->gradient < f->v->gradient_count);
    HAUL__ASSERT(e->count <= HAUL__GRADIENT_GIVEN);
    haul_custom_gradient g = f->v->gradients[e->gradient];
    haul_status          status = stand_in(f, e, given);
    if (status)
        return status;
    haul__call_settings_set(&e->settings); /* the innermost scope restores the thread's */
    haul__gradient_give(&g, given);
    g.attributes = e->operation->attributes_size ? f->v->attributes.bytes + e->attributes : NULL;
    status = haul__custom_gradient_again(e->operation, &g);
    for (int i = 0; i < HAUL_CUSTOM_OPERANDS; i++)
        g.operands[i] = g.wanted[i] ? g.operands[i] : HAUL_NONE;
    return status ? status : check_results(f, g.operands);
}

haul_status haul__follow_gradient(haul__following *f)
{
    haul_scope         scope;
    const haul__entry *e = &f->v->entries[f->at];
    haul_status        status = haul__scope_open(&scope, e->name);
    if (status)
        return status;
    f->at++;
    status = differentiate(f, e);
    haul__scope_close(&scope);
    return status;
}
