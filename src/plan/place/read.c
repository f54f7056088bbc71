/* Reads certificates. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "plan/place/certificate.h"
#include "plan/verify/verify.h"

/* A certificate that was verified: its numbers are in their ranges. */
typedef struct reading {
    const haul__json  *file, *graph;
    const char        *source, *operation;
    haul__place_graph *g;
    int               *first; /* the first operation of each group of the file; -1: none yet */
} reading;

static const char *text_of(const haul__json *object, const char *name)
{
    const haul__json *m = haul__json_member(object, name);
    return m && m->kind == HAUL__JSON_STRING ? m->string : NULL;
}

static haul_status refuse(const reading *r, const char *member)
{
    return haul__fail(
        HAUL_FORMAT, r->operation, "path",
        "%s is not a plan: \"%s\" is missing or of another type; haul_plan_save and haul plan --certificate "
        "write plans",
        r->source, member);
}

/* Sections live as long as the process. */
static const char *section_of(const haul__json *v)
{
    static const char *const sections[] = {"backward pass", "optimizer step"};
    const char              *text = text_of(v, "section");
    for (int i = 0; text && i < 2; i++)
        if (!strcmp(sections[i], text))
            return sections[i];
    return "";
}

static int64_t number_of(const haul__json *v, int64_t none)
{
    return v->kind == HAUL__JSON_NUMBER ? (int64_t)v->number : none;
}

static haul_status read_operation(reading *r, const haul__json *v, const haul__json *cost, int64_t group)
{
    const char *name = text_of(v, "name"), *module = text_of(v, "module");
    if (!name || !module)
        return refuse(r, name ? "module" : "name");
    haul__place_operation o = {.section = section_of(v),
                               .outside = haul__json_member(v, "outside") != NULL,
                               .call = strncmp(name, "haul_", 5) == 0 ? 0 : -1};
    snprintf(o.name, sizeof o.name, "%s", name);
    snprintf(o.module, sizeof o.module, "%s", module);
    for (int d = 0; cost; d++, cost = cost->next)
        o.cost[d] = number_of(cost, HAUL__PLACE_NEVER);
    const int i = haul__place_add_operation(r->g, &o);
    if (i < 0)
        return haul_error_status();
    HAUL__ASSERT(group >= 0);
    if (r->first[group] >= 0)
        haul__place_join(r->g, r->first[group], i);
    else
        r->first[group] = i;
    return HAUL_OK;
}

static haul__place_role role_of(const haul__place_operation *o)
{
    static const struct {
        const char      *name;
        haul__place_role role;
    } roles[] = {{"parameter", HAUL__PLACE_PARAMETER},
                 {"gradient", HAUL__PLACE_GRADIENT},
                 {"optimizer state", HAUL__PLACE_STATE},
                 {"data", HAUL__PLACE_DATA},
                 {"buffer", HAUL__PLACE_OTHER}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(roles[i].name, o->name))
            return roles[i].role;
    return HAUL__PLACE_ACTIVATION;
}

static haul_status read_tensor(reading *r, const haul__json *v)
{
    enum { FIELDS = 5 };
    int64_t            x[FIELDS];
    haul__place_copies copies;
    const haul__json  *at = v->child;
    for (int i = 0; i < FIELDS; i++, at = at->next)
        x[i] = number_of(at, 0);
    haul__place_tensor t = {.producer = (int)x[0],
                            .from = (int)x[1],
                            .until = (int)x[2],
                            .home_bytes = x[3],
                            .bytes = x[4],
                            .role = role_of(&r->g->operations[x[0]])};
    for (int to = 0; to < r->g->device_count; to++)
        for (int from = 0; from < r->g->device_count; from++) {
            copies.ps[from][to] = 0;
            if (from != to) {
                copies.ps[from][to] = number_of(at, 0);
                at = at->next;
            }
        }
    const int   tensor = haul__place_add_tensor(r->g, &t, &copies);
    haul_status status = tensor < 0 ? haul_error_status() : HAUL_OK;
    for (; at && !status; at = at->next)
        status = haul__place_add_use(r->g, tensor, (int)at->number);
    HAUL__ASSERT(status || r->g->tensors[tensor].until == (int)x[2]); /* no use is later: it was verified */
    return status;
}

