#include "plan/memory/step.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "record/work.h"

static const char OPERATION[] = "haul_fit";

/* How the operations use a store. */
typedef struct use {
    int     leave, back; /* the operations around its longest gap; `leave` -1: before the step; `back` -1: none */
    int64_t gap;         /* ps of that gap */
    int     first, last; /* the first and the last use; -1: none */
    int     elsewhere;   /* the last one that is not of its segment's backward pass */
    int     segment;     /* that makes it; -1: none */
    int     tensor;      /* of the model; -1: none */
    bool    is_read;     /* by a segment that does not make it */
} use;

/* A store that may become a tensor, and its block's bytes. */
typedef struct candidate {
    int64_t store, bytes;
} candidate;

typedef struct builder {
    const haul__memory_step *step;
    const haul_program      *program;
    const haul__residency   *lives;
    haul__memory_model      *m;
    use                     *uses;
    candidate               *chosen; /* stores that are tensors, by size */
    int                      count, read_count;
    int                      forward; /* operations of the forward pass */
    int64_t                 *before;  /* ps of the operations before each one */
    haul__memory_segment     segments[64];
} builder;

enum { MOST_SEGMENTS = sizeof((builder *)0)->segments / sizeof *((builder *)0)->segments };

static int segment_of(const builder *b, int64_t operation)
{
    const int s = b->step->segment ? b->step->segment[operation] : -1;
    return s >= 0 && s < MOST_SEGMENTS ? s : -1;
}

static bool has_name(const char *section, const char *name)
{
    return strcmp(section, name) == 0;
}

/* ---- segments ---- */

static void find_forward(builder *b)
{
    const haul_program *p = b->program;
    while (b->forward < p->operation_count && !has_name(p->operations[b->forward].section, "backward pass"))
        b->forward++;
}

static void extend(builder *b, int operation)
{
    const int s = segment_of(b, operation);
    if (s < 0)
        return;
    haul__memory_segment *x = &b->segments[s];
    if (operation < b->forward) {
        x->first = x->first < 0 ? operation : x->first;
        x->last = operation;
    } else if (x->back < 0 && has_name(b->program->operations[operation].section, "backward pass")) {
        x->back = operation;
    }
}

/* True if all operations between its first and its last one that take time are of the segment. */
static bool is_whole(const builder *b, int segment)
{
    const haul__memory_segment *x = &b->segments[segment];
    bool                        whole = x->first >= 0 && x->back >= 0;
    HAUL__ASSERT(x->first <= x->last);
    for (int i = x->first; whole && i <= x->last; i++)
        whole = segment_of(b, i) == segment || !haul__program_takes_time(&b->program->operations[i]);
    return whole;
}

static void find_segments(builder *b)
{
    const int count = (int)smaller(b->step->segment_count, MOST_SEGMENTS);
    for (int s = 0; s < count; s++)
        b->segments[s] = (haul__memory_segment){.first = -1, .last = -1, .back = -1};
    for (int i = 0; i < b->program->operation_count; i++)
        extend(b, i);
    for (int s = 0; s < count; s++) {
        if (!is_whole(b, s))
            b->segments[s].back = -1;
        HAUL__ASSERT(b->segments[s].back < 0 || b->segments[s].last < b->segments[s].back);
    }
}

/* The segment in whose forward pass the operation is, if that can run again; -1: none. */
static int again_at(const builder *b, int operation)
{
    for (int s = 0; s < b->step->segment_count && s < MOST_SEGMENTS; s++)
        if (b->segments[s].back >= 0 && b->segments[s].first <= operation && operation <= b->segments[s].last)
            return s;
    return -1;
}

/* ---- uses ---- */

static bool is_of_device(const builder *b, int64_t store)
{
    return b->lives->block[store] > 0 && b->lives->from[store] <= b->lives->until[store];
}

/* The times of the operations between two. */
static int64_t time_between(const builder *b, int from, int until)
{
    return until > from ? b->before[until] - b->before[from + 1] : 0;
}

