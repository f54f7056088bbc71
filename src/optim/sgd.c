/* Stochastic gradient descent. */
#include <math.h>

#include "core/error.h"
#include "ops/optimizer.h"
#include "optim/optimizer.h"

static haul__sgd settings_of(const haul_optimizer *o)
{
    haul__sgd s = *(const haul__sgd *)o->settings;

    s.lr = o->lr;
    return s;
}

static bool has_state(const haul_optimizer *o)
{
    return settings_of(o).momentum != 0;
}

static haul_status prepare(haul_optimizer *o, haul__optimizer_entry *e, bool guarded)
{
    haul__sgd s = settings_of(o);

    return haul__sgd_prepare(e->parameter, &s, guarded);
}

static haul_status update(haul_optimizer *o, haul__optimizer_entry *e, haul_tensor *grad, bool first,
                          const haul__guard *guard)
{
    haul__sgd s = settings_of(o);

    s.first = first;
    return haul__sgd_step(e->parameter, e->states[0], grad, &s, guard);
}

static const haul__optimizer_kind kind = {
    .name = "sgd",
    .state_count = 1,
    .state_names = {"momentum"},
    .has_state = has_state,
    .prepare = prepare,
    .update = update,
};

haul_optimizer *haul_sgd_with(const haul_sgd_options *options)
{
    static const char operation[] = "haul_sgd";

    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__optimizer_number(options->lr, 0, INFINITY, operation, "lr") ||
        haul__optimizer_number(options->momentum, 0, INFINITY, operation, "momentum") ||
        haul__optimizer_number(options->dampening, -INFINITY, INFINITY, operation, "dampening") ||
        haul__optimizer_number(options->weight_decay, 0, INFINITY, operation, "weight_decay"))
        return NULL;
    if (options->nesterov && (options->momentum == 0 || options->dampening != 0)) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "nesterov", "nesterov needs a momentum above 0 and no dampening");
        return NULL;
    }
    haul__sgd s = {.momentum = options->momentum,
                   .dampening = options->dampening,
                   .weight_decay = options->weight_decay,
                   .nesterov = options->nesterov};
    return haul__optimizer_new(&kind, options->module, options->lr != 0 ? options->lr : 0.001, &s, sizeof s, operation);
}
