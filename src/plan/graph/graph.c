/* Building a graph, and what placements of it cost and need. */
#include "plan/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"

static const char OPERATION[] = "haul plan";

/* ---- building ---- */

static haul_status exhausted(void)
{
    return haul__fail_memory(OPERATION, 0);
}

int haul__place_add_operation(haul__place_graph *g, const haul__place_operation *operation)
{
    const size_t i = g->operation_count;
    if (i >= INT32_MAX / 4) {
        haul__fail(HAUL_UNSUPPORTED, OPERATION, "operations", "the step has more than %d operations", INT32_MAX / 4);
        return -1;
    }
    if (!haul__grow(&g->operations, &g->operation_room, i + 1, sizeof *g->operations) ||
        !haul__grow(&g->parents, &g->parent_room, i + 1, sizeof *g->parents)) {
        exhausted();
        return -1;
    }
    g->operations[i] = *operation;
    g->operations[i].section = operation->section ? operation->section : "";
    g->parents[i] = (int)i;
    g->operation_count++;
    return (int)i;
}

int haul__place_add_tensor(haul__place_graph *g, const haul__place_tensor *tensor, const haul__place_copies *copies)
{
    const size_t i = g->tensor_count, n = (size_t)g->device_count;
    if (i >= INT32_MAX / 4 || !haul__grow(&g->tensors, &g->tensor_room, i + 1, sizeof *g->tensors) ||
        !haul__grow(&g->times, &g->time_room, (i + 1) * n * n, sizeof *g->times)) {
        exhausted();
        return -1;
    }
    HAUL__ASSERT((size_t)tensor->producer < g->operation_count && tensor->from <= tensor->until);
    g->tensors[i] = *tensor;
    for (size_t from = 0; from < n; from++)
        memcpy(g->times + (i * n + from) * n, copies->ps[from], n * sizeof *g->times);
    g->tensor_count++;
    return (int)i;
}

haul_status haul__place_add_use(haul__place_graph *g, int tensor, int operation)
{
    HAUL__ASSERT((size_t)tensor < g->tensor_count && (size_t)operation < g->operation_count);
    haul__place_tensor *t = &g->tensors[tensor];
    HAUL__ASSERT(t->producer <= operation); /* its maker comes first */
    if (!haul__grow(&g->uses, &g->use_room, g->use_count + 1, sizeof *g->uses))
        return exhausted();
    g->uses[g->use_count++] = (haul__place_use){tensor, operation};
    t->until = t->until < operation ? operation : t->until;
    return HAUL_OK;
}

static int root_of(haul__place_graph *g, int i)
{
    while (g->parents[i] != i) {
        g->parents[i] = g->parents[g->parents[i]];
        i = g->parents[i];
    }
    return i;
}

void haul__place_join(haul__place_graph *g, int a, int b)
{
    const int x = root_of(g, a), y = root_of(g, b);
    if (x < y)
        g->parents[y] = x;
    else
        g->parents[x] = y;
}

/* ---- finishing ---- */

/* *sum += value, unless one is HAUL__PLACE_NEVER, which it becomes. False if the sum is too large. */
static bool add_cost(int64_t *sum, int64_t value)
{
    if (*sum == HAUL__PLACE_NEVER || value == HAUL__PLACE_NEVER) {
        *sum = HAUL__PLACE_NEVER;
        return true;
    }
    if (value < 0 || value > HAUL__PLACE_MOST - *sum)
        return false;
    *sum += value;
    return true;
}

/* A root is the first operation of its group. */
static haul_status number_groups(haul__place_graph *g)
{
    for (size_t i = 0; i < g->operation_count; i++) {
        const int root = root_of(g, (int)i);
        HAUL__ASSERT(root <= (int)i);
        g->operations[i].group = root == (int)i ? (int)g->group_count++ : g->operations[root].group;
    }
    g->groups = haul__calloc(g->group_count + 1, sizeof *g->groups);
    return g->groups ? HAUL_OK : exhausted();
}

static haul_status too_large(const char *what, const char *name)
{
    return haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, what,
                      "the sum of the %s is negative or above 2^53 - 1 at %s; check the machine's rates and links",
                      what, name);
}

