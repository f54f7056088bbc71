/* Finds equal copies.
 *
 * A placed network copies a tensor where an operation on another device needs it: labels to the device of the loss, and
 * to that of its gradient. An operation that is not recorded finds the copy with the tensor (memory/derived.h).
 *
 * Two copies are equal if nothing writes the tensor between them, and nothing but them writes the copies. The first one
 * then stays until the last use of the second. HAUL_PLACE_AUTO keeps copies as long without a recording; others are
 * merged only if the peak of their device is not in between. */
#include "record/copies.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "engine/driver.h"
#include "record/fuse.h"

typedef struct merging {
    const haul__program       *log;
    const haul__program_order *order;
    const haul_program        *p;
    const int64_t             *of_store;
    int64_t                   *replaced;
    bool                      *gone;         /* of each operation: it leaves */
    int                       *writers;      /* of each store: the operations that write it */
    int64_t                   *changed;      /* of each store: the last operation up to now that wrote it; -1: none */
    int64_t                   *first, *last; /* of each store: the operations that use it */
    int64_t                   *copied;       /* of each store: the last copy of it up to now; -1: none */
    int64_t                   *before;       /* of each copy: the one of the same store before it; -1: none */
    int64_t                   *live;         /* of each operation: bytes in use on `device` */
    const haul_device         *device;       /* that `live` is about; NULL: none yet */
    int64_t                    peak;         /* the most of them */
} merging;

static const haul__program_call *call_of(const merging *m, int64_t number)
{
    return &m->log->calls[m->order->items[number].call];
}

/* ---- writers and lifetimes ---- */

/* True if the operation writes the store of its value `k`. */
static bool writes(const merging *m, const haul_program_operation *o, int k)
{
    const haul_program_value *v = &m->p->values[o->value + k];
    return o->view_of < 0 && v->store >= 0 && (k >= o->operand_count || v->written);
}

/* An update that moves computes at its own place where it finds no memory, so it writes at both. */
static void count_writers(merging *m)
{
    for (int64_t i = 0; i < m->p->operation_count; i++) {
        const haul_program_operation *o = &m->p->operations[i];
        for (int k = 0; k < o->operand_count + o->result_count; k++)
            if (writes(m, o, k))
                m->writers[m->p->values[o->value + k].store] += m->order->items[i].moved ? 2 : 1;
    }
}

static void note_writes(merging *m, int64_t number)
{
    const haul_program_operation *o = &m->p->operations[number];
    for (int k = 0; k < o->operand_count + o->result_count; k++)
        if (writes(m, o, k))
            m->changed[m->p->values[o->value + k].store] = number;
}

static void find_lives(merging *m)
{
    for (int64_t i = 0; i < m->p->store_count; i++) {
        m->first[i] = m->p->stores[i].first;
        m->last[i] = m->p->stores[i].outlives ? m->p->operation_count - 1 : m->p->stores[i].last;
    }
    for (int64_t i = 0; i < m->p->operation_count; i++) {
        const haul_program_operation *o = &m->p->operations[i];
        for (int64_t k = o->value; k < o->value + o->operand_count + o->result_count; k++) {
            const int64_t store = m->p->values[k].store;
            if (store < 0)
                continue;
            m->first[store] = m->first[store] < 0 || i < m->first[store] ? i : m->first[store];
            m->last[store] = i > m->last[store] ? i : m->last[store];
        }
    }
}

/* What the program holds on the device at each operation. */
static void count_live(merging *m, const haul_device *device)
{
    if (m->device == device)
        return;
    m->device = device;
    m->peak = 0;
    memset(m->live, 0, (size_t)m->p->operation_count * sizeof *m->live);
    for (int64_t i = 0; i < m->p->store_count; i++) {
        const haul_program_store *s = &m->p->stores[i];
        if (s->kind == HAUL_STORE_OUTSIDE || s->device != device || m->first[i] < 0 || m->replaced[i] >= 0)
            continue;
        HAUL__ASSERT(m->first[i] <= m->last[i] && m->last[i] < m->p->operation_count);
        for (int64_t at = m->first[i]; at <= m->last[i]; at++)
            m->live[at] += s->bytes;
    }
    for (int64_t i = 0; i < m->p->operation_count; i++)
        m->peak = m->live[i] > m->peak ? m->live[i] : m->peak;
}

/* ---- equal copies ---- */

static const haul_program_value *source_of(const merging *m, int64_t number)
{
    return &m->p->values[m->p->operations[number].value];
}

static const haul_program_value *copy_of(const merging *m, int64_t number)
{
    return source_of(m, number) + 1;
}

/* The store that a copy reads, when the copies before it are merged. */
static int64_t source_store(const merging *m, int64_t number)
{
    const int64_t store = source_of(m, number)->store;
    return store >= 0 && m->replaced[store] >= 0 ? m->replaced[store] : store;
}

/* True if the store is that of a copy, and nothing else writes it. */
static bool is_only_copy(const merging *m, int64_t store)
{
    const haul_program_store *s = &m->p->stores[store];
    return s->kind == HAUL_STORE_INSIDE && !s->outlives && m->writers[store] == 1;
}

static bool is_candidate(const merging *m, int64_t number)
{
    const haul_program_operation *o = &m->p->operations[number];
    const haul__program_call     *c = call_of(m, number);
    if (!haul__is_move(c->operation) || o->operand_count != 1 || o->result_count != 1 || o->view_of >= 0 ||
        c->form.into)
        return false;
    const int64_t from = source_store(m, number), to = copy_of(m, number)->store;
    HAUL__ASSERT(from < m->p->store_count && to < m->p->store_count);
    return from >= 0 && to >= 0 && m->p->stores[from].device != m->p->stores[to].device && is_only_copy(m, to);
}