static void note_gap(builder *b, use *u, int leave, int back)
{
    const int64_t gap = time_between(b, leave, back);
    if (gap <= u->gap)
        return;
    HAUL__ASSERT(leave < back);
    u->gap = gap;
    u->leave = leave;
    u->back = back;
}

static void note_use(builder *b, int64_t store, int operation)
{
    use      *u = &b->uses[store];
    const int segment = again_at(b, operation);
    HAUL__ASSERT(u->last <= operation);
    if (u->last >= 0)
        note_gap(b, u, u->last, operation);
    u->first = u->first < 0 ? operation : u->first;
    u->last = operation;
    if (operation < b->forward)
        u->is_read = u->is_read || (segment >= 0 && segment != u->segment);
    if (operation < b->forward || u->segment < 0 || segment_of(b, operation) != u->segment)
        u->elsewhere = operation;
}

/* Memory from before the step can be away from its last use to the first one of the next step. */
static void note_ends(builder *b, int64_t store)
{
    use *u = &b->uses[store];
    if (b->program->stores[store].kind == HAUL_STORE_OUTSIDE && u->first >= 0 && b->step->spills)
        note_gap(b, u, -1, u->first);
}

static void find_uses(builder *b)
{
    const haul_program *p = b->program;
    for (int64_t i = 0; i < p->store_count; i++) {
        const int from = (int)b->lives->from[i];
        b->uses[i] = (use){.leave = from,
                           .back = -1,
                           .first = -1,
                           .last = -1,
                           .elsewhere = from,
                           .tensor = -1,
                           .segment = p->stores[i].kind == HAUL_STORE_INSIDE ? again_at(b, from) : -1};
    }
    HAUL__ASSERT(b->forward <= p->operation_count);
    for (int i = 0; i < p->operation_count; i++) {
        const haul_program_operation *o = &p->operations[i];
        const int                     count = haul__program_takes_time(o) ? o->operand_count + o->result_count : 0;
        for (int64_t v = o->value; v < o->value + count; v++)
            if (p->values[v].store >= 0 && is_of_device(b, p->values[v].store))
                note_use(b, p->values[v].store, i);
    }
    for (int64_t i = 0; i < p->store_count; i++)
        note_ends(b, i);
}

/* ---- tensors ---- */

static bool is_tensor(const builder *b, int64_t store)
{
    const haul_program_store *s = &b->program->stores[store];
    const use                *u = &b->uses[store];
    if (!is_of_device(b, store) || s->pinned || u->last < 0 || s->kind == HAUL_STORE_SCRATCH)
        return false;
    const bool can_go = b->step->spills && u->gap > 0;
    return can_go || (s->kind == HAUL_STORE_INSIDE && (u->is_read || u->segment >= 0));
}

static int by_bytes(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : (x->store > y->store) - (x->store < y->store);
}

static void choose_tensors(builder *b)
{
    for (int64_t i = 0; i < b->program->store_count; i++)
        if (is_tensor(b, i))
            b->chosen[b->count++] = (candidate){i, b->lives->block[i]};
    qsort(b->chosen, (size_t)b->count, sizeof *b->chosen, by_bytes);
    HAUL__ASSERT(b->count <= b->program->store_count);
    b->count = (int)smaller(b->count, HAUL__MEMORY_TENSORS);
    for (int i = 0; i < b->count; i++)
        b->uses[b->chosen[i].store].tensor = i;
}

static int64_t copy_time(const builder *b, bool out, int64_t bytes)
{
    const int number = b->step->number;
    return haul__machine_copy_time(b->step->machine, out ? number : 0, out ? 0 : number, bytes, true);
}

