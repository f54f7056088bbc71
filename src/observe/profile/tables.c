/* The tables of a profile: by operation, by module, by kernel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/utf8.h"
#include "device/device.h"
#include "observe/profile/analysis.h"

/* ---- rows by their keys ---- */

/* What makes a row; texts by their numbers. */
typedef struct key {
    const haul_device *device;
    uint32_t           name, kind, operation;
} key;

typedef struct builder {
    haul_profile         *p;
    const haul__analysis *a;
    haul_profile_row     *rows;
    key                  *keys;
    size_t                count, row_room, key_room;
    uint32_t             *table; /* rows by the hashes of their keys, from 1; 0: free */
    size_t                slots;
    bool                  failed;
} builder;

enum { SLOTS = 1024 };

static size_t hash_of(const key *k)
{
    uint64_t hash = (uintptr_t)k->device;
    hash = (hash ^ k->name) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ k->kind) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ k->operation) * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 20);
}

static bool same(const key *a, const key *b)
{
    return a->device == b->device && a->name == b->name && a->kind == b->kind && a->operation == b->operation;
}

static size_t slot_of(const builder *b, const key *k)
{
    HAUL__ASSERT(b->slots && !(b->slots & (b->slots - 1)) && b->count < b->slots);
    size_t at = hash_of(k) & (b->slots - 1);
    while (b->table[at] && !same(&b->keys[b->table[at] - 1], k))
        at = (at + 1) & (b->slots - 1);
    return at;
}

static bool open(builder *b, haul_profile *p, const haul__analysis *a)
{
    *b = (builder){.p = p, .a = a, .slots = SLOTS, .table = haul__calloc(SLOTS, sizeof *b->table)};
    return b->table != NULL;
}

static bool widen(builder *b)
{
    if (2 * b->count < b->slots)
        return true;
    uint32_t *table = haul__calloc(2 * b->slots, sizeof *table);
    if (!table)
        return false;
    haul__free(b->table);
    b->table = table;
    b->slots *= 2;
    for (size_t i = 0; i < b->count; i++)
        b->table[slot_of(b, &b->keys[i])] = (uint32_t)i + 1;
    HAUL__ASSERT(2 * b->count <= b->slots);
    return true;
}

/* The row of a key, made if there is none; NULL without memory. */
static haul_profile_row *find(builder *b, key k)
{
    if (b->failed || !(widen(b))) {
        b->failed = true;
        return NULL;
    }
    const size_t at = slot_of(b, &k);
    HAUL__ASSERT(b->table[at] <= b->count);
    if (b->table[at])
        return &b->rows[b->table[at] - 1];
    if (!haul__grow(&b->rows, &b->row_room, b->count + 1, sizeof *b->rows) ||
        !haul__grow(&b->keys, &b->key_room, b->count + 1, sizeof *b->keys)) {
        b->failed = true;
        return NULL;
    }
    haul_profile_row *row = &b->rows[b->count];
    *row = (haul_profile_row){.device = k.device, .joules = b->p->energy.count ? 0 : NAN};
    haul__utf8_copy(row->name, sizeof row->name, haul__profile_text(b->p, k.name));
    haul__utf8_copy(row->kind, sizeof row->kind, haul__profile_text(b->p, k.kind));
    haul__utf8_copy(row->operation, sizeof row->operation, haul__profile_text(b->p, k.operation));
    b->keys[b->count++] = k;
    b->table[at] = (uint32_t)b->count;
    return row;
}

static bool runs_later(const haul_device *device)
{
    return device && !haul__device_is_synchronous(device);
}

static int by_share(const void *a, const void *b)
{
    const haul_profile_row *x = a, *y = b;
    if (x->share != y->share)
        return x->share < y->share ? 1 : -1;
    return strcmp(x->name, y->name);
}

static bool close_table(builder *b, haul__table *out)
{
    haul__free(b->table);
    haul__free(b->keys);
    if (b->failed) {
        haul__free(b->rows);
        return false;
    }
    if (b->count)
        qsort(b->rows, b->count, sizeof *b->rows, by_share);
    *out = (haul__table){b->rows, (int)b->count};
    return true;
}

