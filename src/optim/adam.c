/* Adam, and AdamW with .decoupled. */
#include <math.h>

#include "core/error.h"
#include "ops/optimizer.h"
#include "optim/optimizer.h"

static haul__adam settings_of(const haul_optimizer *o)
{
    haul__adam s = *(const haul__adam *)o->settings;

    s.lr = o->lr;
    return s;
}

static bool has_state(const haul_optimizer *o)
{
    (void)o;
    return true;
}

static haul_status prepare(haul_optimizer *o, haul__optimizer_entry *e, bool guarded)
{
    (void)o;
    return haul__adam_prepare(e->parameter, guarded);
}

static haul_status update(haul_optimizer *o, haul__optimizer_entry *e, haul_tensor *grad, bool first,
                          const haul__guard *guard)
{
    haul__adam s = settings_of(o);

    (void)first; /* the moments begin as zero */
    s.step = e->steps;
    return haul__adam_step(e->parameter, e->states[0], e->states[1], grad, &s, guard);
}

static const haul__optimizer_kind kind = {
    .name = "adam",
    .state_count = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .saves_steps = true,
    .has_state = has_state,
    .prepare = prepare,
    .update = update,
};

haul_optimizer *haul_adam_with(const haul_adam_options *options)
{
    static const char operation[] = "haul_adam";

    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__optimizer_number(options->lr, 0, INFINITY, operation, "lr") ||
        haul__optimizer_number(options->beta1, 0, 1, operation, "beta1") ||
        haul__optimizer_number(options->beta2, 0, 1, operation, "beta2") ||
        haul__optimizer_number(options->eps, 0, INFINITY, operation, "eps") ||
        haul__optimizer_number(options->weight_decay, 0, INFINITY, operation, "weight_decay"))
        return NULL;
    haul__adam s = {.beta1 = options->beta1 != 0 ? options->beta1 : 0.9,
                    .beta2 = options->beta2 != 0 ? options->beta2 : 0.999,
                    .eps = options->eps != 0 ? options->eps : 1e-8,
                    .weight_decay = options->weight_decay,
                    .decoupled = options->decoupled};
    return haul__optimizer_new(&kind, options->module, options->lr != 0 ? options->lr : 0.001, &s, sizeof s, operation);
}
