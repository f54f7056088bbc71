/* Dry runs: their logs, storages without memory, and the state that is restored when a run ends. */
#include "memory/dry_run/dry_run.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/spin.h"
#include "core/small_blocks.h"
#include "core/trial.h"
#include "device/residency.h"
#include "memory/allocator.h"
#include "memory/scope_limit.h"
#include "memory/size_class.h"
#include "memory/spill/spill.h"

/* ---- begin and end ---- */

static haul_status plan_command(const haul__command *c);

haul_status haul__dry_run_begin(haul__dry_run *run, const char *operation)
{
    HAUL__ASSERT(!run->program.calls && !run->program.stores); /* a run is used once */
    haul__program_init(&run->program);
    haul__residency_plan_with(plan_command);
    haul__thread()->words[HAUL__DRY_RUN] = HAUL__DRY | (run->recorder ? HAUL__DRY_RECORDED : 0);
    haul__object_keep(run);
    if (haul__thread_keep(HAUL__DRY_RUN, run))
        return HAUL_OK;
    haul__thread()->words[HAUL__DRY_RUN] = 0;
    haul__object_release(run);
    return haul__fail_memory(operation, sizeof *run);
}

haul__dry_run *haul__dry_run_now(void)
{
    return haul__thread_kept(HAUL__DRY_RUN);
}

/* ---- memory that existed before ---- */

void haul__dry_run_free(haul__dry_run *run)
{
    haul__program_clear(&run->program);
    haul__map_free(&run->drawn);
}

static void touch(haul__dry_run *run, haul_device *device, bool pinned)
{
    haul__dry_base *base = &(pinned ? run->pinned : run->bases)[device->slot];
    if (!base->device)
        *base = (haul__dry_base){.device = device,
                                 .start = haul__device_allocated(device, pinned),
                                 .limit = pinned ? 0 : haul__spill_limit(device)};
}

/* The store of a storage that the run did not plan, added if needed. */
static int outside_store(haul__dry_run *run, const haul__storage *storage)
{
    const haul__block *block = storage->block;
    const int          known = haul__program_find(&run->program, storage);
    if (known >= 0 && run->program.stores[known].bytes == (int64_t)storage->bytes)
        return known;
    if (known >= 0) /* it ended within a dry run of its own, and its address is used again */
        haul__program_forget(&run->program, storage);
    return haul__program_add_outside(
        &run->program, storage,
        &(haul__program_store){.device = storage->device,
                               .pinned_for = block && block->pinned ? haul__block_device(block) : NULL,
                               .bytes = (int64_t)storage->bytes,
                               .role = haul__storage_role(storage),
                               .block = block ? (int64_t)block->bytes : 0});
}

/* A real run would free the block of the storage. */
static void block_is_free(haul__dry_run *run, const haul__storage *storage)
{
    HAUL__ASSERT(storage->block->bytes >= storage->bytes);
    haul__error_record before;
    touch(run, haul__block_device(storage->block), storage->block->pinned);
    haul__error_save(&before);
    haul__spin_lock(&run->lock);
    const int store = outside_store(run, storage);
    if (store < 0)
        run->program.incomplete = true;
    else if (run->program.stores[store].freed == INT64_MAX)
        haul__program_free_store(&run->program, store);
    haul__spin_unlock(&run->lock);
    if (store < 0)
        haul__error_restore(&before);
}

static void forget(haul__dry_run *run, const haul__storage *storage)
{
    haul__spin_lock(&run->lock);
    haul__program_forget(&run->program, storage);
    haul__spin_unlock(&run->lock);
}

void haul__dry_run_returned(const haul__storage *storage)
{
    haul__dry_run *run = haul__dry_run_now();
    if (!run)
        return;
    block_is_free(run, storage);
    forget(run, storage);
}

void haul__dry_run_ended(const haul__storage *storage)
{
    haul__dry_run *run = haul__is_dry() ? haul__dry_run_now() : NULL;
    if (run)
        forget(run, storage);
}

void haul__dry_run_copied(const haul_device *to, const haul_device *from, size_t bytes)
{
    haul__dry_run       *run = haul__dry_run_now();
    haul_transfer_stats *s = run ? &run->moved : NULL;
    if (!s || (haul__device_is_host(to) && haul__device_is_host(from)))
        return;
    HAUL__ASSERT(to != from);
    bool up = haul__device_is_host(from), down = haul__device_is_host(to);
    bool direct = !up && !down && haul__device_peers(to, from);
    if (direct) {
        s->d2d_count++;
        s->d2d_bytes += (int64_t)bytes;
    }
    if (down || (!up && !direct)) { /* devices without a direct link: by way of the host */
        s->d2h_count++;
        s->d2h_bytes += (int64_t)bytes;
    }
    if (up || (!down && !direct)) {
        s->h2d_count++;
        s->h2d_bytes += (int64_t)bytes;
    }
}

