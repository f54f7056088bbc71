/* The recorder: writes the entries of a variant while a dry run makes the step's calls. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/map.h"
#include "core/scope.h"
#include "record/dry_function.h"
#include "record/follow/variant.h"

typedef struct recorder {
    haul__recorder base;
    haul__variant *v;
    haul__map      leaves;      /* leaves, with their numbers + 1 */
    haul__map      outsides;    /* stores of the log, by number + 1, with the number of their outside + 1 */
    int            floor;       /* in the log: the call or section within which the program makes calls; -1: none */
    bool           in_pass;     /* operations compute gradients, not the program */
    bool           in_gradient; /* a gradient function of a custom operation runs */
    size_t         pass;        /* the entry of the last pass */
    size_t         composed;    /* the entry of the last function that ended */
} recorder;

#define ROOM(v, items, count, room, n)                                                                                 \
    (haul__grow(&(v)->items, &(v)->room, (v)->count + (n) + 1, sizeof *(v)->items)                                     \
         ? HAUL_OK                                                                                                     \
         : haul__fail_memory("haul_recording_run", sizeof *(v)->items))

static void refuse(haul__recorder *base, const char *why)
{
    haul__variant *v = ((recorder *)base)->v;
    if (!*v->refused)
        snprintf(v->refused, sizeof v->refused, "%s", why);
}

__attribute__((format(printf, 2, 3))) static void refuse_call(recorder *r, const char *format, ...)
{
    char    text[256];
    va_list arguments;
    va_start(arguments, format);
    haul__vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    refuse(&r->base, text);
}

/* ---- tensors ---- */

static haul_status add_form(haul__variant *v, const haul_tensor *t, size_t *at)
{
    if (ROOM(v, forms, form_count, form_room, 0))
        return haul_error_status();
    haul_tensor *form = &v->forms[v->form_count];
    memset(form, 0, sizeof *form);
    haul__tensor_take_form(form, t);
    *at = v->form_count++;
    return HAUL_OK;
}

/* The number of the outside store; -1, with the error recorded, without memory. */
static int outside_of(recorder *r, const haul_tensor *t, int log_store)
{
    bool             is_new;
    haul__variant   *v = r->v;
    haul__map_entry *e = haul__map_insert(&r->outsides, (const void *)((uintptr_t)log_store + 1), &is_new);
    if (!e || ROOM(v, outsides, outside_count, outside_room, 0))
        return e ? -1 : (haul__fail_memory("haul_recording_run", sizeof *e), -1);
    HAUL__ASSERT(is_new || (uintptr_t)e->value - 1 < v->outside_count);
    if (!is_new)
        return (int)((uintptr_t)e->value - 1);
    v->outsides[v->outside_count] =
        (haul__outside){.log_store = log_store, .device = t->storage->device, .first_handle = -1};
    e->value = (void *)(uintptr_t)(++v->outside_count);
    return (int)v->outside_count - 1;
}

/* The number of the leaf, or -1. */
static int leaf_of(recorder *r, haul_tensor *t)
{
    bool is_new;
    if (!t->requires_grad || t->node)
        return -1;
    haul__map_entry *e = haul__map_insert(&r->leaves, t, &is_new);
    if (!e)
        return refuse_call(r, "host memory is exhausted"), -1;
    if (is_new)
        e->value = (void *)(uintptr_t)(++r->v->leaf_count);
    return (int)((uintptr_t)e->value - 1);
}

static bool is_value(const recorder *r, const haul_tensor *t, int log_store)
{
    const uint32_t at = t->followed - r->v->base;
    return t->followed && at > 0 && at < r->v->made_count && r->v->made[at].store == log_store;
}

static haul_status refer(recorder *r, haul_tensor *t, const char *name, haul__reference *out)
{
    *out = (haul__reference){.kind = HAUL__NO_TENSOR, .outside = -1, .leaf = -1};
    if (!t || haul__is_none(t))
        return HAUL_OK;
    const int log_store = haul__dry_run_store(t->storage);
    if (log_store < 0)
        return haul_error_status();
    if (is_value(r, t, log_store)) {
        out->kind = HAUL__INSIDE;
        out->requires_grad = t->requires_grad;
        out->leaf = leaf_of(r, t);
        out->value = t->followed - r->v->base;
        HAUL__ASSERT(0 < out->value && out->value < r->v->made_count);
        return HAUL_OK;
    }
    if (haul__dry_run_planned(t->storage))
        refuse_call(r, "%s uses a tensor that no call of the step made", name);
    if (t->node)
        refuse_call(r, "%s uses a tensor whose graph began before the step", name);
    out->kind = HAUL__OUTSIDE;
    out->requires_grad = t->requires_grad;
    out->outside = outside_of(r, t, log_store);
    out->leaf = leaf_of(r, t);
    return out->outside < 0 ? haul_error_status() : add_form(r->v, t, &out->form);
}

