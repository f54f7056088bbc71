/* The tensors of a followed step: those that the program passes, and those that calls make. */
#include "record/follow/match.h"

#include <string.h>

#include "base/assert.h"
#include "core/scope.h"
#include "core/shape.h"
#include "engine/node.h"
#include "memory/dry_run/dry_run.h"

static bool has_form(const haul_tensor *t, const haul_tensor *form)
{
    return t->dtype == form->dtype && t->count == form->count && t->offset == form->offset &&
           t->contiguous == form->contiguous && haul__shape_equal(&t->shape, &form->shape) &&
           !memcmp(t->strides, form->strides, (size_t)form->shape.ndim * sizeof *form->strides);
}

/* True if the two stores, which were apart when the step was recorded, share memory that one of them writes. */
static bool is_conflict(const haul__outside *o, const haul__storage *storage, const haul__outside *other)
{
    return other != o && other->bound == storage && (other->written || o->written);
}

/* True if the store conflicts with no other. Those that are where they were in the last run do not conflict with each
 * other, so one of them is compared only with those that moved. */
static bool is_apart(const haul__following *f, const haul__outside *o, const haul__storage *storage)
{
    const haul__outside *all = f->v->outsides;
    for (int i = f->moved; storage == o->last && i >= 0; i = all[i].next_moved)
        if (is_conflict(o, storage, &all[i]))
            return false;
    for (size_t i = 0; storage != o->last && i < f->v->outside_count; i++)
        if (all[i].run == f->run && is_conflict(o, storage, &all[i]))
            return false;
    return true;
}

static bool bind(haul__following *f, haul__outside *o, haul__storage *storage)
{
    HAUL__ASSERT(o->run <= f->run); /* runs have ascending numbers */
    if (o->run == f->run)
        return o->bound == storage;
    if (storage->device != o->device || (storage->planned && !f->outer) || storage->lent || !is_apart(f, o, storage))
        return false;
    o->run = f->run;
    o->bound = storage;
    if (storage != o->last) {
        o->next_moved = f->moved;
        f->moved = (int)(o - f->v->outsides);
    }
    return true;
}

/* The storage of a value in this run; NULL for memory from outside that no call has named yet. */
static haul__storage *storage_of(const haul__following *f, const haul__made *m)
{
    HAUL__ASSERT(m->store >= 0 && (size_t)m->store < f->v->store_count);
    const haul__variant_store *s = &f->v->stores[m->store];
    if (s->inside >= 0)
        return f->v->insides[s->inside].storage;
    const haul__outside *o = &f->v->outsides[s->outside];
    return o->run == f->run ? o->bound : NULL;
}

/* A leaf is the same tensor in the whole step. */
static bool is_leaf(haul__following *f, const haul__reference *r, haul_tensor *t)
{
    if (r->leaf < 0)
        return true;
    HAUL__ASSERT(r->leaf < (int)f->v->leaf_count);
    if (f->leaves[r->leaf] && f->leaves[r->leaf] != t)
        return false;
    f->leaves[r->leaf] = t;
    return true;
}

bool haul__follow_is_reference(haul__following *f, const haul__reference *r, haul_tensor *t)
{
    haul__variant *v = f->v;
    if (r->kind == HAUL__NO_TENSOR)
        return !t || haul__is_none(t);
    if (!haul__is_tensor(t) || haul__is_none(t) || t->failed)
        return false;
    if (t->requires_grad != r->requires_grad)
        return false;
    HAUL__ASSERT(r->kind != HAUL__INSIDE || r->value < v->made_count);
    HAUL__ASSERT(r->kind != HAUL__OUTSIDE || (size_t)r->outside < v->outside_count);
    if (r->kind == HAUL__INSIDE)
        return t->followed == v->base + r->value && t->storage == storage_of(f, &v->made[r->value]) && is_leaf(f, r, t);
    return !t->node && has_form(t, &v->forms[r->form]) && bind(f, &v->outsides[r->outside], t->storage) &&
           is_leaf(f, r, t);
}

/* Counts the references to the storage that end with the step: those of tensors that only its trial holds. They are 0
 * for a storage that the step reads. */
