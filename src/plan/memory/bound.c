#include "plan/memory/bound.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"

static int64_t kib_up(int64_t bytes)
{
    return haul__ceil_div(bytes, 1024);
}

/* The operations `from` to `end` - 1. */
typedef struct range {
    int from, end;
} range;

static range cut(range r, int from, int end)
{
    return (range){(int)larger(r.from, from), (int)smaller(r.end, end)};
}

/* Where a spilled tensor is away at most. */
static range gap_of(const haul__memory_tensor *t)
{
    return (range){(int)larger(t->leave + 1, t->from), t->back < 0 ? t->until + 1 : t->back};
}

/* Where it does not exist if its segment runs again. */
static range dropped(const haul__memory_model *m, const haul__memory_tensor *t)
{
    return cut((range){t->drop + 1, m->segments[t->segment].back}, t->from, t->until + 1);
}

/* ---- sums ---- */

static void find_excess(haul__memory_relaxed *r)
{
    const haul__memory_model *m = r->model;
    int64_t                  *bytes = r->sums;
    memset(bytes, 0, ((size_t)m->operation_count + 1) * sizeof *bytes);
    for (int t = 0; t < m->tensor_count; t++) {
        bytes[m->tensors[t].from] += m->tensors[t].bytes;
        bytes[m->tensors[t].until + 1] -= m->tensors[t].bytes;
        r->kib += kib_up(m->tensors[t].bytes);
    }
    int64_t now = 0, most = kib_up(m->limit);
    for (int i = 0; i < m->operation_count; i++) {
        now += bytes[i];
        r->excess[i] = (now + m->fixed[i]) / 1024 - kib_up(m->limit);
        r->before[i + 1] = r->before[i] + m->time[i];
        most = larger(most, r->excess[i]);
    }
    r->kib += most;
    HAUL__ASSERT(now + bytes[m->operation_count] == 0); /* each tensor ends */
}

/* The ends of the time in which there can be copies. */
static void find_window(haul__memory_relaxed *r)
{
    const haul__memory_model *m = r->model;
    r->first = m->operation_count - 1;
    for (int t = 0; t < m->tensor_count; t++)
        if (m->tensors[t].in >= 0) {
            r->first = (int)smaller(r->first, m->tensors[t].leave);
            r->last = (int)larger(r->last, m->tensors[t].back);
        }
    for (int s = 0; s < m->segment_count; s++)
        if (m->segments[s].read_count)
            r->last = (int)larger(r->last, m->segments[s].back);
    HAUL__ASSERT(-1 <= r->first && r->first < m->operation_count && r->last <= m->operation_count);
}

haul_status haul__memory_relaxed_new(haul__memory_relaxed *r, const haul__memory_model *m)
{
    const size_t count = (size_t)m->operation_count + 2;
    *r = (haul__memory_relaxed){.model = m, .excess = haul__calloc(3 * count, sizeof *r->excess)};
    if (!r->excess)
        return haul__fail_memory("haul_fit", 3 * count * sizeof *r->excess);
    r->before = r->excess + count;
    r->sums = r->before + count;
    find_excess(r);
    find_window(r);
    return HAUL_OK;
}

void haul__memory_relaxed_free(haul__memory_relaxed *r)
{
    haul__free(r->excess);
    *r = (haul__memory_relaxed){0};
}

/* Operations that no copy can be under way at. */
static int64_t time_outside(const haul__memory_relaxed *r)
{
    return r->before[r->first + 1] + r->before[r->model->operation_count] - r->before[larger(r->last, r->first + 1)];
}

/* ---- prices ---- */

typedef struct pricing {
    haul__memory_relaxed      *r;
    const haul__memory_model  *m;
    const haul__memory_prices *p;
    haul__memory_choice       *choice;
} pricing;

/* What the tensor pays between these operations, in 1/16 ps. */
static int64_t price_of(const pricing *x, const haul__memory_tensor *t, range r)
{
    return r.from < r.end ? kib_up(t->bytes) * (x->r->sums[r.end] - x->r->sums[r.from]) : 0;
}

