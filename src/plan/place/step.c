#include "plan/place/step.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "machine/picoseconds.h"
#include "record/work.h"

static const char OPERATION[] = "haul plan";

/* ---- stores ---- */

/* How the program uses a store; bits. HELD: the network has it, and the step only reads it. */
enum { UPDATED = 1, READ_BY_UPDATE = 2, READ = 4, WRITTEN = 8, HELD = 16 };

/* A part of a store's current version that was read. */
typedef struct part {
    int64_t first, end; /* elements */
    int     tensor, next;
} part;

typedef struct store {
    unsigned         uses;
    haul__place_role role;
    const char      *module; /* of the first operation with a module that reads it; "" */
    int              home;   /* its tensor with all its memory; -1: not made yet */
    int              maker;  /* the operation that made the current version */
    int              parts;  /* the first part that was read of it; -1: none */
    int              last;   /* the last operation that uses it */
} store;

typedef struct builder {
    const haul__place_step *step;
    const haul_program     *program;
    haul__place_graph      *g;
    store                  *stores;
    int                    *calls; /* the first operation of the graph for each one of the program; -1: none */
    part                   *parts;
    size_t                  part_count, part_room;
} builder;

static bool is_update(const haul_program_operation *o)
{
    return strcmp(o->section, "optimizer step") == 0;
}

static void note_use(builder *b, const haul_program_operation *o, const haul_program_value *v)
{
    if (v->store < 0)
        return;
    store *s = &b->stores[v->store];
    if (is_update(o))
        s->uses |= v->written ? UPDATED : READ_BY_UPDATE;
    else
        s->uses |= v->written ? WRITTEN : READ;
    if (!*s->module && *o->module)
        s->module = o->module;
}

static haul__place_role role_of(const haul_program_store *s, unsigned uses)
{
    if (s->kind == HAUL_STORE_SCRATCH)
        return HAUL__PLACE_WORKSPACE;
    HAUL__ASSERT(!(uses & HELD) || !(uses & (UPDATED | WRITTEN))); /* the step only reads it */
    if (uses & HELD)
        return HAUL__PLACE_PARAMETER;
    if (uses & UPDATED)
        return uses & (READ | WRITTEN) ? HAUL__PLACE_PARAMETER : HAUL__PLACE_STATE;
    if (uses & READ_BY_UPDATE)
        return HAUL__PLACE_GRADIENT;
    if (s->kind != HAUL_STORE_OUTSIDE)
        return HAUL__PLACE_ACTIVATION;
    return uses & WRITTEN ? HAUL__PLACE_OTHER : HAUL__PLACE_DATA;
}

static void classify(builder *b)
{
    const haul_program *p = b->program;
    for (int64_t i = 0; i < p->store_count; i++)
        b->stores[i] = (store){.module = "", .home = -1, .maker = -1, .parts = -1, .last = -1};
    for (int64_t i = 0; i < p->operation_count; i++) {
        const haul_program_operation *o = &p->operations[i];
        for (int64_t v = o->value; o->view_of < 0 && v < o->value + o->operand_count + o->result_count; v++)
            note_use(b, o, &p->values[v]);
    }
    for (int64_t i = 0; i < p->store_count; i++) {
        store *s = &b->stores[i];
        if (b->step->held && b->step->held[i] && s->uses && !(s->uses & (UPDATED | WRITTEN)))
            s->uses |= HELD;
        s->role = role_of(&p->stores[i], s->uses);
    }
}

/* Of memory from before the step: nothing holds it but the program, on the host. */
static bool is_data_of(const store *s)
{
    return !(s->uses & (UPDATED | WRITTEN | HELD));
}

/* ---- tensors ---- */

/* False if the step waits for copies of its data to the device. */
static bool copies_ahead(const builder *b, int to)
{
    const haul__machine_link *link = haul__machine_link_of(b->step->machine, 0, b->step->devices[to]);
    return b->step->ahead && link && link->overlap;
}