/* ---- planned storages ---- */

typedef struct planned {
    haul__storage      storage;
    haul__dry_run     *run;         /* the run; a storage may outlive it, so it holds a reference */
    haul__scope_limit *scope_limit; /* the scope limit that counts it, with a reference; NULL: none */
    int64_t            bytes;       /* the size of its class */
    int                store;       /* its number in the run's log */
    bool               pinned;
} planned;

static void end_store(haul__dry_run *run, int store)
{
    haul__spin_lock(&run->lock);
    haul__program_free_store(&run->program, store);
    haul__spin_unlock(&run->lock);
}

static void planned_release(haul__storage *storage)
{
    planned *p = (planned *)storage;
    HAUL__ASSERT(storage->planned && p->run && p->store >= 0);
    end_store(p->run, p->store);
    if (p->run != haul__dry_run_now())
        haul__dry_run_ended(storage);
    if (p->scope_limit)
        haul__scope_limit_discharge(p->scope_limit, storage->device, p->bytes, true);
    haul__object_release(p->run);
    haul__small_free(p, sizeof *p);
}

static int new_store(haul__dry_run *run, haul_device *device, size_t bytes, int64_t block, bool pinned,
                     const char *origin)
{
    touch(run, device, pinned);
    haul__spin_lock(&run->lock);
    const int store =
        haul__program_add_store(&run->program, &(haul__program_store){.device = pinned ? haul_cpu() : device,
                                                                      .pinned_for = pinned ? device : NULL,
                                                                      .bytes = (int64_t)bytes,
                                                                      .block = block,
                                                                      .origin = origin});
    haul__spin_unlock(&run->lock);
    return store;
}

haul__storage *haul__planned_alloc(haul_device *device, size_t bytes, bool pinned, const char *origin)
{
    haul__dry_run *run = haul__dry_run_now();
    int            bin = haul__bin_for(device, pinned, bytes);
    HAUL__ASSERT(bin < 0 || haul__bin_bytes(bin) >= bytes);
    haul__scope_limit *scope_limit = pinned || bin < 0 ? NULL : haul__scope_limit_now(), *over = NULL;
    if (scope_limit && (over = haul__scope_limit_charge(scope_limit, device, (int64_t)haul__bin_bytes(bin), true))) {
        haul__scope_limit_fail(over, bytes, origin, "");
        return NULL;
    }
    const int store =
        run && bin >= 0 ? new_store(run, device, bytes, (int64_t)haul__bin_bytes(bin), pinned, origin) : -1;
    planned *p = store >= 0 ? haul__small_alloc(sizeof *p) : NULL;
    if (!p) {
        if (store >= 0)
            end_store(run, store);
        if (scope_limit)
            haul__scope_limit_discharge(scope_limit, device, (int64_t)haul__bin_bytes(bin), true);
        haul__fail_memory(origin, bytes);
        return NULL;
    }
    haul__storage_embed(&p->storage, pinned ? haul_cpu() : device);
    p->storage.bytes = bytes;
    p->storage.planned = true;
    p->storage.own_uses = (haul__uses){.any = true}; /* makes commands that use it take the slow, checked path */
    p->storage.uses = &p->storage.own_uses;
    p->storage.release = planned_release;
    p->run = run;
    p->scope_limit = scope_limit;
    haul__object_keep(run);
    p->store = store;
    p->bytes = (int64_t)haul__bin_bytes(bin);
    p->pinned = pinned;
    return &p->storage;
}

/* NULL: it is not one by itself, but for example a part of one. */
static const planned *planned_of(const haul__storage *storage)
{
    return storage->planned && storage->release == planned_release ? (const planned *)storage : NULL;
}

bool haul__dry_run_planned(const haul__storage *storage)
{
    const planned *p = planned_of(storage);
    return p ? haul__is_dry() && p->run == haul__dry_run_now() : storage->planned;
}

bool haul__dry_run_made(const haul__storage *storage)
{
    const haul__dry_run *run = haul__is_dry() ? haul__dry_run_now() : NULL;
    return haul__dry_run_planned(storage) && !(run && run->houses);
}