static int64_t cost_of(const pricing *x, const haul__memory_tensor *t)
{
    return x->p->out * t->out + x->p->in * t->in;
}

/* Sets the cheaper choice of a tensor: what it changes the sum by. `again`: its segment runs again. */
static int64_t choose_tensor(const pricing *x, int index, bool again)
{
    const haul__memory_tensor *t = &x->m->tensors[index];
    const range                gap = again ? cut(gap_of(t), 0, t->drop + 1) : gap_of(t);
    const int64_t              spilled = t->in < 0 ? 0 : cost_of(x, t) - price_of(x, t, gap);
    const int64_t              without = again ? price_of(x, t, dropped(x->m, t)) : 0;
    HAUL__ASSERT(without >= 0); /* prices are not negative */
    x->choice->spilled[index] = spilled < 0;
    return smaller(spilled, 0) - without;
}

static int64_t choose_tensors(const pricing *x, int segment, bool again)
{
    int64_t sum = 0;
    for (int t = 0; t < x->m->tensor_count; t++)
        if (x->m->tensors[t].segment == segment)
            sum += choose_tensor(x, t, again);
    return sum;
}

static int64_t choose_segment(const pricing *x, int index)
{
    const haul__memory_segment *s = &x->m->segments[index];
    const int     weight = x->m->overlaps ? HAUL__MEMORY_SHARES - x->p->out - x->p->in : HAUL__MEMORY_SHARES;
    const int64_t ps = x->r->before[s->last + 1] - x->r->before[s->first];
    HAUL__ASSERT(weight >= 0 && ps >= 0);
    const int64_t again = weight * ps + choose_tensors(x, index, true);
    const int64_t kept = choose_tensors(x, index, false);
    x->choice->again[index] = again < kept;
    return again < kept ? weight * ps + choose_tensors(x, index, true) : kept;
}

static void take(const haul__memory_tensor *t, range r, int64_t *over)
{
    if (r.from >= r.end)
        return;
    over[r.from] -= kib_up(t->bytes);
    over[r.end] += kib_up(t->bytes);
}

/* The KiB above the limit with the choice. */
static void find_over(const pricing *x, int64_t *over)
{
    const haul__memory_model *m = x->m;
    memset(over, 0, ((size_t)m->operation_count + 1) * sizeof *over);
    for (int i = 0; i < m->tensor_count; i++) {
        const haul__memory_tensor *t = &m->tensors[i];
        const bool                 again = t->segment >= 0 && x->choice->again[t->segment];
        if (again)
            take(t, dropped(m, t), over);
        if (x->choice->spilled[i])
            take(t, again ? cut(gap_of(t), 0, t->drop + 1) : gap_of(t), over);
    }
    int64_t now = 0;
    for (int i = 0; i < m->operation_count; i++) {
        now += over[i];
        over[i] = now + x->r->excess[i];
    }
    HAUL__ASSERT(now + over[m->operation_count] == 0);
}

int64_t haul__memory_bound(haul__memory_relaxed *r, const haul__memory_prices *p, haul__memory_choice *choice,
                           int64_t *over)
{
    const haul__memory_model *m = r->model;
    const pricing             x = {r, m, p, choice};
    int64_t                   sum = 0, pays = 0;
    for (int i = 0; i < m->operation_count; i++) {
        r->sums[i] = sum;
        sum += HAUL__MEMORY_SHARES * p->kib[i];
        pays += HAUL__MEMORY_SHARES * p->kib[i] * r->excess[i];
    }
    r->sums[m->operation_count] = sum;
    if (m->overlaps)
        pays -= (p->out + p->in) * (r->before[m->operation_count] - time_outside(r));
    for (int s = 0; s < m->segment_count; s++)
        pays += choose_segment(&x, s);
    pays += choose_tensors(&x, -1, false);
    find_over(&x, over);
    return pays >= 0 ? pays / HAUL__MEMORY_SHARES : -haul__ceil_div(-pays, HAUL__MEMORY_SHARES);
}

