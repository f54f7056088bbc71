/* Takes a range of the log of a dry run as a program, and plans its memory. */
#include "record/extract.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/shape.h"
#include "program/arena.h"
#include "record/constants.h"
#include "record/copies.h"
#include "record/fuse.h"
#include "record/gather.h"
#include "record/machine_code/foresee.h"
#include "record/order.h"

static const char operation[] = "haul_program_record";

/* A range of the log, and what it becomes. */
typedef struct extract {
    const haul__program *log;
    haul_program        *out;
    haul__program_range  from;
    size_t               end; /* the number of changes at its end */
    haul__program_order *order;
    bool                 apart;    /* what outlives the range has memory of its own, as in a followed step */
    int64_t             *stores;   /* of the log's stores: their number in the program, or -1 */
    int64_t             *of_store; /* of the program's stores: their number in the log */
    haul__arena_item    *items;    /* of the program's stores; times are numbers of operations */
    bool                *constant; /* of the program's stores; none is without `apart` */
    bool                *crosses;  /* of the program's stores: a copy to or from another device uses its place */
    int64_t             *groups;   /* of the program's stores: the store in whose place it is, or itself */
} extract;

static void free_extract(extract *x)
{
    haul__free(x->of_store);
    haul__free(x->items);
    haul__free(x->groups);
    haul__free(x->crosses);
}

static haul_status make_room(extract *x)
{
    const haul__program *l = x->log;
    const size_t calls = x->order->count + 1, values = l->value_count - x->from.value + 1, stores = l->store_count + 1;
    x->stores = haul__calloc(stores, sizeof *x->stores);
    x->of_store = haul__calloc(stores, sizeof *x->of_store);
    x->items = haul__calloc(stores, sizeof *x->items);
    x->groups = haul__calloc(stores, sizeof *x->groups);
    x->constant = haul__calloc(stores, sizeof *x->constant);
    x->crosses = haul__calloc(stores, sizeof *x->crosses);
    x->out->operations = haul__calloc(calls, sizeof *x->out->operations);
    x->out->values = haul__calloc(values, sizeof *x->out->values);
    x->out->stores = haul__calloc(stores, sizeof *x->out->stores);
    x->out->memory = haul__calloc(HAUL__MAX_DEVICES, sizeof *x->out->memory);
    if (x->stores && x->of_store && x->items && x->groups && x->constant && x->crosses && x->out->operations &&
        x->out->values && x->out->stores && x->out->memory)
        return HAUL_OK;
    return haul__fail_memory(operation, values * sizeof *x->out->values);
}

/* ---- operations ---- */

static const char *section_of(const haul__program *l, int call)
{
    for (int at = l->calls[call].parent; at >= 0; at = l->calls[at].parent)
        if (!l->calls[at].operation)
            return l->calls[at].name;
    return "";
}

/* A composite is not listed. The calls within one that is convert its operands. */
static const char *composite_of(const haul__program *l, int call)
{
    const char *name = "";
    for (int at = l->calls[call].parent; at >= 0; at = l->calls[at].parent)
        if (l->calls[at].operation && !l->calls[at].listed)
            name = l->calls[at].name;
    return name;
}

/* An item that is a part of a call has its share of the work. */
static void take_share(const haul__program *l, const haul__ordered_call *item, haul_program_operation *o)
{
    const haul__program_call *c = &l->calls[item->call];
    int64_t                   mine = 0, all = 0;
    for (int i = 0; i < c->operand_count; i++) {
        const haul_program_value *v = &l->values[c->value + (size_t)i];
        int64_t                   elements = v->store < 0 ? 0 : 1;
        for (int d = 0; d < v->shape.ndim && v->store >= 0; d++)
            elements *= v->shape.dims[d];
        all += elements;
        mine += i >= item->first && i < item->first + item->count ? elements : 0;
    }
    HAUL__ASSERT(0 <= mine && mine <= all);
    if (!all)
        return;
    const double share = (double)mine / (double)all;
    o->flops *= share;
    o->bytes = (int64_t)((double)o->bytes * share);
}