/* Loaders bring data in pinned memory, and copies to the host go to it. */
static haul__place_copies copies_of(const builder *b, bool is_data, int64_t bytes)
{
    const haul__place_step *s = b->step;
    haul__place_copies      copies = {.ps = {{0}}};
    for (int from = 0; from < s->device_count; from++)
        for (int to = 0; to < s->device_count; to++)
            if (from != to && !(is_data && from == 0 && copies_ahead(b, to)))
                copies.ps[from][to] =
                    haul__machine_copy_time(s->machine, s->devices[from], s->devices[to], bytes, is_data || to == 0);
    return copies;
}

/* A tensor of a store that its maker makes. `whole` is the one with the memory of the store. Returns -1 on failure. */
static int add_tensor(builder *b, int64_t index, int64_t bytes, bool whole)
{
    const haul_program_store *s = &b->program->stores[index];
    const store              *x = &b->stores[index];
    const haul__place_tensor  t = {.producer = x->maker,
                                   .from = s->kind == HAUL_STORE_OUTSIDE && whole ? 0 : x->maker,
                                   .until = x->maker,
                                   .bytes = bytes,
                                   .home_bytes = whole ? larger(s->bytes, s->block_bytes) : 0,
                                   .role = x->role};
    const haul__place_copies  copies = copies_of(b, s->kind == HAUL_STORE_OUTSIDE && is_data_of(x), bytes);
    HAUL__ASSERT(t.from <= t.until && bytes >= 0);
    return haul__place_add_tensor(b->g, &t, &copies);
}

/* The elements between the first and the last one of a value. */
static void span_of(const haul_program_value *v, int64_t *first, int64_t *end)
{
    HAUL__ASSERT(v->store >= 0 && v->offset >= 0);
    *first = v->offset;
    *end = v->offset + 1;
    for (int d = 0; d < v->shape.ndim; d++) {
        const int64_t reach = (v->shape.dims[d] - 1) * v->strides[d];
        *(reach < 0 ? first : end) += reach;
    }
}

/* A part of the store, of which nothing is read yet. */
static part part_of(const haul_program_store *s, const haul_program_value *v, int64_t *bytes)
{
    const int64_t bits = haul_dtype_bits(v->dtype);
    part          p = {.tensor = -1};
    span_of(v, &p.first, &p.end);
    *bytes = haul__ceil_div((p.end - p.first) * bits, 8);
    if (p.first > 0 || *bytes < s->bytes)
        return p;
    *bytes = s->bytes;
    return (part){.end = INT64_MAX, .tensor = -1};
}

/* The tensor of what the value is of the store's current version; -1 on failure. */
static int tensor_of(builder *b, const haul_program_value *v)
{
    store  *x = &b->stores[v->store];
    int64_t bytes;
    part    p = part_of(&b->program->stores[v->store], v, &bytes);
    HAUL__ASSERT(x->home >= 0 && x->maker >= 0 && p.first < p.end);
    for (int i = x->parts; i >= 0; i = b->parts[i].next)
        if (b->parts[i].first == p.first && b->parts[i].end == p.end)
            return b->parts[i].tensor;
    if (!haul__grow(&b->parts, &b->part_room, b->part_count + 1, sizeof *b->parts)) {
        haul__fail_memory(OPERATION, sizeof *b->parts);
        return -1;
    }
    p.next = x->parts;
    p.tensor = add_tensor(b, v->store, bytes, false);
    b->parts[b->part_count] = p;
    x->parts = p.tensor < 0 ? x->parts : (int)b->part_count++;
    return p.tensor;
}

