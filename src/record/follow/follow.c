#include "record/follow/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/guest.h"
#include "core/scope.h"
#include "core/shape.h"
#include "engine/node.h"
#include "memory/dry_run/dry_run.h"
#include "record/follow/function.h"
#include "record/follow/match.h"

/* ---- differences ---- */

static haul_status differs_in(haul__following *f, const haul__entry *e, const char *what)
{
    return haul__trial_differs(&f->base.trial, e->name, "call %zu, %s: %s", f->at + 1, e->name, what);
}

static haul_status differs_at(haul__following *f, const char *name)
{
    if (f->at < f->v->entry_count)
        return haul__trial_differs(&f->base.trial, name, "call %zu is %s, and was %s", f->at + 1, name,
                                   f->v->entries[f->at].name);
    return haul__trial_differs(&f->base.trial, name, "%s comes after the last of %zu calls", name, f->v->entry_count);
}

static haul_status differs_operand(haul__following *f, const haul__entry *e, int i, const haul_tensor *t,
                                   const haul__reference *r)
{
    char now[96] = "HAUL_NONE", then[120] = "HAUL_NONE";
    if (t && !haul__is_none(t) && t->storage)
        haul__tensor_text(t, now, sizeof now);
    if (r->kind != HAUL__NO_TENSOR) {
        const haul_tensor *form = &f->v->forms[r->kind == HAUL__OUTSIDE ? r->form : f->v->made[r->value].form];
        char               shape[96];
        snprintf(then, sizeof then, "%s%s", haul_dtype_name(form->dtype),
                 haul__shape_text(&form->shape, shape, sizeof shape));
    }
    return haul__trial_differs(&f->base.trial, e->name, "call %zu, %s: operand %d is %s, and was %s%s", f->at + 1,
                               e->name, i + 1, now, then, r->kind == HAUL__INSIDE ? " of another call" : "");
}

/* ---- calls ---- */

static bool same_settings(const haul__call_settings *s)
{
    const haul__call_settings now = haul__call_settings_now();
    return !memcmp(s, &now, sizeof now);
}

static haul_status check_targets(haul__following *f, const haul__entry *e, const haul__asked *a)
{
    size_t at = e->references + (size_t)e->count;
    for (int i = 0; i < HAUL__MAX_RESULTS && e->operation->results[i].name; i++) {
        if (e->operation->results[i].hidden)
            continue;
        const haul__reference *r = &f->v->references[at++];
        if (!haul__follow_is_reference(f, r, a->outs[i]))
            return differs_operand(f, e, e->count + i, a->outs[i], r);
    }
    return HAUL_OK;
}

static haul_status make_results(haul__following *f, const haul__entry *e, haul_tensor **results)
{
    const uint32_t *values = f->v->results + e->results;
    HAUL__ASSERT(e->results + (size_t)e->result_count <= f->v->result_count);
    for (int i = 0; i < e->result_count; i++) {
        if (!values[i]) {
            if (!e->operation->results[i].hidden)
                results[i] = HAUL_NONE;
            continue;
        }
        haul_tensor *t = haul__follow_make(f, values[i]);
        results[i] = t ? haul__own_tensor(t, e->name) : NULL;
        if (!results[i])
            return t ? haul_error_status() : haul__fail_memory(e->name, sizeof *t);
    }
    return HAUL_OK;
}

/* Compares what the program passes with entry `e`. */
static haul_status check_call(haul__following *f, const haul__entry *e, const haul__asked *a)
{
    haul__variant *v = f->v;
    const size_t   size = a->operation->attributes_size;
    if (f->base.trial.differs || f->at == v->entry_count || e->kind != HAUL__ENTRY_CALL ||
        e->operation != a->operation || e->count != a->count || e->into != (a->outs != NULL))
        return differs_at(f, a->operation->name);
    if (size && !a->operation->varies && memcmp(v->attributes.bytes + e->attributes, a->attributes, size))
        return differs_in(f, e, "an argument has changed");
    if (!same_settings(&e->settings))
        return differs_in(f, e, "a setting of the thread has changed");
    for (int i = 0; i < a->count; i++)
        if (!haul__follow_is_reference(f, &v->references[e->references + (size_t)i], a->operands[i]))
            return differs_operand(f, e, i, a->operands[i], &v->references[e->references + (size_t)i]);
    HAUL__ASSERT(f->at < v->entry_count);
    return HAUL_OK;
}