static void add_operation(extract *x, const haul__ordered_call *item)
{
    const haul__program_call *c = &x->log->calls[item->call];
    HAUL__ASSERT(0 <= item->first && 0 <= item->count && item->first + item->count <= c->operand_count);
    HAUL__ASSERT((size_t)x->out->operation_count < x->order->count);
    haul_program_operation *o = &x->out->operations[x->out->operation_count++];
    *o = (haul_program_operation){.name = c->name,
                                  .section = section_of(x->log, item->call),
                                  .composite = composite_of(x->log, item->call),
                                  .device = c->device,
                                  .flops = c->flops,
                                  .bytes = c->bytes,
                                  .value = x->out->value_count,
                                  .operand_count = item->count,
                                  .result_count = c->result_count,
                                  .view_of = c->view_of,
                                  .fused = -1,
                                  .unfused = "",
                                  .assembled = -1,
                                  .unassembled = ""};
    if (item->count < c->operand_count)
        take_share(x->log, item, o);
    memcpy(o->module, c->module.path, sizeof o->module);
    for (int i = 0; i < item->count + c->result_count; i++)
        x->out->values[x->out->value_count++] = x->log->values[c->value + (size_t)(item->first + i)];
}

static void add_operations(extract *x)
{
    for (size_t i = 0; i < x->order->count; i++)
        add_operation(x, &x->order->items[i]);
}

/* The operation under way when so many calls had been described; -1 before the first. */
static int64_t operation_after(const extract *x, size_t described)
{
    return described > x->from.call ? x->order->of_described[described - x->from.call - 1] : -1;
}

/* ---- stores ---- */

/* Those that the range allocates or uses, in the order of the log. */
static void find_stores(extract *x)
{
    const haul__program *l = x->log;
    for (size_t i = 0; i < l->store_count; i++)
        x->stores[i] = i >= x->from.store && l->stores[i].planned ? 0 : -1;
    for (int64_t i = 0; i < x->out->value_count; i++)
        if (x->out->values[i].store >= 0)
            x->stores[x->out->values[i].store] = 0;
    for (size_t i = x->from.command; i < l->command_count; i++)
        for (int k = 0; k < l->commands[i].use_count; k++)
            x->stores[l->uses[l->commands[i].use + (size_t)k]] = 0;
    for (size_t i = 0; i < l->store_count; i++) {
        if (x->stores[i] < 0)
            continue;
        x->of_store[x->out->store_count] = (int64_t)i;
        x->stores[i] = x->out->store_count++;
    }
}

/* Values name stores of the log until then. */
static void number_stores(extract *x)
{
    for (int64_t i = 0; i < x->out->value_count; i++) {
        haul_program_value *v = &x->out->values[i];
        v->store = v->store < 0 ? v->store : x->stores[v->store];
        HAUL__ASSERT(v->store < x->out->store_count);
    }
}

static bool is_inside(const extract *x, int64_t store)
{
    return (size_t)x->of_store[store] >= x->from.store && x->log->stores[x->of_store[store]].planned;
}

static void describe_stores(extract *x)
{
    for (int64_t i = 0; i < x->out->store_count; i++) {
        const haul__program_store *from = &x->log->stores[x->of_store[i]];
        const bool                 inside = is_inside(x, i);
        const bool                 in_one = from->born_in >= 0 && from->born_in == from->freed_in;
        HAUL__ASSERT(!inside || ((int64_t)x->from.change <= from->born && from->born <= from->freed));
        x->out->stores[i] = (haul_program_store){.kind = !inside  ? HAUL_STORE_OUTSIDE
                                                         : in_one ? HAUL_STORE_SCRATCH
                                                                  : HAUL_STORE_INSIDE,
                                                 .device = from->device,
                                                 .pinned = from->pinned_for != NULL,
                                                 .outlives = inside && from->freed > (int64_t)x->end,
                                                 .bytes = from->bytes,
                                                 .block_bytes = inside ? from->block : 0,
                                                 .origin = inside ? from->origin : "",
                                                 .role = haul__role_name(from->role),
                                                 .first = -1,
                                                 .last = -1,
                                                 .offset = -1};
        if (inside)
            memcpy(x->out->stores[i].module, from->module.path, sizeof from->module.path);
    }
    /* Memory that a call allocates for a tensor does not count as scratch. */
    for (int64_t i = 0; i < x->out->value_count; i++)
        if (x->out->values[i].store >= 0 && x->out->stores[x->out->values[i].store].kind == HAUL_STORE_SCRATCH)
            x->out->stores[x->out->values[i].store].kind = HAUL_STORE_INSIDE;
    for (int64_t i = 0; i < x->out->store_count; i++)
        if (x->out->stores[i].kind == HAUL_STORE_SCRATCH)
            x->out->stores[i].role = haul__role_name(HAUL__ROLE_WORKSPACE);
}

