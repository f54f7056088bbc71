#include "plan/cluster/units.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "machine/picoseconds.h"
#include "plan/place/step.h"

#define OPERATION "haul plan"

#define MOST_BYTES (INT64_C(1) << 42) /* of all parameters or gradients: products with ranks do not overflow */

int64_t haul__units_time(const haul__units *u, int operation)
{
    const int64_t *cost = u->graph.operations[operation].cost;
    return cost[u->side] == HAUL__PLACE_NEVER ? cost[0] : cost[u->side];
}

/* ---- units ---- */

/* -1: none has that path. */
static int find(const haul__units *u, const char *path)
{
    for (int i = u->count - 1; i >= 0; i--)
        if (!strcmp(u->items[i].name, path))
            return i;
    return -1;
}

/* The unit that a module is, or is within; "": none. */
static const char *unit_of(const haul__units_paths *paths, const char *module)
{
    for (int i = 0; i < paths->count; i++) {
        const size_t length = strlen(paths->items[i]);
        if (!length || (!strncmp(module, paths->items[i], length) && (module[length] == '.' || !module[length])))
            return paths->items[i];
    }
    return paths->items ? "" : module;
}

static bool is_forward(const haul__place_operation *o)
{
    return o->call >= 0 && !*o->section;
}

/* The modules that the forward pass calls. A step without modules is one unit. */
static haul_status list_units(haul__units *u, const haul__units_paths *paths, size_t backward)
{
    HAUL__ASSERT(backward <= u->graph.operation_count);
    size_t room = 0;
    for (size_t i = 0; i < backward; i++) {
        const haul__place_operation *o = &u->graph.operations[i];
        const char                  *name = unit_of(paths, o->module);
        if (!is_forward(o) || o->outside || (paths->items && !*name) || find(u, name) >= 0)
            continue;
        if (!haul__grow(&u->items, &room, (size_t)u->count + 1, sizeof *u->items))
            return haul__fail_memory(OPERATION, room * sizeof *u->items);
        u->items[u->count++] = (haul__unit){.name = name};
    }
    if (u->count)
        return HAUL_OK;
    if (!haul__grow(&u->items, &room, 1, sizeof *u->items))
        return haul__fail_memory(OPERATION, sizeof *u->items);
    u->items[u->count++] = (haul__unit){.name = ""};
    return HAUL_OK;
}

/* Operations outside modules belong to the module before them; what computes the loss, to the last one. */
static void assign(haul__units *u, const haul__units_paths *paths, size_t backward)
{
    int before = 0;
    for (size_t i = 0; i < u->graph.operation_count; i++) {
        const haul__place_operation *o = &u->graph.operations[i];
        const int                    named = *o->module ? find(u, unit_of(paths, o->module)) : -1;
        if (i == backward)
            before = u->count - 1;
        u->of[i] = named >= 0 ? named : o->call < 0 ? 0 : before;
        HAUL__ASSERT(0 <= u->of[i] && u->of[i] < u->count);
        if (o->call >= 0 && u->phase[i] != HAUL__UNIT_UPDATE)
            before = u->of[i];
    }
}

/* Updates that are made within the backward pass belong to it, as they take its time. */
static void find_phases(haul__units *u, size_t *backward)
{
    const size_t n = u->graph.operation_count;
    size_t       first = n, last = 0;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(u->graph.operations[i].section, "backward pass")) {
            first = i < first ? i : first;
            last = i;
        }
    for (size_t i = 0; i < n; i++)
        u->phase[i] = i < first ? HAUL__UNIT_FORWARD : i <= last ? HAUL__UNIT_BACKWARD : HAUL__UNIT_UPDATE;
    *backward = first;
    HAUL__ASSERT(first == n || first <= last);
}

static void add_times(haul__units *u)
{
    for (size_t i = 0; i < u->graph.operation_count; i++) {
        haul__unit   *x = &u->items[u->of[i]];
        int64_t      *ps[] = {&x->forward_ps, &x->backward_ps, &x->update_ps};
        const int64_t time = u->graph.operations[i].call < 0 ? 0 : haul__units_time(u, (int)i);
        *ps[u->phase[i]] = haul__ps_add(*ps[u->phase[i]], time);
        if (u->phase[i] == HAUL__UNIT_UPDATE && !*u->graph.operations[i].section)
            x->metrics_ps = haul__ps_add(x->metrics_ps, time);
    }
}

