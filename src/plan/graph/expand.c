#include "plan/graph/expand.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "plan/graph/flow.h"

/* The network of a move: a group on the source's side stays, and one on the sink's side is on the device. */
typedef struct move {
    const haul__place_graph *g;
    const haul__place_proof *prices;
    const uint8_t           *place;
    int                      device;
    bool                     maker_pays; /* the longer times of copies that would become shorter */
    bool                     is_exact;   /* there are none */
    haul__flow               flow;       /* node k is group k */
} move;

/* ---- the priced cost ---- */

static bool is_used_then(const haul__place_user *u, const haul__place_price *p)
{
    return u->first <= p->moment && p->moment <= u->last;
}

int64_t haul__place_priced_kib(const haul__place_graph *g, const haul__place_price *p, const uint8_t *place)
{
    int64_t sum = 0;
    for (size_t i = 0; i < g->tensor_count; i++) {
        const haul__place_tensor *t = &g->tensors[i];
        bool                      there = false;
        if (place[g->operations[t->producer].group] == p->device) {
            sum += t->from <= p->moment && p->moment <= t->until ? haul__place_kib(t->home_bytes) : 0;
            continue;
        }
        for (int k = t->user; k < t->user + t->user_count && !there; k++)
            there = place[g->users[k].group] == p->device && is_used_then(&g->users[k], p);
        sum += there ? haul__place_kib(t->bytes) : 0;
    }
    return sum;
}

int64_t haul__place_priced_cost(const haul__place_graph *g, const haul__place_proof *prices, const uint8_t *place)
{
    int64_t cost = haul__place_cost(g, place);
    for (int i = 0; i < prices->price_count; i++)
        if (prices->prices[i].price)
            cost += prices->prices[i].price * haul__place_priced_kib(g, &prices->prices[i], place);
    return cost;
}

/* ---- copies ---- */

static int home_of(const move *m, const haul__place_tensor *t)
{
    return m->g->operations[t->producer].group;
}

/* A node that is on the source's side if a user that is on `at` stays there; -1: none is there. A single one is that
 * node itself. */
static int users_that_stay(move *m, const haul__place_tensor *t, int at)
{
    const haul__place_user *users = &m->g->users[t->user];
    int                     node = -1, count = 0;
    for (int k = 0; k < t->user_count; k++)
        if (m->place[users[k].group] == at && ++count == 1)
            node = users[k].group;
    if (count < 2)
        return node;
    node = haul__flow_add_node(&m->flow);
    for (int k = 0; k < t->user_count; k++)
        if (m->place[users[k].group] == at)
            haul__flow_add_arc(&m->flow, users[k].group, node, HAUL__FLOW_UNCUTTABLE);
    return node;
}

/* Copies to another device than that of the move. */
static void add_copy_to(move *m, const haul__place_tensor *t, int to)
{
    HAUL__ASSERT(to != m->device);
    const int home = home_of(m, t), from = m->place[home], node = users_that_stay(m, t, to);
    if (node < 0)
        return;
    const int64_t moved = haul__place_copy_time(m->g, t, m->device, to),
                  stays = from == to ? 0 : haul__place_copy_time(m->g, t, from, to);
    const int64_t both = from == m->device || moved < stays ? moved : stays;
    haul__flow_add_costs(&m->flow, node, 0, both);
    if (from != m->device && moved > stays)
        haul__flow_add_arc(&m->flow, node, home, moved - stays);
    if (from == m->device || moved >= stays)
        return;
    haul__flow_add_costs(&m->flow, m->maker_pays ? home : node, 0, stays - moved);
    m->is_exact = false;
}

/* The copy to the device of the move, from a maker that stays elsewhere. */
static void add_copy_here(move *m, const haul__place_tensor *t)
{
    const haul__place_user *users = &m->g->users[t->user];
    const int               home = home_of(m, t), from = m->place[home];
    int                     node = -1;
    HAUL__ASSERT(t->user_count > 0);
    if (from == m->device)
        return;
    for (int k = 0; k < t->user_count; k++)
        if (m->place[users[k].group] == m->device) {
            haul__flow_add_costs(&m->flow, home, 0, haul__place_copy_time(m->g, t, from, m->device));
            return;
        }
    node = t->user_count == 1 ? users->group : haul__flow_add_node(&m->flow);
    haul__flow_add_arc(&m->flow, home, node, haul__place_copy_time(m->g, t, from, m->device));
    for (int k = 0; t->user_count > 1 && k < t->user_count; k++)
        haul__flow_add_arc(&m->flow, node, users[k].group, HAUL__FLOW_UNCUTTABLE);
}

/* ---- memory ---- */

