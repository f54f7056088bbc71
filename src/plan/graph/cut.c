#include "plan/graph/cut.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "plan/graph/flow.h"

int64_t haul__place_kib(int64_t bytes)
{
    return bytes / 1024;
}

int64_t haul__place_limit_kib(int64_t bytes)
{
    return haul__ceil_div(bytes, 1024);
}

bool haul__place_counted(const haul__place_tensor *t, const haul__place_price *p, int64_t *shared, int64_t *of_maker)
{
    const int64_t at_home = haul__place_kib(t->home_bytes);
    *shared = smaller(at_home, haul__place_kib(t->bytes));
    *of_maker = at_home - *shared;
    return at_home && t->from <= p->moment && p->moment <= t->until;
}

haul_status haul__place_add_share(haul__place_proof *p, haul__place_share share)
{
    if (!haul__grow(&p->shares, &p->share_room, p->share_count + 1, sizeof *p->shares))
        return haul__fail_memory("haul plan", sizeof *p->shares);
    p->shares[p->share_count++] = share;
    return HAUL_OK;
}

void haul__place_proof_free(haul__place_proof *p)
{
    haul__free(p->shares);
    *p = (haul__place_proof){0};
}

/* ---- the network ---- */

typedef struct builder {
    const haul__place_graph *g;
    haul__place_proof       *proof; /* its shares' amounts are the numbers of their arcs until the flow is known */
    haul__flow               flow;  /* node k is group k */
} builder;

static void add_share(builder *b, int tensor, int device, int price, int group, int arc)
{
    if (haul__place_add_share(b->proof, (haul__place_share){tensor, device, price, group, arc}))
        b->flow.failed = true;
}

/* An arc that is cut if the user is on the device and the maker is not. */
static int add_arc(builder *b, int device, int maker, int user, int64_t room)
{
    return device ? haul__flow_add_arc(&b->flow, maker, user, room) : haul__flow_add_arc(&b->flow, user, maker, room);
}

static void add_copy(builder *b, int tensor, int device)
{
    const haul__place_tensor *t = &b->g->tensors[tensor];
    const haul__place_user   *users = &b->g->users[t->user];
    const int                 home = b->g->operations[t->producer].group;
    HAUL__ASSERT(t->user_count > 0 && b->g->device_count == 2);
    if (t->user_count == 1) {
        add_share(b, tensor, device, -1, users->group,
                  add_arc(b, device, home, users->group, haul__place_copy_time(b->g, t, !device, device)));
        return;
    }
    const int copy = haul__flow_add_node(&b->flow);
    add_arc(b, device, home, copy, haul__place_copy_time(b->g, t, !device, device));
    for (int k = 0; k < t->user_count; k++)
        add_share(b, tensor, device, -1, users[k].group,
                  add_arc(b, device, copy, users[k].group, HAUL__FLOW_UNCUTTABLE));
}

static void add_cost_on(builder *b, int node, int device, int64_t cost)
{
    haul__flow_add_costs(&b->flow, node, device ? cost : 0, device ? 0 : cost);
}

/* The tensor pays if its producer or a user at that moment is on the device. A copy between two of its uses is not
 * seen: memory is underestimated, and the bound stays one. */
static void add_memory(builder *b, int tensor, int index)
{
    const haul__place_graph  *g = b->g;
    const haul__place_tensor *t = &g->tensors[tensor];
    const haul__place_price  *p = &b->proof->prices[index];
    HAUL__ASSERT(0 <= index && index < b->proof->price_count);
    const int home = g->operations[t->producer].group;
    int64_t   shared, of_maker;
    if (!haul__place_counted(t, p, &shared, &of_maker))
        return;
    const int node = haul__flow_add_node(&b->flow);
    add_cost_on(b, node, p->device, p->price * shared);
    add_share(b, tensor, p->device, index, home, add_arc(b, p->device, node, home, HAUL__FLOW_UNCUTTABLE));
    for (int k = t->user; k < t->user + t->user_count; k++)
        if (g->users[k].first <= p->moment && p->moment <= g->users[k].last)
            add_share(b, tensor, p->device, index, g->users[k].group,
                      add_arc(b, p->device, node, g->users[k].group, HAUL__FLOW_UNCUTTABLE));
    add_cost_on(b, home, p->device, p->price * of_maker);
}

static void add_groups(builder *b)
{
    for (size_t k = 0; k < b->g->group_count; k++) {
        const int node = haul__flow_add_node(&b->flow);
        for (int d = 0; d < b->g->device_count; d++)
            add_cost_on(b, node, d,
                        haul__place_allows(b->g, (int)k, d) ? b->g->groups[k].cost[d] : HAUL__FLOW_UNCUTTABLE);
    }
}