static haul_status add_reference(recorder *r, haul_tensor *t, const char *name)
{
    haul__reference ref;
    if (refer(r, t, name, &ref) || ROOM(r->v, references, reference_count, reference_room, 0))
        return haul_error_status();
    r->v->references[r->v->reference_count++] = ref;
    return HAUL_OK;
}

/* The tensor becomes a value; `*number` is its number. */
static haul_status add_value(recorder *r, haul_tensor *t, uint32_t *number)
{
    enum { MOST = 1 << 16 };
    haul__variant *v = r->v;
    haul__made     made = {.store = haul__dry_run_store(t->storage), .tracked = haul__tracks(t)};
    if (made.store < 0 || add_form(v, t, &made.form) || ROOM(v, made, made_count, made_room, 0))
        return haul_error_status();
    if (v->made_count >= MOST)
        refuse_call(r, "the step makes more than %d tensors", MOST);
    if (!t->storage->planned && t->storage->bytes && outside_of(r, t, made.store) < 0)
        return haul_error_status();
    *number = (uint32_t)v->made_count;
    t->followed = v->base + *number;
    v->made[v->made_count++] = made;
    return HAUL_OK;
}

/* ---- calls ---- */

static haul_status add_entry(haul__variant *v, const haul__entry *e)
{
    if (ROOM(v, entries, entry_count, entry_room, 0))
        return haul_error_status();
    v->entries[v->entry_count++] = *e;
    return HAUL_OK;
}

/* True if the program made the call. Sections have calls, too, for example an optimizer's step. */
static bool is_of_program(const recorder *r, const haul__program *log, int call)
{
    for (int at = log->calls[call].parent; at >= 0 && at != r->floor; at = log->calls[at].parent)
        if (log->calls[at].operation)
            return false;
    return true;
}

static haul_status add_results(recorder *r, const haul__asked *a, haul__entry *e)
{
    haul__variant *v = r->v;
    e->results = v->result_count;
    if (ROOM(v, results, result_count, result_room, HAUL__MAX_RESULTS))
        return haul_error_status();
    for (int i = 0; a->results && i < HAUL__MAX_RESULTS && a->operation->results[i].name; i++) {
        uint32_t   number = 0;
        const bool is_given = !a->operation->results[i].hidden && !haul__is_none(a->results[i]);
        if (is_given && add_value(r, a->results[i], &number))
            return haul_error_status();
        v->results[v->result_count++] = number;
        e->result_count++;
    }
    HAUL__ASSERT(e->results + (size_t)e->result_count == v->result_count);
    return HAUL_OK;
}

static haul_status record_call(haul__recorder *base, int call, const haul__asked *a)
{
    recorder      *r = (recorder *)base;
    haul__program *log = &haul__dry_run_now()->program;
    haul_status    status = HAUL_OK;
    HAUL__ASSERT((size_t)call < log->call_count);
    if (r->in_pass || !is_of_program(r, log, call))
        return HAUL_OK;
    haul__entry e = {.kind = HAUL__ENTRY_CALL,
                     .operation = a->operation,
                     .name = a->operation->name,
                     .settings = haul__call_settings_now(),
                     .count = a->count,
                     .into = a->outs != NULL,
                     .references = r->v->reference_count,
                     .log_call = call,
                     .call = -1};
    HAUL__ASSERT(!a->operation->is_custom || !a->operation->compose || r->composed < r->v->entry_count);
    if (a->operation->is_custom && a->operation->compose)
        r->v->entries[r->composed].composes = r->v->entry_count;
    for (int i = 0; i < a->count && !status; i++)
        status = add_reference(r, a->operands[i], e.name);
    for (int i = 0; a->outs && i < HAUL__MAX_RESULTS && a->operation->results[i].name && !status; i++)
        status = a->operation->results[i].hidden ? HAUL_OK : add_reference(r, a->outs[i], e.name);
    if (!status)
        status = add_results(r, a, &e);
    if (!status)
        status = haul__attributes_add(&r->v->attributes, a->attributes, a->operation->attributes_size, &e.attributes);
    return status ? status : add_entry(r->v, &e);
}

