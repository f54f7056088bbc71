/* Moves pointwise operations next to those with which they can be fused.
 *
 * An operation that reads or writes a tensor of a chain goes to the end of the chain if it and those between use no
 * memory that one of them writes. If it cannot, the chain goes to it on the same condition. Operations on a few
 * elements go to chains with which they share nothing, because their time is that of a command. */
#include "record/gather.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/operation.h"
#include "record/fuse.h"

/* REACH: an operation looks so far back for a chain. FEW: elements of a result whose time is that of a command. */
enum { REACH = 128, FEW = 64 };

typedef struct gathering {
    haul__fusing f;
    int64_t     *list; /* the operations so far, in their new order */
    int64_t      count;
    int64_t     *chain;                  /* of each operation: the first part of its chain; -1: none */
    int64_t      parts[HAUL__MAX_CHAIN]; /* of the chain that is looked at, in their order */
    int          part_count;
    bool         moved;
} gathering;

/* True if both use the same memory; unless `any_use`, only if one of them writes it or is a view. */
static bool meet(const gathering *g, int64_t a, int64_t b, bool any_use)
{
    const haul_program_operation *x = &g->f.p->operations[a], *y = &g->f.p->operations[b];
    const haul_program_value     *of_x = haul__fusing_values(&g->f, a), *of_y = haul__fusing_values(&g->f, b);
    const bool                    counts = any_use || x->view_of >= 0 || y->view_of >= 0;
    for (int i = 0; i < x->operand_count + x->result_count; i++)
        for (int k = 0; k < y->operand_count + y->result_count; k++)
            if (of_x[i].store >= 0 && of_x[i].store == of_y[k].store &&
                (counts || haul__fusing_writes(&g->f, a, i) || haul__fusing_writes(&g->f, b, k)))
                return true;
    return false;
}

/* True if the two must stay in their order: one of them writes memory that the other one uses. Views stay in their
 * place among all uses of their memory. */
static bool conflict(const gathering *g, int64_t a, int64_t b)
{
    return meet(g, a, b, false);
}

static bool share_memory(const gathering *g, int64_t a, int64_t b)
{
    return meet(g, a, b, true);
}

static bool has_few_elements(const gathering *g, int64_t number)
{
    const haul_program_value *r = haul__fusing_values(&g->f, number) + g->f.p->operations[number].operand_count;
    int64_t                   count = 1;
    for (int d = 0; d < r->shape.ndim && count <= FEW; d++)
        count *= r->shape.dims[d];
    return count <= FEW;
}

/* Writes memory from outside of the program, or memory that outlives it: if another operation fails, the program sees
 * whether it has run. */
static bool is_seen(const gathering *g, int64_t number)
{
    const haul_program_operation *o = &g->f.p->operations[number];
    const haul_program_value     *values = haul__fusing_values(&g->f, number);
    for (int i = 0; i < o->operand_count + o->result_count; i++)
        if (haul__fusing_writes(&g->f, number, i) && values[i].store >= 0 &&
            (g->f.p->stores[values[i].store].kind == HAUL_STORE_OUTSIDE || g->f.p->stores[values[i].store].outlives))
            return true;
    return false;
}

/* True if the operation can fail without a fault of the device. */
static bool can_fail(const gathering *g, int64_t number)
{
    const haul__program_order *order = g->f.order;
    const haul__program_call  *c = &g->f.log->calls[order->items[number].call];
    return c->operation->is_custom || c->operation->between_ranks || !haul__device_is_host(c->device) ||
           order->items[number].checks;
}

/* ---- chains ---- */

/* Finds the parts of the chain whose last part is at `end` in the list. */
static void find_parts(gathering *g, int64_t end)
{
    const int64_t chain = g->chain[g->list[end]];
    int64_t       at = end;
    int           count = 0;
    while (at >= 0 && g->list[at] != chain)
        at--;
    for (; at <= end && count < HAUL__MAX_CHAIN; at++)
        if (g->chain[g->list[at]] == chain)
            g->parts[count++] = g->list[at];
    g->part_count = count;
    HAUL__ASSERT(count > 0 && g->parts[0] == chain);
}

static bool is_near(const gathering *g, int64_t number)
{
    bool any = has_few_elements(g, number);
    for (int i = 0; i < g->part_count && !any; i++)
        any = share_memory(g, g->parts[i], number);
    return any;
}

/* True if the chain may go behind all operations from `from` on. A chain that already ends with a reduction, which is
 * among them, stays where it is. */
static bool may_go_later(const gathering *g, int64_t from)
{
    HAUL__ASSERT(g->part_count > 0 && from <= g->count);
    for (int64_t at = from; at < g->count; at++) {
        if (g->chain[g->list[at]] == g->chain[g->parts[0]])
            return false;
        for (int i = 0; i < g->part_count; i++)
            if (conflict(g, g->list[at], g->parts[i]) || (can_fail(g, g->list[at]) && is_seen(g, g->parts[i])))
                return false;
    }
    return true;
}

/* True if the operation may go before all operations from `from` on. */
static bool may_go_earlier(const gathering *g, int64_t from, int64_t number)
{
    for (int64_t at = from; at < g->count; at++)
        if (conflict(g, g->list[at], number) || (can_fail(g, g->list[at]) && is_seen(g, number)))
            return false;
    return true;
}