/* The operation makes the store: its memory is resident from now on, and its values can be used. */
static haul_status make_store(builder *b, int64_t index, int operation)
{
    store *x = &b->stores[index];
    HAUL__ASSERT(x->home < 0 && x->maker < 0); /* a store is made once */
    x->maker = x->last = operation;
    x->home = add_tensor(b, index, b->program->stores[index].bytes, true);
    if (x->home < 0 || !haul__grow(&b->parts, &b->part_room, b->part_count + 1, sizeof *b->parts))
        return x->home < 0 ? haul_error_status() : haul__fail_memory(OPERATION, sizeof *b->parts);
    x->parts = (int)b->part_count++;
    b->parts[x->parts] = (part){.end = INT64_MAX, .tensor = x->home, .next = -1};
    return HAUL_OK;
}

/* An operation without cost for memory that no operation of the step makes. Data is on the host. */
static haul_status add_source(builder *b, int64_t index)
{
    static const char *const names[HAUL__PLACE_ROLES] = {"parameter", "gradient", "optimizer state", "",
                                                         "",          "data",     "buffer"};
    const store             *s = &b->stores[index];
    const bool               is_data = is_data_of(s);
    haul__place_operation    x = {.section = "", .call = -1};
    for (int d = 1; d < b->step->device_count; d++)
        x.cost[d] = is_data ? HAUL__PLACE_NEVER : 0;
    snprintf(x.name, sizeof x.name, "%s", is_data ? "data" : names[s->role]);
    snprintf(x.module, sizeof x.module, "%s", is_data ? "" : s->module);
    const int operation = haul__place_add_operation(b->g, &x);
    return operation < 0 ? haul_error_status() : make_store(b, index, operation);
}

/* ---- operations ---- */

int64_t haul__place_timed(const haul_program *p)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->operation_count; i++)
        count += haul__program_takes_time(&p->operations[i]);
    return count;
}

int64_t haul__place_learnt(const haul_program *p, const haul__machine *machine, int device)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->operation_count; i++) {
        const haul__machine_work w = haul__program_work_of(p, &p->operations[i]);
        count += haul__program_takes_time(&p->operations[i]) && haul__machine_learnt_of(machine, device, &w);
    }
    return count;
}

/* A part of an operation: its shares of the launches, and of the rest of the time. */
typedef struct portion {
    double launches, rest;
} portion;

static void cost_of(const builder *b, const haul_program_operation *o, portion share, int64_t cost[HAUL__PLACE_DEVICES])
{
    const haul__machine_work w = haul__program_work_of(b->program, o);
    for (int d = 0; d < b->step->device_count; d++) {
        const haul__machine_device *device = &b->step->machine->devices[b->step->devices[d]];
        const double                all = (double)haul__machine_time(b->step->machine, b->step->devices[d], &w);
        const double                launches = fmin(all, (double)haul__ps_of_waits(device->launch_ns, w.commands));
        HAUL__ASSERT(all >= 0 && launches >= 0);
        cost[d] = (int64_t)(share.launches * launches + share.rest * (all - launches));
    }
}

static haul_status read_value(builder *b, const haul_program_value *v, int operation)
{
    if (v->store < 0 || b->stores[v->store].home < 0)
        return HAUL_OK;
    const int tensor = tensor_of(b, v);
    b->stores[v->store].last = operation;
    return tensor < 0 ? haul_error_status() : haul__place_add_use(b->g, tensor, operation);
}

/* True if the operation adds to the gradient of a tensor with several uses, in the gradient's memory. Where a plan has
 * the sum on another device, the pass makes a new tensor there (autograd/backward.c). Gradients of parameters stay with
 * them. */
static bool adds_up(const builder *b, const haul_program_operation *o, const haul_program_value *v)
{
    const haul_program_store *s = &b->program->stores[v->store];
    int64_t                   bytes;
    const bool                by_pass = !strcmp(o->section, "backward pass") && !*o->composite;
    return by_pass && !strcmp(o->name, "haul_add") && s->kind != HAUL_STORE_OUTSIDE && !s->outlives &&
           b->stores[v->store].role == HAUL__PLACE_ACTIVATION && part_of(s, v, &bytes).end == INT64_MAX;
}

/* The values of the store so far are a tensor that the operation reads, and their memory ends: on the same device the
 * operation writes to it. */
