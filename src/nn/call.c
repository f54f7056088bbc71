/* Calls of modules: a scope for each call, inputs that are moved to the module's place, and errors that name the
 * layer. */
#include <haul/scope.h>
#include <haul/transfer.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/system/stack.h"
#include "base/text/list.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "device/device.h"
#include "engine/copy.h"
#include "events/call.h"
#include "events/events.h"
#include "events/modes.h"
#include "nn/module.h"

/* A call in progress. */
typedef struct call {
    haul_module             *module;
    const haul_call_options *options;
    haul_scope              *scope;
    haul_tensor             *given[HAUL_MAX_ARGUMENTS]; /* the inputs before they are moved */
    haul_args                args;
    int                      results; /* the number of results, once forward has succeeded */
} call;

/* ---- the arguments ---- */

static haul_status check_input(const call *c, const char *operation, int i)
{
    char        text[56];
    const char *name = haul__names_at(&c->module->inputs, i);
    /* The name is needed as a text of its own only if several inputs share the last name. */
    if (i >= c->module->inputs.count)
        snprintf(text, sizeof text, "%.30s (input %d)", name, i);
    return haul__check_optional(operation, i < c->module->inputs.count ? name : text, c->options->x[i]);
}

static haul_status wrong_count(const call *c, const char *operation, int given)
{
    char               list[200] = "";
    const haul__names *names = &c->module->inputs;
    HAUL__ASSERT(given < names->required || given > names->count);
    for (int i = 0; i < names->count; i++)
        haul__list_add(list, sizeof list, "%s%s", names->items[i],
                       i < names->required                    ? ""
                       : names->open && i == names->count - 1 ? "..."
                                                              : "?");
    if (given < names->required)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, names->items[given],
                          "the %s needs the input '%s'; it takes: %s", c->module->kind, names->items[given], list);
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "x", "%d inputs were given; the %s takes: %s", given,
                      c->module->kind, list);
}

static haul_status take_inputs(call *c, const char *operation)
{
    const haul_call_options *o = c->options;
    const haul__names       *names = &c->module->inputs;
    int                      n = 0;
    HAUL__ASSERT(names->required <= names->count && names->count <= HAUL_MAX_ARGUMENTS);
    for (; n < HAUL_MAX_ARGUMENTS && o->x[n]; n++)
        if (check_input(c, operation, n))
            return haul_error_status();
    for (int i = n + 1; i < HAUL_MAX_ARGUMENTS; i++)
        if (o->x[i])
            return haul__fail_null(operation, haul__names_at(names, n));
    if (!n && names->required)
        return haul__fail_null(operation, names->items[0]);
    if (n < names->required || (n > names->count && !names->open))
        return wrong_count(c, operation, n);
    for (int i = 0; i < names->required; i++)
        if (haul__is_none(o->x[i]))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, names->items[i],
                              "%s is HAUL_NONE, but the %s needs it; mark it with ? in .inputs if it may be left out",
                              names->items[i], c->module->kind);
    HAUL__ASSERT(n >= names->required && n <= HAUL_MAX_ARGUMENTS);
    for (int i = 0; i < HAUL_MAX_ARGUMENTS; i++)
        c->args.x[i] = c->given[i] = i < n ? o->x[i] : HAUL_NONE;
    c->args.count = n;
    return HAUL_OK;
}

/* Requested results must exist. */
static haul_status check_more(const call *c, const char *operation)
{
    const haul__names *names = &c->module->results;
    int                n = HAUL_MAX_ARGUMENTS - 1;
    if ((unsigned)c->options->mode > HAUL_EVALUATE)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "mode",
                          "%d is not a mode; use HAUL_MODE_OF_MODULE, HAUL_TRAIN or HAUL_EVALUATE",
                          (int)c->options->mode);
    HAUL__ASSERT(names->count > 0);
    while (n > 0 && !c->options->more[n - 1])
        n--;
    if (n < names->count || names->open)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "more", "%d results are asked for; the %s has %d", n + 1,
                      c->module->kind, names->count);
}

/* ---- running ---- */

/* The module's place: its inputs are moved there, and tensors that it makes are made there. */
static haul_status enter(call *c)
{
    haul_device *place = c->module->place;
    if (!place)
        return HAUL_OK;
    HAUL__ASSERT(c->args.count <= HAUL_MAX_ARGUMENTS);
    if (haul_set_device(place))
        return haul_error_status();
    for (int i = 0; i < c->args.count; i++) {
        haul_tensor *x = c->args.x[i];
        if (haul__is_none(x) || x->storage->device == place)
            continue;
        c->args.x[i] = haul__to_named(x, place, haul__names_at(&c->module->inputs, i));
        if (haul__failed(c->args.x[i]))
            return haul_error_status();
    }
    return HAUL_OK;
}

