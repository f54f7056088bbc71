/* The memory of devices over a profile, and what held it at the peak. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "memory/report/snapshot.h"
#include "observe/profile/analysis.h"

int64_t haul__memory_change(const haul_profile *p, const haul__profile_event *m)
{
    const bool made = m->kind == HAUL_EVENT_MEMORY_ALLOCATED;
    if ((!made && m->kind != HAUL_EVENT_MEMORY_FREED) || *haul__profile_text(p, m->text))
        return 0;
    return made ? m->bytes : -m->bytes;
}

static bool is_memory(const haul_profile *p, const haul__profile_event *m)
{
    return haul__memory_change(p, m) != 0;
}

static haul__curve *curve_of(haul__analysis *a, const haul_device *device)
{
    for (int i = 0; i < a->curve_count; i++)
        if (a->curves[i].device == device)
            return &a->curves[i];
    return NULL;
}

static const haul__earlier *earlier_of(const haul_profile *p, const haul_device *device)
{
    for (size_t i = 0; i < p->earlier_count; i++)
        if (p->earlier[i].device == device)
            return &p->earlier[i];
    return NULL;
}

static bool begin_curves(const haul_profile *p, haul__analysis *a)
{
    size_t room = 0;
    HAUL__ASSERT(!a->curves && !a->curve_count);
    for (size_t i = 0; i < p->count; i++) {
        const haul_device *device = p->events[i].device;
        if (!is_memory(p, &p->events[i]) || curve_of(a, device))
            continue;
        if (!haul__grow(&a->curves, &room, (size_t)a->curve_count + 1, sizeof *a->curves))
            return false;
        const haul__earlier *earlier = earlier_of(p, device);
        const int64_t        before = earlier ? earlier->bytes : 0;
        a->curves[a->curve_count++] =
            (haul__curve){.device = device, .earlier = earlier, .before = before, .peak = before};
    }
    return true;
}

/* ---- what memory is used for ---- */

/* A storage and its role, as a number of a text. */
typedef struct known_role {
    uint64_t storage;
    uint32_t role;
} known_role;

static int by_storage(const void *a, const void *b)
{
    const known_role *x = a, *y = b;
    return (x->storage > y->storage) - (x->storage < y->storage);
}

/* Memory has its role when it is freed, or at the end of the profile. */
static bool add_freed(haul_profile *p, known_role **all, size_t *count, size_t *room)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->events[i].kind != HAUL_EVENT_MEMORY_FREED)
            continue;
        if (!haul__grow(all, room, *count + 1, sizeof **all))
            return false;
        (*all)[(*count)++] = (known_role){p->events[i].number, p->events[i].detail};
    }
    return true;
}

static bool add_live(haul_profile *p, const haul_device *device, known_role **all, size_t *count, size_t *room)
{
    const int        most = haul__live_roles(device, NULL, 0);
    haul__live_role *live = most > 0 ? haul__calloc((size_t)most, sizeof *live) : NULL;
    const int        found = live ? haul__live_roles(device, live, most) : 0;
    bool             fine = most <= 0 || live;
    for (int i = 0; fine && i < found && i < most; i++) {
        fine = haul__grow(all, room, *count + 1, sizeof **all);
        if (fine)
            (*all)[(*count)++] =
                (known_role){live[i].storage, haul__texts_number(&p->texts, haul__role_name(live[i].role))};
    }
    haul__free(live);
    return fine;
}

void haul__note_roles(haul_profile *p)
{
    HAUL__ASSERT(!p->ended);
    known_role *all = NULL;
    size_t      count = 0, room = 0;
    bool        fine = add_freed(p, &all, &count, &room);
    for (int slot = 0; slot < HAUL__MAX_DEVICES && fine; slot++) {
        const haul_device *device = haul__device_in_use(slot);
        fine = !device || !haul__device_computes(device) || add_live(p, device, &all, &count, &room);
    }
    if (fine && count)
        qsort(all, count, sizeof *all, by_storage);
    for (size_t i = 0; i < p->count && fine && count; i++) {
        haul__profile_event *m = &p->events[i];
        const known_role     key = {.storage = m->number};
        const known_role    *found =
            m->kind == HAUL_EVENT_MEMORY_ALLOCATED ? bsearch(&key, all, count, sizeof *all, by_storage) : NULL;
        m->detail = found ? found->role : m->detail;
    }
    haul__free(all);
}

/* ---- live memory at the peak ---- */

typedef struct holdings {
    haul__holding *items;
    size_t         count, room;
} holdings;

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool add(holdings *h, haul__holding what)
{
    for (size_t i = 0; i < h->count; i++) {
        haul__holding *at = &h->items[i];
        if (at->operation != what.operation || at->module != what.module || !same_text(at->named, what.named) ||
            !same_text(at->where, what.where) || strcmp(at->role, what.role) != 0)
            continue;
        at->bytes += what.bytes;
        at->count += what.count;
        return true;
    }
    if (!haul__grow(&h->items, &h->room, h->count + 1, sizeof *h->items))
        return false;
    h->items[h->count++] = what;
    return true;
}