/* ---- operations ---- */

/* The limit of an operation by the roofline model. */
static haul_bound bound_of(const haul_profile *p, const haul_profile_row *row)
{
    const haul__peak peak = haul__profile_peak(p, row->device);
    const double     seconds = (runs_later(row->device) ? row->device_ms : row->host_ms) / 1e3;
    if (peak.flops <= 0 || peak.bytes <= 0 || seconds <= 0 || row->flops + row->bytes <= 0)
        return HAUL_BOUND_UNKNOWN;
    const double compute = row->flops / peak.flops, memory = row->bytes / peak.bytes;
    if ((compute > memory ? compute : memory) < seconds / 10)
        return HAUL_BOUND_OVERHEAD;
    return compute > memory ? HAUL_BOUND_COMPUTE : HAUL_BOUND_MEMORY;
}

/* The energy of a device in the time of a command; 0 of copies, which pass while something else computes. */
static double joules_of(const builder *b, const haul__profile_event *m)
{
    if (!runs_later(m->device) || strcmp(haul__profile_text(b->p, m->detail), "compute") != 0)
        return 0;
    return haul__joules_between(haul__energy_of(&b->p->energy, m->device), m->begin, m->end);
}

/* The numbers of names of rows that stand for no operation. */
typedef struct row_names {
    uint32_t call, backward, compilation, waiting, program;
} row_names;

static row_names name_rows(haul__texts *texts)
{
    return (row_names){.call = haul__texts_number(texts, "haul_call"),
                       .backward = haul__texts_number(texts, "haul_backward"),
                       .compilation = haul__texts_number(texts, "(compilation)"),
                       .waiting = haul__texts_number(texts, "(waiting)"),
                       .program = haul__texts_number(texts, "(program)")};
}

/* The gradient's own time is the pass's. */
static haul_profile_row *row_of_span(builder *b, const haul__profile_event *m, const row_names *n)
{
    if (m->kind == HAUL_EVENT_WAITED)
        return find(b, (key){.name = n->waiting});
    if (m->kind == HAUL_EVENT_DRIVER_CALLED)
        return find(b, (key){.name = n->compilation, .device = m->device});
    if (m->kind == HAUL_EVENT_CALL_END)
        return find(b, (key){.name = n->call});
    if (m->kind == HAUL_EVENT_WORK_END) {
        const bool gradient = !strcmp(haul__profile_text(b->p, m->text), "gradient");
        return find(b, (key){.name = gradient ? n->backward : m->operation});
    }
    return find(b, (key){.name = m->operation, .device = m->device});
}

/* Work within spans that are counted already. */
static bool is_part(const haul_profile *p, const haul__profile_event *m)
{
    const char *text = haul__profile_text(p, m->text);
    return m->kind == HAUL_EVENT_WORK_END && (!strcmp(text, "gradient") || !strcmp(text, "batch made"));
}

static void add_span(builder *b, size_t i, const row_names *n)
{
    HAUL__ASSERT(i < b->p->count && b->a->spans);
    const haul__profile_event *m = &b->p->events[i];
    const haul__span_info     *span = &b->a->spans[i];
    if (span->phase == HAUL__PHASE_LOADING)
        return;
    haul_profile_row *row = row_of_span(b, m, n);
    if (!row)
        return;
    row->calls += !is_part(b->p, m);
    row->host_ms += m->thread == b->p->thread ? (double)span->self / 1e6 : 0;
    row->joules += m->thread == b->p->thread ? span->joules : 0;
    if (m->kind == HAUL_EVENT_OPERATION_END) {
        row->flops += m->flops;
        row->bytes += (double)m->bytes;
    }
}

/* The energy of the CPU until the end of the steps that was used outside of spans. */
static double other_joules(const builder *b)
{
    double joules = haul__joules_between(haul__energy_of(&b->p->energy, haul_cpu()), 0, b->a->host_end);
    for (size_t i = 0; i < b->p->count; i++)
        if (b->p->events[i].thread == b->p->thread && haul__is_in_stretch(b->a, &b->p->events[i]))
            joules -= b->a->spans[i].joules;
    return joules;
}