/* The longest copy to a device; a negative time if one is negative. */
static int64_t dearest_copy(const haul__place_graph *g, const haul__place_tensor *t, int to)
{
    int64_t most = 0;
    for (int from = 0; from < g->device_count; from++) {
        const int64_t ps = from == to ? 0 : haul__place_copy_time(g, t, from, to);
        if (ps < 0)
            return ps;
        most = larger(most, ps);
    }
    return most;
}

static haul_status add_costs(haul__place_graph *g)
{
    g->most = 0;
    for (size_t i = 0; i < g->operation_count; i++) {
        const haul__place_operation *o = &g->operations[i];
        for (int d = 0; d < g->device_count; d++) {
            int64_t all = g->most;
            if (!add_cost(&g->groups[o->group].cost[d], o->cost[d]) || !add_cost(&all, o->cost[d]))
                return too_large("costs", o->name);
            g->most = all == HAUL__PLACE_NEVER ? g->most : all;
        }
    }
    int64_t bytes = 0;
    for (size_t t = 0; t < g->tensor_count; t++) {
        const haul__place_tensor *x = &g->tensors[t];
        const char               *name = g->operations[x->producer].name;
        for (int to = 0; to < g->device_count; to++)
            if (!add_cost(&g->most, dearest_copy(g, x, to)))
                return too_large("copies", name);
        if (!add_cost(&bytes, x->bytes) || !add_cost(&bytes, x->home_bytes))
            return too_large("bytes", name);
    }
    HAUL__ASSERT(0 <= g->most && g->most <= HAUL__PLACE_MOST);
    return HAUL_OK;
}

static haul_status check_groups(const haul__place_graph *g)
{
    for (size_t i = 0; i < g->operation_count; i++) {
        const haul__place_operation *o = &g->operations[i];
        if (!haul__place_allows(g, o->group, haul__place_allowed(g, o->group, 0)))
            return haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, "place",
                              "%s%s%s must be on one device together with others that cannot be there: no device is "
                              "left for its group; change or remove a pin",
                              o->name, *o->module ? " of " : "", o->module);
    }
    return HAUL_OK;
}

static int compare_uses(const void *a, const void *b)
{
    const haul__place_use *x = a, *y = b;
    return x->tensor != y->tensor ? (x->tensor < y->tensor ? -1 : 1)
                                  : (x->operation > y->operation) - (x->operation < y->operation);
}

/* Each use once, in order. */
static void sort_uses(haul__place_graph *g)
{
    size_t n = 0;
    if (g->use_count)
        qsort(g->uses, g->use_count, sizeof *g->uses, compare_uses);
    for (size_t i = 0; i < g->use_count; i++) {
        const haul__place_use u = g->uses[i];
        if (n && !compare_uses(&g->uses[n - 1], &u))
            continue;
        haul__place_tensor *t = &g->tensors[u.tensor];
        t->use = t->use_count ? t->use : (int)n;
        t->use_count++;
        g->uses[n++] = u;
        HAUL__ASSERT((size_t)(t->use + t->use_count) == n); /* the uses of a tensor are side by side */
    }
    g->use_count = n;
}

/* `seen` has for each group the number of the tensor + 1 that it was seen with, and where its user is. */
static haul_status add_users(haul__place_graph *g, int t, int *seen, int *where)
{
    haul__place_tensor *x = &g->tensors[t];
    const int           home = g->operations[x->producer].group;
    x->user = (int)g->user_count;
    for (int k = x->use; k < x->use + x->use_count; k++) {
        const int operation = g->uses[k].operation, group = g->operations[operation].group;
        if (group == home)
            continue;
        if (seen[group] == t + 1) {
            HAUL__ASSERT(g->users[where[group]].group == group && g->users[where[group]].last < operation);
            g->users[where[group]].last = operation;
            continue;
        }
        if (!haul__grow(&g->users, &g->user_room, g->user_count + 1, sizeof *g->users))
            return exhausted();
        seen[group] = t + 1;
        where[group] = (int)g->user_count;
        g->users[g->user_count++] = (haul__place_user){group, operation, operation};
        x->user_count++;
    }
    HAUL__ASSERT((size_t)(x->user + x->user_count) == g->user_count);
    return HAUL_OK;
}

static haul_status find_users(haul__place_graph *g)
{
    int        *seen = haul__calloc(2 * g->group_count + 1, sizeof *seen);
    haul_status status = seen ? HAUL_OK : exhausted();
    for (size_t t = 0; !status && t < g->tensor_count; t++)
        status = add_users(g, (int)t, seen, seen + g->group_count);
    haul__free(seen);
    return status;
}

