/* Turns the log of a dry run into the calls of a variant, with tensors and planned memory. */
#include "record/follow/variant.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/node.h"
#include "memory/dry_run/dry_run.h"
#include "record/extract.h"
#include "record/follow/chain.h"
#include "record/follow/places.h"

/* A log, and where it went. */
typedef struct completion {
    haul__variant       *v;
    const haul__program *log;
    haul_program         program;
    const char          *operation;
    haul__program_links  links;
    int                 *calls;  /* of the log's calls: their number in `v->calls`, or -1 */
    size_t              *places; /* of the log's calls: their number in its order */
} completion;

static void refuse(haul__variant *v, const char *what, const char *why)
{
    if (!*v->refused)
        snprintf(v->refused, sizeof v->refused, "%s %s", what, why);
}

/* ---- stores ---- */

static int64_t program_store(const completion *x, int log_store)
{
    return log_store < 0 ? -1 : x->links.stores[log_store];
}

static void mark_values(const completion *x, bool *used)
{
    const haul_program *p = &x->program;
    for (int64_t i = 0; i < p->value_count; i++)
        if (p->values[i].store >= 0)
            used[p->values[i].store] = true;
    for (size_t i = 1; i < x->v->made_count; i++)
        if (program_store(x, x->v->made[i].store) >= 0)
            used[program_store(x, x->v->made[i].store)] = true;
}

static haul__inside describe_inside(const completion *x, int64_t store)
{
    const haul_program_store *s = &x->program.stores[store];
    const bool                constant = x->links.constants[store];
    const bool                is_apart = s->outlives || s->pinned || constant || !haul__device_divides(s->device);
    HAUL__ASSERT(!(s->within && is_apart)); /* what a chain alone uses needs no memory of its own */
    return (haul__inside){.device = s->device,
                          .bytes = s->bytes,
                          .offset = s->within                   ? 0
                                    : is_apart || s->bytes == 0 ? -1
                                                                : s->offset,
                          .outlives = s->outlives,
                          .constant = constant,
                          .within = s->within,
                          .first_handle = -1};
}

/* Memory that one operation allocates and uses while it computes. */
static bool is_temporary(const completion *x, int64_t store)
{
    const haul_program_store *s = &x->program.stores[store];
    return s->kind == HAUL_STORE_SCRATCH && s->first >= 0 && s->first == s->last &&
           describe_inside(x, store).offset >= 0;
}

/* Each store of the program is one from outside that a call names, one inside that a tensor uses, or scratch memory. */
static haul_status add_stores(completion *x)
{
    haul__variant      *v = x->v;
    const haul_program *p = &x->program;
    const size_t        count = (size_t)p->store_count;
    bool               *used = haul__calloc(count + 1, 1);
    v->stores = haul__calloc(count + 1, sizeof *v->stores);
    v->insides = haul__calloc(count + 1, sizeof *v->insides);
    v->store_count = count;
    if (!used || !v->stores || !v->insides) {
        haul__free(used);
        return haul__fail_memory(x->operation, count * sizeof *v->insides);
    }
    mark_values(x, used);
    for (size_t i = 0; i < count; i++)
        v->stores[i] = (haul__variant_store){.outside = -1, .inside = -1};
    for (size_t i = 0; i < v->outside_count; i++)
        if (program_store(x, v->outsides[i].log_store) >= 0)
            v->stores[program_store(x, v->outsides[i].log_store)].outside = (int)i;
    for (size_t i = 0; i < count; i++) {
        const haul_program_store *s = &p->stores[i];
        const bool                is_empty = s->bytes == 0; /* a dry run does not plan it */
        if (s->kind == HAUL_STORE_OUTSIDE && v->stores[i].outside < 0 && !is_empty)
            refuse(v, "the step", "uses memory that no call of it names");
        if ((!used[i] && !is_temporary(x, (int64_t)i)) || v->stores[i].outside >= 0 ||
            (s->kind == HAUL_STORE_OUTSIDE && !is_empty))
            continue;
        HAUL__ASSERT(v->stores[i].outside < 0 && v->inside_count < count);
        v->stores[i].inside = (int)v->inside_count;
        v->insides[v->inside_count++] = describe_inside(x, (int64_t)i);
    }
    for (size_t i = 0; i < x->log->store_count; i++)
        if (x->links.stores[i] >= 0 && v->stores[x->links.stores[i]].inside >= 0)
            v->insides[v->stores[x->links.stores[i]].inside].pinned_for = x->log->stores[i].pinned_for;
    for (int64_t i = 0; i < p->value_count; i++)
        if (p->values[i].written && p->values[i].store >= 0 && v->stores[p->values[i].store].outside >= 0)
            v->outsides[v->stores[p->values[i].store].outside].written = true;
    haul__free(used);
    return HAUL_OK;
}