static haul_status record_mark(haul__recorder *base, const char *name)
{
    recorder *r = (recorder *)base;
    if (r->in_pass)
        return HAUL_OK;
    return add_entry(
        r->v,
        &(haul__entry){
            .kind = HAUL__ENTRY_MARK, .name = name, .settings = haul__call_settings_now(), .log_call = -1, .call = -1});
}

/* ---- backward passes ---- */

static haul_status begin_pass(haul__recorder *base, const haul__asked_pass *pass)
{
    recorder   *r = (recorder *)base;
    haul__entry e = {.kind = HAUL__ENTRY_PASS,
                     .name = pass->operation,
                     .settings = haul__call_settings_now(),
                     .count = 2 + pass->input_count,
                     .references = r->v->reference_count,
                     .log_call = -1,
                     .call = -1,
                     .flags = pass->flags,
                     .leaf_change = r->v->leaf_change_count};
    if (r->in_pass || r->in_gradient)
        refuse_call(r, "a backward pass runs within another one");
    if (add_reference(r, pass->y, e.name) || add_reference(r, pass->seed, e.name))
        return haul_error_status();
    for (int i = 0; i < pass->input_count; i++)
        if (add_reference(r, pass->inputs[i], e.name))
            return haul_error_status();
    r->pass = r->v->entry_count;
    r->in_pass = true;
    return add_entry(r->v, &e);
}

static void end_pass(haul__recorder *base)
{
    ((recorder *)base)->in_pass = false;
}

static haul_status change_leaf(haul__recorder *base, haul_tensor *leaf, haul_tensor *gradient)
{
    recorder              *r = (recorder *)base;
    haul__variant         *v = r->v;
    const int              store = haul__dry_run_store(leaf->storage);
    haul__leaf_change      change = {.leaf = -1, .inside = store >= 0 && is_value(r, leaf, store)};
    const haul__map_entry *known = haul__map_find(&r->leaves, leaf);
    if (!known)
        refuse_call(r, "a backward pass reaches a leaf that no call of the step names");
    else
        change.leaf = (int)((uintptr_t)known->value - 1);
    if (store < 0 || refer(r, leaf->grad, "a backward pass", &change.before) ||
        (gradient != leaf->grad && add_value(r, gradient, &change.value)) ||
        ROOM(v, leaf_changes, leaf_change_count, leaf_change_room, 0))
        return haul_error_status();
    HAUL__ASSERT(r->pass < v->entry_count && v->entries[r->pass].kind == HAUL__ENTRY_PASS);
    v->leaf_changes[v->leaf_change_count++] = change;
    v->entries[r->pass].leaf_change_count++;
    return HAUL_OK;
}

/* Gradients that arrived become values. */
static haul_status record_gradients(haul__recorder *base, haul_tensor *const *gradients, int count)
{
    recorder      *r = (recorder *)base;
    haul__variant *v = r->v;
    if (r->in_pass || ROOM(v, results, result_count, result_room, (size_t)count))
        return r->in_pass ? HAUL_OK : haul_error_status();
    HAUL__ASSERT(r->pass < v->entry_count && v->entries[r->pass].kind == HAUL__ENTRY_PASS);
    v->entries[r->pass].results = v->result_count;
    v->entries[r->pass].result_count = count;
    for (int i = 0; i < count; i++) {
        uint32_t number = 0;
        if (!haul__is_none(gradients[i]) && add_value(r, gradients[i], &number))
            return haul_error_status();
        v->results[v->result_count++] = number;
    }
    return HAUL_OK;
}

/* ---- functions of custom operations ---- */

/* A tensor that the function gets. Those that no call of the program made are values, too: operands that were cast, and
 * gradients that arrive. */
static haul_status add_given(recorder *r, haul_tensor *t, const char *name)
{
    uint32_t  number;
    const int log_store = !t || haul__is_none(t) ? -1 : haul__dry_run_store(t->storage);
    if (log_store >= 0 && haul__dry_run_planned(t->storage) && !is_value(r, t, log_store) && add_value(r, t, &number))
        return haul_error_status();
    if (add_reference(r, t, name))
        return haul_error_status();
    if (log_store >= 0)
        r->v->references[r->v->reference_count - 1].tracked = haul__tracks(t);
    return HAUL_OK;
}

/* What a gradient function gets apart from tensors. */
static haul_status add_gradient(haul__variant *v, const haul__asked_function *f, haul__entry *e)
{
    if (ROOM(v, gradients, gradient_count, gradient_room, 0))
        return haul_error_status();
    e->gradient = (int)v->gradient_count;
    v->gradients[v->gradient_count++] = *f->gradient;
    return haul__attributes_add(&v->attributes, f->gradient->attributes, f->operation->attributes_size, &e->attributes);
}