static void touch(haul__place_graph *g, int group, int tensor)
{
    haul__place_group *x = &g->groups[group];
    g->touches[x->touch + x->touch_count++] = tensor;
}

/* The tensors of each group, of those that others use. */
static haul_status find_touches(haul__place_graph *g)
{
    g->touches = haul__calloc(g->user_count + g->tensor_count + 1, sizeof *g->touches);
    if (!g->touches)
        return exhausted();
    for (size_t t = 0; t < g->tensor_count; t++)
        g->groups[g->operations[g->tensors[t].producer].group].touch_count++;
    for (size_t u = 0; u < g->user_count; u++)
        g->groups[g->users[u].group].touch_count++;
    int next = 0;
    for (size_t k = 0; k < g->group_count; k++) {
        g->groups[k].touch = next;
        next += g->groups[k].touch_count;
        g->groups[k].touch_count = 0;
    }
    HAUL__ASSERT((size_t)next == g->user_count + g->tensor_count);
    for (size_t t = 0; t < g->tensor_count; t++) {
        const haul__place_tensor *x = &g->tensors[t];
        touch(g, g->operations[x->producer].group, (int)t);
        for (int k = x->user; k < x->user + x->user_count; k++)
            touch(g, g->users[k].group, (int)t);
    }
    return HAUL_OK;
}

haul_status haul__place_finish(haul__place_graph *g)
{
    HAUL__ASSERT(2 <= g->device_count && g->device_count <= HAUL__PLACE_DEVICES && !g->group_count);
    haul_status status = number_groups(g);
    if (!status)
        status = add_costs(g);
    if (!status)
        status = check_groups(g);
    if (status)
        return status;
    sort_uses(g);
    status = find_users(g);
    return status ? status : find_touches(g);
}

void haul__place_free(haul__place_graph *g)
{
    haul__free(g->operations);
    haul__free(g->tensors);
    haul__free(g->times);
    haul__free(g->uses);
    haul__free(g->users);
    haul__free(g->groups);
    haul__free(g->touches);
    haul__free(g->parents);
    *g = (haul__place_graph){0};
}

/* ---- cost ---- */

bool haul__place_allows(const haul__place_graph *g, int group, int device)
{
    return g->groups[group].cost[device] != HAUL__PLACE_NEVER;
}

int haul__place_allowed(const haul__place_graph *g, int group, int device)
{
    for (int d = 0; !haul__place_allows(g, group, device) && d < g->device_count; d++)
        device = haul__place_allows(g, group, d) ? d : device;
    return device;
}

void haul__place_all_on(const haul__place_graph *g, int device, uint8_t *place)
{
    for (size_t k = 0; k < g->group_count; k++)
        place[k] = (uint8_t)haul__place_allowed(g, (int)k, device);
}

bool haul__place_is_small(const haul__place_graph *g)
{
    enum { FEW_PLACES = 64 };
    return g->group_count * (size_t)(g->device_count - 1) <= FEW_PLACES;
}

static int home_of(const haul__place_graph *g, const haul__place_tensor *t, const uint8_t *place)
{
    return place[g->operations[t->producer].group];
}

bool haul__place_copies_to(const haul__place_graph *g, int tensor, const uint8_t *place, int device)
{
    const haul__place_tensor *t = &g->tensors[tensor];
    if (home_of(g, t, place) == device)
        return false;
    for (int k = t->user; k < t->user + t->user_count; k++)
        if (place[g->users[k].group] == device)
            return true;
    return false;
}

int64_t haul__place_copying(const haul__place_graph *g, int tensor, const uint8_t *place)
{
    const haul__place_tensor *t = &g->tensors[tensor];
    const int                 home = home_of(g, t, place);
    const unsigned            all = (1U << g->device_count) - 1;
    unsigned                  there = 1U << home;
    int64_t                   ps = 0;
    for (int k = t->user; k < t->user + t->user_count && there != all; k++) {
        const int device = place[g->users[k].group];
        ps += there & 1U << device ? 0 : haul__place_copy_time(g, t, home, device);
        there |= 1U << device;
    }
    return ps;
}

