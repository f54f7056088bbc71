/* The operations of optimizers whose step is a formula for each element. */
#include "optim/rules/rule.h"

#include "base/assert.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "optim/rules/rule_kernel.h"

/* The number of operands of each parameter: the parameter, its states, made, its gradient, found. */
static int operand_count(const haul__optimizer_kind *kind)
{
    return kind->state_count + kind->saves_steps + 3;
}

/* ---- the operation ---- */

typedef struct computation {
    const haul__optimizer_kind *kind;
    rule_params                 params;
} computation;

static haul_status step_one(const haul__call *c, haul_tensor *const *in, void *context)
{
    computation                *x = context;
    rule_params                *params = &x->params;
    const haul__optimizer_kind *kind = x->kind;
    const int                   grad = 1 + kind->state_count + kind->saves_steps;
    const bool                  guarded = !haul__is_none(in[grad + 1]);
    HAUL__ASSERT(kind->state_count > 0 && grad + 2 == operand_count(kind));
    HAUL__ASSERT(!kind->saves_steps || guarded == !haul__is_none(in[1 + kind->state_count]));
    params->items = in[0]->count;
    params->p_at = in[0]->offset;
    for (int k = 0; k < kind->state_count; k++)
        params->s_at[k] = in[1 + k]->offset;
    params->g_at = in[grad]->offset;
    params->made_at = guarded && kind->saves_steps ? in[1 + kind->state_count]->offset : 0;
    params->found_at = guarded ? in[grad + 1]->offset : 0;
    return haul__launch_kernel(c, kind->kernels[guarded], in[0]->dtype, .outs = in,
                               .out_count = 1 + kind->state_count + (guarded && kind->saves_steps), .ins = in + grad,
                               .in_count = 1 + guarded, HAUL__PARAMS(*params), .grain = 8192);
}

haul_status haul__rule_compute(haul__call *c)
{
    const haul__optimizer_kind *kind = c->operation->extra;
    const haul__rule_settings  *s = haul__attributes(c);
    double                      scalars[RULE_SCALARS] = {0};
    computation                 x = {.kind = kind, .params = {.from = s->from, .first = s->first}};
    HAUL__ASSERT(kind && s->step > 0);
    kind->scalars(s->values, (double)s->step, scalars);
    for (int i = 0; i < RULE_SCALARS; i++)
        x.params.scalars[i] = haul__scalar_bits(c->operands[0]->dtype, scalars[i]);
    return haul__step_each(c, step_one, &x);
}

/* ---- the optimizer ---- */

haul_status haul__rule_update(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                              int count)
{
    enum { MOST = HAUL__MAX_STATES + 4 };
    haul_tensor        *operands[HAUL__MAX_UPDATES * MOST], **in = operands;
    const bool          guarded = updates->guard.found != NULL;
    haul__rule_settings s = {.step = updates->entry->steps,
                             .first = updates->first,
                             .from = guarded && kind->saves_steps ? updates->guard.from : 0};
    HAUL__ASSERT(count > 0 && count <= HAUL__MAX_UPDATES && operand_count(kind) <= MOST);
    for (int i = 0; i < haul__optimizer_setting_count(kind); i++)
        s.values[i] = values[i];
    for (int i = 0; i < count; i++) {
        const haul__update *u = &updates[i];
        HAUL__ASSERT(!u->guard.found == !guarded && u->first == updates->first);
        *in++ = u->parameter;
        for (int k = 0; k < kind->state_count; k++)
            *in++ = u->states[k];
        if (kind->saves_steps)
            *in++ = guarded ? u->guard.made : HAUL_NONE;
        *in++ = u->grad;
        *in++ = guarded ? u->guard.found : HAUL_NONE;
    }
    HAUL__ASSERT(in - operands == (ptrdiff_t)count * operand_count(kind));
    return haul__apply(kind->operation, &s, operands, count * operand_count(kind), NULL);
}

int haul__rule_kernel(const haul__optimizer_kind *kind, const double *values, bool guarded, int number)
{
    (void)values;
    return number ? -1 : kind->kernels[guarded];
}

unsigned haul__rule_one_state(const double *values)
{
    (void)values;
    return 1;
}

unsigned haul__rule_two_states(const double *values)
{
    (void)values;
    return 3;
}