/* A custom operation that is composed of others: its function makes their calls, which come before its own entry. */
static haul_status follow_composed(haul__following *f, const haul__asked *a)
{
    const haul__entry *e = &f->v->entries[f->at];
    if (check_call(f, &f->v->entries[e->composes], a))
        return haul_error_status();
    f->at++;
    return haul__follow_compose(f, e, a->attributes);
}

static bool is_function(const haul__following *f)
{
    return f->at < f->v->entry_count && f->v->entries[f->at].kind == HAUL__ENTRY_FUNCTION;
}

static haul_status follow_call(haul__follower *base, const haul__asked *a)
{
    haul__following *f = (haul__following *)base;
    haul__variant   *v = f->v;
    const size_t     size = a->operation->attributes_size;
    haul_status      status = HAUL_OK;
    if (is_function(f) && v->entries[f->at].operation == a->operation)
        status = follow_composed(f, a);
    const haul__entry *e = &v->entries[f->at];
    if (!status)
        status = check_call(f, e, a);
    if (status)
        return status;
    if (a->outs)
        status = check_targets(f, e, a);
    else if (a->results)
        status = make_results(f, e, a->results);
    if (!status && e->call >= 0 && size)
        memcpy(v->attributes.bytes + v->calls[e->call].form.attributes, a->attributes, size);
    f->failed = status && f->failed == v->entry_count ? f->at : f->failed;
    HAUL__ASSERT(f->at < v->entry_count);
    f->at++;
    return status;
}

static haul_status follow_mark(haul__follower *base, const char *name)
{
    haul__following   *f = (haul__following *)base;
    const haul__entry *e = &f->v->entries[f->at];
    if (base->trial.differs || f->at == f->v->entry_count || e->kind != HAUL__ENTRY_MARK || strcmp(e->name, name) != 0)
        return differs_at(f, name);
    if (!same_settings(&e->settings))
        return differs_in(f, e, "a setting of the thread has changed");
    f->at++;
    return HAUL_OK;
}

/* ---- backward passes ---- */

/* True if no other tensor shares the memory of the gradient, which the change names. The variant holds a reference to
 * memory that the step makes. */
static bool is_own(const haul__leaf_change *change, const haul_tensor *g)
{
    const int holders = change->before.kind == HAUL__INSIDE ? 2 : 1;
    return !haul__object_is_shared(g) && atomic_load(&g->storage->object.refs) == holders;
}

static haul_status change_leaf(haul__following *f, const haul__entry *e, const haul__leaf_change *change)
{
    HAUL__ASSERT(0 <= change->leaf && change->leaf < f->v->leaf_count);
    haul_tensor *leaf = f->leaves[change->leaf];
    if (!leaf || !haul__follow_is_reference(f, &change->before, leaf->grad))
        return differs_in(f, e, "a leaf has another gradient");
    if (leaf->hooks)
        return differs_in(f, e, "a leaf has a hook, which followed steps do not call");
    if (!change->value)
        return is_own(change, leaf->grad) ? HAUL_OK
                                          : differs_in(f, e, "another tensor has the memory of a leaf's gradient");
    haul_tensor *g = haul__follow_make(f, change->value);
    if (!g)
        return haul__fail_memory(e->name, sizeof *g);
    if (!change->inside && haul__dry_run_keep_tensor(leaf, &leaf->grad, e->name)) {
        haul__object_release(g);
        return haul_error_status();
    }
    haul__object_release(leaf->grad);
    leaf->grad = g;
    return HAUL_OK;
}

static haul_status check_pass(haul__following *f, const haul__entry *e, const haul__asked_pass *pass)
{
    const haul__variant *v = f->v;
    if (f->base.trial.differs || f->at == v->entry_count || e->kind != HAUL__ENTRY_PASS ||
        strcmp(e->name, pass->operation) != 0)
        return differs_at(f, pass->operation);
    if (e->flags != pass->flags || e->count != 2 + pass->input_count || !same_settings(&e->settings))
        return differs_in(f, e, "an option or a setting has changed");
    for (int i = 0; i < e->count; i++) {
        haul_tensor           *t = i == 0 ? pass->y : i == 1 ? pass->seed : pass->inputs[i - 2];
        const haul__reference *r = &v->references[e->references + (size_t)i];
        if (!haul__follow_is_reference(f, r, t))
            return differs_operand(f, e, i, t, r);
        if (!haul__is_none(t) && t->hooks)
            return differs_in(f, e, "an input has a hook, which followed steps do not call");
    }
    HAUL__ASSERT(e->leaf_change + e->leaf_change_count <= v->leaf_change_count);
    return HAUL_OK;
}