/* After the last step the main thread waits until all commands of the steps are done. */
static void add_other_time(builder *b, const row_names *n)
{
    const int64_t tail = b->a->wall - b->a->host_end;
    HAUL__ASSERT(tail >= 0);
    haul_profile_row *row = find(b, (key){.name = n->program});
    if (row) {
        row->host_ms += b->a->summary.other_ms;
        row->joules += other_joules(b);
    }
    row = tail ? find(b, (key){.name = n->waiting}) : NULL;
    if (row) {
        row->host_ms += (double)tail / 1e6;
        row->joules += haul__joules_between(haul__energy_of(&b->p->energy, haul_cpu()), b->a->host_end, b->a->wall);
    }
}

static void add_to_operation(builder *b, const haul__profile_event *m)
{
    HAUL__ASSERT(m->operation < b->p->texts.count);
    haul_profile_row *row = find(b, (key){.name = m->operation, .device = m->device});
    if (!row)
        return;
    if (m->kind == HAUL_EVENT_COMMAND_DONE) {
        row->device_ms += (double)(m->end - m->begin) / 1e6;
        row->joules += joules_of(b, m);
    } else {
        row->made_bytes += m->bytes;
    }
}

/* The row of memory that an operation of that name made before the profile. */
static void add_held(builder *b, const haul_device *device, const haul__holding *h, bool modules)
{
    haul__texts   *texts = &b->p->texts;
    const char    *named = modules ? h->where : h->named;
    const uint32_t known = modules ? h->module : h->operation;
    const uint32_t name = h->named ? haul__texts_number(texts, named) : known;
    HAUL__ASSERT(known < texts->count);
    if (modules && !name)
        return;
    haul_profile_row *row = find(b, (key){.name = name, .device = modules ? NULL : device});
    if (row)
        row->peak_bytes += h->bytes;
}

static void add_peaks(builder *b, bool modules)
{
    for (int c = 0; c < b->a->curve_count; c++) {
        const haul__curve *curve = &b->a->curves[c];
        HAUL__ASSERT(curve->held && curve->held_count >= 0);
        for (int i = 0; i < curve->held_count; i++)
            add_held(b, curve->device, &curve->held[i], modules);
    }
}

static bool is_made(const haul_profile *p, const haul__profile_event *m)
{
    return haul__memory_change(p, m) > 0 && (p->everywhere || m->thread == p->thread);
}

static bool find_operations(haul_profile *p, haul__analysis *a)
{
    builder b;
    if (!open(&b, p, a))
        return false;
    const row_names names = name_rows(&p->texts);
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (!haul__is_in_stretch(a, m))
            continue;
        if (haul__is_span(m))
            add_span(&b, i, &names);
        else if (m->kind == HAUL_EVENT_COMMAND_DONE || is_made(p, m))
            add_to_operation(&b, m);
    }
    add_other_time(&b, &names);
    add_peaks(&b, false);
    for (size_t i = 0; i < b.count; i++) {
        haul_profile_row *row = &b.rows[i];
        row->share = (row->host_ms > row->device_ms ? row->host_ms : row->device_ms) / a->summary.wall_ms;
        row->bound = bound_of(p, row);
    }
    return close_table(&b, &a->tables[HAUL_PROFILE_OPERATION]);
}

/* ---- modules ---- */

/* Backward passes, by thread and then by time, to find the one in which a command was submitted. */
typedef struct passes {
    const haul__profile_event **items;
    size_t                      count;
} passes;

static int by_thread(const void *a, const void *b)
{
    const haul__profile_event *x = *(const haul__profile_event *const *)a, *y = *(const haul__profile_event *const *)b;
    return x->thread != y->thread ? (x->thread > y->thread) - (x->thread < y->thread)
                                  : (x->begin > y->begin) - (x->begin < y->begin);
}

static bool find_passes(const haul_profile *p, passes *out)
{
    size_t room = 0;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind != HAUL_EVENT_WORK_END || strcmp(haul__profile_text(p, m->text), "backward pass") != 0)
            continue;
        if (!haul__grow(&out->items, &room, out->count + 1, sizeof *out->items))
            return false;
        out->items[out->count++] = m;
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_thread);
    return true;
}