/* An input or a parameter that is passed through has another owner, so the caller gets a new handle. */
static haul_status settle_result(call *c, int i)
{
    haul_tensor **y = &c->args.y[i];
    HAUL__ASSERT(i < HAUL_MAX_ARGUMENTS);
    if (haul__check_optional("haul_call", i ? haul__names_at(&c->module->results, i) : "the result of forward", *y))
        return haul_error_status();
    if (haul__is_none(*y))
        return HAUL_OK;
    bool repeated = false;
    for (int k = 0; k < i; k++)
        repeated = repeated || c->args.y[k] == *y;
    if ((*y)->object.scope != c->scope || repeated)
        *y = haul_to(*y, (*y)->storage->device);
    return haul__status_of(*y);
}

static int result_count(const haul_module *m)
{
    return m->results.open ? HAUL_MAX_ARGUMENTS : m->results.count;
}

haul_status haul__forward(haul_module *m, haul_args *args)
{
    haul_tensor *y = m->forward(m, args);
    if (!y && haul_error_status() == HAUL_OK)
        return haul__fail(HAUL_STATE, "haul_call", "module", "forward of the %s returned NULL but recorded no error",
                          m->kind);
    if (!y)
        return haul_error_status();
    args->y[0] = y;
    return haul__check_optional("haul_call", "the result of forward", y);
}

static haul_status run(call *c)
{
    haul_module  *m = c->module;
    const int64_t newest = m->hooks_added;
    HAUL__ASSERT(c->args.count >= m->inputs.required);
    if (enter(c) || (m->hook_count && haul__run_hooks(m, &c->args, false, newest)))
        return haul_error_status();
    haul_status status = m->run(m, &c->args);
    if (!status && m->hook_count)
        status = haul__run_hooks(m, &c->args, true, newest);
    int n = result_count(m);
    HAUL__ASSERT(n > 0 && n <= HAUL_MAX_ARGUMENTS);
    for (int i = 0; i < n && !status; i++)
        status = settle_result(c, i);
    for (int i = n; i < HAUL_MAX_ARGUMENTS && !status; i++)
        if (c->args.y[i] != HAUL_NONE)
            status = haul__fail(HAUL_STATE, "haul_call", "module",
                                "forward of the %s set result %d, but it was made with %d: name all in .results",
                                m->kind, i, n);
    return status;
}

/* Adds the layer that failed: "haul_linear: ..., in layer 'fc1' (linear)". */
static void name_layer(const haul_module *module, const char *name)
{
    haul__error_record error;
    size_t             used;
    haul__error_save(&error);
    used = strlen(error.message);
    snprintf(error.message + used, sizeof error.message - used, ", in layer '%s' (%s)", name, module->kind);
    haul__error_restore(&error);
}

/* ---- events ---- */

typedef struct names_of {
    const char *items[HAUL_MAX_ARGUMENTS];
} names_of;

static haul_call_values values(names_of *room, const haul__names *names, haul_tensor *const *tensors, int count)
{
    for (int i = 0; i < count; i++)
        room->items[i] = haul__names_at(names, i);
    return (haul_call_values){count, tensors, room->items};
}

static int64_t tell_begin(const call *c)
{
    names_of         names;
    haul_call_values x = values(&names, &c->module->inputs, c->given, c->args.count), y = {0};
    return haul__emit_begin(
        &(haul_event){.kind = HAUL_EVENT_CALL_BEGIN, .module = c->module, .x = &x, .y = &y, .text = c->module->kind});
}

static void tell_end(const call *c, int64_t began)
{
    names_of         in, out;
    haul_call_values x = values(&in, &c->module->inputs, c->given, c->args.count);
    haul_call_values y = values(&out, &c->module->results, c->args.y, c->results);
    haul__emit_end(
        &(haul_event){.kind = HAUL_EVENT_CALL_END, .module = c->module, .x = &x, .y = &y, .text = c->module->kind},
        began);
}

/* ---- a call ---- */

/* Closes the call's scope; the caller's scope owns the results. */
static haul_tensor *deliver(call *c, haul_status status)
{
    haul_tensor *const *y = c->args.y;
    haul_tensor      ***more = (haul_tensor ***)(uintptr_t)c->options->more;
    HAUL__ASSERT(status || y[0]);
    for (int i = 1; i < HAUL_MAX_ARGUMENTS && !status; i++)
        if (more[i - 1]) {
            if (!haul__is_none(y[i]))
                haul__scope_hand_over(c->scope, y[i]);
            *more[i - 1] = y[i];
        }
    HAUL__ASSERT(status || haul__is_none(y[0]) || y[0]->object.scope == c->scope);
    return haul_scope_return(c->scope, status ? NULL : y[0]);
}

static haul_tensor *fail_all(const haul_call_options *options)
{
    haul_tensor *failed = haul__failed_tensor();
    for (int i = 0; i < HAUL_MAX_ARGUMENTS - 1; i++)
        if (options->more[i])
            *options->more[i] = failed;
    return failed;
}

/* For the deepest operation that a forward function calls. */
enum { LEAST_STACK = 24 << 10 };