/* ---- memory and borders ---- */

static void add_memory(haul__unit *x, const haul__place_tensor *t)
{
    x->parameters += t->role == HAUL__PLACE_PARAMETER ? t->home_bytes : 0;
    x->state += t->role == HAUL__PLACE_STATE ? t->home_bytes : 0;
    x->other += t->role == HAUL__PLACE_OTHER ? t->home_bytes : 0;
    if (t->role == HAUL__PLACE_PARAMETER && t->home_bytes) {
        x->largest = larger(x->largest, t->home_bytes);
        x->count++;
    }
}

/* An activation, or its gradient, of one module that others use crosses each border between them. */
static void add_borders(haul__units *u, const haul__place_tensor *t)
{
    const int made = u->of[t->producer];
    int       first = made, last = made;
    for (int k = t->use; k < t->use + t->use_count; k++) {
        const int user = u->graph.uses[k].operation;
        first = (int)smaller(first, u->of[user]);
        last = (int)larger(last, u->of[user]);
    }
    HAUL__ASSERT(first <= made && made <= last && last < u->count);
    for (int i = made; i < last; i++) {
        u->items[i].up += t->bytes;
        u->items[i].up_count++;
    }
    for (int i = first; i < made; i++) {
        u->items[i].down += t->bytes;
        u->items[i].down_count++;
    }
}

static void add_tensors(haul__units *u)
{
    for (size_t i = 0; i < u->graph.tensor_count; i++) {
        const haul__place_tensor *t = &u->graph.tensors[i];
        add_memory(&u->items[u->of[t->producer]], t);
        if (t->role == HAUL__PLACE_ACTIVATION && u->phase[t->producer] != HAUL__UNIT_UPDATE)
            add_borders(u, t);
    }
}

/* ---- gradients ---- */

/* The store of a parameter's gradient that the value writes; -1: it does not. */
static int64_t gradient_of(const haul_program *p, const haul_program_value *v)
{
    return v->store >= 0 && v->written && !strcmp(p->stores[v->store].role, "gradients") ? v->store : -1;
}

/* Sets the last operation of the passes that writes each gradient, counted from 1. */
static void find_writers(const haul__units *u, const haul_program *p, int64_t *writer)
{
    for (size_t i = 0; i < u->graph.operation_count; i++) {
        const int64_t call = u->graph.operations[i].call;
        if (call < 0 || u->phase[i] == HAUL__UNIT_UPDATE)
            continue;
        const haul_program_operation *o = &p->operations[call];
        for (int64_t v = o->value; v < o->value + o->operand_count + o->result_count; v++)
            if (gradient_of(p, &p->values[v]) >= 0)
                writer[p->values[v].store] = (int64_t)i + 1;
    }
}

static int earlier(const void *a, const void *b)
{
    const haul__unit_gradient *x = a, *y = b;
    return (x->operation > y->operation) - (x->operation < y->operation);
}

/* In the order in which the backward pass finishes them. */
static haul_status list_gradients(haul__units *u, const haul_program *p)
{
    int64_t *writer = haul__calloc((size_t)p->store_count + 1, sizeof *writer), bytes = 0, parameters = 0;
    u->gradients = haul__calloc((size_t)p->store_count + 1, sizeof *u->gradients);
    if (!writer || !u->gradients) {
        haul__free(writer);
        return haul__fail_memory(OPERATION, (size_t)p->store_count * sizeof *u->gradients);
    }
    find_writers(u, p, writer);
    for (int64_t s = 0; s < p->store_count; s++) {
        if (!writer[s])
            continue;
        const int operation = (int)writer[s] - 1, unit = u->of[operation];
        u->gradients[u->gradient_count++] = (haul__unit_gradient){unit, operation, p->stores[s].bytes};
        u->items[unit].gradients += p->stores[s].bytes;
        HAUL__ASSERT(unit < u->count && u->gradient_count <= p->store_count);
        bytes = smaller(bytes + smaller(p->stores[s].bytes, MOST_BYTES + 1), MOST_BYTES + 1);
    }
    haul__free(writer);
    for (int i = 0; i < u->count; i++)
        parameters = smaller(parameters + smaller(u->items[i].parameters, MOST_BYTES + 1), MOST_BYTES + 1);
    qsort(u->gradients, (size_t)u->gradient_count, sizeof *u->gradients, earlier);
    if (!bytes)
        return haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, "program",
                          "the step has no gradients of parameters; give a training step");
    return larger(bytes, parameters) > MOST_BYTES
               ? haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, "program",
                            "parameters or gradients take more than 4 TiB; give a smaller network")
               : HAUL_OK;
}