int64_t haul__place_copied_bytes(const haul__place_graph *g, const uint8_t *place, int *count)
{
    int64_t bytes = 0;
    int     copies = 0;
    for (size_t t = 0; t < g->tensor_count; t++)
        for (int d = 0; d < g->device_count; d++)
            if (haul__place_copies_to(g, (int)t, place, d)) {
                bytes += g->tensors[t].bytes;
                copies++;
            }
    if (count)
        *count = copies;
    return bytes;
}

int64_t haul__place_computing(const haul__place_graph *g, const uint8_t *place)
{
    int64_t sum = 0;
    for (size_t k = 0; k < g->group_count; k++)
        sum += g->groups[k].cost[place[k]];
    return sum;
}

int64_t haul__place_cost(const haul__place_graph *g, const uint8_t *place)
{
    int64_t sum = haul__place_computing(g, place);
    for (size_t t = 0; t < g->tensor_count; t++)
        sum += haul__place_copying(g, (int)t, place);
    return sum;
}

int64_t haul__place_change(const haul__place_graph *g, uint8_t *place, int group, int device)
{
    const haul__place_group *x = &g->groups[group];
    const uint8_t            old = place[group];
    HAUL__ASSERT(haul__place_allows(g, group, device) && haul__place_allows(g, group, old));
    int64_t change = x->cost[device] - x->cost[old];
    for (int k = x->touch; k < x->touch + x->touch_count; k++)
        change -= haul__place_copying(g, g->touches[k], place);
    place[group] = (uint8_t)device;
    for (int k = x->touch; k < x->touch + x->touch_count; k++)
        change += haul__place_copying(g, g->touches[k], place);
    place[group] = old;
    return change;
}

/* ---- memory ---- */

/* The first and the last use of a tensor's copy on a device; false if there is none. */
static bool copy_span(const haul__place_graph *g, const haul__place_tensor *t, const uint8_t *place, int device,
                      int *first, int *last)
{
    bool found = false;
    for (int k = t->user; k < t->user + t->user_count; k++) {
        const haul__place_user *u = &g->users[k];
        if (place[u->group] != device)
            continue;
        *first = found && *first < u->first ? *first : u->first;
        *last = found && *last > u->last ? *last : u->last;
        found = true;
    }
    return found;
}

static void add_residence(const haul__place_graph *g, const haul__place_tensor *t, const uint8_t *place,
                          int64_t *change)
{
    const size_t n = g->operation_count + 1;
    const int    home = home_of(g, t, place);
    int          first, last;
    HAUL__ASSERT(0 <= t->from && t->from <= t->until && (size_t)t->until < g->operation_count);
    change[(size_t)home * n + (size_t)t->from] += t->home_bytes;
    change[(size_t)home * n + (size_t)t->until + 1] -= t->home_bytes;
    for (int d = 0; t->bytes && t->user_count && d < g->device_count; d++)
        if (d != home && copy_span(g, t, place, d, &first, &last)) {
            change[(size_t)d * n + (size_t)first] += t->bytes;
            change[(size_t)d * n + (size_t)last + 1] -= t->bytes;
        }
}

void haul__place_peaks(const haul__place_graph *g, const uint8_t *place, int64_t *scratch,
                       haul__place_peak peaks[HAUL__PLACE_DEVICES])
{
    const size_t n = g->operation_count;
    memset(scratch, 0, (size_t)g->device_count * (n + 1) * sizeof *scratch);
    for (size_t i = 0; i < g->tensor_count; i++)
        add_residence(g, &g->tensors[i], place, scratch);
    for (int d = 0; d < g->device_count; d++) {
        int64_t now = 0;
        peaks[d] = (haul__place_peak){0};
        for (size_t i = 0; i < n; i++) {
            now += scratch[(size_t)d * (n + 1) + i];
            HAUL__ASSERT(now >= 0);
            if (now > peaks[d].bytes)
                peaks[d] = (haul__place_peak){now, (int)i};
        }
    }
}

int64_t haul__place_resident(const haul__place_graph *g, int tensor, const uint8_t *place, int device, int moment)
{
    const haul__place_tensor *t = &g->tensors[tensor];
    int                       first, last;
    if (home_of(g, t, place) == device)
        return t->from <= moment && moment <= t->until ? t->home_bytes : 0;
    return copy_span(g, t, place, device, &first, &last) && first <= moment && moment <= last ? t->bytes : 0;
}
