/* Accepts a certificate only if its placement is allowed, has its cost and keeps the limits, with a proven bound. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "plan/verify/fields.h"

enum { DEVICES = 9, PRICES = 64, TENSOR = 5 }; /* the most; numbers of a tensor before the times of its copies */
typedef haul__json json;

typedef struct operation {
    int64_t group, cost[DEVICES], change; /* -1: it cannot run there; of the resident bytes */
    int64_t own[DEVICES];                 /* of the group of this number: its cost and shares */
    bool    barred[DEVICES];
    int     place; /* -1: the group has no operations */
} operation;

typedef struct tensor {
    int64_t        made, from, until, home_bytes, bytes;               /* as in the file */
    int64_t        copy[DEVICES][DEVICES];                             /* from a device to another one */
    int64_t        paid[DEVICES], held[PRICES], held_by_users[PRICES]; /* sums of shares */
    const int64_t *use, *end;
} tensor;

typedef struct check {
    haul__verdict *out;
    int64_t        operations, tensors, prices, limit[DEVICES]; /* -1: no limit */
    operation     *operation;
    tensor        *tensor;
    int64_t       *uses, *use;       /* of all tensors; where the next one's are read to */
    int64_t        price[PRICES][3]; /* device, moment, ps for a KiB */
    int            devices;
    size_t         before_uses; /* numbers of a tensor */
    const char    *device[DEVICES];
} check;

static bool each(check *c, const json *in, const char *name, void (*read)(check *, const json *, int64_t),
                 int64_t count)
{
    const json *array = haul__field(c->out, in, name, HAUL__JSON_ARRAY);
    int64_t     i = 0;
    haul__expect(c->out, count < 0 || (int64_t)array->count == count, name, -1, "it has another length");
    for (const json *v = array->child; v && !c->out->member; v = v->next)
        read(c, v, i++);
    HAUL__ASSERT(c->out->member || i == (int64_t)array->count);
    return !c->out->member;
}

static void read_device(check *c, const json *v, int64_t i)
{
    bool fine = v->kind == HAUL__JSON_STRING;
    for (int64_t d = 0; d < i; d++)
        fine = fine && strcmp(v->string, c->device[d]) != 0;
    c->device[i] = haul__expect(c->out, fine, "devices", i, "another name is expected") ? v->string : "";
}

static void read_group(check *c, const json *v, int64_t i)
{
    const bool fine = v->kind == HAUL__JSON_NUMBER && v->number < (uint64_t)c->operations;
    c->operation[i].group = haul__expect(c->out, fine, "groups", i, "out of range") ? (int64_t)v->number : 0;
    c->operation[i].place = -1;
}

static void read_cost(check *c, const json *v, int64_t i)
{
    operation *o = &c->operation[i], *g = &c->operation[o->group];
    haul__numbers(c->out, v, "costs", i, o->cost, (size_t)c->devices);
    for (int d = 0; d < c->devices; d++) {
        g->barred[d] = g->barred[d] || o->cost[d] < 0;
        haul__add(c->out, &g->own[d], o->cost[d] < 0 ? 0 : o->cost[d], "costs");
    }
}

static void read_tensor(check *c, const json *v, int64_t i)
{
    const size_t least = c->before_uses, count = v->kind == HAUL__JSON_ARRAY && v->count > least ? v->count : least;
    int64_t     *x = c->use, *time = x + TENSOR;
    if (!haul__numbers(c->out, v, "copies", i, x, count))
        return;
    bool fine = x[0] >= x[1] && x[0] <= x[2] && x[2] < c->operations; /* from <= made <= until */
    for (size_t k = 1; k < v->count; k++)
        fine = fine && x[k] >= (k < least ? 0 : x[0]) && (k < least || x[k] <= x[2]);
    haul__expect(c->out, fine, "copies", i, "out of range, or used before it is made or after its end");
    c->tensor[i] = (tensor){x[0], x[1], x[2], x[3], x[4], .use = x + least, .end = x + v->count};
    for (int to = 0; to < c->devices; to++)
        for (int from = 0; from < c->devices; from++)
            c->tensor[i].copy[from][to] = from == to ? 0 : *time++;
    HAUL__ASSERT(time == x + least);
    c->use += v->count;
}