/* ---- lifetimes ---- */

static void use(extract *x, int64_t store, int64_t by)
{
    HAUL__ASSERT(0 <= store && store < x->out->store_count && 0 <= by && by < x->out->operation_count);
    haul_program_store *s = &x->out->stores[store];
    s->first = s->first < 0 || by < s->first ? by : s->first;
    s->last = by > s->last ? by : s->last;
}

static void find_uses(extract *x)
{
    const haul__program *l = x->log;
    for (size_t i = x->from.command; i < l->command_count; i++) {
        const haul__program_command *c = &l->commands[i];
        const int64_t                by = x->order->of_command[i - x->from.command];
        if (by < 0)
            continue;
        HAUL__ASSERT(by < x->out->operation_count && c->use + (size_t)c->use_count <= l->use_count);
        x->out->operations[by].command_count++;
        for (int k = 0; k < c->use_count; k++)
            use(x, x->stores[l->uses[c->use + (size_t)k]], by);
    }
}

/* Operands and results of operations without commands, for example views, are uses, too. */
static void find_mentions(extract *x)
{
    for (int64_t i = 0; i < x->out->operation_count; i++) {
        const haul_program_operation *o = &x->out->operations[i];
        for (int64_t k = o->value; k < o->value + o->operand_count + o->result_count; k++)
            if (x->out->values[k].store >= 0)
                use(x, x->out->values[k].store, i);
    }
}

/* Lists the operations of a new order. */
static void add_all(extract *x)
{
    x->out->operation_count = x->out->value_count = 0;
    add_operations(x);
    number_stores(x);
    for (int64_t i = 0; i < x->out->store_count; i++)
        x->out->stores[i].first = x->out->stores[i].last = -1;
    find_uses(x);
}

/* Puts the operations of chains next to each other, and lists them in that order. */
static haul_status gather(extract *x)
{
    bool              moved;
    const haul_status status = haul__program_gather(x->log, x->order, x->out, x->constant, &moved);
    if (!status && moved)
        add_all(x);
    return status;
}

/* A store that nothing uses is needed when it is allocated, and one that outlives the range until its end. */
static void find_lifetimes(extract *x)
{
    for (int64_t i = 0; i < x->out->store_count; i++) {
        const haul_program_store *s = &x->out->stores[i];
        const size_t              born = x->log->stores[x->of_store[i]].born_after;
        x->items[i] = (haul__arena_item){.bytes = s->bytes, .first = s->first, .last = s->last};
        if (s->first < 0)
            x->items[i].first = x->items[i].last = operation_after(x, born) + 1;
        if (s->outlives)
            x->items[i].last = x->out->operation_count;
        HAUL__ASSERT(x->items[i].first <= x->items[i].last);
    }
}

/* ---- equal copies ---- */

/* Takes the replaced stores out of the program. */
static void drop_stores(extract *x, const int64_t *replaced)
{
    const haul__program *l = x->log;
    int64_t             *now = x->groups, count = 0; /* groups have no use yet */
    for (int64_t i = 0; i < x->out->store_count; i++) {
        HAUL__ASSERT(replaced[i] < i && (replaced[i] < 0 || replaced[replaced[i]] < 0)); /* by one that stays */
        now[i] = replaced[i] < 0 ? count : now[replaced[i]];
        if (replaced[i] >= 0)
            continue;
        x->of_store[count] = x->of_store[i];
        x->out->stores[count] = x->out->stores[i];
        count++;
    }
    for (size_t i = 0; i < l->store_count; i++)
        x->stores[i] = x->stores[i] < 0 ? -1 : now[x->stores[i]];
    x->out->store_count = count;
}

static haul_status merge_copies(extract *x)
{
    bool        any = false;
    int64_t    *replaced = haul__malloc((size_t)(x->out->store_count + 1) * sizeof *replaced);
    haul_status status = replaced ? haul__program_merge_copies(x->log, x->order, x->out, x->of_store, replaced, &any)
                                  : haul__fail_memory(operation, (size_t)x->out->store_count * sizeof *replaced);
    if (any) {
        drop_stores(x, replaced);
        add_all(x);
    }
    haul__free(replaced);
    return status;
}