static void add_tensors(builder *b)
{
    for (size_t t = 0; t < b->g->tensor_count; t++) {
        for (int d = 0; d < b->g->device_count && b->g->tensors[t].user_count; d++)
            add_copy(b, (int)t, d);
        for (int i = 0; i < b->proof->price_count; i++)
            if (b->proof->prices[i].price)
                add_memory(b, (int)t, i);
    }
}

/* ---- the proof ---- */

/* The part of resident memory that only the producer pays. */
static int64_t home_excess(const haul__place_graph *g, const haul__place_share *s, const haul__place_proof *p)
{
    const haul__place_tensor *t = &g->tensors[s->tensor];
    const int64_t             at_home = haul__place_kib(t->home_bytes), as_copy = haul__place_kib(t->bytes);
    const bool                pays = s->price >= 0 && s->group == g->operations[t->producer].group;
    return pays ? p->prices[s->price].price * (at_home - smaller(at_home, as_copy)) : 0;
}

/* Shares of 0 are left out. */
static void read_shares(builder *b)
{
    haul__place_proof *p = b->proof;
    size_t             n = 0;
    for (size_t i = 0; i < p->share_count; i++) {
        haul__place_share s = p->shares[i];
        s.amount = haul__flow_through(&b->flow, (int)s.amount) + home_excess(b->g, &s, p);
        HAUL__ASSERT(s.amount >= 0);
        if (s.amount)
            p->shares[n++] = s;
    }
    p->share_count = n;
}

/* Charges users, and gives producers payments beyond the time of the copy. `own` has a number for each group on each
 * device, `paid` one for each tensor. */
static void charge(const haul__place_graph *g, const haul__place_proof *p, int64_t *own, int64_t *paid)
{
    const int n = g->device_count;
    for (size_t i = 0; i < p->share_count; i++) {
        const haul__place_share *s = &p->shares[i];
        HAUL__ASSERT((size_t)s->group < g->group_count && s->device < n);
        own[s->group * n + s->device] += s->amount;
        paid[s->tensor * n + s->device] += s->price < 0 ? s->amount : 0;
    }
    for (size_t t = 0; t < g->tensor_count; t++) {
        const haul__place_tensor *x = &g->tensors[t];
        int64_t                  *back = own + g->operations[x->producer].group * n;
        for (int to = 0; x->user_count && to < n; to++) {
            const int64_t all = paid[t * (size_t)n + (size_t)to];
            for (int d = 0; all && d < n; d++)
                back[d] -= d == to ? all : larger(0, all - haul__place_copy_time(g, x, d, to));
        }
    }
}

static int64_t sum_of_cheapest(const haul__place_graph *g, const haul__place_proof *p, const int64_t *own)
{
    int64_t bound = 0;
    for (size_t k = 0; k < g->group_count; k++) {
        int64_t least = INT64_MAX;
        for (int d = 0; d < g->device_count; d++, own++)
            if (haul__place_allows(g, (int)k, d))
                least = smaller(least, g->groups[k].cost[d] + *own);
        HAUL__ASSERT(least < INT64_MAX); /* the group can run somewhere */
        bound += least;
    }
    for (int i = 0; i < p->price_count; i++)
        bound -= p->prices[i].price * haul__place_limit_kib(g->limit[p->prices[i].device]);
    return bound;
}

haul_status haul__place_prove(const haul__place_graph *g, haul__place_proof *p)
{
    const size_t n = (size_t)g->device_count, count = (g->group_count + g->tensor_count + 1) * n;
    int64_t     *own = haul__calloc(count, sizeof *own);
    if (!own)
        return haul__fail_memory("haul plan", count * sizeof *own);
    charge(g, p, own, own + g->group_count * n);
    p->bound = sum_of_cheapest(g, p, own);
    haul__free(own);
    return HAUL_OK;
}

haul_status haul__place_cut(const haul__place_graph *g, uint8_t *place, haul__place_proof *proof)
{
    builder b = {.g = g, .proof = proof};
    HAUL__ASSERT(g->device_count == 2);
    proof->share_count = 0;
    add_groups(&b);
    add_tensors(&b);
    haul_status status = haul__flow_solve(&b.flow);
    if (!status) {
        for (size_t k = 0; k < g->group_count; k++)
            place[k] = haul__flow_on_sink_side(&b.flow, (int)k);
        read_shares(&b);
        status = haul__place_prove(g, proof);
    }
    HAUL__ASSERT(status || proof->price_count ||
                 proof->bound == haul__place_cost(g, place)); /* a flow equals its cut */
    haul__flow_free(&b.flow);
    return status;
}