static haul_status make_gradients(haul__following *f, const haul__entry *e, haul_tensor **gradients)
{
    const uint32_t *values = f->v->results + e->results;
    HAUL__ASSERT(e->results + (size_t)e->result_count <= f->v->result_count);
    for (int i = 0; i < e->result_count; i++) {
        gradients[i] = values[i] ? haul__follow_make(f, values[i]) : NULL;
        if (values[i] && !gradients[i])
            return haul__fail_memory(e->name, sizeof **gradients);
    }
    return HAUL_OK;
}

static haul_status follow_pass(haul__follower *base, const haul__asked_pass *pass)
{
    haul__following   *f = (haul__following *)base;
    haul__variant     *v = f->v;
    const haul__entry *e = &v->entries[f->at];
    haul_status        status = check_pass(f, e, pass);
    if (status)
        return status;
    f->at++;
    while (!status && is_function(f) && v->entries[f->at].gradient >= 0)
        status = haul__follow_gradient(f);
    for (size_t i = 0; i < e->leaf_change_count && !status; i++)
        status = change_leaf(f, e, &v->leaf_changes[e->leaf_change + i]);
    return status ? status : make_gradients(f, e, pass->gradients);
}

/* ---- a run ---- */

static void stays(void *object)
{
    (void)object; /* its recording frees it */
}

static const haul__class following_class = {.name = "followed step", .destroy = stays};

void haul__following_init(haul__following *f)
{
    *f = (haul__following){.base = {.call = follow_call, .pass = follow_pass, .mark = follow_mark}};
    haul__object_init(&f->base.trial.object, &following_class);
}

void haul__following_free(haul__following *f)
{
    haul__changes_free(&f->base.trial.changes);
    haul__free(f->leaves);
}

/* On a device that spills, stores have blocks of their own (follow/blocks.h), which are allocated in the run. */
static haul_status check_spilling(haul__following *f)
{
    if (!haul__arenas_spill(&f->v->needed) || (!f->frozen && !f->v->moved_count))
        return HAUL_OK;
    return haul__trial_differs(&f->base.trial, NULL, "a device spills, and %s",
                               f->frozen ? "the recording is frozen" : "updates of the step move");
}

static haul_status begin(haul__following *f, haul__variant *v, haul__arenas *arenas, uint64_t run, bool frozen)
{
    const size_t leaves = (size_t)v->leaf_count + 1;
    HAUL__ASSERT(!*v->refused && !f->base.trial.changes.count); /* nothing is left of another run */
    f->v = v;
    f->run = run;
    f->at = 0;
    f->moved = -1;
    f->outer = haul__is_dry() ? haul__dry_run_now() : NULL;
    f->frozen = frozen && !f->outer && v->runs >= HAUL__WARM_UP;
    f->refused = NULL;
    haul__alloc_watch_now()->refused = 0;
    f->failed = v->entry_count;
    f->base.trial.differs = false;
    f->base.trial.why[0] = '\0';
    if (!haul__grow(&f->leaves, &f->leaf_room, leaves, sizeof *f->leaves))
        return haul__fail_memory("haul_recording_run", leaves * sizeof *f->leaves);
    memset(f->leaves, 0, leaves * sizeof *f->leaves);
    return check_spilling(f) ? haul_error_status() : haul__variant_prepare(v, arenas);
}

/* Memory that the step gives back at its end is used for other tensors by the calls. */
static void check_end(haul__following *f)
{
    const haul__variant *v = f->v;
    if (!f->base.trial.differs && f->at < v->entry_count)
        haul__trial_differs(&f->base.trial, NULL, "the step ends after call %zu of %zu", f->at, v->entry_count);
    for (size_t i = 0; i < v->inside_count && !f->base.trial.differs; i++)
        if (!v->insides[i].outlives && v->insides[i].storage && haul__object_is_shared(v->insides[i].storage))
            haul__trial_differs(&f->base.trial, NULL,
                                "a tensor that the step made outlives it, which did not when it was recorded");
}

/* Memory of stores that are not in an arena and that the program has not seen. */
static haul_status make_rest(haul__following *f)
{
    haul_status status = HAUL_OK;
    for (size_t i = 0; i < f->v->inside_count && !status; i++) {
        haul__inside *s = &f->v->insides[i];
        if (s->offset < 0 && s->run != f->run)
            status = haul__follow_renew(f, s, 0);
        s->run = f->run;
    }
    return status;
}