void haul__dry_run_pin(const haul__storage *storage)
{
    const planned *p = planned_of(storage);
    if (!p)
        return;
    haul__spin_lock(&p->run->lock);
    p->run->program.stores[p->store].stays = true;
    haul__spin_unlock(&p->run->lock);
}

void haul__dry_run_mark(const haul__storage *storage, haul__role role)
{
    const planned *p = planned_of(storage);
    if (!p)
        return;
    haul__spin_lock(&p->run->lock);
    p->run->program.stores[p->store].role = role;
    haul__spin_unlock(&p->run->lock);
}

/* What another run planned is from outside. */
static int store_of(haul__dry_run *run, const haul__storage *storage)
{
    const planned *p = planned_of(storage);
    return p && p->run == run ? p->store : outside_store(run, storage);
}

int haul__dry_run_store(const haul__storage *storage)
{
    haul__dry_run *run = haul__dry_run_now();
    haul__spin_lock(&run->lock);
    const int store = store_of(run, storage);
    haul__spin_unlock(&run->lock);
    return store;
}

static haul_status note(haul__dry_run *run, const haul__command *c)
{
    HAUL__ASSERT(c->write_count <= c->buffer_count);
    haul_status status = haul__program_add_command(&run->program, c->checks);
    for (int i = 0; i < c->buffer_count && !status; i++) {
        const int store = store_of(run, c->buffers[i].storage);
        status = store < 0 ? haul_error_status() : haul__program_add_use(&run->program, store);
    }
    return status;
}

static haul_status plan_command(const haul__command *c)
{
    haul__dry_run *run = haul__dry_run_now();
    if (!run)
        return HAUL_OK;
    haul__spin_lock(&run->lock);
    const haul_status status = note(run, c);
    haul__spin_unlock(&run->lock);
    return status;
}

void haul__dry_run_foresee(const haul_device *device, const haul__storage *storage,
                           const haul__program_foresight *foresight)
{
    haul__error_record      before;
    haul__dry_run          *run = haul__dry_run_now();
    haul__program_foresight f = *foresight;
    if (!run || !haul__spills(device))
        return;
    haul__error_save(&before);
    haul__spin_lock(&run->lock);
    f.device = device;
    f.store = storage ? store_of(run, storage) : -1;
    const bool works = (!storage || f.store >= 0) && !haul__program_foresee(&run->program, &f);
    run->program.incomplete = run->program.incomplete || !works;
    haul__spin_unlock(&run->lock);
    haul__error_restore(&before);
}

bool haul__planned_is_pinned(const haul__storage *storage)
{
    const planned *p = planned_of(storage);
    return p && p->pinned;
}

/* ---- calls ---- */

haul_status haul__dry_run_begin_call(const haul__operation *operation, const char *name, int *call)
{
    const bool     within = haul__thread()->words[HAUL__DRY_RUN] & HAUL__DRY_WITHIN;
    haul__dry_run *run = haul__is_dry() && !within ? haul__dry_run_now() : NULL;
    *call = -1;
    if (!run)
        return HAUL_OK;
    haul__spin_lock(&run->lock);
    *call = haul__program_begin(&run->program, operation, name);
    haul__spin_unlock(&run->lock);
    return *call < 0 ? haul_error_status() : HAUL_OK;
}

void haul__dry_run_end_call(int call)
{
    haul__dry_run *run = call >= 0 ? haul__dry_run_now() : NULL;
    if (!run)
        return;
    haul__spin_lock(&run->lock);
    haul__program_end(&run->program, call);
    haul__spin_unlock(&run->lock);
}

/* ---- restoring ---- */

/* Counts a tensor's memory as freed if only the changed field and the run hold the tensor: a real run would free it,
 * and only the value to restore keeps it. */
static void count_as_freed(haul__dry_run *run, haul_tensor *t)
{
    haul__storage *s = t->storage;
    if (s->block && atomic_load(&t->object.refs) == 2 && atomic_load(&s->object.refs) == 1)
        block_is_free(run, s);
}

/* The changes that will be taken back: of the dry run, or of the followed step. NULL outside of both. */
static haul__changes *changes_now(void)
{
    if (haul__is_followed())
        return &haul__trial_now()->changes;
    haul__dry_run *run = haul__is_dry() ? haul__dry_run_now() : NULL;
    return run ? &run->changes : NULL;
}