static int count_ending(const haul__following *f, const haul__storage *storage)
{
    const haul__changes *changes = &f->base.trial.changes;
    int                  count = 0;
    for (size_t i = 0; i < f->v->outside_count; i++)
        if (f->v->outsides[i].run == f->run && f->v->outsides[i].bound == storage)
            return 0;
    for (size_t i = 0; i < changes->count; i++) {
        const haul_tensor *t = changes->items[i].before;
        count += haul__is_tensor(t) && t->storage == storage && atomic_load(&t->object.refs) == 1;
    }
    return count;
}

haul_status haul__follow_renew(haul__following *f, haul__inside *s, int holders)
{
    if (!f->frozen || haul__inside_is_free(s, holders))
        return haul__inside_renew(s, holders);
    f->refused = s;
    return haul__fail(HAUL_STATE, "haul_recording_run", NULL, "the recording is frozen");
}

/* The thread allocates, in the dry run if the step is followed in one. The setting is not 0, with which the thread
 * gives up the trial. */
static haul_status renew_now(haul__following *f, haul__inside *s, int holders)
{
    uint32_t *word = &haul__thread()->words[HAUL__DRY_RUN];
    void     *trial = f->outer ? haul__thread_exchange(HAUL__DRY_RUN, f->outer) : NULL;
    *word = f->outer ? HAUL__DRY : HAUL__FOLLOW_MAKES;
    haul_status status = haul__follow_renew(f, s, holders);
    *word = HAUL__FOLLOWED;
    if (trial)
        haul__thread_exchange(HAUL__DRY_RUN, trial);
    return status;
}

/* Memory of the value in this run, if it outlives the step. */
static haul_status renew(haul__following *f, const haul__made *m)
{
    const int     at = f->v->stores[m->store].inside;
    haul__inside *s = at < 0 ? NULL : &f->v->insides[at];
    if (!s || s->offset >= 0 || s->run == f->run)
        return HAUL_OK;
    HAUL__ASSERT(s->run < f->run && !s->within);
    s->run = f->run;
    return renew_now(f, s, s->storage ? count_ending(f, s->storage) : 0);
}

haul_tensor *haul__follow_make(haul__following *f, uint32_t value)
{
    const haul__variant *v = f->v;
    const haul__made    *m = &v->made[value];
    HAUL__ASSERT(0 < value && value < v->made_count);
    if (renew(f, m))
        return NULL;
    const haul_tensor *form = &v->forms[m->form];
    haul__storage     *storage = storage_of(f, m);
    if (!storage)
        haul__trial_differs(&f->base.trial, NULL, "a tensor without elements has other memory");
    haul_tensor *t = storage ? haul__tensor_new() : NULL;
    if (!t)
        return NULL;
    haul__tensor_take_form(t, form);
    t->storage = storage;
    haul__object_keep(t->storage);
    HAUL__ASSERT(m->store >= 0 && t->followed == 0);
    t->followed = v->base + value;
    if (m->tracked) {
        t->node = v->marker;
        haul__object_keep(t->node);
    }
    return t;
}

/* Memory from outside that a call of this run has named; the caller gets a reference. */
static haul_tensor *make_outside(haul__following *f, const haul__reference *r)
{
    const haul__outside *o = &f->v->outsides[r->outside];
    haul_tensor         *t = r->leaf < 0 && o->run == f->run ? haul__tensor_new() : NULL;
    if (r->leaf >= 0 || o->run != f->run)
        haul__trial_differs(&f->base.trial, NULL, "a function of a custom operation gets a tensor that no call named");
    if (!t)
        return NULL;
    haul__tensor_take_form(t, &f->v->forms[r->form]);
    t->storage = o->bound;
    haul__object_keep(t->storage);
    return t;
}

static haul_tensor *make_inside(haul__following *f, const haul__reference *r)
{
    haul_tensor *t = haul__follow_make(f, r->value);
    if (t && !r->tracked) {
        haul__object_release(t->node);
        t->node = NULL;
    }
    return t;
}

haul_tensor *haul__follow_stand_in(haul__following *f, const haul__reference *r)
{
    if (r->kind == HAUL__NO_TENSOR)
        return HAUL_NONE;
    if (r->leaf >= 0 && f->leaves[r->leaf])
        return f->leaves[r->leaf];
    haul_tensor *t = r->kind == HAUL__INSIDE ? make_inside(f, r) : make_outside(f, r);
    return t ? haul__own_tensor(t, "haul_recording_run") : NULL;
}