/* Calls the function with the thread's setting on. The thread's reference to a dry run waits meanwhile. */
static haul_status call(haul__following *f, haul_status (*function)(void *), void *context)
{
    haul_scope *scope = haul__scope_push(NULL); /* the thread has a context */
    if (!scope)
        return haul_error_status();
    haul__object_keep(&f->base.trial.object);
    void *dry_run = haul__thread_exchange(HAUL__DRY_RUN, f);
    haul__thread()->words[HAUL__DRY_RUN] = HAUL__FOLLOWED;
    haul__guest before = haul__guest_begin();
    haul_status status = haul__guest_end(&before, function(context), "haul_recording_run");
    haul_scope_pop(scope);
    if (dry_run)
        haul__object_release(haul__thread_exchange(HAUL__DRY_RUN, dry_run));
    return status;
}

/* Makes the changes of the step final. Those in a dry run are taken back at its end. */
static void commit(haul__following *f)
{
    if (f->outer)
        haul__dry_run_take_changes(f->outer, &f->base.trial.changes);
    else
        haul__changes_commit(&f->base.trial.changes);
}

static haul_status make_room_for_changes(const haul__following *f)
{
    const size_t count = f->base.trial.changes.count;
    if (!f->outer || haul__changes_reserve(&f->outer->changes, count))
        return HAUL_OK;
    return haul__fail_memory("haul_recording_run", count * sizeof(haul__change));
}

/* The step asked for memory, and the recording is frozen. */
static haul_status refuse_frozen(const haul__following *f, const haul__alloc_watch *watch)
{
    const haul__variant *v = f->v;
    const size_t         at = f->failed < v->entry_count ? f->failed : f->at;
    const char          *name = at < v->entry_count ? v->entries[at].name : "haul_recording_run";
    if (f->refused)
        return haul__fail(HAUL_STATE, name, NULL,
                          "%" PRId64 " bytes of %s are allocated in call %zu of a followed step, and the recording is "
                          "frozen; a tensor of the last step still has the memory that was meant for it",
                          f->refused->bytes, f->refused->device->name, at + 1);
    return haul__fail(HAUL_STATE, name, NULL,
                      "%zu bytes of host memory are allocated in call %zu of a followed step, and the recording is "
                      "frozen",
                      watch->bytes, at + 1);
}

static haul_status follow_calls(haul__following *f, haul_status (*function)(void *), void *context)
{
    haul__alloc_watch *watch = haul__alloc_watch_now();
    watch->refuses = f->frozen;
    haul_status status = call(f, function, context);
    if (!status)
        check_end(f);
    if (!status && !f->base.trial.differs)
        status = make_rest(f);
    if (!status && !f->base.trial.differs)
        status = make_room_for_changes(f);
    watch->refuses = false;
    if (!f->refused && !watch->refused)
        return status;
    f->base.trial.differs = false;
    return refuse_frozen(f, watch);
}

haul_status haul__follow(haul__following *f, haul__variant *v, haul__arenas *arenas, uint64_t run, bool frozen,
                         haul_status (*function)(void *), void *context, bool *followed)
{
    haul__error_record before;
    *followed = false;
    haul__error_save(&before);
    haul_status status = begin(f, v, arenas, run, frozen);
    if (!status)
        status = follow_calls(f, function, context);
    if (status && (f->refused || haul__alloc_watch_now()->refused)) {
        haul__changes_undo(&f->base.trial.changes);
        return status;
    }
    if (status == HAUL_OUT_OF_MEMORY && f->outer && !f->base.trial.differs) {
        haul__changes_undo(&f->base.trial.changes);
        haul__variant_drop(v);
        return status; /* the dry run fails, because its figures would be those of another step */
    }
    if (status && !f->base.trial.differs)
        haul__trial_differs(&f->base.trial, NULL, "the step fails: %s", haul_error_message());
    if (f->base.trial.differs) {
        haul__changes_undo(&f->base.trial.changes);
        haul__variant_drop(v);
        haul__error_restore(&before);
        return HAUL_OK;
    }
    HAUL__ASSERT(f->at == v->entry_count); /* the step did all that was recorded */
    *followed = true;
    status = haul__variant_run(v, arenas, f->frozen);
    if (status)
        haul__changes_undo(&f->base.trial.changes);
    else
        commit(f);
    haul__variant_end_run(v);
    HAUL__ASSERT(!f->base.trial.changes.count);
    return status;
}