static bool has_place(const haul__changes *changes, const void *place)
{
    for (size_t i = 0; i < changes->count; i++)
        if (changes->items[i].place == place)
            return true;
    return false;
}

/* A tensor that the run or the step made itself was put there by an earlier change, which knows the value from before.
 * The list must not hold it: its memory ends with its last user. A followed step may also find tensors of the step
 * before it. */
static bool is_own(const haul__changes *changes, const void *place, const void *before)
{
    const haul_tensor *t = before;
    if (!haul__is_tensor(t))
        return false;
    if (haul__is_followed())
        return t->followed && has_place(changes, place);
    return haul__dry_run_planned(t->storage);
}

static haul_status add_change(const haul__change *change, const char *operation)
{
    haul__changes *changes = changes_now();
    if (!changes || (change->kind == HAUL__CHANGED_OBJECT && is_own(changes, change->place, change->before)))
        return HAUL_OK;
    return haul__changes_add(changes, change, operation);
}

haul_status haul__dry_run_keep_tensor(void *owner, haul_tensor **place, const char *operation)
{
    const haul_status status = haul__dry_run_keep_object(owner, place, operation);
    if (!status && haul__is_dry() && *place)
        count_as_freed(haul__dry_run_now(), *place);
    return status;
}

haul_status haul__dry_run_keep_object(void *owner, void *place, const char *operation)
{
    return add_change(
        &(haul__change){.kind = HAUL__CHANGED_OBJECT, .owner = owner, .place = place, .before = *(void **)place},
        operation);
}

haul_status haul__dry_run_keep_integer(void *owner, int64_t *place, const char *operation)
{
    return add_change(&(haul__change){.kind = HAUL__CHANGED_INTEGER, .owner = owner, .place = place, .number = *place},
                      operation);
}

haul_status haul__dry_run_keep_state(void *owner, void *state, void (*put_back)(void *owner, void *state),
                                     const char *operation)
{
    return add_change(
        &(haul__change){.kind = HAUL__CHANGED_STATE, .owner = owner, .before = state, .put_back = put_back}, operation);
}

void haul__dry_run_take_changes(haul__dry_run *run, haul__changes *changes)
{
    HAUL__ASSERT(&run->changes != changes); /* room was made for them before */
    for (size_t i = 0; i < changes->count; i++) {
        const haul__change *c = &changes->items[i];
        const haul_tensor  *t = c->kind == HAUL__CHANGED_OBJECT ? c->before : NULL;
        if (haul__is_tensor(t) && haul__dry_run_planned(t->storage)) {
            haul__object_release(c->before);
            haul__object_release(c->owner);
        } else {
            run->changes.items[run->changes.count++] = *c;
        }
    }
    changes->count = 0;
}

bool haul__dry_run_found(uint64_t order)
{
    const haul__dry_run *run = haul__dry_run_now();
    return run && order <= run->newest_node;
}

haul_status haul__dry_run_let_go(const haul__storage *storage)
{
    bool             is_new;
    haul__dry_run   *run = haul__dry_run_now();
    haul__map_entry *e = storage->block ? haul__map_insert(&run->let_go, storage, &is_new) : NULL;
    if (!e)
        return storage->block ? haul__fail_memory("haul_estimate", sizeof *e) : HAUL_OK;
    const uintptr_t gone = (uintptr_t)e->value + 1;
    HAUL__ASSERT(gone <= (uintptr_t)atomic_load(&storage->object.refs)); /* each reference goes once */
    e->value = (void *)gone;
    if (gone == (uintptr_t)atomic_load(&storage->object.refs))
        block_is_free(run, storage);
    return HAUL_OK;
}

static void leave_house(void *tensor, void *before)
{
    haul__tensor_take_over(tensor, before);
    haul__object_release(before);
}

haul_status haul__dry_run_house(haul_tensor *t, const haul_tensor *other, const char *operation)
{
    haul_tensor *before = haul__tensor_alias(t);
    haul_status  status = before ? haul__dry_run_keep_state(t, before, leave_house, operation) : haul_error_status();
    if (status) {
        haul__object_release(before);
        return status;
    }
    haul__dry_run_now()->houses = true;
    haul__tensor_take_over(t, other);
    return haul__dry_run_let_go(before->storage);
}

void haul__dry_run_restore(haul__dry_run *run)
{
    haul__changes_undo(&run->changes);
    haul__changes_free(&run->changes);
    haul__map_free(&run->let_go);
    run->let_go = (haul__map){NULL, 0, 0};
}
