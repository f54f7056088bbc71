/* The cache of derived copies.
 *
 * Each storage has a list of its copies, attached as HAUL__DERIVED. Each device has a list of all copies on it, which
 * is used to free them. One lock guards all lists. Copies are released after the lock is given up, because the end of a
 * storage takes it again. */
#include "memory/derived.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hostile.h"
#include "base/system/fork.h"
#include "core/shape.h"
#include "memory/allocator.h"
#include "memory/dry_run/dry_run.h"

typedef struct copies copies;

/* A copy of the elements that a tensor showed of its storage at `version`. */
typedef struct derived derived;
struct derived {
    copies        *of;
    haul__storage *copy;  /* holds a reference */
    int64_t        bytes; /* the size of its block */
    uint64_t       version;
    haul_dtype     dtype; /* of the tensor */
    haul_shape     shape;
    int64_t        strides[HAUL_MAX_DIMS], offset;
    haul__form     form;
    derived       *next;                        /* next copy of the storage */
    derived       *next_on_device, **on_device; /* next copy on the device, and the pointer to this one */
};

/* The attachment of a storage. */
struct copies {
    haul__object object;
    derived     *first;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static derived        *all[HAUL__MAX_DEVICES];   /* by the device's slot */
static int64_t         bytes[HAUL__MAX_DEVICES]; /* of these */

HAUL__MUTEX_AT_FORK(HAUL__FORK_DERIVED, lock);

/* ---- lists; the caller holds the lock ---- */

static void link_to_device(derived *d)
{
    int slot = d->copy->device->slot;
    d->next_on_device = all[slot];
    d->on_device = &all[slot];
    if (all[slot])
        all[slot]->on_device = &d->next_on_device;
    all[slot] = d;
    bytes[slot] += d->bytes;
    HAUL__ASSERT(d->bytes >= 0 && d->of && *d->on_device == d);
}

static void unlink_from_device(derived *d)
{
    HAUL__ASSERT(*d->on_device == d && bytes[d->copy->device->slot] >= d->bytes);
    *d->on_device = d->next_on_device;
    if (d->next_on_device)
        d->next_on_device->on_device = d->on_device;
    bytes[d->copy->device->slot] -= d->bytes;
}

/* Removes a copy from both lists; `link` is the pointer to it in the storage's list. */
static derived *take_out(derived **link)
{
    derived *d = *link;
    *link = d->next;
    unlink_from_device(d);
    return d;
}

static derived **link_of(derived *d)
{
    derived **link = &d->of->first;
    while (*link != d) {
        HAUL__ASSERT(*link); /* a copy on the device is one of its storage, too */
        link = &(*link)->next;
    }
    return link;
}

/* ---- without the lock ---- */

/* The removed copies, chained by `next`. */
static void free_all(derived *d)
{
    while (d) {
        derived *next = d->next;
        haul__object_release(d->copy);
        haul__free(d);
        d = next;
    }
}

static void destroy(void *object)
{
    copies  *c = object;
    derived *over = NULL;
    take_lock();
    while (c->first) {
        derived *d = take_out(&c->first);
        HAUL__ASSERT(d->of == c);
        d->next = over;
        over = d;
    }
    give_lock();
    free_all(over);
    haul__free(c);
}

static const haul__class copies_class = {.name = "derived copies", .destroy = destroy};

/* ---- finding and keeping ---- */

static bool is_in_form(const derived *d, const haul_tensor *t, const haul__form *form)
{
    return d->dtype == t->dtype && d->offset == t->offset && d->form.maker == form->maker &&
           d->form.dtype == form->dtype && haul__shape_equal(&d->shape, &t->shape) &&
           haul__shape_same_strides(&t->shape, d->strides, t->strides) &&
           haul__shape_same_strides(&t->shape, d->form.layout, form->layout);
}

/* The link in the list of the copy in that form, valid or outdated, or the end of the list. */
static derived **look_up(copies *c, const haul_tensor *t, const haul__form *form)
{
    derived **link = &c->first;
    while (*link && !is_in_form(*link, t, form))
        link = &(*link)->next;
    return link;
}

static uint64_t version_of(const haul_tensor *t)
{
    return atomic_load_explicit(&t->storage->version, memory_order_acquire);
}

haul__storage *haul__derived_find(const haul_tensor *t, const haul__form *form)
{
    haul__storage *found = NULL;
    derived       *outdated = NULL;
    if (haul__is_recorded() && !haul__dry_run_planned(t->storage))
        return NULL; /* each step of a recording makes the copy anew */
    take_lock();
    copies   *c = t->storage->attached[HAUL__DERIVED];
    derived **link = c ? look_up(c, t, form) : NULL;
    if (link && *link && (*link)->version == version_of(t)) {
        found = (*link)->copy;
        HAUL__ASSERT(found != t->storage);
        haul__object_keep(found);
    } else if (link && *link) { /* its memory is then free for its replacement */
        outdated = take_out(link);
        outdated->next = NULL;
    }
    give_lock();
    free_all(outdated);
    return found;
}

static derived *derived_new(const haul_tensor *t, const haul__form *form, haul__storage *copy)
{
    derived *d = haul__calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->copy = copy;
    haul__object_keep(copy);
    d->bytes = copy->block ? (int64_t)copy->block->bytes : 0;
    d->version = version_of(t);
    d->dtype = t->dtype;
    d->shape = t->shape;
    for (int i = 0; i < t->shape.ndim; i++)
        d->strides[i] = t->strides[i];
    d->offset = t->offset;
    d->form = *form;
    return d;
}

static void keep(const haul_tensor *t, const haul__form *form, haul__storage *copy)
{
    derived *d = derived_new(t, form, copy), *before = NULL;
    copies  *fresh = d ? haul__calloc(1, sizeof *fresh) : NULL;
    if (!fresh) {
        free_all(d);
        return;
    }
    haul__object_init(&fresh->object, &copies_class);
    take_lock();
    copies *c = t->storage->attached[HAUL__DERIVED];
    if (!c) {
        t->storage->attached[HAUL__DERIVED] = c = fresh;
        fresh = NULL;
    }
    while (haul__is_hostile(HAUL__HOSTILE_CACHES) && c->first) {
        derived *other = take_out(&c->first);
        other->next = before;
        before = other;
    }
    derived **link = look_up(c, t, form);
    if (*link) {
        before = take_out(link);
        before->next = NULL;
    }
    HAUL__ASSERT(!*look_up(c, t, form) && copy != t->storage); /* a form has one copy */
    d->of = c;
    d->next = c->first;
    c->first = d;
    link_to_device(d);
    give_lock();
    free_all(before);
    haul__free(fresh);
}

void haul__derived_keep(const haul_tensor *t, const haul__form *form, haul__storage *copy)
{
    if (!copy->lent && (!haul__dry_run_planned(copy) || haul__dry_run_planned(t->storage)))
        keep(t, form, copy);
}

static void drop_copy(void *storage, void *copy)
{
    haul__derived_drop(storage, copy);
}

haul_status haul__derived_keep_in_run(const haul_tensor *t, const haul__form *form, haul__storage *copy)
{
    const bool is_own = haul__dry_run_planned(t->storage);
    if (copy->lent || haul__is_recorded() || (!is_own && !haul__dry_run_now()->keeps))
        return HAUL_OK;
    if (!is_own && haul__dry_run_keep_state(t->storage, copy, drop_copy, "haul_estimate"))
        return haul_error_status();
    keep(t, form, copy);
    return HAUL_OK;
}

/* ---- freeing ---- */

void haul__derived_drop(haul__storage *storage, const haul__storage *copy)
{
    derived *over = NULL;
    take_lock();
    copies   *c = storage->attached[HAUL__DERIVED];
    derived **link = c ? &c->first : NULL;
    while (link && *link && (*link)->copy != copy)
        link = &(*link)->next;
    if (link && *link) {
        over = take_out(link);
        HAUL__ASSERT(over->of == c && over->copy == copy);
        over->next = NULL;
    }
    give_lock();
    free_all(over);
}

void haul__derived_drop_all(haul__storage *storage)
{
    derived *over = NULL;
    take_lock();
    copies *c = storage->attached[HAUL__DERIVED];
    while (c && c->first) {
        derived *d = take_out(&c->first);
        d->next = over;
        over = d;
    }
    give_lock();
    free_all(over);
}

bool haul__derived_give_back(const haul_device *device)
{
    derived *over = NULL;
    take_lock();
    for (derived *d; (d = all[device->slot]);) {
        take_out(link_of(d));
        d->next = over;
        over = d;
    }
    HAUL__ASSERT(bytes[device->slot] == 0);
    give_lock();
    bool any = over != NULL;
    free_all(over);
    return any;
}

int64_t haul__derived_bytes(const haul_device *device)
{
    take_lock();
    int64_t sum = bytes[device->slot];
    give_lock();
    return sum;
}