static void insert(gathering *g, int64_t at, int64_t number)
{
    HAUL__ASSERT(0 <= at && at <= g->count && g->count < g->f.p->operation_count);
    memmove(g->list + at + 1, g->list + at, (size_t)(g->count - at) * sizeof *g->list);
    g->list[at] = number;
    g->count++;
}

/* Views between parts stay where they are, so they must not be views of what the parts use. */
static bool has_views(const gathering *g, int64_t end)
{
    int64_t at = end;
    for (int left = g->part_count; left && at >= 0; at--) {
        const bool is_part = g->chain[g->list[at]] == g->chain[g->list[end]];
        left -= is_part;
        for (int i = 0; i < g->part_count && !is_part; i++)
            if (conflict(g, g->list[at], g->parts[i]))
                return true;
    }
    return false;
}

static void move_parts(gathering *g)
{
    const int64_t chain = g->chain[g->parts[0]];
    int64_t       kept = 0;
    for (int64_t at = 0; at < g->count; at++)
        if (g->chain[g->list[at]] != chain)
            g->list[kept++] = g->list[at];
    for (int i = 0; i < g->part_count; i++)
        g->list[kept++] = g->parts[i];
    HAUL__ASSERT(kept == g->count);
}

/* Joins the operation with the chain whose last part is at `end`; false: it cannot. */
static bool join(gathering *g, int64_t end, int64_t number, bool is_neighbour)
{
    HAUL__ASSERT(end < g->count && g->chain[number] == number); /* it is in no chain yet */
    find_parts(g, end);
    if ((!is_neighbour && !is_near(g, number)) || haul__fusing_misfit(&g->f, g->parts, g->part_count, number))
        return false;
    g->chain[number] = g->chain[g->list[end]];
    if (is_neighbour) {
        insert(g, g->count, number);
    } else if (may_go_earlier(g, end + 1, number)) {
        insert(g, end + 1, number);
        g->moved = true;
    } else if (may_go_later(g, end + 1) && !has_views(g, end)) {
        move_parts(g);
        insert(g, g->count, number);
        g->moved = true;
    } else {
        g->chain[number] = number;
        return false;
    }
    return true;
}

static void place(gathering *g, int64_t number)
{
    const int64_t least = g->count > REACH ? g->count - REACH : 0;
    bool          is_neighbour = true;
    const bool    is_end = haul__fusing_is_end(&g->f, number);
    HAUL__ASSERT(g->count == number); /* all before it have a place */
    g->chain[number] = is_end || haul__fusing_is_part(&g->f, number) ? number : -1;
    for (int64_t at = g->count - 1, last = -1; at >= least && g->chain[number] == number; at--) {
        const bool    ends = haul__fusing_is_end(&g->f, g->list[at]); /* others go before it */
        const int64_t chain = ends ? -1 : g->chain[g->list[at]];
        if (chain >= 0 && chain != last && join(g, at, number, is_neighbour))
            return;
        last = chain >= 0 ? chain : last;
        is_neighbour = is_neighbour && haul__fusing_is_without_work(&g->f, g->list[at]);
    }
    g->chain[number] = is_end ? -1 : g->chain[number];
    insert(g, g->count, number);
}

/* ---- the order ---- */

/* `list` becomes the order of the items. */
static void reorder(const gathering *g, haul__program_order *order, haul__ordered_call *items, int64_t *now)
{
    for (int64_t i = 0; i < g->count; i++) {
        items[i] = order->items[g->list[i]];
        now[g->list[i]] = i;
    }
    HAUL__ASSERT((size_t)g->count == order->count);
    memcpy(order->items, items, (size_t)g->count * sizeof *items);
    for (size_t i = 0; i < order->described_count; i++)
        if (order->of_described[i] >= 0)
            order->of_described[i] = now[order->of_described[i]];
    for (size_t i = 0; i < order->command_count; i++)
        if (order->of_command[i] >= 0)
            order->of_command[i] = now[order->of_command[i]];
}

haul_status haul__program_gather(const haul__program *log, haul__program_order *order, haul_program *p,
                                 const bool *constant, bool *moved)
{
    const size_t        room = (size_t)p->operation_count + 1;
    gathering           g = {.count = 0};
    haul__ordered_call *items = haul__calloc(room, sizeof *items);
    int64_t            *now = haul__calloc(room, sizeof *now);
    g.list = haul__calloc(room, sizeof *g.list);
    g.chain = haul__calloc(room, sizeof *g.chain);
    haul_status status = items && now && g.list && g.chain
                             ? haul__fusing_begin(&g.f, log, order, p, constant)
                             : haul__fail_memory("haul_program_record", room * sizeof *items);
    for (int64_t i = 0; i < p->operation_count && !status; i++)
        place(&g, i);
    if (g.moved)
        reorder(&g, order, items, now);
    haul__fusing_end(&g.f);
    haul__free(g.list);
    haul__free(g.chain);
    haul__free(items);
    haul__free(now);
    *moved = g.moved;
    return status;
}