/* The values that the program holds know their store by its number in the program. */
static void place_values(completion *x)
{
    for (size_t i = 1; i < x->v->made_count; i++) {
        const int64_t store = program_store(x, x->v->made[i].store);
        x->v->made[i].store = (int)store;
        if (store < 0)
            refuse(x->v, "the step", "makes a tensor that it does not use");
    }
}

/* ---- tensors ---- */

static int *first_handle(haul__variant *v, int64_t store)
{
    const haul__variant_store *s = &v->stores[store];
    return s->outside >= 0 ? &v->outsides[s->outside].first_handle : &v->insides[s->inside].first_handle;
}

static bool is_form(const haul_tensor *t, const haul_program_value *value)
{
    return t->dtype == value->dtype && t->offset == value->offset && t->shape.ndim == value->shape.ndim &&
           !memcmp(t->shape.dims, value->shape.dims, (size_t)t->shape.ndim * sizeof *t->shape.dims) &&
           !memcmp(t->strides, value->strides, (size_t)t->shape.ndim * sizeof *t->strides);
}

/* The tensor that stands for the value; equal values have one. */
static haul_tensor *tensor_of(haul__variant *v, const haul_program_value *value)
{
    if (value->store < 0)
        return HAUL_NONE;
    int *first = first_handle(v, value->store);
    for (int i = *first; i >= 0; i = v->handles[i].next)
        if (is_form(&v->handles[i].tensor, value))
            return &v->handles[i].tensor;
    HAUL__ASSERT((size_t)value->store < v->store_count);
    haul__handle *h = &v->handles[v->handle_count];
    haul__object_init(&h->tensor.object, &haul__tensor_class);
    haul__tensor_clear(&h->tensor);
    haul__tensor_describe(&h->tensor, value->dtype, &value->shape, value->strides, value->offset);
    h->next = *first;
    *first = (int)v->handle_count++;
    return &h->tensor;
}

/* ---- calls ---- */

static bool has_work(const haul_program *p, const haul__program_call *c, const haul_program_operation *o)
{
    const haul_program_value *results = p->values + o->value + o->operand_count;
    bool                      any = c->result_count == 0;
    if (!c->operation->compute || c->view_of >= 0 || !haul__device_computes(c->device))
        return false;
    for (int i = 0; i < c->result_count; i++) {
        int64_t count = 1;
        for (int d = 0; d < results[i].shape.ndim; d++)
            count *= results[i].shape.dims[d];
        any = any || (results[i].store >= 0 && count);
    }
    return any;
}

/* The random numbers of an earlier call, if this one uses them again. */
static void find_draw(haul__variant *v, haul__replayed *r)
{
    const haul__operation *o = r->operation;
    const unsigned char   *mine = v->attributes.bytes + r->form.attributes;
    for (size_t i = 0; o->random_at && i < v->call_count; i++) {
        const haul__replayed *other = &v->calls[i];
        if (other->draws == HAUL__DRAWS &&
            !memcmp(v->attributes.bytes + other->form.attributes + other->operation->random_at, mine + o->random_at,
                    sizeof(haul_random_state))) {
            r->draws = HAUL__DRAWS_AGAIN;
            r->drawn_by = (int)i;
            return;
        }
    }
    r->draws = o->blocks_at ? HAUL__DRAWS : HAUL__DRAWS_NOTHING;
    if (o->random_at && !o->blocks_at)
        refuse(v, o->name, "uses random numbers from before the step");
}