static void add_tensor(builder *b, int index)
{
    const int64_t             store = b->chosen[index].store;
    const haul_program_store *s = &b->program->stores[store];
    const use                *u = &b->uses[store];
    haul__memory_tensor      *t = &b->m->tensors[index];
    const int                 from = (int)b->lives->from[store], until = (int)b->lives->until[store];
    *t = (haul__memory_tensor){.bytes = b->lives->block[store],
                               .size = smaller(s->bytes, b->lives->block[store]),
                               .from = from,
                               .until = until,
                               .leave = (int)smaller(u->back < 0 ? larger(u->last, from) : u->leave, until),
                               .back = (int)smaller(u->back, until),
                               .out = copy_time(b, true, s->bytes),
                               .in = b->step->spills ? copy_time(b, false, s->bytes) : -1,
                               .segment = u->segment,
                               .drop = (int)larger(u->elsewhere, from),
                               .store = store};
    if (t->back >= 0 && t->back <= t->leave)
        t->back = -1;
    HAUL__ASSERT(t->from <= t->until && t->leave <= t->until && t->drop >= t->from);
}

/* ---- bytes ---- */

/* Adds to the operations at which the store's block exists. */
static void add_bytes(int64_t *bytes, const haul__residency *lives, int64_t store, int from, int until, int64_t sign)
{
    HAUL__ASSERT(lives->block[store] > 0 && (sign == 1 || sign == -1));
    for (int64_t i = larger(lives->from[store], from); i <= smaller(lives->until[store], until); i++)
        bytes[i] += sign * lives->block[store];
}

/* Stores that a segment's operations allocate and that are not tensors are the segment's own. */
static void add_fixed(builder *b)
{
    haul__memory_model *m = b->m;
    memcpy(m->fixed, b->lives->bytes, (size_t)m->operation_count * sizeof *m->fixed);
    for (int64_t i = 0; i < b->program->store_count; i++) {
        const int segment = is_of_device(b, i) ? again_at(b, (int)b->lives->from[i]) : -1;
        if (b->uses[i].tensor >= 0)
            add_bytes(m->fixed, b->lives, i, 0, m->operation_count - 1, -1);
        else if (segment >= 0 && b->program->stores[i].kind != HAUL_STORE_OUTSIDE)
            add_bytes(m->own, b->lives, i, 0, b->segments[segment].last, 1);
    }
    for (int i = 0; i < m->operation_count; i++)
        m->fixed[i] = larger(m->fixed[i], 0);
}

/* Before the segment runs again, what its backward pass allocates does not exist yet. */
static int64_t bytes_around(const builder *b, int back)
{
    int64_t bytes = b->m->fixed[back];
    for (int64_t i = 0; i < b->program->store_count; i++)
        if (is_of_device(b, i) && b->uses[i].tensor < 0 && b->lives->from[i] == back)
            bytes -= b->lives->block[i];
    return larger(bytes, 0);
}

static bool reads(const builder *b, int segment, int64_t store)
{
    const haul_program         *p = b->program;
    const haul__memory_segment *x = &b->segments[segment];
    for (int i = x->first; i <= x->last; i++) {
        const haul_program_operation *o = &p->operations[i];
        for (int64_t v = o->value; haul__program_takes_time(o) && v < o->value + o->operand_count; v++)
            if (p->values[v].store == store)
                return true;
    }
    return false;
}

/* Appends the tensors that the segment reads; without `out` they are only counted. */
static int list_reads(const builder *b, int segment, int *out)
{
    int count = 0;
    for (int t = 0; t < b->count; t++) {
        const int64_t store = b->chosen[t].store;
        if (!b->uses[store].is_read || b->uses[store].segment == segment ||
            b->lives->from[store] >= b->segments[segment].first || !reads(b, segment, store))
            continue;
        HAUL__ASSERT(b->uses[store].tensor == t);
        if (out)
            out[count] = t;
        count++;
    }
    return count;
}

static void add_segment(builder *b, int s)
{
    haul__memory_model   *m = b->m;
    haul__memory_segment *x = &m->segments[m->segment_count++];
    *x = b->segments[s];
    x->number = s;
    x->around = bytes_around(b, x->back);
    x->read = b->read_count;
    x->read_count = list_reads(b, s, m->reads + b->read_count);
    b->read_count += x->read_count;
    HAUL__ASSERT(b->read_count <= m->read_count && x->last < x->back);
}

/* ---- the whole ---- */

static int count_reads(const builder *b, int segments)
{
    int count = 0;
    for (int s = 0; s < segments; s++)
        count += b->segments[s].back >= 0 ? list_reads(b, s, NULL) : 0;
    return count;
}

