#include "plan/graph/flow.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"

/* Values of a node's parent that do not name an arc. */
enum { FREE = -1, TERMINAL = -2, ORPHAN = -3 };

int haul__flow_add_node(haul__flow *f)
{
    if (f->failed || !haul__grow(&f->nodes, &f->node_room, f->node_count + 1, sizeof *f->nodes)) {
        f->failed = true;
        return 0;
    }
    f->nodes[f->node_count] = (haul__flow_node){.first = -1, .parent = FREE};
    return (int)f->node_count++;
}

static void add_half(haul__flow *f, int from, int to, int64_t room)
{
    f->arcs[f->arc_count] = (haul__flow_arc){to, f->nodes[from].first, room};
    f->nodes[from].first = (int)f->arc_count++;
}

int haul__flow_add_arc(haul__flow *f, int from, int to, int64_t room)
{
    if (f->failed || !haul__grow(&f->arcs, &f->arc_room, f->arc_count + 2, sizeof *f->arcs)) {
        f->failed = true;
        return 0;
    }
    HAUL__ASSERT(from != to && (size_t)from < f->node_count && (size_t)to < f->node_count && room >= 0);
    add_half(f, from, to, room);
    add_half(f, to, from, 0);
    return (int)f->arc_count - 2;
}

void haul__flow_add_costs(haul__flow *f, int node, int64_t on_sink_side, int64_t on_source_side)
{
    HAUL__ASSERT(f->failed || (size_t)node < f->node_count);
    if (!f->failed)
        f->nodes[node].excess += on_sink_side - on_source_side;
}

/* ---- the search ---- */

typedef struct search {
    haul__flow_node *nodes;
    haul__flow_arc  *arcs;
    int             *queue, *orphans;
    size_t           head, tail, size; /* of the queue, a ring */
    size_t           orphan_count;
    int              clock;
} search;

static void activate(search *s, int v)
{
    if (s->nodes[v].active)
        return;
    s->nodes[v].active = true;
    s->queue[s->tail] = v;
    s->tail = (s->tail + 1) % s->size;
    HAUL__ASSERT(s->tail != s->head); /* the ring has room for each node once */
}

static void orphan(search *s, int v)
{
    HAUL__ASSERT(s->orphan_count < s->size);
    s->nodes[v].parent = ORPHAN;
    s->orphans[s->orphan_count++] = v;
}

/* The residual capacity between a node and its parent, in the direction of the flow. */
static int64_t *tree_room(search *s, int v)
{
    const haul__flow_node *n = &s->nodes[v];
    return &s->arcs[n->sink ? n->parent : n->parent ^ 1].room;
}

static int parent_of(const search *s, int v)
{
    return s->arcs[s->nodes[v].parent].head;
}

/* The least room from v to its terminal. */
static int64_t path_room(search *s, int v)
{
    int64_t least = INT64_MAX;
    for (; s->nodes[v].parent != TERMINAL; v = parent_of(s, v))
        least = smaller(least, *tree_room(s, v));
    const int64_t excess = s->nodes[v].excess;
    return smaller(least, excess < 0 ? -excess : excess);
}

static void push_path(search *s, int v, int64_t amount)
{
    HAUL__ASSERT(amount > 0);
    while (s->nodes[v].parent != TERMINAL) {
        const int arc = s->nodes[v].parent, up = parent_of(s, v);
        int64_t  *room = tree_room(s, v);
        *room -= amount;
        HAUL__ASSERT(*room >= 0);
        s->arcs[s->nodes[v].sink ? arc ^ 1 : arc].room += amount;
        if (!*room)
            orphan(s, v);
        v = up;
    }
    s->nodes[v].excess -= s->nodes[v].sink ? -amount : amount;
    if (!s->nodes[v].excess)
        orphan(s, v);
}

/* `bridge` leads from the source's tree to the sink's. */
static void augment(search *s, int bridge)
{
    const int     from = s->arcs[bridge ^ 1].head, to = s->arcs[bridge].head;
    const int64_t amount = smaller(s->arcs[bridge].room, smaller(path_room(s, from), path_room(s, to)));
    HAUL__ASSERT(amount > 0);
    s->arcs[bridge].room -= amount;
    s->arcs[bridge ^ 1].room += amount;
    push_path(s, from, amount);
    push_path(s, to, amount);
}

/* The distance of a node to its terminal; 0 if an orphan is in between. Nodes on the way remember it. */
static int distance_of(search *s, int v)
{
    int steps = 0, u = v;
    while (s->nodes[u].stamp != s->clock) {
        if (s->nodes[u].parent == ORPHAN)
            return 0;
        steps++;
        if (s->nodes[u].parent == TERMINAL) {
            s->nodes[u].stamp = s->clock;
            s->nodes[u].distance = 1;
            steps--;
            break;
        }
        u = parent_of(s, u);
    }
    const int distance = steps + s->nodes[u].distance;
    for (int left = distance; s->nodes[v].stamp != s->clock; v = parent_of(s, v)) {
        s->nodes[v].stamp = s->clock;
        s->nodes[v].distance = left--;
    }
    HAUL__ASSERT(distance > 0);
    return distance;
}