/* ---- results in the place of operands ---- */

/* The operations that compute at one time: one, or a chain from `first` to `last`. */
typedef struct turn {
    int64_t first, last;
} turn;

static turn turn_of(const extract *x, int64_t number)
{
    const int64_t first = x->out->operations[number].fused;
    return first < 0 ? (turn){number, number} : (turn){first, haul__program_chain_end(x->out, number)};
}

/* True if the result may be in the place of the operand. */
static bool may_replace(const extract *x, const haul_program_value *result, const haul_program_value *operand,
                        const turn *at)
{
    if (result->store < 0 || operand->store < 0 || !haul__program_same_form(result, operand))
        return false;
    const haul_program_store *r = &x->out->stores[result->store], *o = &x->out->stores[operand->store];
    const int64_t             place = x->groups[operand->store];
    HAUL__ASSERT(x->groups[place] == place);
    return is_inside(x, result->store) && is_inside(x, operand->store) && !x->constant[result->store] &&
           !x->constant[operand->store] && r->device == o->device && !r->pinned && !o->pinned && r->bytes == o->bytes &&
           !o->outlives && !(x->apart && r->outlives) && x->groups[result->store] == result->store && !r->within &&
           !o->within && r->first == at->first && o->last == at->last && x->items[place].last == at->last;
}

/* True if the result of operation `number` would overwrite elements of the operand, or of a result that took its place,
 * before they are read: through another view of the same elements, or by a later operation of the chain. */
static bool is_read_otherwise(const extract *x, const turn *at, int64_t number, const haul_program_value *operand)
{
    for (int64_t i = at->first; i <= at->last; i++) {
        const haul_program_operation *o = &x->out->operations[i];
        const haul_program_value     *values = x->out->values + o->value;
        for (int k = 0; k < o->operand_count + o->result_count; k++)
            if (&values[k] != operand && values[k].store >= 0 &&
                x->groups[values[k].store] == x->groups[operand->store] &&
                (i > number || !haul__program_same_form(&values[k], operand)))
                return true;
    }
    return false;
}

/* True if an operation before `number` in its chain writes the store already. */
static bool is_made_before(const extract *x, const turn *at, int64_t number, int64_t store)
{
    for (int64_t i = at->first; i < number; i++) {
        const haul_program_operation *o = &x->out->operations[i];
        for (int64_t k = o->value; k < o->value + o->operand_count + o->result_count; k++)
            if (x->out->values[k].store == store)
                return true;
    }
    return false;
}

/* The first operand of the operation, or of those before it in its chain, in whose place the result may be; NULL: there
 * is none. */
static const haul_program_value *find_place(const extract *x, const turn *at, int64_t number,
                                            const haul_program_value *result)
{
    HAUL__ASSERT(at->first <= number && number <= at->last);
    if (is_made_before(x, at, number, result->store))
        return NULL;
    for (int64_t i = number; i >= at->first; i--) {
        const haul_program_operation *o = &x->out->operations[i];
        const haul_program_value     *values = x->out->values + o->value;
        for (int k = 0; k < o->operand_count && (i == number || o->fused >= 0); k++)
            if (may_replace(x, result, &values[k], at) && !is_read_otherwise(x, at, number, &values[k]))
                return &values[k];
    }
    return NULL;
}

/* An elementwise operation of one command reads each element of an operand before it writes that of the result. */
static void share_places(extract *x)
{
    for (int64_t i = 0; i < x->out->store_count; i++)
        x->groups[i] = i;
    for (int64_t number = 0; number < x->out->operation_count; number++) {
        const haul__program_call *c = &x->log->calls[x->order->items[number].call];
        if (!c->in_place || c->result_count != 1 || x->out->operations[number].command_count != 1)
            continue;
        const turn                at = turn_of(x, number);
        const haul_program_value *result = x->out->values + x->out->operations[number].value + c->operand_count;
        const haul_program_value *operand = find_place(x, &at, number, result);
        if (!operand)
            continue;
        x->groups[result->store] = x->groups[operand->store];
        x->items[x->groups[result->store]].last = x->items[result->store].last;
    }
}

/* ---- the arenas ---- */