static void find_times(builder *b)
{
    const haul_program *p = b->program;
    for (int64_t i = 0; i < p->operation_count; i++) {
        const haul__machine_work w = haul__program_work_of(p, &p->operations[i]);
        b->before[i + 1] = b->before[i] + haul__machine_time(b->step->machine, b->step->number, &w);
    }
}

static haul_status build(builder *b)
{
    const int segments = (int)smaller(b->step->segment_count, MOST_SEGMENTS);
    int       places[MOST_SEGMENTS];
    find_times(b);
    find_forward(b);
    find_segments(b);
    find_uses(b);
    choose_tensors(b);
    haul_status status =
        haul__memory_model_new(b->m, (int)b->program->operation_count, b->count, segments, count_reads(b, segments));
    if (status)
        return status;
    for (int i = 0; i < b->m->operation_count; i++)
        b->m->time[i] = b->before[i + 1] - b->before[i];
    for (int i = 0; i < b->count; i++)
        add_tensor(b, i);
    add_fixed(b);
    b->m->segment_count = 0;
    for (int s = 0; s < segments; s++) {
        places[s] = b->m->segment_count;
        if (b->segments[s].back >= 0)
            add_segment(b, s);
    }
    for (int i = 0; i < b->count; i++)
        if (b->m->tensors[i].segment >= 0)
            b->m->tensors[i].segment = places[b->m->tensors[i].segment];
    HAUL__ASSERT(b->m->segment_count <= segments && b->read_count == b->m->read_count);
    const haul__machine_link *link = haul__machine_link_of(b->step->machine, b->step->number, 0);
    b->m->overlaps = link && link->overlap;
    b->m->limit = b->step->limit;
    return HAUL_OK;
}

haul_status haul__memory_model_of(const haul__memory_step *step, haul__memory_model *out)
{
    const size_t stores = (size_t)step->program->store_count + 1;
    builder      b = {.step = step,
                      .program = step->program,
                      .lives = step->residency,
                      .m = out,
                      .uses = haul__calloc(stores, sizeof *b.uses),
                      .chosen = haul__calloc(stores, sizeof *b.chosen),
                      .before = haul__calloc((size_t)step->program->operation_count + 2, sizeof *b.before)};
    *out = (haul__memory_model){0};
    const haul_status status =
        b.uses && b.chosen && b.before ? build(&b) : haul__fail_memory(OPERATION, stores * sizeof *b.uses);
    haul__free(b.uses);
    haul__free(b.chosen);
    haul__free(b.before);
    return status;
}

/* ---- the schedule ---- */

static int by_after(const void *a, const void *b)
{
    const haul__spill_move *x = a, *y = b;
    return x->after != y->after ? (x->after < y->after ? -1 : 1) : (x->store > y->store) - (x->store < y->store);
}

haul_status haul__memory_schedule(const haul__memory_step *step, const haul__memory_model *m,
                                  const haul__memory_plan *p, haul__spill_schedule *out)
{
    const haul_program *program = step->program;
    *out = (haul__spill_schedule){.moves = haul__calloc((size_t)m->tensor_count + 1, sizeof *out->moves)};
    if (!out->moves)
        return haul__fail_memory(OPERATION, (size_t)m->tensor_count * sizeof *out->moves);
    for (int i = 0; i < m->tensor_count; i++) {
        const haul__memory_tensor *t = &m->tensors[i];
        if (p->issued[i] < 0)
            continue;
        const bool passes = t->leave < 0;
        HAUL__ASSERT(p->choice.spilled[i] && t->in >= 0);
        out->moves[out->count++] = (haul__spill_move){.store = t->store,
                                                      .after = passes ? program->stores[t->store].last : t->leave,
                                                      .before = p->issued[i] + (passes ? program->operation_count : 0)};
    }
    qsort(out->moves, (size_t)out->count, sizeof *out->moves, by_after);
    HAUL__ASSERT(out->count <= m->tensor_count);
    return HAUL_OK;
}
