/* The accounts of dry runs, storages without memory, and what is restored when a run ends. */
#include "memory/dry_run/dry_run.h"

#include "base/alloc.h"
#include "base/spin.h"
#include "core/small_blocks.h"
#include "device/residency.h"
#include "memory/allocator.h"
#include "memory/scope_limit.h"
#include "memory/size_class.h"
#include "memory/spill.h"

/* ---- begin and end ---- */

static haul_status plan_command(const haul__command *c);

haul_status haul__dry_run_begin(haul__dry_run *run, const char *operation)
{
    haul__program_init(&run->program);
    haul__presence_plan_with(plan_command);
    haul__thread()->words[HAUL__DRY_RUN] = HAUL__DRY;
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

/* ---- accounts ---- */

/* Accounts begin with the memory that is already allocated. */
static haul__account *account_of(haul__dry_run *run, haul_device *device, bool pinned)
{
    haul__account *a = &(pinned ? run->pinned : run->accounts)[device->slot];
    if (!a->device) {
        a->device = device;
        a->start = a->peak = haul__device_allocated(device, pinned);
        atomic_store_explicit(&a->allocated, a->start, memory_order_relaxed);
        const int64_t limit = pinned ? 0 : haul__spill_limit(device);
        haul__planned_spill_begin(&a->spill, limit, a->start);
    }
    return a;
}

static bool account_add(haul__account *a, int64_t bytes)
{
    int64_t now = (int64_t)atomic_fetch_add_explicit(&a->allocated, bytes, memory_order_relaxed) + bytes;
    if (now <= a->peak)
        return false;
    a->peak = now;
    return true;
}

void haul__dry_run_free(haul__dry_run *run)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++) {
        haul__holdings_free(&run->accounts[i].held);
        haul__holdings_free(&run->pinned[i].held);
    }
    haul__program_clear(&run->program);
}

/* A block from before the run. */
static void block_is_free(haul__dry_run *run, const haul__block *block)
{
    haul__account *a = account_of(run, haul__block_device(block), block->pinned);
    account_add(a, -(int64_t)block->bytes);
    haul__spin_lock(&run->lock);
    a->spill.present -= (int64_t)block->bytes;
    haul__spin_unlock(&run->lock);
}

void haul__dry_run_returned(const haul__storage *storage)
{
    haul__dry_run *run = haul__dry_run_now();
    if (!run)
        return;
    block_is_free(run, storage->block);
    haul__spin_lock(&run->lock);
    haul__program_drop(&run->program, storage);
    haul__spin_unlock(&run->lock);
}

void haul__dry_run_copied(const haul_device *to, const haul_device *from, size_t bytes)
{
    haul__dry_run       *run = haul__dry_run_now();
    haul_transfer_stats *s = run ? &run->moved : NULL;
    if (!s || (haul__device_is_host(to) && haul__device_is_host(from)))
        return;
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
    haul__storage  storage;
    haul__movable  movable;
    haul__dry_run *run; /* the run; a storage may outlive it, so it holds a reference */
    haul__account *account;
    haul__budget  *budget; /* the budget that counts it, with a reference; NULL: none */
    int64_t        bytes;  /* the size of its class */
    size_t         held;   /* its entry in the account's holdings */
    int            store;  /* its number in the run's log */
} planned;

static void planned_release(haul__storage *storage)
{
    planned *p = (planned *)storage;
    haul__spin_lock(&p->run->lock);
    atomic_fetch_sub_explicit(&p->account->allocated, p->bytes, memory_order_relaxed);
    haul__holdings_add(&p->account->held, p->held, -p->bytes, false);
    haul__planned_spill_drop(&p->account->spill, &p->movable);
    haul__program_store_freed(&p->run->program, p->store);
    haul__spin_unlock(&p->run->lock);
    if (p->budget)
        haul__budget_discharge(p->budget, p->account->device, p->bytes, true);
    haul__object_release(p->run);
    haul__small_free(p, sizeof *p);
}

static size_t find_holding(haul__dry_run *run, haul__account *a, const char *origin)
{
    haul__spin_lock(&run->lock);
    size_t held = haul__holdings_find(&a->held, origin);
    haul__spin_unlock(&run->lock);
    return held;
}