static haul_status begin_function(haul__recorder *base, haul__asked_function *f)
{
    recorder      *r = (recorder *)base;
    haul__variant *v = r->v;
    haul__entry    e = {.kind = HAUL__ENTRY_FUNCTION,
                        .operation = f->operation,
                        .name = f->operation->name,
                        .settings = haul__call_settings_now(),
                        .count = f->count,
                        .references = v->reference_count,
                        .log_call = -1,
                        .call = -1,
                        .gradient = -1};
    f->outer.ignored = r->in_pass && !f->gradient; /* in a function that runs again, which does the same */
    if (f->outer.ignored)
        return HAUL_OK;
    for (int i = 0; i < f->count; i++)
        if (add_given(r, f->given[i], e.name))
            return haul_error_status();
    if (f->gradient && add_gradient(v, f, &e))
        return haul_error_status();
    f->outer.entry = v->entry_count;
    f->outer.floor = r->floor;
    f->outer.in_pass = r->in_pass;
    f->outer.in_gradient = r->in_gradient;
    r->floor = haul__dry_run_now()->program.now;
    r->in_pass = false;
    HAUL__ASSERT(f->outer.floor <= r->floor); /* it runs within what ran before */
    r->in_gradient = r->in_gradient || f->gradient;
    return add_entry(v, &e);
}

static haul_status end_function(haul__recorder *base, const haul__asked_function *f, haul_tensor *const *results,
                                int count)
{
    recorder   *r = (recorder *)base;
    haul__entry e = {.kind = HAUL__ENTRY_END,
                     .operation = f->operation,
                     .name = f->operation->name,
                     .count = count,
                     .references = r->v->reference_count,
                     .log_call = -1,
                     .call = -1};
    if (f->outer.ignored)
        return HAUL_OK;
    HAUL__ASSERT(f->outer.entry < r->v->entry_count && r->v->entries[f->outer.entry].kind == HAUL__ENTRY_FUNCTION);
    r->floor = f->outer.floor;
    r->in_pass = f->outer.in_pass;
    r->in_gradient = f->outer.in_gradient;
    r->composed = f->outer.entry;
    if (!results) {
        refuse_call(r, "a function of %s fails", e.name);
        return HAUL_OK;
    }
    for (int i = 0; i < count; i++)
        if (add_reference(r, results[i], e.name))
            return haul_error_status();
    return add_entry(r->v, &e);
}

/* ---- a recording ---- */

static haul_status record(recorder *r, haul_status (*function)(void *), void *context, const char *operation)
{
    haul__dry_function d;
    haul_scope        *scope = NULL;
    if (haul__dry_function_begin_recorded(&d, &r->base, operation))
        return haul_error_status();
    haul_status status = (scope = haul__scope_push(NULL)) ? HAUL_OK : haul_error_status();
    if (!status)
        status = haul__dry_function_call(function, context, operation);
    haul_scope_pop(scope);
    const haul__program *log = &d.run->program;
    HAUL__ASSERT(status || (!r->in_pass && !r->in_gradient && r->floor == -1)); /* all that began has ended */
    if (!status && log->incomplete)
        status = haul__fail_memory(operation, sizeof *log->stores);
    if (!status && !*r->v->refused)
        status = haul__variant_complete(r->v, log, operation);
    haul__dry_function_end(&d);
    return status;
}

haul__variant *haul__variant_record(haul_status (*function)(void *), void *context, const char *operation)
{
    static _Atomic uint32_t newest;
    haul__variant          *v = haul__calloc(1, sizeof *v);
    if (!v) {
        haul__fail_memory(operation, sizeof *v);
        return NULL;
    }
    v->base = (atomic_fetch_add(&newest, 1) + 1) << 16;
    v->settled = true;
    v->made_count = ROOM(v, made, made_count, made_room, 0) ? 0 : 1; /* numbers begin with 1 */
    recorder          r = {.base = {.call = record_call,
                                    .begin_pass = begin_pass,
                                    .end_pass = end_pass,
                                    .mark = record_mark,
                                    .leaf = change_leaf,
                                    .gradients = record_gradients,
                                    .begin_function = begin_function,
                                    .end_function = end_function,
                                    .refuse = refuse},
                           .v = v,
                           .floor = -1};
    const haul_status status = v->made_count ? record(&r, function, context, operation) : haul_error_status();
    haul__map_free(&r.leaves);
    haul__map_free(&r.outsides);
    if (!status)
        return v;
    haul__variant_free(v);
    return NULL;
}