static haul_program_memory *memory_of(haul_program *out, haul_device *device)
{
    for (int i = 0; i < out->memory_count; i++)
        if (out->memory[i].device == device)
            return &out->memory[i];
    HAUL__ASSERT(out->memory_count < HAUL__MAX_DEVICES);
    out->memory[out->memory_count] = (haul_program_memory){.device = device};
    return &out->memory[out->memory_count++];
}

static bool in_arena(const extract *x, int64_t store, const haul_device *device)
{
    const haul_program_store *s = &x->out->stores[store];
    return is_inside(x, store) && !s->pinned && s->device == device;
}

static bool is_planned(const extract *x, int64_t store, const haul_device *device)
{
    const haul_program_store *s = &x->out->stores[store];
    return in_arena(x, store, device) && !x->constant[store] && !s->within && !(x->apart && s->outlives);
}

/* Marks the places that a copy between devices reads or writes. */
static void find_crossings(extract *x)
{
    for (int64_t number = 0; number < x->out->operation_count; number++) {
        const haul_program_operation *o = &x->out->operations[number];
        const haul__program_call     *c = &x->log->calls[x->order->items[number].call];
        const haul_program_value     *values = x->out->values + o->value;
        const int                     count = o->operand_count + c->result_count;
        const haul_device            *device = NULL;
        bool                          crosses = false;
        HAUL__ASSERT(o->result_count == c->result_count);
        for (int i = 0; i < count; i++) {
            const haul_device *here = values[i].store < 0 ? device : x->out->stores[values[i].store].device;
            crosses = crosses || (device && here != device);
            device = here;
        }
        for (int i = 0; i < count && crosses; i++)
            if (values[i].store >= 0)
                x->crosses[x->groups[values[i].store]] = true;
    }
}

/* A copy of the items in which those that copies between devices use are needed for `more` operations before and after
 * their times. */
static void widen(const extract *x, const haul_device *device, int64_t more, haul__arena_item *items)
{
    const int64_t end = x->out->operation_count;
    size_t        number = 0;
    for (int64_t i = 0; i < x->out->store_count; i++) {
        if (!is_planned(x, i, device) || x->groups[i] != i)
            continue;
        haul__arena_item *item = &items[number++];
        HAUL__ASSERT(0 <= item->first && item->first <= item->last && item->last <= end);
        if (x->crosses[i]) {
            item->first = item->first > more ? item->first - more : 0;
            item->last = end - item->last > more ? item->last + more : end;
        }
    }
}

/* Streams of copies run ahead of devices that compute, and behind them, unless memory holds them back. So places that
 * copies use are free later and taken earlier, where that makes the arena little larger. Gives the items offsets. */
static haul_status plan_apart(const extract *x, haul_program_memory *m, haul__arena_item *items, size_t count)
{
    enum { SHARE = 8 };
    haul__arena_item *wide = haul__malloc((count + 1) * sizeof *wide);
    int64_t           least, bytes = 0, more = x->out->operation_count;
    const int64_t     most = m->arena_bytes + m->arena_bytes / SHARE;
    if (!wide)
        return haul__fail_memory(operation, count * sizeof *wide);
    for (bool found = false; more > 1 && !found && bytes >= 0; more /= 2) {
        memcpy(wide, items, count * sizeof *wide);
        widen(x, m->device, more, wide);
        bytes = haul__arena_plan(wide, count, haul__device_part_alignment(m->device), &least);
        HAUL__ASSERT(bytes < 0 || bytes >= m->least_bytes); /* longer lives need no less */
        found = bytes >= 0 && bytes <= most;
        if (found) {
            memcpy(items, wide, count * sizeof *wide);
            m->arena_bytes = bytes;
        }
    }
    haul__free(wide);
    return bytes < 0 ? haul__fail_memory(operation, count * sizeof *wide) : HAUL_OK;
}