static haul_status begin_tensor(builder *b, int64_t index, int operation)
{
    store                   *x = &b->stores[index];
    haul__place_tensor      *values = &b->g->tensors[x->home];
    const haul__place_copies none = {.ps = {{0}}};
    haul__place_tensor       memory = *values;
    memory.until = operation - 1;
    HAUL__ASSERT(memory.from <= memory.until);
    memory.bytes = 0;
    values->home_bytes = 0;
    x->home = x->maker = x->parts = -1;
    return haul__place_add_tensor(b->g, &memory, &none) < 0 ? haul_error_status() : make_store(b, index, operation);
}

/* What the operation writes is a new version. The operation is in the group of the store's memory, unless a sum may
 * have other memory. */
static haul_status write_value(builder *b, const haul_program_operation *o, const haul_program_value *v, int operation)
{
    if (v->store < 0 || !v->written)
        return HAUL_OK;
    store *x = &b->stores[v->store];
    if (x->home < 0)
        return make_store(b, v->store, operation);
    if (x->maker != operation && adds_up(b, o, v))
        return begin_tensor(b, v->store, operation);
    if (x->maker != operation) {
        haul__place_join(b->g, b->g->tensors[x->home].producer, operation);
        x->parts = -1;
    }
    HAUL__ASSERT(x->home >= 0 && x->maker <= operation);
    x->maker = x->last = operation;
    return HAUL_OK;
}

/* True for an operation by which a parameter takes its gradient: it computes where the parameter is. */
static bool takes_gradient(const haul__place_operation *o)
{
    static const char *const names[] = {"haul_to_order", "haul_add", "haul_to"};
    bool                     found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found = found || !strcmp(o->name, names[i]);
    return found && o->outside && !strcmp(o->section, "backward pass");
}

/* Parameters, states and gradients of one update stay together. */
static void join_update(builder *b, const haul_program_value *values, int count, int operation)
{
    for (int i = 0; i < count; i++)
        if (values[i].store >= 0) {
            const haul_program_store *s = &b->program->stores[values[i].store];
            const store              *x = &b->stores[values[i].store];
            if (x->role != HAUL__PLACE_GRADIENT)
                continue;
            if (s->kind == HAUL_STORE_OUTSIDE ? (x->uses & WRITTEN) != 0 : takes_gradient(&b->g->operations[x->maker]))
                haul__place_join(b->g, b->g->tensors[x->home].producer, operation);
        }
}

static const char *module_of(const builder *b, const haul_program_operation *o, const haul_program_value *values,
                             int count)
{
    for (int i = 0; !*o->module && i < count; i++)
        if (values[i].store >= 0 && values[i].written)
            return b->stores[values[i].store].module;
    return o->module;
}

/* Some operands of the operation, and all its results if it has no other parts. */
static haul_status add_operation(builder *b, int64_t call, const haul_program_value *values, int count, portion share)
{
    const haul_program_operation *o = &b->program->operations[call];
    HAUL__ASSERT(0 <= call && call < b->program->operation_count);
    haul__place_operation x = {.section = o->section, .outside = !*o->module, .call = call};
    for (int i = 0; i < count && i < o->operand_count; i++)
        if (values[i].store >= 0 && !values[i].written && b->stores[values[i].store].home < 0 &&
            add_source(b, values[i].store))
            return haul_error_status();
    snprintf(x.name, sizeof x.name, "%s", o->name);
    snprintf(x.module, sizeof x.module, "%s", module_of(b, o, values, count));
    cost_of(b, o, share, x.cost);
    const int   operation = haul__place_add_operation(b->g, &x);
    haul_status status = operation < 0 ? haul_error_status() : HAUL_OK;
    for (int i = 0; !status && i < count && i < o->operand_count; i++)
        status = read_value(b, &values[i], operation);
    for (int i = 0; !status && i < count; i++)
        status = write_value(b, o, &values[i], operation);
    if (!status && is_update(o))
        join_update(b, values, count, operation);
    b->calls[call] = b->calls[call] < 0 ? operation : b->calls[call];
    return status;
}

