/* Optimizers whose steps a function of the program makes. The optimizer has a kind of its own. */
#include <haul/autograd.h>
#include <haul/optim.h>
#include <haul/scope.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/scope.h"
#include "optim/optimizer.h"

static const char operation[] = "haul_optimizer_new";

typedef struct own {
    haul__optimizer_kind     kind;
    haul_optimizer_function *function;
    void                    *context;
    char                    *names[1 + HAUL__MAX_SETTINGS + HAUL__MAX_STATES]; /* the kind has pointers to them */
    int                      name_count;
} own;

void haul__optimizer_free_own(void *block)
{
    own *o = block;
    for (int i = 0; o && i < o->name_count; i++)
        haul__free(o->names[i]);
    haul__free(o);
}

/* ---- steps ---- */

static unsigned no_states(const double *values)
{
    (void)values;
    return 0;
}

static unsigned all_states(const double *values)
{
    (void)values;
    return (1u << HAUL__MAX_STATES) - 1;
}

static int no_kernel(const haul__optimizer_kind *kind, const double *values, bool guarded, int number)
{
    (void)kind;
    (void)values;
    (void)guarded;
    (void)number;
    return -1;
}

static haul_status call(const own *o, const haul_optimizer_update *u, const char *name)
{
    static const char step[] = "haul_optimizer_step";
    haul_scope       *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_status status = haul_set_device(haul_tensor_device(u->parameter)); /* the scope restores the setting */
    if (!status) {
        HAUL__ASSERT(u->parameter && u->gradient && u->step > 0);
        haul__guest before = haul__guest_begin();
        status = haul__guest_end(&before, o->function(u, o->context), step);
    }
    if (status && haul_error_status() == HAUL_OK)
        haul__fail(status, step, "optimizer",
                   "the function of the optimizer (%s) failed for '%s' but recorded no error", o->kind.name, name);
    haul_scope_pop(scope);
    return status;
}

static haul_status update(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                          int count)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(kind->by_operations && count <= HAUL__MAX_UPDATES);
    for (int i = 0; i < count && !status; i++) {
        const haul__update   *x = &updates[i];
        haul_optimizer_update u = {
            .parameter = x->parameter, .gradient = x->grad, .settings = values, .step = x->entry->steps};
        for (int k = 0; k < HAUL__MAX_STATES; k++)
            u.states[k] = k < kind->state_count ? x->states[k] : HAUL_NONE;
        HAUL__ASSERT(x->entry->steps == updates->entry->steps);
        status = call((const own *)(const void *)kind, &u, x->entry->name);
    }
    return status;
}

/* ---- making ---- */

/* A copy of a name, which `what` has; NULL, with the error recorded, if it is not a name. */
static const char *add_name(own *o, const char *name, const char *what)
{
    const size_t length = name ? strlen(name) : 0;
    if (!length || strpbrk(name, " ,\t\n")) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, what, "'%s' is not a name: give one without spaces and commas",
                   name ? name : "");
        return NULL;
    }
    char *copy = haul__strdup(name);
    if (!copy) {
        haul__fail_memory(operation, length + 1);
        return NULL;
    }
    HAUL__ASSERT(o->name_count < 1 + HAUL__MAX_SETTINGS + HAUL__MAX_STATES);
    o->names[o->name_count++] = copy;
    return copy;
}

static haul_status refuse_twice(const char *what, const char *name)
{
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, what, "'%s' is there twice", name);
}

static haul_status take_settings(own *o, const haul_optimizer_setting *settings, double *values)
{
    int i = 0;
    o->kind.momentum = -1;
    for (; i < HAUL__MAX_SETTINGS && settings[i].name; i++) {
        const haul_optimizer_setting *s = &settings[i];
        const char                   *name = add_name(o, s->name, "settings");
        if (!name)
            return haul_error_status();
        if (haul__optimizer_setting(&o->kind, name) >= 0)
            return refuse_twice("settings", name);
        o->kind.settings[i] = (haul__group_setting){name, s->least, s->below != 0 ? s->below : INFINITY, false};
        values[i] = s->value;
        if (o->kind.momentum < 0 && (!strcmp(name, "momentum") || !strcmp(name, "beta1")))
            o->kind.momentum = i;
    }
    if (!i || strcmp(o->kind.settings[HAUL__LR].name, "lr") != 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "settings",
                          "the first setting is '%s'; \"lr\", the learning rate, is expected",
                          i ? o->kind.settings[HAUL__LR].name : "");
    HAUL__ASSERT(o->kind.momentum < i && o->name_count == 1 + i);
    return HAUL_OK;
}

static haul_status take_states(own *o, const char *const *states)
{
    haul__optimizer_kind *kind = &o->kind;
    HAUL__ASSERT(kind->state_count == 0);
    for (; kind->state_count < HAUL__MAX_STATES && states[kind->state_count]; kind->state_count++) {
        const char *name = add_name(o, states[kind->state_count], "states");
        if (!name)
            return haul_error_status();
        for (int k = 0; k < kind->state_count; k++)
            if (!strcmp(kind->state_names[k], name))
                return refuse_twice("states", name);
        if (!strcmp(name, "step"))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "states",
                              "'step' is the name of the number of steps, which the optimizer saves itself");
        kind->state_names[kind->state_count] = name;
    }
    HAUL__ASSERT(kind->state_count <= HAUL__MAX_STATES);
    return HAUL_OK;
}

static haul_optimizer *make(own *o, const char *kind, const haul_optimizer_options *options)
{
    double values[HAUL__MAX_SETTINGS] = {0};
    o->function = options->function;
    o->context = options->context;
    o->kind.by_operations = true;
    o->kind.kernel = no_kernel;
    o->kind.update = update;
    o->kind.name = add_name(o, kind, "kind");
    if (!o->kind.name || take_settings(o, options->settings, values) || take_states(o, options->states))
        return NULL;
    o->kind.states = o->kind.state_count ? all_states : no_states;
    o->kind.saves_steps = o->kind.state_count > 0;
    HAUL__ASSERT(o->name_count == 1 + haul__optimizer_setting_count(&o->kind) + o->kind.state_count);
    return haul__optimizer_new(
        &o->kind, &(haul__optimizer_source){options->module, options->parameters, options->count}, values, operation);
}

haul_optimizer *haul_optimizer_new_with(const char *kind, const haul_optimizer_options *options)
{
    if (!kind || !options) {
        haul__fail_null(operation, kind ? "options" : "kind");
        return NULL;
    }
    if (!options->function) {
        haul__fail_no_function(operation, "function");
        return NULL;
    }
    own *o = haul__calloc(1, sizeof *o);
    if (!o) {
        haul__fail_memory(operation, sizeof *o);
        return NULL;
    }
    haul_optimizer *made = make(o, kind, options);
    if (made)
        made->own = o;
    else
        haul__optimizer_free_own(o);
    return made;
}