static int new_store(haul__dry_run *run, haul_device *device, size_t bytes, int64_t block, bool pinned,
                     const char *origin)
{
    haul__spin_lock(&run->lock);
    const int store =
        haul__program_add_store(&run->program, &(haul__program_store){.device = pinned ? haul_cpu() : device,
                                                                      .pinned = pinned,
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
    haul__budget  *budget = pinned || bin < 0 ? NULL : haul__budget_now(), *over = NULL;
    if (budget && (over = haul__budget_charge(budget, device, (int64_t)haul__bin_bytes(bin), true))) {
        haul__budget_fail(over, bytes, origin, "");
        return NULL;
    }
    haul__account *account = run && bin >= 0 ? account_of(run, device, pinned) : NULL;
    size_t         held = account ? find_holding(run, account, origin) : SIZE_MAX;
    const int      store =
        held != SIZE_MAX ? new_store(run, device, bytes, (int64_t)haul__bin_bytes(bin), pinned, origin) : -1;
    planned *p = store >= 0 ? haul__small_alloc(sizeof *p) : NULL;
    if (!p) {
        if (budget)
            haul__budget_discharge(budget, device, (int64_t)haul__bin_bytes(bin), true);
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
    p->budget = budget;
    haul__object_keep(run);
    p->account = account;
    p->held = held;
    p->store = store;
    p->bytes = (int64_t)haul__bin_bytes(bin);
    p->movable = (haul__movable){.block = p->bytes, .bytes = (int64_t)bytes};
    haul__spin_lock(&run->lock);
    haul__planned_spill_add(&account->spill, &p->movable);
    haul__holdings_add(&account->held, held, p->bytes, account_add(account, p->bytes));
    haul__spin_unlock(&run->lock);
    return &p->storage;
}

/* Only storages on devices that spill are in a list. All that the command uses stays until the next one. */
static void plan_spilling(haul__account *a, const haul__command *c)
{
    haul__planned_spill_next(&a->spill);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < c->buffer_count; i++) {
            haul__storage *s = c->buffers[i].storage;
            planned       *p = s->planned ? (planned *)s : NULL;
            if (!p || p->account != a)
                continue;
            if (pass)
                haul__planned_spill_use(&a->spill, &p->movable);
            else
                p->movable.last = a->spill.clock;
        }
}

/* What an earlier run planned is from outside. */
static int store_of(haul__dry_run *run, const haul__storage *storage)
{
    const planned *p = storage->planned ? (const planned *)storage : NULL;
    return p && p->run == run ? p->store : haul__program_store_of(&run->program, storage);
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
    haul_status status = haul__program_add_command(&run->program, c->write_count);
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
    haul__account *a = &run->accounts[c->device->slot];
    haul__spin_lock(&run->lock);
    const haul_status status = note(run, c);
    if (a->spill.limit)
        plan_spilling(a, c);
    haul__spin_unlock(&run->lock);
    return status;
}

bool haul__planned_is_pinned(const haul__storage *storage)
{
    const planned *p = (const planned *)storage;
    return p->account == &p->run->pinned[p->account->device->slot];
}

/* ---- calls ---- */

haul_status haul__dry_run_begin_call(const haul__operation *operation, const char *name, int *call)
{
    haul__dry_run *run = haul__thread()->words[HAUL__DRY_RUN] == HAUL__DRY ? haul__dry_run_now() : NULL;
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

typedef enum kept_kind { KEPT_TENSOR, KEPT_OBJECT, KEPT_INTEGER, KEPT_STATE } kept_kind;

typedef struct kept {
    void     *owner; /* holds a reference */
    kept_kind kind;
    void     *object; /* holds a reference; a state: what put_back gets */
    int64_t   integer;
    void (*put_back)(void *owner, void *state);
} kept;

/* Counts a tensor's memory as freed if only the changed field and the run hold the tensor: a real run would free it,
 * and only the value to restore keeps it. */
static void count_as_freed(haul__dry_run *run, haul_tensor *t)
{
    haul__storage *s = t->storage;
    if (s->block && atomic_load(&t->object.refs) == 2 && atomic_load(&s->object.refs) == 1)
        block_is_free(run, s->block);
}

/* The entry of a place, with a reference to its owner. `*k` is NULL if there is nothing to keep. */
static haul_status new_kept(void *owner, const void *place, kept_kind kind, const char *operation, kept **k)
{
    haul__dry_run   *run = haul__is_dry() ? haul__dry_run_now() : NULL;
    bool             is_new;
    haul__map_entry *e = run ? haul__map_insert(&run->kept, place, &is_new) : NULL;
    *k = NULL;
    if (!run || (e && e->value))
        return HAUL_OK;
    *k = e ? haul__small_alloc(sizeof **k) : NULL;
    if (!*k)
        return haul__fail_memory(operation, sizeof **k);
    **k = (kept){.owner = owner, .kind = kind};
    haul__object_keep(owner);
    e->value = *k;
    return HAUL_OK;
}

static haul_status keep(void *owner, void *place, kept_kind kind, const char *operation)
{
    kept       *k;
    haul_status status = new_kept(owner, place, kind, operation, &k);
    if (!k)
        return status;
    if (kind == KEPT_INTEGER)
        k->integer = *(int64_t *)place;
    else
        k->object = *(void **)place;
    haul__object_keep(k->object);
    if (kind == KEPT_TENSOR && k->object)
        count_as_freed(haul__dry_run_now(), k->object);
    return HAUL_OK;
}

haul_status haul__dry_run_keep_tensor(void *owner, haul_tensor **place, const char *operation)
{
    return keep(owner, place, KEPT_TENSOR, operation);
}

haul_status haul__dry_run_keep_object(void *owner, void *place, const char *operation)
{
    return keep(owner, place, KEPT_OBJECT, operation);
}

haul_status haul__dry_run_keep_integer(void *owner, int64_t *place, const char *operation)
{
    return keep(owner, place, KEPT_INTEGER, operation);
}

haul_status haul__dry_run_keep_state(void *owner, void *state, void (*put_back)(void *owner, void *state),
                                     const char *operation)
{
    kept       *k;
    haul_status status = new_kept(owner, owner, KEPT_STATE, operation, &k);
    if (k) {
        k->object = state;
        k->put_back = put_back;
    }
    return status;
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
    e->value = (void *)gone;
    if (gone == (uintptr_t)atomic_load(&storage->object.refs))
        block_is_free(run, storage->block);
    return HAUL_OK;
}

static void put_back(void *place, const kept *k)
{
    if (k->kind == KEPT_STATE) {
        k->put_back(k->owner, k->object);
    } else if (k->kind != KEPT_INTEGER) {
        void *now = *(void **)place;
        *(void **)place = k->object;
        haul__object_release(now);
    } else {
        *(int64_t *)place = k->integer;
    }
}

void haul__dry_run_restore(haul__dry_run *run)
{
    for (size_t i = 0; i < run->kept.capacity; i++) {
        kept *k = run->kept.entries[i].value;
        if (!k)
            continue;
        put_back((void *)run->kept.entries[i].key, k);
        haul__object_release(k->owner);
        haul__small_free(k, sizeof *k);
    }
    haul__map_free(&run->kept);
    haul__map_free(&run->let_go);
    run->kept = run->let_go = (haul__map){NULL, 0, 0};
}