/* ---- operations on several parameters ---- */

static bool same_role(const haul_program_value *a, const haul_program_value *b)
{
    return a->written == b->written && (a->store < 0) == (b->store < 0);
}

/* The operands of one parameter, if the operation updates several: the least number with which the roles of the
 * operands repeat. All operands otherwise. */
static int period_of(const haul_program *p, const haul_program_operation *o)
{
    const haul_program_value *v = &p->values[o->value];
    for (int period = 2; is_update(o) && period < o->operand_count; period++) {
        bool repeats = o->operand_count % period == 0 && v[0].written;
        for (int i = period; repeats && i < o->operand_count; i++)
            repeats = same_role(&v[i], &v[i - period]);
        if (repeats)
            return period;
    }
    return o->operand_count;
}

/* The state of a parameter belongs to the parameter's module. */
static void name_states(builder *b, const haul_program_operation *o)
{
    const haul_program_value *v = &b->program->values[o->value];
    const int                 period = period_of(b->program, o);
    for (int i = 0; is_update(o) && i < o->operand_count; i++) {
        HAUL__ASSERT(period > 0 && o->operand_count % period == 0);
        const haul_program_value *parameter = &v[i - i % period];
        if (v[i].store >= 0 && parameter->store >= 0 && !*b->stores[v[i].store].module)
            b->stores[v[i].store].module = b->stores[parameter->store].module;
    }
}

static double bytes_of(const haul_program *p, const haul_program_value *values, int count)
{
    double bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += values[i].store < 0 ? 0 : (double)p->stores[values[i].store].bytes;
    return bytes;
}

static haul_status add_call(builder *b, int64_t call)
{
    const haul_program           *p = b->program;
    const haul_program_operation *o = &p->operations[call];
    const haul_program_value     *v = &p->values[o->value];
    const int                     period = period_of(p, o);
    if (o->view_of >= 0)
        return HAUL_OK;
    if (period == o->operand_count)
        return add_operation(b, call, v, o->operand_count + o->result_count, (portion){1, 1});
    HAUL__ASSERT(period > 0 && o->operand_count % period == 0);
    const double all = bytes_of(p, v, o->operand_count);
    haul_status  status = HAUL_OK;
    for (int i = 0; !status && i < o->operand_count; i += period)
        status =
            add_operation(b, call, v + i, period,
                          (portion){(double)period / o->operand_count, all > 0 ? bytes_of(p, v + i, period) / all : 0});
    return status;
}

/* ---- the whole ---- */

/* A module moves as a whole: its parameters and buffers stay together. States stay with their parameters. */
static void join_module(builder *b, int64_t index)
{
    const store *x = &b->stores[index];
    const bool   moves = !is_data_of(x) && x->role != HAUL__PLACE_STATE && *x->module;
    for (int64_t i = index - 1; moves && i >= 0; i--) {
        const store *y = &b->stores[i];
        if (y->home < 0 || is_data_of(y) || y->role == HAUL__PLACE_STATE || strcmp(y->module, x->module) != 0)
            continue;
        haul__place_join(b->g, b->g->tensors[x->home].producer, b->g->tensors[y->home].producer);
        return;
    }
}

static haul_status add_sources(builder *b)
{
    haul_status status = HAUL_OK;
    for (int64_t i = 0; !status && i < b->program->store_count; i++)
        if (b->program->stores[i].kind == HAUL_STORE_OUTSIDE && b->stores[i].uses) {
            status = add_source(b, i);
            if (!status)
                join_module(b, i);
        }
    return status;
}