static void read_place(check *c, const json *v, int64_t i)
{
    const json *name = haul__field(c->out, v, "device", HAUL__JSON_STRING);
    operation  *g = &c->operation[c->operation[i].group];
    int         d = c->devices - 1;
    while (d > 0 && name->string && strcmp(name->string, c->device[d]) != 0)
        d--;
    haul__expect(c->out, name->string && !strcmp(name->string, c->device[d]), "operations", i, "its device is unknown");
    haul__expect(c->out, g->place < 0 || g->place == d, "operations", i, "its group is on another device");
    haul__expect(c->out, c->operation[i].cost[d] >= 0, "operations", i, "it cannot run on its device");
    HAUL__ASSERT(0 <= d && d < c->devices);
    g->place = d;
}

static void read_price(check *c, const json *v, int64_t i)
{
    int64_t *x = c->price[i % PRICES];
    bool     fine = haul__numbers(c->out, v, "prices", i, x, 3) && i < PRICES && x[0] >= 0 && x[0] < c->devices;
    fine = fine && x[1] >= 0 && x[1] < c->operations && x[2] > 0 && c->limit[x[0]] >= 0 &&
           x[2] <= HAUL__FIELD_MOST / (c->limit[x[0]] / 1024 + 1);
    c->prices += haul__expect(c->out, fine, "prices", i, "out of range, or its device has no limit");
}

static int place_of(const check *c, int64_t i)
{
    return c->operation[c->operation[i].group].place;
}

/* The first and the last use of a tensor by a group, or for group -1 by all on a device. False if there is none. */
static bool span(const check *c, const tensor *t, int64_t group, int device, int64_t *first, int64_t *last)
{
    *first = INT64_MAX;
    *last = -1;
    for (const int64_t *u = t->use; u < t->end; u++) {
        const bool counts = group < 0 ? place_of(c, *u) == device : c->operation[*u].group == group;
        *first = counts && *u < *first ? *u : *first;
        *last = counts && *u > *last ? *u : *last;
    }
    return *last >= 0;
}

static int64_t cost_of(check *c)
{
    int64_t sum = 0, first, last;
    for (int64_t i = 0; i < c->operations; i++)
        haul__add(c->out, &sum, c->operation[i].cost[place_of(c, i)], "costs");
    for (const tensor *t = c->tensor; t < c->tensor + c->tensors; t++) {
        const int home = place_of(c, t->made);
        for (int d = 0; d < c->devices; d++)
            haul__add(c->out, &sum, d != home && span(c, t, -1, d, &first, &last) ? t->copy[home][d] : 0, "copies");
    }
    return sum;
}

/* A tensor is resident where it is made from `from` to `until`, and elsewhere from its first to its last use. */
static void check_limit(check *c, int device)
{
    int64_t now = 0;
    for (const tensor *t = c->tensor; t < c->tensor + c->tensors; t++) {
        const bool home = place_of(c, t->made) == device;
        int64_t    first = t->from, last = t->until;
        if (!home && !span(c, t, -1, device, &first, &last))
            continue;
        haul__add(c->out, &c->operation[first].change, home ? t->home_bytes : t->bytes, "copies");
        haul__add(c->out, &c->operation[last + 1].change, home ? -t->home_bytes : -t->bytes, "copies");
    }
    for (int64_t i = 0; i <= c->operations; i++) {
        haul__add(c->out, &now, c->operation[i].change, "copies");
        c->operation[i].change = 0;
        haul__expect(c->out, c->limit[device] < 0 || now <= c->limit[device], "limits", device, "more is needed");
    }
}

/* Users pay for copies. For memory at a price's moment, the producer pays, and users whose uses are around it. */
static void read_share(check *c, const json *v, int64_t i)
{
    int64_t x[5] = {0}, first, last; /* tensor, device, price or -1, group, amount */
    bool    fine = haul__numbers(c->out, v, "shares", i, x, 5) && x[0] >= 0 && x[0] < c->tensors && x[1] >= 0;
    fine = fine && x[1] < c->devices && x[2] < c->prices && x[3] >= 0 && x[3] < c->operations && x[4] >= 0;
    if (!haul__expect(c->out, fine, "shares", i, "out of range"))
        return;
    tensor        *t = &c->tensor[x[0]];
    const bool     home = c->operation[t->made].group == x[3], uses = span(c, t, x[3], 0, &first, &last);
    const int64_t *p = x[2] < 0 ? NULL : c->price[x[2]];
    const bool     then = p && (home ? t->from : first) <= p[1] && p[1] <= (home ? t->until : last);
    haul__expect(c->out, p ? then && p[0] == x[1] : uses && !home, "shares", i, "the group owes nothing");
    haul__add(c->out, &c->operation[x[3]].own[x[1]], x[4], "shares");
    haul__add(c->out, p ? &t->held[x[2]] : &t->paid[x[1]], x[4], "shares");
    haul__add(c->out, &t->held_by_users[p ? x[2] : 0], p && !home ? x[4] : 0, "shares");
    const bool dear = p && (t->held[x[2]] - 1) / p[2] >= t->home_bytes / 1024 && t->held[x[2]];
    const bool most = p && (t->held_by_users[x[2]] - 1) / p[2] >= t->bytes / 1024 && t->held_by_users[x[2]];
    haul__expect(c->out, !dear && !most, "shares", i, "above the price of the memory");
}

