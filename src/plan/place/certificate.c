#include "plan/place/certificate.h"
#include "base/assert.h"

#include <math.h>

#include "base/text/json_text.h"
#include "core/error.h"

/* A number, or null for the value that means none. */
static void put_unless(haul__json_text *t, const char *name, int64_t value, int64_t none)
{
    if (value == none)
        haul__json_number(t, name, NAN);
    else
        haul__json_integer(t, name, value);
}

static void put_costs(haul__json_text *t, const haul__place_graph *g)
{
    haul__json_begin(t, "costs", '[');
    for (size_t i = 0; i < g->operation_count; i++) {
        haul__json_begin(t, NULL, '[');
        for (int d = 0; d < g->device_count; d++)
            put_unless(t, NULL, g->operations[i].cost[d], HAUL__PLACE_NEVER);
        haul__json_end(t, ']');
    }
    haul__json_end(t, ']');
}

static void put_copy(haul__json_text *t, const haul__place_graph *g, const haul__place_tensor *x)
{
    const int64_t numbers[] = {x->producer, x->from, x->until, x->home_bytes, x->bytes};
    haul__json_begin(t, NULL, '[');
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        haul__json_integer(t, NULL, numbers[i]);
    for (int to = 0; to < g->device_count; to++)
        for (int from = 0; from < g->device_count; from++)
            if (from != to)
                haul__json_integer(t, NULL, haul__place_copy_time(g, x, from, to));
    for (int k = x->use; k < x->use + x->use_count; k++)
        haul__json_integer(t, NULL, g->uses[k].operation);
    haul__json_end(t, ']');
}

static void put_graph(haul__json_text *t, const haul__certificate *c)
{
    const haul__place_graph *g = c->graph;
    haul__json_begin(t, "graph", '{');
    haul__json_begin(t, "devices", '[');
    for (int d = 0; d < g->device_count; d++)
        haul__json_string(t, NULL, c->devices[d]);
    haul__json_end(t, ']');
    haul__json_begin(t, "groups", '[');
    for (size_t i = 0; i < g->operation_count; i++)
        haul__json_integer(t, NULL, g->operations[i].group);
    haul__json_end(t, ']');
    put_costs(t, g);
    haul__json_begin(t, "copies", '[');
    for (size_t i = 0; i < g->tensor_count; i++)
        put_copy(t, g, &g->tensors[i]);
    haul__json_end(t, ']');
    haul__json_begin(t, "limits", '[');
    for (int d = 0; d < g->device_count; d++)
        put_unless(t, NULL, g->limit[d], 0);
    haul__json_end(t, ']');
    haul__json_end(t, '}');
}

static void put_operations(haul__json_text *t, const haul__certificate *c)
{
    haul__json_begin(t, "operations", '[');
    for (size_t i = 0; i < c->graph->operation_count; i++) {
        const haul__place_operation *o = &c->graph->operations[i];
        HAUL__ASSERT(c->placement->device[o->group] < c->graph->device_count);
        haul__json_begin(t, NULL, '{');
        haul__json_string(t, "name", o->name);
        haul__json_string(t, "module", o->module);
        haul__json_string(t, "section", o->section);
        if (o->outside)
            haul__json_integer(t, "outside", 1);
        haul__json_string(t, "device", c->devices[c->placement->device[o->group]]);
        haul__json_end(t, '}');
    }
    haul__json_end(t, ']');
}

static void put_proof(haul__json_text *t, const haul__place_proof *p)
{
    haul__json_begin(t, "shares", '[');
    for (size_t i = 0; i < p->share_count; i++) {
        const haul__place_share *s = &p->shares[i];
        haul__json_begin(t, NULL, '[');
        haul__json_integer(t, NULL, s->tensor);
        haul__json_integer(t, NULL, s->device);
        put_unless(t, NULL, s->price, -1);
        haul__json_integer(t, NULL, s->group);
        haul__json_integer(t, NULL, s->amount);
        haul__json_end(t, ']');
    }
    haul__json_end(t, ']');
    haul__json_begin(t, "prices", '[');
    for (int i = 0; i < p->price_count; i++) {
        haul__json_begin(t, NULL, '[');
        haul__json_integer(t, NULL, p->prices[i].device);
        haul__json_integer(t, NULL, p->prices[i].moment);
        haul__json_integer(t, NULL, p->prices[i].price);
        haul__json_end(t, ']');
    }
    haul__json_end(t, ']');
}

static void put(haul__json_text *t, const void *of)
{
    const haul__certificate *c = of;
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "program", c->program);
    haul__json_string(t, "machine", c->machine);
    put_graph(t, c);
    put_operations(t, c);
    haul__json_integer(t, "cost_ps", c->placement->cost);
    haul__json_integer(t, "bound_ps", c->placement->proof.bound);
    put_proof(t, &c->placement->proof);
    haul__json_end(t, '}');
}

char *haul__certificate_text(const haul__certificate *c)
{
    size_t length;
    char  *text = haul__json_make(put, c, &length);
    if (!text)
        haul__fail_memory("haul plan", length + 1);
    return text;
}