/* ---- single operations ---- */

static bool holds(range r, int operation)
{
    return r.from <= operation && operation < r.end;
}

/* Copies of a KiB to the host and back, and the operations between which they are, for tensors that may be away at an
 * operation. */
typedef struct crossing {
    int64_t ps; /* the least; -1: none may be away */
    int     first, last;
} crossing;

static crossing crossing_at(const haul__memory_relaxed *r, int operation)
{
    crossing c = {.ps = -1, .first = operation, .last = r->last};
    for (int i = 0; i < r->model->tensor_count; i++) {
        const haul__memory_tensor *t = &r->model->tensors[i];
        if (t->in < 0 || !t->bytes || !holds(gap_of(t), operation))
            continue;
        const int64_t ps = (t->out + t->in) / kib_up(t->bytes);
        c.ps = c.ps < 0 ? ps : smaller(c.ps, ps);
        c.first = (int)smaller(c.first, t->leave);
    }
    HAUL__ASSERT(c.first <= operation);
    return c;
}

/* The KiB that a segment which runs again releases at an operation. */
static int64_t released(const haul__memory_model *m, int segment, int operation)
{
    int64_t kib = 0;
    for (int i = 0; i < m->tensor_count; i++)
        if (m->tensors[i].segment == segment && holds(dropped(m, &m->tensors[i]), operation))
            kib += kib_up(m->tensors[i].bytes);
    return kib;
}

/* The best bound by one operation and any weights. `kib` has room for the segments. */
static int64_t bound_at(const haul__memory_relaxed *r, int operation, int64_t *kib)
{
    const haul__memory_model *m = r->model;
    const crossing            c = crossing_at(r, operation);
    int64_t                   best = 0;
    HAUL__ASSERT(r->excess[operation] > 0);
    if (c.ps < 0)
        return 0;
    const int64_t hidden = r->before[larger(c.last, operation + 1)] - r->before[c.first + 1] - m->time[operation];
    for (int s = 0; s < m->segment_count; s++)
        kib[s] = released(m, s, operation);
    for (int weight = 1; weight <= HAUL__MEMORY_SHARES; weight++) {
        int64_t sum = weight * (c.ps * r->excess[operation] - hidden);
        for (int s = 0; s < m->segment_count; s++) {
            const int64_t ps = r->before[m->segments[s].last + 1] - r->before[m->segments[s].first];
            sum += smaller(0, (HAUL__MEMORY_SHARES - weight) * ps - weight * c.ps * kib[s]);
        }
        best = larger(best, sum / HAUL__MEMORY_SHARES);
    }
    return best;
}

int64_t haul__memory_crossing_bound(const haul__memory_relaxed *r)
{
    const haul__memory_model *m = r->model;
    int64_t                   best = 0;
    int64_t                  *kib = m->overlaps ? haul__calloc((size_t)m->segment_count + 1, sizeof *kib) : NULL;
    for (int i = 0; kib && i < m->operation_count; i++)
        if (r->excess[i] > 0)
            best = larger(best, bound_at(r, i, kib));
    haul__free(kib);
    return best;
}

/* ---- bytes ---- */

bool haul__memory_may_be_away(const haul__memory_tensor *t, int operation)
{
    return t->in >= 0 && holds(gap_of(t), operation);
}

int64_t haul__memory_least(const haul__memory_model *m)
{
    int64_t most = 0;
    for (int i = 0; i < m->operation_count; i++) {
        int64_t bytes = m->fixed[i];
        for (int k = 0; k < m->tensor_count; k++) {
            const haul__memory_tensor *t = &m->tensors[k];
            const bool                 lives = t->from <= i && i <= t->until;
            const bool goes = haul__memory_may_be_away(t, i) || (t->segment >= 0 && holds(dropped(m, t), i));
            bytes += lives && !goes ? t->bytes : 0;
        }
        most = larger(most, bytes);
    }
    return most;
}