static int64_t bound_of(check *c)
{
    int64_t bound = 0;
    for (const tensor *t = c->tensor; t < c->tensor + c->tensors; t++)
        for (int k = 0; k < c->devices * c->devices; k++) {
            const int64_t from = k / c->devices, to = k % c->devices, excess = t->paid[to] - t->copy[from][to];
            haul__add(c->out, &c->operation[c->operation[t->made].group].own[from], excess > 0 ? -excess : 0, "shares");
        }
    for (const operation *g = c->operation; g < c->operation + c->operations; g++) {
        int least = g->place < 0 ? 0 : g->place;
        for (int d = 0; d < c->devices; d++)
            least = !g->barred[d] && g->own[d] < g->own[least] ? d : least;
        haul__add(c->out, &bound, g->place < 0 ? 0 : g->own[least], "shares");
    }
    for (int64_t k = 0; k < c->prices; k++)
        haul__add(c->out, &bound, -c->price[k][2] * ((c->limit[c->price[k][0]] + 1023) / 1024), "prices");
    return bound;
}

static bool read_graph(check *c, const json *graph)
{
    const json *copies = haul__field(c->out, graph, "copies", HAUL__JSON_ARRAY);
    const json *devices = haul__field(c->out, graph, "devices", HAUL__JSON_ARRAY);
    size_t      count = 1;
    c->devices = devices->count >= 2 && devices->count <= DEVICES ? (int)devices->count : 2;
    c->before_uses = (size_t)(TENSOR + c->devices * (c->devices - 1));
    for (const json *v = copies->child; v; v = v->next)
        count += v->count + c->before_uses;
    c->tensors = (int64_t)copies->count;
    c->operation = haul__calloc((size_t)c->operations + 1, sizeof *c->operation);
    c->tensor = haul__calloc(copies->count + 1, sizeof *c->tensor);
    c->use = c->uses = haul__calloc(count, sizeof *c->uses);
    return haul__expect(c->out, c->operation && c->tensor && c->use, "graph", -1, "memory ran out") &&
           each(c, graph, "devices", read_device, c->devices) && each(c, graph, "groups", read_group, c->operations) &&
           haul__numbers(c->out, haul__field(c->out, graph, "limits", HAUL__JSON_ARRAY), "limits", -1, c->limit,
                         (size_t)c->devices) &&
           each(c, graph, "costs", read_cost, c->operations) && each(c, graph, "copies", read_tensor, -1);
}

static void check_all(check *c, const json *file)
{
    const json   *graph = haul__field(c->out, file, "graph", HAUL__JSON_OBJECT);
    const int64_t cost_ps = (int64_t)haul__field(c->out, file, "cost_ps", HAUL__JSON_NUMBER)->number;
    const int64_t bound_ps = (int64_t)haul__field(c->out, file, "bound_ps", HAUL__JSON_NUMBER)->number;
    c->operations = (int64_t)haul__field(c->out, file, "operations", HAUL__JSON_ARRAY)->count;
    if (c->out->member || !read_graph(c, graph) || !each(c, file, "operations", read_place, -1))
        return;
    haul__expect(c->out, cost_of(c) == cost_ps, "cost_ps", -1, "the placement has another cost");
    for (int d = 0; d < c->devices; d++)
        check_limit(c, d);
    if (!each(c, file, "prices", read_price, -1) || !each(c, file, "shares", read_share, -1))
        return;
    if (haul__expect(c->out, bound_ps >= 0 && bound_ps <= cost_ps && bound_of(c) == bound_ps, "bound_ps", -1,
                     "the shares prove another bound"))
        *c->out = (haul__verdict){.cost = cost_ps, .bound = bound_ps};
}

bool haul__verify(const haul__json *certificate, haul__verdict *out)
{
    check c = {.out = out};
    *out = (haul__verdict){0};
    check_all(&c, certificate);
    haul__free(c.operation);
    haul__free(c.tensor);
    haul__free(c.uses);
    return !out->member;
}