/* Blocks from before the profile, without those that are gone. */
static bool add_earlier(holdings *h, const haul__earlier *e, const bool *gone)
{
    HAUL__ASSERT(!e || gone);
    for (int i = 0; e && i < e->count; i++)
        if (!e->blocks[i].spilled && !gone[i] &&
            !add(h, (haul__holding){.named = e->blocks[i].operation,
                                    .where = e->blocks[i].module,
                                    .role = e->blocks[i].role,
                                    .bytes = e->blocks[i].bytes,
                                    .count = 1}))
            return false;
    return true;
}

/* A block from before was freed. Its number is not known; one of the same operation and size will do. */
static void take_away(const haul__earlier *e, bool *gone, const char *operation, int64_t bytes)
{
    for (int i = 0; e && i < e->count; i++) {
        if (gone[i] || e->blocks[i].bytes != bytes || strcmp(e->blocks[i].operation, operation) != 0)
            continue;
        gone[i] = true;
        return;
    }
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = (*(const haul__profile_event *const *)a)->number,
                   y = (*(const haul__profile_event *const *)b)->number;
    return (x > y) - (x < y);
}

static const haul__profile_event **allocations(const haul_profile *p, const haul__curve *c, size_t *count)
{
    HAUL__ASSERT(c->peak_at <= p->count && c->peak >= c->before);
    const haul__profile_event **all = haul__calloc(c->peak_at + 1, sizeof *all);
    *count = 0;
    for (size_t i = 0; all && i < c->peak_at; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->device == c->device && is_memory(p, m) && m->kind == HAUL_EVENT_MEMORY_ALLOCATED)
            all[(*count)++] = m;
    }
    if (all)
        qsort(all, *count, sizeof *all, by_number);
    return all;
}

/* Removes memory that was freed before the peak from `all`, or notes it in `gone` if it was there before the profile.
 */
static bool remove_freed(const haul_profile *p, const haul__curve *c, const haul__profile_event **all, size_t count,
                         bool *gone)
{
    bool *freed = haul__calloc(count + 1, 1);
    for (size_t i = 0; freed && i < c->peak_at; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->device != c->device || !is_memory(p, m) || m->kind != HAUL_EVENT_MEMORY_FREED)
            continue;
        const haul__profile_event **found = count ? bsearch(&m, all, count, sizeof *all, by_number) : NULL;
        HAUL__ASSERT(!found || (all <= found && found < all + count && !freed[found - all])); /* freed once */
        if (found)
            freed[found - all] = true;
        else
            take_away(c->earlier, gone, haul__profile_text(p, m->operation), m->bytes);
    }
    for (size_t i = 0; freed && i < count; i++)
        if (freed[i])
            all[i] = NULL;
    const bool fine = freed != NULL;
    haul__free(freed);
    return fine;
}

static int by_bytes(const void *a, const void *b)
{
    const haul__holding *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* One entry for each operation, module and role. */
static bool find_holdings(const haul_profile *p, haul__curve *c)
{
    holdings                    h = {.items = NULL};
    size_t                      n;
    const haul__profile_event **all = allocations(p, c, &n);
    bool                       *gone = haul__calloc(c->earlier ? (size_t)c->earlier->count + 1 : 1, 1);
    bool                        fine = all && gone && haul__grow(&h.items, &h.room, 1, sizeof *h.items);
    fine = fine && remove_freed(p, c, all, n, gone) && add_earlier(&h, c->earlier, gone);
    for (size_t i = 0; fine && i < n; i++)
        if (all[i])
            fine = add(&h, (haul__holding){.operation = all[i]->operation,
                                           .module = all[i]->module,
                                           .role = haul__profile_text(p, all[i]->detail),
                                           .bytes = all[i]->bytes,
                                           .count = 1});
    haul__free(all);
    haul__free(gone);
    if (!fine) {
        haul__free(h.items);
        return false;
    }
    if (h.count)
        qsort(h.items, h.count, sizeof *h.items, by_bytes);
    HAUL__ASSERT(h.count <= h.room && !c->held);
    c->held = h.items;
    c->held_count = (int)h.count;
    return true;
}

/* ---- all of it ---- */

bool haul__find_memory(const haul_profile *p, haul__analysis *a)
{
    if (!begin_curves(p, a))
        return false;
    for (int c = 0; c < a->curve_count; c++) {
        haul__curve *curve = &a->curves[c];
        int64_t      now = curve->before;
        for (size_t i = 0; i < p->count; i++) {
            const haul__profile_event *m = &p->events[i];
            if (m->device != curve->device || !is_memory(p, m) || !haul__is_in_stretch(a, m))
                continue;
            now += haul__memory_change(p, m);
            if (now > curve->peak) {
                curve->peak = now;
                curve->peak_at = i + 1;
            }
        }
        if (!find_holdings(p, curve))
            return false;
    }
    return true;
}
