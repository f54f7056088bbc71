/* Blocks for the stores of a step, and their next uses. */
#include "record/follow/blocks.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "memory/allocator.h"
#include "memory/size_class.h"
#include "memory/spill/next_use.h"
#include "memory/spill/spill.h"

/* Elements return this many calls before they are used, if there is room. */
enum { CALLS_AHEAD = 2 };

static const char operation[] = "haul_recording_run";

/* ---- uses ---- */

/* Finds the number of the store of each handle. Stores inside come first, then those from outside. */
static void number_stores(const haul__variant *v, size_t *stores)
{
    for (size_t i = 0; i < v->inside_count; i++)
        for (int h = v->insides[i].first_handle; h >= 0; h = v->handles[h].next)
            stores[h] = i;
    for (size_t i = 0; i < v->outside_count; i++)
        for (int h = v->outsides[i].first_handle; h >= 0; h = v->handles[h].next)
            stores[h] = v->inside_count + i;
}

static bool is_listed(const haul__variant *v, size_t from, size_t store)
{
    for (size_t i = from; i < v->use_count; i++)
        if (v->uses[i].store == store)
            return true;
    return false;
}

static void list_uses(haul__variant *v, const size_t *stores)
{
    for (size_t i = 0; i < v->call_count; i++) {
        const haul__replayed *r = &v->calls[i];
        v->first_use[i] = v->use_count;
        for (int k = 0; k < r->count + r->result_count; k++) {
            const haul_tensor *t = v->tensors[r->tensors + (size_t)k];
            if (!t || haul__is_none(t))
                continue;
            HAUL__ASSERT((size_t)((const haul__handle *)t - v->handles) < v->handle_count);
            const size_t store = stores[(const haul__handle *)t - v->handles];
            if (!is_listed(v, v->first_use[i], store))
                v->uses[v->use_count++].store = store;
        }
    }
    v->first_use[v->call_count] = v->use_count;
    HAUL__ASSERT(v->use_count <= v->tensor_count);
}

/* `next` is scratch: of each store, the call that uses it next, and after the first loop the one that uses it first.
 * The next run uses the stores from outside as this one does. */
static void link_uses(haul__variant *v, size_t *next)
{
    for (size_t i = 0; i < v->inside_count + v->outside_count; i++)
        next[i] = HAUL__NEVER;
    for (size_t i = v->call_count; i-- > 0;)
        for (size_t k = v->first_use[i]; k < v->first_use[i + 1]; k++) {
            v->uses[k].next = next[v->uses[k].store];
            next[v->uses[k].store] = i;
        }
    for (size_t i = 0; i < v->call_count; i++)
        for (size_t k = v->first_use[i]; k < v->first_use[i + 1]; k++) {
            haul__store_use *u = &v->uses[k];
            HAUL__ASSERT(u->next > i); /* HAUL__NEVER is the largest */
            u->is_first = next[u->store] == i;
            if (u->next == HAUL__NEVER && u->store >= v->inside_count)
                u->next = v->call_count + next[u->store];
        }
}

static haul_status find_uses(haul__variant *v)
{
    const size_t stores = v->inside_count + v->outside_count + 1;
    size_t      *of_handles = haul__calloc(v->handle_count + 1, sizeof *of_handles);
    size_t      *next = haul__calloc(stores, sizeof *next);
    v->uses = haul__calloc(v->tensor_count + 1, sizeof *v->uses);
    v->first_use = haul__calloc(v->call_count + 1, sizeof *v->first_use);
    const bool works = of_handles && next && v->uses && v->first_use;
    if (works) {
        number_stores(v, of_handles);
        list_uses(v, of_handles);
        link_uses(v, next);
    } else {
        haul__free(v->uses);
        v->uses = NULL;
        haul__free(v->first_use);
        v->first_use = NULL;
    }
    HAUL__ASSERT(!works || (v->first_use[0] == 0 && v->use_count <= v->tensor_count));
    haul__free(of_handles);
    haul__free(next);
    return works ? HAUL_OK : haul__fail_memory(operation, stores * sizeof *next);
}

/* ---- storages ---- */

haul_status haul__blocks_prepare(haul__variant *v)
{
    haul_status status = v->uses ? HAUL_OK : find_uses(v);
    for (size_t i = 0; i < v->inside_count && !status; i++) {
        haul__inside *s = &v->insides[i];
        const bool    was = s->in_block && s->storage == &s->own;
        s->in_block = s->offset >= 0 && !s->within && haul__spills(s->device);
        if (s->in_block && !was)
            haul__inside_embed(s);
    }
    HAUL__ASSERT(status || (v->uses && v->first_use && v->first_use[v->call_count] == v->use_count));
    return status;
}

/* ---- a run ---- */

static haul__storage *storage_of(const haul__variant *v, size_t store)
{
    return store < v->inside_count ? v->insides[store].bound : v->outsides[store - v->inside_count].bound;
}