/* The node pays if the group is on the price's device; `here`: the one of the move. */
static void add_payer(move *m, int node, int group, bool here)
{
    if (here)
        haul__flow_add_arc(&m->flow, node, group, HAUL__FLOW_UNCUTTABLE);
    else
        haul__flow_add_arc(&m->flow, group, node, HAUL__FLOW_UNCUTTABLE);
}

/* Groups that are on the device of the move are on the sink's side in any case, so what they pay does not matter. */
static void add_memory(move *m, const haul__place_tensor *t, const haul__place_price *p)
{
    const haul__place_user *users = &m->g->users[t->user];
    HAUL__ASSERT(p->price > 0);
    const int  home = home_of(m, t);
    const bool here = p->device == m->device;
    int64_t    shared, of_maker;
    if (!haul__place_counted(t, p, &shared, &of_maker))
        return;
    const int node = haul__flow_add_node(&m->flow);
    haul__flow_add_costs(&m->flow, node, here ? p->price * shared : 0, here ? 0 : p->price * shared);
    if (here || m->place[home] == p->device) {
        add_payer(m, node, home, here);
        haul__flow_add_costs(&m->flow, home, here ? p->price * of_maker : 0, here ? 0 : p->price * of_maker);
    }
    for (int k = 0; k < t->user_count; k++)
        if ((here || m->place[users[k].group] == p->device) && is_used_then(&users[k], p))
            add_payer(m, node, users[k].group, here);
}

/* ---- the move ---- */

static void add_group(move *m, int group)
{
    const int64_t *cost = m->g->groups[group].cost;
    const int      node = haul__flow_add_node(&m->flow);
    const bool     is_here = m->place[group] == m->device, can_be = haul__place_allows(m->g, group, m->device);
    haul__flow_add_costs(&m->flow, node, can_be ? cost[m->device] : HAUL__FLOW_UNCUTTABLE,
                         is_here ? HAUL__FLOW_UNCUTTABLE : cost[m->place[group]]);
}

static void build(move *m)
{
    const haul__place_graph *g = m->g;
    for (size_t k = 0; k < g->group_count; k++)
        add_group(m, (int)k);
    for (size_t i = 0; i < g->tensor_count; i++) {
        const haul__place_tensor *t = &g->tensors[i];
        for (int d = 0; d < g->device_count && t->user_count; d++)
            if (d != m->device)
                add_copy_to(m, t, d);
        if (t->user_count)
            add_copy_here(m, t);
        for (int p = 0; p < m->prices->price_count; p++)
            if (m->prices->prices[p].price)
                add_memory(m, t, &m->prices->prices[p]);
    }
}

/* The placement after the move, into `out`. */
static haul_status find_move(move *m, uint8_t *out)
{
    m->flow = (haul__flow){0};
    build(m);
    const haul_status status = haul__flow_solve(&m->flow);
    for (size_t k = 0; !status && k < m->g->group_count; k++)
        out[k] = haul__flow_on_sink_side(&m->flow, (int)k) ? (uint8_t)m->device : m->place[k];
    HAUL__ASSERT(status || m->flow.node_count >= m->g->group_count);
    haul__flow_free(&m->flow);
    return status;
}

haul_status haul__place_expand(const haul__place_graph *g, const haul__place_proof *prices, int device, uint8_t *place,
                               bool *better)
{
    uint8_t    *next = haul__malloc(g->group_count + 1);
    haul_status status = next ? HAUL_OK : haul__fail_memory("haul plan", g->group_count + 1);
    int64_t     least = status ? 0 : haul__place_priced_cost(g, prices, place);
    bool        is_exact = false;
    for (int i = 0; i < 2 && !status && !is_exact; i++) {
        move m = {.g = g, .prices = prices, .place = place, .device = device, .maker_pays = i == 0, .is_exact = true};
        status = find_move(&m, next);
        is_exact = m.is_exact;
        const int64_t cost = status ? least : haul__place_priced_cost(g, prices, next);
        HAUL__ASSERT(status || prices->price_count || !is_exact || cost <= least); /* staying is one of the moves */
        if (cost >= least)
            continue;
        least = cost;
        *better = true;
        memcpy(place, next, g->group_count);
    }
    haul__free(next);
    return status;
}

haul_status haul__place_expand_all(const haul__place_graph *g, const haul__place_proof *prices, uint8_t *place)
{
    haul_status status = HAUL_OK;
    for (int d = 0, since = 0; since < g->device_count && !status; d = (d + 1) % g->device_count) {
        bool better = false;
        status = haul__place_expand(g, prices, d, place, &better);
        since = better ? 1 : since + 1;
    }
    return status;
}