static haul_status plan_arena(extract *x, haul_program_memory *m)
{
    haul_status       status = HAUL_OK;
    size_t            count = 0;
    haul__arena_item *items = haul__malloc((size_t)(x->out->store_count + 1) * sizeof *items);
    if (!items)
        return haul__fail_memory(operation, (size_t)x->out->store_count * sizeof *items);
    for (int64_t i = 0; i < x->out->store_count; i++)
        if (is_planned(x, i, m->device) && x->groups[i] == i)
            items[count++] = x->items[i];
    m->arena_bytes = haul__arena_plan(items, count, haul__device_part_alignment(m->device), &m->least_bytes);
    if (m->arena_bytes >= 0 && x->apart && x->out->memory_count > 1)
        status = plan_apart(x, m, items, count);
    count = 0;
    for (int64_t i = 0; i < x->out->store_count; i++)
        if (is_planned(x, i, m->device) && x->groups[i] == i)
            x->out->stores[i].offset = items[count++].offset;
    for (int64_t i = 0; i < x->out->store_count; i++)
        if (is_planned(x, i, m->device))
            x->out->stores[i].offset = x->out->stores[x->groups[i]].offset;
    for (int64_t i = 0; HAUL__ASSERTS && i < x->out->store_count && m->arena_bytes >= 0; i++)
        HAUL__ASSERT(x->out->stores[i].offset < 0 || x->out->stores[i].device != m->device ||
                     x->out->stores[i].offset + x->out->stores[i].bytes <= m->arena_bytes);
    haul__free(items);
    return m->arena_bytes < 0 ? haul__fail_memory(operation, count * sizeof *items) : status;
}

/* The most bytes in blocks after an allocation of the range. */
static int64_t eager_peak(const extract *x, const haul_device *device)
{
    int64_t now = 0, peak = 0;
    for (size_t i = x->from.change; i < x->end; i++) {
        const haul__program_change *c = &x->log->changes[i];
        const int64_t               store = x->stores[c->store];
        if (store < 0 || !in_arena(x, store, device))
            continue;
        now += c->freed ? -x->out->stores[store].block_bytes : x->out->stores[store].block_bytes;
        HAUL__ASSERT(now >= 0);
        peak = now > peak ? now : peak;
    }
    return peak;
}

static haul_status plan_memory(extract *x)
{
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < x->out->store_count; i++)
        if (is_inside(x, i) && !x->out->stores[i].pinned)
            memory_of(x->out, x->out->stores[i].device);
    find_crossings(x);
    for (int i = 0; i < x->out->memory_count && !status; i++) {
        x->out->memory[i].eager_peak_bytes = eager_peak(x, x->out->memory[i].device);
        status = plan_arena(x, &x->out->memory[i]);
    }
    return status;
}

/* ---- the function ---- */

static haul_status extract_program(extract *x, bool follows)
{
    haul_status status = haul__program_order_make(x->log, &x->from, follows, x->order);
    if (!status)
        status = make_room(x);
    if (status)
        return status;
    add_operations(x);
    find_stores(x);
    number_stores(x);
    describe_stores(x);
    find_uses(x);
    if (follows && merge_copies(x))
        return haul_error_status();
    if (x->apart && haul__program_find_constants(x->log, x->order, x->out, x->constant))
        return haul_error_status();
    if (follows && gather(x))
        return haul_error_status();
    find_mentions(x);
    if (follows && haul__program_fuse(x->log, x->order, x->out, x->constant))
        return haul_error_status();
    if (follows && !x->apart && haul__program_foresee_code(x->log, x->order, x->out))
        return haul_error_status();
    HAUL__ASSERT(x->out->operation_count == (int64_t)x->order->count);
    find_lifetimes(x);
    share_places(x);
    return plan_memory(x);
}

haul_status haul__program_extract(const haul__program *log, const haul__program_range *range, bool follows,
                                  haul_program *out, haul__program_links *links)
{
    haul__program_order order = {.count = 0};
    extract             x = {
                    .log = log, .out = out, .from = *range, .end = log->change_count, .order = &order, .apart = links != NULL};
    HAUL__ASSERT(range->value <= log->value_count && range->store <= log->store_count);
    HAUL__ASSERT(range->command <= log->command_count && range->change <= log->change_count);
    haul_status status = extract_program(&x, follows);
    free_extract(&x);
    haul__program_links made = {x.stores, order, x.constant};
    if (links)
        *links = made;
    else
        haul__program_links_free(&made);
    if (status)
        haul_program_free(out);
    return status;
}

void haul__program_links_free(haul__program_links *links)
{
    haul__free(links->stores);
    haul__free(links->constants);
    haul__program_order_free(&links->order);
    links->stores = NULL;
    links->constants = NULL;
}