/* ---- the whole ---- */

haul_status haul__units_find(const haul_program *program, const haul__machine *machine, int device,
                             const haul__units_paths *paths, haul__units *out)
{
    const haul__place_step step = {.program = program,
                                   .machine = machine,
                                   .device_count = 2,
                                   .devices = {0, device ? device : machine->device_count > 1},
                                   .ahead = true};
    *out = (haul__units){.side = device != 0};
    haul_status  status = haul__place_graph_of(&step, &out->graph);
    const size_t n = status ? 0 : out->graph.operation_count;
    size_t       backward;
    out->of = haul__calloc(n + 1, sizeof *out->of);
    out->phase = haul__calloc(n + 1, sizeof *out->phase);
    if (!status && (!out->of || !out->phase))
        status = haul__fail_memory(OPERATION, n * sizeof *out->of);
    if (status)
        return status;
    find_phases(out, &backward);
    status = list_units(out, paths, backward);
    if (status)
        return status;
    HAUL__ASSERT(out->count > 0 && backward <= n);
    assign(out, paths, backward);
    add_times(out);
    add_tensors(out);
    return list_gradients(out, program);
}

int haul__units_most_stages(const haul__units *u)
{
    int count = 0;
    for (int i = 0; i < u->count; i++)
        count += u->items[i].gradients > 0;
    HAUL__ASSERT(count <= u->count);
    return count;
}

void haul__units_free(haul__units *u)
{
    haul__place_free(&u->graph);
    haul__free(u->items);
    haul__free(u->of);
    haul__free(u->phase);
    haul__free(u->gradients);
    *u = (haul__units){.count = 0};
}

/* Data too, which the loader has brought. */
static bool is_passing(const haul__place_tensor *t)
{
    return t->role == HAUL__PLACE_ACTIVATION || t->role == HAUL__PLACE_WORKSPACE || t->role == HAUL__PLACE_DATA;
}

/* A tensor of other units is copied to the device for its first use there, and stays until the last one. */
static void add_received(const haul__units *u, const haul__place_tensor *t, int first, int end, int64_t *change)
{
    int from = -1, until = -1;
    for (int k = t->use; k < t->use + t->use_count; k++) {
        const int user = u->graph.uses[k].operation;
        if (u->of[user] < first || u->of[user] >= end)
            continue;
        from = from < 0 ? user : (int)smaller(from, user);
        until = (int)larger(until, user);
    }
    if (from < 0)
        return;
    HAUL__ASSERT(from <= until);
    change[from] += t->bytes;
    change[until + 1] -= t->bytes;
}

haul__units_memory haul__units_memory_of(const haul__units *u, int first, int end, int64_t *change)
{
    const size_t       n = u->graph.operation_count;
    haul__units_memory out = {0};
    int64_t            now = 0;
    bool               forward = true;
    HAUL__ASSERT(0 <= first && first <= end && end <= u->count);
    memset(change, 0, (n + 1) * sizeof *change);
    for (size_t i = 0; i < u->graph.tensor_count; i++) {
        const haul__place_tensor *t = &u->graph.tensors[i];
        const int                 unit = u->of[t->producer];
        if (!is_passing(t))
            continue;
        if (unit < first || unit >= end) {
            add_received(u, t, first, end, change);
            continue;
        }
        change[t->from] += t->home_bytes;
        change[t->until + 1] -= t->home_bytes;
    }
    for (size_t i = 0; i < n; i++) {
        if (forward && u->phase[i] != HAUL__UNIT_FORWARD) {
            forward = false;
            out.saved = now;
        }
        now += change[i];
        HAUL__ASSERT(now >= 0);
        out.peak = larger(out.peak, now);
    }
    return out;
}