/* An item of a call has the attributes of the others. */
static haul_status add_attributes(completion *x, const haul__ordered_call *item, haul__replayed *r)
{
    const haul__program_call *c = &x->log->calls[item->call];
    if (x->calls[item->call] >= 0) {
        r->form.attributes = x->v->calls[x->calls[item->call]].form.attributes;
        return HAUL_OK;
    }
    return haul__attributes_add(&x->v->attributes, x->log->attributes.bytes + c->form.attributes,
                                c->operation->attributes_size, &r->form.attributes);
}

/* In a run whose calls allocate, updates do not move, so what they use cannot be in a place that is free early. */
static void free_early(haul__variant *v, int64_t store)
{
    const int inside = store < 0 ? -1 : v->stores[store].inside;
    if (inside >= 0)
        v->insides[inside].early = v->insides[inside].offset >= 0;
}

/* Either all results of a call are constants, or none. */
static bool makes_constants(const completion *x, const haul_program_operation *o)
{
    const int64_t store = o->result_count ? x->program.values[o->value + o->operand_count].store : -1;
    return store >= 0 && x->links.constants[store];
}

static void mark_steady(haul__variant *v, int64_t store)
{
    const int outside = store < 0 ? -1 : v->stores[store].outside;
    if (outside >= 0)
        v->outsides[outside].steady = true;
}

static haul_status add_call(completion *x, const haul__ordered_call *item, int64_t number)
{
    haul__variant                *v = x->v;
    const haul__program_call     *c = &x->log->calls[item->call];
    const haul_program_operation *o = &x->program.operations[number];
    haul__replayed               *r = &v->calls[v->call_count];
    *r = (haul__replayed){.operation = c->operation,
                          .device = c->device,
                          .form = c->form,
                          .count = item->count,
                          .result_count = c->result_count,
                          .place = x->places[item->call],
                          .moved = item->moved,
                          .once = makes_constants(x, o),
                          .chain = -1,
                          .tensors = v->tensor_count};
    r->form.writes =
        item->count < 64 ? c->form.writes >> item->first & ((UINT64_C(1) << item->count) - 1) : c->form.writes;
    HAUL__ASSERT(v->call_count <= (size_t)number && c->listed);
    v->modules[v->call_count] = c->module;
    v->constant = v->constant || r->once;
    for (int i = 0; i < item->count + c->result_count; i++) {
        const bool is_absent = i >= item->count && (c->form.absent >> (i - item->count) & 1);
        v->tensors[v->tensor_count++] = is_absent ? NULL : tensor_of(v, &x->program.values[o->value + i]);
    }
    for (int i = 0; i < item->count && item->moved; i++)
        free_early(v, x->program.values[o->value + i].store);
    for (int i = 0; i < item->count && r->once; i++)
        mark_steady(v, x->program.values[o->value + i].store);
    const haul_status status = add_attributes(x, item, r);
    if (!status)
        find_draw(v, r);
    HAUL__ASSERT(v->tensor_count <= (size_t)x->program.value_count);
    x->calls[item->call] = (int)v->call_count++;
    return status;
}

/* The calls of a chain come one after the other. */
static haul_status add_call_of_chain(completion *x, const haul__ordered_call *item, int64_t number)
{
    haul__variant    *v = x->v;
    const int64_t     fused = x->program.operations[number].fused;
    const haul_status status = add_call(x, item, number);
    if (status || fused < 0)
        return status;
    v->chain_count += fused == number;
    v->calls[v->call_count - 1].chain = (int)v->chain_count - 1;
    return HAUL_OK;
}

static haul_status add_chains(haul__variant *v)
{
    haul_status status = HAUL_OK;
    v->chains = haul__calloc(v->chain_count + 1, sizeof *v->chains);
    if (!v->chains)
        return haul__fail_memory("haul_recording_run", v->chain_count * sizeof *v->chains);
    for (size_t i = 0; i < v->call_count && !status;) {
        const int chain = v->calls[i].chain;
        size_t    end = i + 1;
        while (chain >= 0 && end < v->call_count && v->calls[end].chain == chain)
            end++;
        if (chain >= 0)
            status = haul__chain_make(v, i, (int)(end - i), &v->chains[chain]);
        i = end;
    }
    return status;
}