void haul__blocks_begin(haul__variant *v)
{
    HAUL__ASSERT(v->in_blocks && v->uses && !v->moved_count);
    v->position = haul__next_use_begin(v->call_count);
    for (size_t call = 0; call < v->call_count; call++)
        for (size_t k = v->first_use[call]; k < v->first_use[call + 1]; k++)
            if (v->uses[k].is_first && v->uses[k].store >= v->inside_count)
                haul__next_use_set(storage_of(v, v->uses[k].store), v->position + call);
}

static int64_t block_bytes(const haul_device *device, int64_t bytes)
{
    const int bin = haul__bin_for(device, false, (size_t)bytes);
    return bin < 0 ? 0 : (int64_t)haul__bin_bytes(bin);
}

/* What the call allocates on the device while it computes. */
static int64_t scratch_bytes(const haul__variant *v, const haul__replayed *r, const haul_device *device)
{
    int64_t bytes = 0;
    for (int i = 0; i < r->scratch_count; i++) {
        const haul__storage *s = v->scratch[r->scratch + (size_t)i];
        bytes += s->device == device ? block_bytes(device, (int64_t)s->bytes) : 0;
    }
    return bytes;
}

/* Bytes in the blocks that begin with this call, or end with it. */
static int64_t changed_bytes(const haul__variant *v, size_t call, const haul_device *device, bool ends)
{
    int64_t bytes = 0;
    for (size_t k = v->first_use[call]; k < v->first_use[call + 1]; k++) {
        const haul__store_use *u = &v->uses[k];
        const haul__inside    *s = u->store < v->inside_count ? &v->insides[u->store] : NULL;
        if (s && s->in_block && s->device == device && (ends ? u->next == HAUL__NEVER : u->is_first))
            bytes += block_bytes(device, s->bytes);
    }
    return bytes;
}

/* The room that the calls from this one on need up to another one, beyond the blocks that are there. */
static int64_t room_until(const haul__variant *v, size_t call, size_t end, const haul_device *device)
{
    int64_t live = 0, most = 0;
    HAUL__ASSERT(call < end && end <= v->call_count);
    for (size_t i = call; i < end; i++) {
        live += i > call ? changed_bytes(v, i, device, false) : 0;
        most = larger(most, live + scratch_bytes(v, &v->calls[i], device));
        live -= changed_bytes(v, i, device, true);
    }
    return most;
}

/* Nothing leaves the device for what returns, also not in the calls until it is used. */
static void return_ahead(const haul__variant *v, size_t call)
{
    for (size_t i = call + 1; i <= call + CALLS_AHEAD && i < v->call_count; i++)
        for (size_t k = v->first_use[i]; k < v->first_use[i + 1]; k++) {
            HAUL__ASSERT(v->uses[k].store < v->inside_count + v->outside_count);
            haul__storage *s = storage_of(v, v->uses[k].store);
            if (s && !v->uses[k].is_first && !haul__spill_return_ahead(s, room_until(v, call, i, s->device)))
                return;
        }
}

haul_status haul__blocks_before(haul__variant *v, size_t call)
{
    haul__next_use_reach(v->calls[call].device, v->position + call, v->position + v->call_count);
    for (size_t k = v->first_use[call]; k < v->first_use[call + 1]; k++) {
        const haul__store_use *u = &v->uses[k];
        haul__inside          *s = u->store < v->inside_count ? &v->insides[u->store] : NULL;
        if (!s || !s->in_block || !u->is_first)
            continue;
        HAUL__ASSERT(s->bound == s->storage); /* it has no block of an earlier call */
        haul__storage *block = haul__storage_alloc(s->device, (size_t)s->bytes, v->calls[call].operation->name);
        if (!block)
            return haul_error_status();
        haul__handles_bind(v, s->first_handle, block);
        s->bound = block;
    }
    return_ahead(v, call);
    return HAUL_OK;
}

static void release(haul__variant *v, haul__inside *s)
{
    HAUL__ASSERT(s->bound && s->bound != s->storage);
    haul__handles_bind(v, s->first_handle, s->storage);
    haul__object_release(s->bound);
    s->bound = s->storage;
}

void haul__blocks_after(haul__variant *v, size_t call)
{
    HAUL__ASSERT(call < v->call_count);
    for (size_t k = v->first_use[call]; k < v->first_use[call + 1]; k++) {
        const haul__store_use *u = &v->uses[k];
        haul__inside          *s = u->store < v->inside_count ? &v->insides[u->store] : NULL;
        if (u->next != HAUL__NEVER)
            haul__next_use_set(storage_of(v, u->store), v->position + u->next);
        else if (s && s->in_block)
            release(v, s);
    }
}

void haul__blocks_end(haul__variant *v)
{
    for (size_t i = 0; i < v->inside_count; i++)
        if (v->insides[i].in_block && v->insides[i].bound != v->insides[i].storage)
            release(v, &v->insides[i]);
    for (int i = 0; i < v->needed.count; i++)
        haul__next_use_reach((haul_device *)v->needed.items[i].device, 0, 0);
}