/* The arc to the nearest neighbour in the tree that can be v's parent; FREE if there is none. */
static int find_parent(search *s, int v)
{
    const bool sink = s->nodes[v].sink;
    int        best = FREE, least = 0;
    for (int a = s->nodes[v].first; a >= 0; a = s->arcs[a].next) {
        const haul__flow_node *u = &s->nodes[s->arcs[a].head];
        if (u->sink != sink || u->parent == FREE || !s->arcs[sink ? a : a ^ 1].room)
            continue;
        const int distance = distance_of(s, s->arcs[a].head);
        if (distance && (best == FREE || distance < least)) {
            best = a;
            least = distance;
        }
    }
    if (best != FREE) {
        s->nodes[v].stamp = s->clock;
        s->nodes[v].distance = least + 1;
    }
    HAUL__ASSERT(best == FREE || s->arcs[best].head != v);
    return best;
}

/* Without a parent, the node leaves its tree. Its children become orphans, and neighbours may take it up again. */
static void leave(search *s, int v)
{
    const bool sink = s->nodes[v].sink;
    for (int a = s->nodes[v].first; a >= 0; a = s->arcs[a].next) {
        const int        u = s->arcs[a].head;
        haul__flow_node *n = &s->nodes[u];
        if (n->sink != sink || n->parent == FREE)
            continue;
        if (s->arcs[sink ? a : a ^ 1].room)
            activate(s, u);
        if (n->parent >= 0 && parent_of(s, u) == v)
            orphan(s, u);
    }
}

static void adopt_orphans(search *s)
{
    for (size_t i = 0; i < s->orphan_count; i++) {
        const int v = s->orphans[i];
        HAUL__ASSERT(s->nodes[v].parent == ORPHAN);
        s->nodes[v].parent = find_parent(s, v);
        if (s->nodes[v].parent == FREE)
            leave(s, v);
    }
    s->orphan_count = 0;
}

/* Takes free neighbours into the tree of v. Returns an arc from the source's tree to the sink's, or -1. */
static int grow(search *s, int v)
{
    const haul__flow_node *n = &s->nodes[v];
    HAUL__ASSERT(n->parent != FREE && n->parent != ORPHAN);
    for (int a = n->first; a >= 0; a = s->arcs[a].next) {
        haul__flow_node *u = &s->nodes[s->arcs[a].head];
        if (!s->arcs[n->sink ? a ^ 1 : a].room)
            continue;
        if (u->parent != FREE && u->sink != n->sink)
            return n->sink ? a ^ 1 : a;
        if (u->parent == FREE) {
            activate(s, s->arcs[a].head);
            u->sink = n->sink;
        } else if (u->stamp > n->stamp || u->distance <= n->distance) {
            continue;
        }
        u->parent = a ^ 1;
        u->stamp = n->stamp;
        u->distance = n->distance + 1;
    }
    return -1;
}

static void begin(search *s)
{
    for (size_t i = 0; i + 1 < s->size; i++) {
        haul__flow_node *n = &s->nodes[i];
        n->parent = n->excess ? TERMINAL : FREE;
        n->sink = n->excess < 0;
        n->distance = 1;
        if (n->excess)
            activate(s, (int)i);
    }
}

static void run(search *s)
{
    begin(s);
    while (s->head != s->tail) {
        const int v = s->queue[s->head];
        int       bridge;
        while (s->nodes[v].parent != FREE && (bridge = grow(s, v)) >= 0) {
            s->clock++;
            augment(s, bridge);
            adopt_orphans(s);
        }
        s->head = (s->head + 1) % s->size;
        s->nodes[v].active = false;
    }
}

haul_status haul__flow_solve(haul__flow *f)
{
    search s = {.nodes = f->nodes, .arcs = f->arcs, .size = f->node_count + 1};
    if (!f->failed)
        s.queue = haul__calloc(2 * s.size, sizeof *s.queue);
    if (!s.queue)
        return haul__fail_memory("haul plan", 2 * s.size * sizeof *s.queue);
    s.orphans = s.queue + s.size;
    run(&s);
    haul__free(s.queue);
    return HAUL_OK;
}

bool haul__flow_on_sink_side(const haul__flow *f, int node)
{
    return f->nodes[node].parent == FREE || f->nodes[node].sink;
}

int64_t haul__flow_through(const haul__flow *f, int arc)
{
    return f->arcs[arc ^ 1].room;
}

void haul__flow_free(haul__flow *f)
{
    haul__free(f->nodes);
    haul__free(f->arcs);
    *f = (haul__flow){0};
}