/* Scratch memory of operations, and until when the other stores are resident. */
static haul_status end_stores(builder *b)
{
    const int   last = (int)b->g->operation_count - 1;
    haul_status status = HAUL_OK;
    for (int64_t i = 0; !status && i < b->program->store_count; i++) {
        const haul_program_store *s = &b->program->stores[i];
        store                    *x = &b->stores[i];
        if (s->kind == HAUL_STORE_SCRATCH && x->home < 0 && s->first >= 0 && b->calls[s->first] >= 0)
            status = make_store(b, i, b->calls[s->first]);
        if (x->home >= 0)
            b->g->tensors[x->home].until = s->kind == HAUL_STORE_OUTSIDE || s->outlives ? last : x->last;
        HAUL__ASSERT(x->home < 0 || b->g->tensors[x->home].from <= b->g->tensors[x->home].until);
    }
    return status;
}

bool haul__place_matches(const char *pattern, const char *module)
{
    char path[sizeof((haul__place_operation *)0)->module];
    snprintf(path, sizeof path, "%s", module);
    for (char *dot = path; *path && dot; dot = strrchr(path, '.')) {
        if (dot != path)
            *dot = '\0';
        if (fnmatch(pattern, path, 0) == 0)
            return true;
    }
    return false;
}

static haul_status pin_operation(const haul__place_step *step, haul__place_operation *o, int device)
{
    const haul__machine_device *devices = step->machine->devices;
    for (int d = 0; d < step->device_count && o->cost[device] == HAUL__PLACE_NEVER; d++)
        if (o->cost[d] != HAUL__PLACE_NEVER)
            return haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, "place",
                              "%s is pinned to both %s and %s; remove one of the two patterns", o->module,
                              devices[step->devices[smaller(d, device)]].name,
                              devices[step->devices[larger(d, device)]].name);
    HAUL__ASSERT(0 <= device && device < step->device_count);
    for (int d = 0; d < step->device_count; d++)
        o->cost[d] = d == device ? o->cost[d] : HAUL__PLACE_NEVER;
    return HAUL_OK;
}

static haul_status pin(const haul__place_step *step, haul__place_graph *g, const haul__place_pin *p)
{
    bool        found = false;
    haul_status status = HAUL_OK;
    for (size_t i = 0; i < g->operation_count && !status; i++) {
        if (!haul__place_matches(p->pattern, g->operations[i].module))
            continue;
        found = true;
        status = pin_operation(step, &g->operations[i], p->device);
    }
    if (status || found)
        return status;
    return haul__fail(HAUL_INVALID_ARGUMENT, OPERATION, "place",
                      "no module of the step matches '%s'; haul record lists the modules", p->pattern);
}

static haul_status build(builder *b)
{
    classify(b);
    for (int64_t i = 0; i < b->program->operation_count; i++) {
        name_states(b, &b->program->operations[i]);
        b->calls[i] = -1;
    }
    HAUL__ASSERT(!b->g->operation_count && !b->g->tensor_count);
    haul_status status = add_sources(b);
    for (int64_t i = 0; !status && i < b->program->operation_count; i++)
        status = add_call(b, i);
    if (!status)
        status = end_stores(b);
    for (int i = 0; !status && i < b->step->pin_count; i++)
        status = pin(b->step, b->g, &b->step->pins[i]);
    memcpy(b->g->limit, b->step->limit, sizeof b->g->limit);
    return status ? status : haul__place_finish(b->g);
}

haul_status haul__place_graph_of(const haul__place_step *step, haul__place_graph *out)
{
    const haul_program *p = step->program;
    builder             b = {.step = step,
                             .program = p,
                             .g = out,
                             .stores = haul__calloc((size_t)p->store_count + 1, sizeof *b.stores),
                             .calls = haul__calloc((size_t)p->operation_count + 1, sizeof *b.calls)};
    *out = (haul__place_graph){.device_count = step->device_count};
    const haul_status status = b.stores && b.calls ? build(&b) : haul__fail_memory(OPERATION, 0);
    haul__free(b.stores);
    haul__free(b.calls);
    haul__free(b.parts);
    if (status)
        haul__place_free(out);
    return status;
}