static haul_tensor *refuse_depth(const haul__call_frame *frame, const char *operation, const haul_call_options *options)
{
    haul__fail(HAUL_STATE, operation, "module",
               "%d modules are being called within each other, and %zu bytes of the thread's stack are left; %d are "
               "needed: make fewer levels, or a thread with a larger stack (pthread_attr_setstacksize, ulimit -s)",
               frame->depth, haul__stack_left(), LEAST_STACK);
    return fail_all(options);
}

/* False after a call that failed, for example: its error names a layer already. */
static bool are_tensors(haul_tensor *const *x)
{
    for (int i = 0; i < HAUL_MAX_ARGUMENTS; i++)
        if (x[i] && !haul__is_none(x[i]) && !haul__is_tensor(x[i]))
            return false;
    return true;
}

static haul_tensor *call_named(haul_module *module, const char *name, const haul_call_options *options,
                               const char *operation)
{
    call                    c; /* filled in on demand, because it is large and calls are frequent */
    const haul__call_frame *outer = haul__call_now();
    haul__call_frame        here = {outer, name, module, outer ? outer->depth + 1 : 0, options->mode};
    c.module = module;
    HAUL__ASSERT(module->run && module->inputs.count > 0);
    c.options = options;
    if (haul__stack_left() < LEAST_STACK)
        return refuse_depth(&here, operation, options);
    if (take_inputs(&c, operation) || check_more(&c, operation)) {
        if (name && are_tensors(options->x))
            name_layer(module, name);
        return fail_all(options);
    }
    c.scope = haul__scope_push(name ? name : module->kind);
    if (!c.scope)
        return fail_all(options);
    if (!here.mode && outer)
        here.mode = outer->mode;
    c.args.training = haul__modes_next(here.mode ? here.mode == HAUL_TRAIN : module->training);
    for (int i = 0; i < HAUL_MAX_ARGUMENTS; i++)
        c.args.y[i] = HAUL_NONE;
    haul__call_set(&here);
    int64_t     began = haul__watched(HAUL_EVENT_CALL) ? tell_begin(&c) : 0;
    haul__guest before = haul__guest_begin();
    haul_status status = haul__guest_end(&before, run(&c), operation);
    c.results = status ? 0 : result_count(module);
    HAUL__ASSERT(haul__call_now() == &here);
    if (began)
        tell_end(&c, began);
    haul__call_set(outer);
    haul_tensor *y = deliver(&c, status);
    if (!y && name)
        name_layer(module, name);
    return y ? y : fail_all(options);
}

/* The name of a child that forward calls directly. */
static const char *name_in_caller(const haul_module *module)
{
    const haul__call_frame *outer = haul__call_now();
    const haul_module      *m = outer ? outer->module : NULL;
    for (size_t i = 0; m && i < m->child_count; i++)
        if (m->children[i].module == module)
            return m->children[i].name;
    return NULL;
}

haul_tensor *haul_call_with(haul_module *module, const haul_call_options *options)
{
    static const char operation[] = "haul_call";
    if (!options)
        haul__fail_null(operation, "options");
    if (!options)
        return haul__failed_tensor();
    if (haul__check_module(module, operation))
        return fail_all(options);
    return call_named(module, name_in_caller(module), options, operation);
}

haul_tensor *haul_call_child_with(haul_module *module, const char *path, const haul_call_options *options)
{
    static const char operation[] = "haul_call_child";
    if (!options)
        haul__fail_null(operation, "options");
    if (!options)
        return haul__failed_tensor();
    if (haul__check_module(module, operation))
        return fail_all(options);
    if (!path)
        haul__fail_null(operation, "path");
    haul_module *child = path ? haul__module_walk(module, path, strlen(path), operation) : NULL;
    return child ? call_named(child, path, options, operation) : fail_all(options);
}

static haul_tensor *call_numbered(haul_module *module, size_t i, haul_tensor *x)
{
    const haul__module_child *child = &module->children[i];
    return call_named(child->module, child->name, &(haul_call_options){.x[0] = x}, "haul_call");
}

haul_tensor *haul__call_children(haul_module *module, size_t first, size_t end, haul_tensor *x)
{
    haul_tensor *now = x;
    HAUL__ASSERT(first <= end && end <= module->child_count);
    for (size_t i = first; i < end; i++) {
        haul_tensor *next = call_numbered(module, i, now);
        if (now != x)
            haul_drop(now);
        if (haul__failed(next))
            return next;
        now = next;
    }
    return now;
}

haul_tensor *haul__call_in_order(haul_module *module, haul_args *args)
{
    haul_tensor *now = args->x[0];
    for (size_t i = 0; i < module->child_count;) {
        size_t part = module->children[i].part;
        HAUL__ASSERT(part == 0 || (module->run_part && part <= module->child_count - i));
        haul_tensor *next = part ? module->run_part(module, i, i + part, now) : call_numbered(module, i, now);
        if (now != args->x[0])
            haul_drop(now);
        if (haul__failed(next))
            return next;
        now = next;
        i += part ? part : 1;
    }
    return now;
}

bool haul__calls_in_order(const haul_module *module)
{
    return module->forward == haul__call_in_order;
}