static bool are_equal(const merging *m, int64_t a, int64_t b)
{
    const haul_program_value  *x = copy_of(m, a), *y = copy_of(m, b);
    const haul_program_store  *r = &m->p->stores[x->store], *s = &m->p->stores[y->store];
    const haul__program_store *of_r = &m->log->stores[m->of_store[x->store]],
                              *of_s = &m->log->stores[m->of_store[y->store]];
    return r->device == s->device && r->bytes == s->bytes && of_r->pinned_for == of_s->pinned_for &&
           haul__program_same_form(source_of(m, a), source_of(m, b)) && haul__program_same_form(x, y);
}

static bool is_kept(const merging *m, int64_t number)
{
    const haul__program_call *c = call_of(m, number);
    return haul__move_is_kept(m->log->attributes.bytes + c->form.attributes);
}

/* True if the first copy may stay until the second one. */
static bool may_stay(merging *m, int64_t a, int64_t b)
{
    const int64_t             store = copy_of(m, a)->store;
    const haul_program_store *s = &m->p->stores[store];
    HAUL__ASSERT(a < b && m->replaced[store] < 0);
    if (m->last[store] >= b || (is_kept(m, a) && is_kept(m, b)))
        return true;
    count_live(m, s->device);
    for (int64_t at = m->last[store] + 1; at < b; at++)
        if (m->live[at] + s->bytes > m->peak)
            return false;
    return true;
}

static void merge(merging *m, int64_t a, int64_t b)
{
    const int64_t kept = copy_of(m, a)->store, over = copy_of(m, b)->store;
    HAUL__ASSERT(a < b && kept != over && m->replaced[kept] < 0 && m->replaced[over] < 0);
    HAUL__ASSERT(!m->gone[a] && !m->gone[b]); /* a copy leaves once, and never the one that stays */
    for (int64_t at = m->last[kept] + 1; m->device == m->p->stores[kept].device && at < b; at++)
        m->live[at] += m->p->stores[kept].bytes;
    m->last[kept] = m->last[over] > m->last[kept] ? m->last[over] : m->last[kept];
    m->replaced[over] = kept;
    m->gone[b] = true;
}

static bool find(merging *m)
{
    bool any = false;
    for (int64_t i = 0; i < m->p->operation_count; i++) {
        if (is_candidate(m, i)) {
            const int64_t from = source_store(m, i);
            int64_t       other = m->copied[from];
            while (other >= 0 && (m->changed[from] > other || !are_equal(m, other, i) || !may_stay(m, other, i)))
                other = m->changed[from] > other ? -1 : m->before[other];
            if (other >= 0) {
                HAUL__ASSERT(other < i && other <= m->copied[from]);
                merge(m, other, i);
                any = true;
            } else {
                m->before[i] = m->copied[from];
                m->copied[from] = i;
            }
        }
        note_writes(m, i);
    }
    return any;
}

/* ---- the order ---- */

/* Removes merged copies from the order. An index of a removed item becomes that of the item before it; a command of one
 * has no item. */
static void drop(const merging *m, haul__program_order *order, int64_t *kept)
{
    int64_t count = 0;
    for (size_t i = 0; i < order->count; i++) {
        if (!m->gone[i])
            order->items[count++] = order->items[i];
        kept[i] = count - 1;
    }
    HAUL__ASSERT((size_t)count < order->count); /* one is gone at least */
    order->count = (size_t)count;
    for (size_t i = 0; i < order->described_count; i++)
        if (order->of_described[i] >= 0)
            order->of_described[i] = kept[order->of_described[i]];
    for (size_t i = 0; i < order->command_count; i++) {
        const int64_t item = order->of_command[i];
        HAUL__ASSERT(item < m->p->operation_count);
        if (item >= 0)
            order->of_command[i] = m->gone[item] ? -1 : kept[item];
    }
}

static bool make_room(merging *m)
{
    const size_t operations = (size_t)m->p->operation_count + 1, stores = (size_t)m->p->store_count + 1;
    m->gone = haul__calloc(operations, sizeof *m->gone);
    m->before = haul__calloc(operations, sizeof *m->before);
    m->live = haul__calloc(operations, sizeof *m->live);
    m->writers = haul__calloc(stores, sizeof *m->writers);
    m->changed = haul__malloc(stores * sizeof *m->changed);
    m->first = haul__malloc(stores * sizeof *m->first);
    m->last = haul__malloc(stores * sizeof *m->last);
    m->copied = haul__malloc(stores * sizeof *m->copied);
    const bool has_room =
        m->gone && m->before && m->live && m->writers && m->changed && m->first && m->last && m->copied;
    for (size_t i = 0; i < stores && has_room; i++)
        m->replaced[i] = m->changed[i] = m->copied[i] = -1;
    return has_room;
}

static void free_merging(merging *m)
{
    void *arrays[] = {m->gone, m->before, m->live, m->writers, m->changed, m->first, m->last, m->copied};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        haul__free(arrays[i]);
}

haul_status haul__program_merge_copies(const haul__program *log, haul__program_order *order, const haul_program *p,
                                       const int64_t *of_store, int64_t *replaced, bool *any)
{
    merging     m = {.log = log, .order = order, .p = p, .of_store = of_store, .replaced = replaced};
    haul_status status = HAUL_OK;
    HAUL__ASSERT(order->count == (size_t)p->operation_count);
    *any = false;
    if (make_room(&m)) {
        count_writers(&m);
        find_lives(&m);
        *any = find(&m);
        if (*any)
            drop(&m, order, m.before);
    } else {
        status = haul__fail_memory("haul_program_record", (size_t)p->store_count * sizeof *m.last);
    }
    free_merging(&m);
    return status;
}