static haul_status make_room(completion *x)
{
    haul__variant *v = x->v;
    const size_t   values = (size_t)x->program.value_count, calls = (size_t)x->program.operation_count;
    v->handles = haul__calloc(values + 1, sizeof *v->handles);
    v->tensors = haul__calloc(values + 1, sizeof *v->tensors);
    v->calls = haul__calloc(calls + 1, sizeof *v->calls);
    v->modules = haul__calloc(calls + 1, sizeof *v->modules);
    v->moved = haul__calloc(calls + 1, sizeof *v->moved);
    v->scratch = haul__calloc(v->inside_count + 1, sizeof *v->scratch);
    x->calls = haul__malloc((x->log->call_count + 1) * sizeof *x->calls);
    x->places = haul__calloc(x->log->call_count + 1, sizeof *x->places);
    if (v->handles && v->tensors && v->calls && v->modules && v->moved && v->scratch && x->calls && x->places)
        return HAUL_OK;
    return haul__fail_memory(x->operation, (values + 1) * sizeof *v->handles);
}

static haul_status add_calls(completion *x)
{
    const haul__program_order *order = &x->links.order;
    haul_status                status = make_room(x);
    if (status)
        return status;
    for (size_t i = 0; i < x->log->call_count; i++)
        x->calls[i] = -1;
    for (size_t i = 0; i < x->log->described_count; i++)
        x->places[x->log->described[i]] = i;
    for (size_t i = 0; i < order->count && !status; i++)
        if (has_work(&x->program, &x->log->calls[order->items[i].call], &x->program.operations[i]))
            status = add_call_of_chain(x, &order->items[i], (int64_t)i);
    for (size_t i = 0; i < x->v->entry_count && !status; i++) {
        haul__entry *e = &x->v->entries[i];
        HAUL__ASSERT(e->kind != HAUL__ENTRY_CALL || (size_t)e->log_call < x->log->call_count);
        e->call = e->kind == HAUL__ENTRY_CALL && e->operation->varies ? x->calls[e->log_call] : -1;
    }
    return status;
}

/* ---- calls that move ---- */

static bool is_before(const haul__variant *v, int a, int b)
{
    const haul__replayed *x = &v->calls[a], *y = &v->calls[b];
    return x->place < y->place || (x->place == y->place && a < b);
}

static void add_moved(haul__variant *v, int call)
{
    size_t at = v->moved_count++;
    HAUL__ASSERT(v->moved_count <= v->call_count && (size_t)call < v->call_count);
    for (; at && is_before(v, call, v->moved[at - 1]); at--)
        v->moved[at] = v->moved[at - 1];
    v->moved[at] = call;
}

static void find_moved(haul__variant *v)
{
    for (size_t i = 0; i < v->call_count; i++)
        if (v->calls[i].moved)
            add_moved(v, (int)i);
}

/* Each command must belong to a call that is made again. */
static void check_commands(const completion *x)
{
    const haul__program *l = x->log;
    for (size_t i = 0; i < l->command_count; i++) {
        const haul__program_command *c = &l->commands[i];
        const bool is_before = c->call >= 0 && c->after < l->described_count && l->described[c->after] == c->call;
        if (c->call < 0 || !l->calls[c->call].listed || is_before)
            refuse(x->v, c->call < 0 ? "the step" : l->calls[c->call].name,
                   "submits a command outside of an operation");
    }
}

/* ---- memory ---- */

/* The call that allocates the store while it computes; NULL: none. */
static haul__replayed *allocates(const completion *x, size_t log_store)
{
    const int64_t store = x->links.stores[log_store];
    const int     by = x->log->stores[log_store].born_in;
    return store >= 0 && by >= 0 && x->calls[by] >= 0 && is_temporary(x, store) ? &x->v->calls[x->calls[by]] : NULL;
}