static haul_status read_graph(reading *r)
{
    const haul__json *v = haul__json_member(r->file, "operations")->child;
    const haul__json *cost = haul__json_member(r->graph, "costs")->child;
    const haul__json *limit = haul__json_member(r->graph, "limits")->child;
    haul_status       status = HAUL_OK;
    r->g->device_count = (int)haul__json_member(r->graph, "devices")->count;
    HAUL__ASSERT(r->g->device_count <= HAUL__PLACE_DEVICES);
    for (const haul__json *group = haul__json_member(r->graph, "groups")->child; v && !status; v = v->next) {
        status = read_operation(r, v, cost->child, (int64_t)group->number);
        cost = cost->next;
        group = group->next;
    }
    for (v = haul__json_member(r->graph, "copies")->child; v && !status; v = v->next)
        status = read_tensor(r, v);
    for (int d = 0; limit; d++, limit = limit->next)
        r->g->limit[d] = number_of(limit, 0);
    return status ? status : haul__place_finish(r->g);
}

/* ---- the placement ---- */

static haul_status read_proof(const reading *r, haul__place_proof *p)
{
    const haul__json *shares = haul__json_member(r->file, "shares"), *prices = haul__json_member(r->file, "prices");
    HAUL__ASSERT(prices->count <= HAUL__PLACE_PRICES);
    p->shares = haul__calloc(shares->count + 1, sizeof *p->shares);
    if (!p->shares)
        return haul__fail_memory(r->operation, shares->count * sizeof *p->shares);
    for (const haul__json *v = shares->child; v; v = v->next) {
        int64_t x[5], i = 0;
        for (const haul__json *n = v->child; n; n = n->next)
            x[i++] = number_of(n, -1);
        p->shares[p->share_count++] = (haul__place_share){(int)x[0], (int)x[1], (int)x[2], (int)x[3], x[4]};
    }
    p->share_room = p->share_count;
    for (const haul__json *v = prices->child; v; v = v->next)
        p->prices[p->price_count++] = (haul__place_price){(int)v->child->number, (int)v->child->next->number,
                                                          (int64_t)v->child->next->next->number};
    p->bound = (int64_t)haul__json_member(r->file, "bound_ps")->number;
    return HAUL_OK;
}

static uint8_t device_of(const reading *r, const char *name)
{
    uint8_t number = 0;
    for (const haul__json *d = haul__json_member(r->graph, "devices")->child; strcmp(d->string, name); d = d->next)
        number++;
    return number;
}

static haul_status read_placement(const reading *r, haul__placement *p)
{
    size_t      i = 0;
    haul_status status = haul__place_single(r->g, 0, p);
    if (status)
        return status;
    for (const haul__json *v = haul__json_member(r->file, "operations")->child; v; v = v->next, i++)
        p->device[r->g->operations[i].group] = device_of(r, text_of(v, "device"));
    status = haul__place_measure(r->g, p);
    return status ? status : read_proof(r, &p->proof);
}

/* ---- the whole ---- */

static haul_status check(const reading *r)
{
    haul__verdict verdict;
    char          item[32] = "";
    if (!text_of(r->file, "program") || !text_of(r->file, "machine"))
        return refuse(r, text_of(r->file, "program") ? "machine" : "program");
    if (haul__verify(r->file, &verdict))
        return HAUL_OK;
    if (verdict.item >= 0)
        snprintf(item, sizeof item, ", item %" PRId64, verdict.item);
    return haul__fail(HAUL_FORMAT, r->operation, "path", "%s is not proven: \"%s\"%s: %s", r->source, verdict.member,
                      item, verdict.why_not);
}

haul_status haul__certificate_read(const haul__json *file, const char *source, const char *operation,
                                   haul__place_graph *graph, haul__placement *placement)
{
    reading     r = {.file = file, .source = source, .operation = operation, .g = graph};
    haul_status status = check(&r);
    *graph = (haul__place_graph){0};
    *placement = (haul__placement){0};
    if (status)
        return status;
    const size_t count = haul__json_member(file, "operations")->count;
    r.graph = haul__json_member(file, "graph");
    r.first = haul__malloc((count + 1) * sizeof *r.first);
    if (!r.first)
        return haul__fail_memory(operation, count * sizeof *r.first);
    for (size_t i = 0; i < count; i++)
        r.first[i] = -1;
    status = read_graph(&r);
    if (!status)
        status = read_placement(&r, placement);
    haul__free(r.first);
    if (status) {
        haul__place_free(graph);
        haul__placement_free(placement);
    }
    return status;
}