/* True if it was submitted in a pass of its thread. Passes within passes are few. */
static bool was_backward(const passes *all, const haul__profile_event *command)
{
    enum { NESTED = 4 };
    size_t low = 0, high = all->count; /* the passes that began before */
    while (low < high) {
        const size_t               middle = low + (high - low) / 2;
        const haul__profile_event *m = all->items[middle];
        if (m->thread < command->thread || (m->thread == command->thread && m->begin <= command->submitted))
            low = middle + 1;
        else
            high = middle;
    }
    HAUL__ASSERT(low <= all->count);
    for (size_t i = low; i-- > 0 && low - i <= NESTED && all->items[i]->thread == command->thread;)
        if (all->items[i]->end >= command->submitted)
            return true;
    return false;
}

static void add_time(haul_profile_row *row, bool backward, int64_t ns)
{
    *(backward ? &row->backward_ms : &row->forward_ms) += (double)ns / 1e6;
}

static void add_to_module(builder *b, size_t i, const passes *all)
{
    HAUL__ASSERT(i < b->p->count && b->a->spans);
    const haul__profile_event *m = &b->p->events[i];
    const haul__span_info     *span = &b->a->spans[i];
    haul_profile_row          *row = m->module ? find(b, (key){.name = m->module}) : NULL;
    if (!row)
        return;
    if (m->kind == HAUL_EVENT_CALL_END) {
        row->calls++;
        haul__utf8_copy(row->kind, sizeof row->kind, haul__profile_text(b->p, m->text));
    } else if (m->kind == HAUL_EVENT_OPERATION_END) {
        row->flops += m->flops;
        row->bytes += (double)m->bytes;
        if (!runs_later(m->device)) {
            add_time(row, span->phase == HAUL__PHASE_BACKWARD, span->self);
            row->joules += span->joules;
        }
    } else if (m->kind == HAUL_EVENT_COMMAND_DONE && runs_later(m->device)) {
        add_time(row, was_backward(all, m), m->end - m->begin);
        row->device_ms += (double)(m->end - m->begin) / 1e6;
        row->joules += joules_of(b, m);
    } else if (is_made(b->p, m)) {
        row->made_bytes += m->bytes;
    }
}

static bool find_modules(haul_profile *p, haul__analysis *a)
{
    builder b;
    passes  all = {.items = NULL};
    if (!open(&b, p, a))
        return false;
    b.failed = !find_passes(p, &all);
    for (size_t i = 0; i < p->count && !b.failed; i++)
        if (haul__is_in_stretch(a, &p->events[i]))
            add_to_module(&b, i, &all);
    haul__free(all.items);
    add_peaks(&b, true);
    for (size_t i = 0; i < b.count; i++)
        b.rows[i].share = (b.rows[i].forward_ms + b.rows[i].backward_ms) / a->summary.wall_ms;
    return close_table(&b, &a->tables[HAUL_PROFILE_MODULE]);
}

/* ---- kernels ---- */

static bool find_kernels(haul_profile *p, haul__analysis *a)
{
    builder b;
    if (!open(&b, p, a))
        return false;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind != HAUL_EVENT_COMMAND_DONE || !haul__is_in_stretch(a, m))
            continue;
        haul_profile_row *row = find(&b, (key){.name = m->name ? m->name : m->text,
                                               .kind = m->detail,
                                               .operation = m->operation,
                                               .device = m->device});
        if (!row)
            break;
        row->calls++;
        row->device_ms += (double)(m->end - m->begin) / 1e6;
        row->bytes += (double)m->bytes;
    }
    for (size_t i = 0; i < b.count; i++) {
        b.rows[i].share = b.rows[i].device_ms / a->summary.wall_ms;
        b.rows[i].joules = 0;
    }
    return close_table(&b, &a->tables[HAUL_PROFILE_KERNEL]);
}

bool haul__find_tables(haul_profile *p, haul__analysis *a)
{
    return find_operations(p, a) && find_modules(p, a) && find_kernels(p, a);
}