/* Calls allocate them in the order of the log. */
static void add_scratch(completion *x)
{
    haul__variant *v = x->v;
    for (size_t i = 0; i < x->log->store_count; i++)
        if (allocates(x, i))
            allocates(x, i)->scratch_count++;
    for (size_t i = 0; i < v->call_count; i++) {
        v->calls[i].scratch = v->scratch_count;
        v->scratch_count += (size_t)v->calls[i].scratch_count;
        v->calls[i].scratch_count = 0;
        HAUL__ASSERT(v->scratch_count <= v->inside_count);
    }
    for (size_t i = 0; i < x->log->store_count; i++) {
        haul__replayed *r = allocates(x, i);
        if (r)
            v->scratch[r->scratch + (size_t)r->scratch_count++] = &v->insides[v->stores[x->links.stores[i]].inside].own;
    }
}

/* Without the stores that have memory of their own. */
static int64_t arena_bytes(const haul__variant *v, const haul_device *device)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < v->inside_count; i++) {
        const haul__inside *s = &v->insides[i];
        if (s->offset >= 0 && !s->within && s->device == device && s->offset + s->bytes > bytes)
            bytes = s->offset + s->bytes;
    }
    return bytes;
}

static void add_arenas(const completion *x)
{
    haul__variant *v = x->v;
    for (int i = 0; i < x->program.memory_count; i++) {
        const haul__arena needed = {.device = x->program.memory[i].device,
                                    .bytes = arena_bytes(v, x->program.memory[i].device)};
        HAUL__ASSERT(needed.bytes <= x->program.memory[i].arena_bytes);
        if (needed.bytes > 0)
            v->needed.items[v->needed.count++] = needed;
    }
}

/* ---- the whole ---- */

/* What haul_backward of a result says after the step. */
static const haul__operation marker = {.name = "haul_recording_run"};

static haul_status complete(completion *x)
{
    haul__variant *v = x->v;
    haul_status status = haul__program_extract(x->log, &(haul__program_range){.call = 0}, true, &x->program, &x->links);
    if (!status)
        status = add_stores(x);
    if (status)
        return status;
    place_values(x);
    if (*v->refused)
        return HAUL_OK;
    status = add_calls(x);
    if (status)
        return status;
    status = add_chains(v);
    if (status)
        return status;
    check_commands(x);
    add_scratch(x);
    find_moved(v);
    add_arenas(x);
    HAUL__ASSERT(v->call_count <= (size_t)x->program.operation_count && v->moved_count <= v->call_count);
    v->marker = haul__node_over(&marker, NULL, 0, HAUL__NODE_RESULTS);
    if (!v->marker)
        return haul__fail_memory(x->operation, sizeof *v->marker);
    v->marker->bare = haul__bare_used;
    return HAUL_OK;
}

haul_status haul__variant_complete(haul__variant *v, const haul__program *log, const char *operation)
{
    completion        x = {.v = v, .log = log, .operation = operation};
    const haul_status status = complete(&x);
    haul_program_free(&x.program);
    haul__program_links_free(&x.links);
    haul__free(x.calls);
    haul__free(x.places);
    return status;
}

void haul__variant_free(haul__variant *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->inside_count; i++) {
        haul__inside *s = &v->insides[i];
        haul__inside_leave(s);
        haul__dry_run_ended(&s->own);
        haul__object_release(s->storage);
    }
    for (size_t i = 0; i < v->outside_count; i++)
        haul__object_release(v->outsides[i].prepared);
    haul__object_release(v->marker);
    haul__places_free(v);
    for (size_t i = 0; v->chains && i < v->chain_count; i++)
        haul__chain_free(&v->chains[i]);
    void *arrays[] = {v->entries, v->references,       v->made,     v->results,   v->leaf_changes,
                      v->forms,   v->attributes.bytes, v->outsides, v->insides,   v->stores,
                      v->handles, v->tensors,          v->calls,    v->scratch,   v->modules,
                      v->moved,   v->gradients,        v->uses,     v->first_use, v->chains};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        haul__free(arrays[i]);
    haul__free(v);
}
