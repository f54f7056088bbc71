#include "plan/memory/solve.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "plan/memory/bound.h"

enum {
    ROUNDS = 60,      /* of prices, for each pair of weights */
    FEW_CHOICES = 40, /* with so many, more starts are tried */
    STARTS = 12,
    PROMISING = 16 /* choices that are tried for a peak */
};
static const int64_t STEPS = 100000000; /* places and tensors that are looked at */

/* A choice and what it takes; what exceeds the limit counts before the time. */
typedef struct state {
    haul__memory_choice  choice;
    haul__memory_figures figures;
} state;

typedef struct search {
    const haul__memory_model *m;
    haul__memory_work         work;
    haul__memory_relaxed      relaxed;
    state                     now, best;
    uint8_t                  *memory; /* of all choices */
    haul__memory_choice       priced;
    int64_t                  *kib, *over; /* of operations */
    double                   *price;
    int                       count; /* of choices: tensors, then segments */
    int64_t                   steps; /* that are left */
    int64_t                   base;  /* ps of the operations */
    int64_t                   bound; /* added ps */
    uint64_t                  random;
} search;

/* ---- states ---- */

static void try_now(search *s)
{
    s->steps -= 8 * (int64_t)s->m->operation_count + 32 * (int64_t)s->m->tensor_count;
    s->now.figures = haul__memory_try(&s->work, &s->now.choice);
}

static void copy_choice(const search *s, haul__memory_choice *to, const haul__memory_choice *from)
{
    memcpy(to->spilled, from->spilled, (size_t)s->m->tensor_count);
    memcpy(to->again, from->again, (size_t)s->m->segment_count);
}

static void copy_state(const search *s, state *to, const state *from)
{
    copy_choice(s, &to->choice, &from->choice);
    to->figures = from->figures;
}

static bool is_better(const haul__memory_figures *a, const haul__memory_figures *b)
{
    if (a->over != b->over)
        return a->over < b->over;
    if (a->over && a->excess != b->excess)
        return a->excess < b->excess;
    return a->ps != b->ps ? a->ps < b->ps : a->moved < b->moved;
}

static void keep_best(search *s)
{
    if (is_better(&s->now.figures, &s->best.figures))
        copy_state(s, &s->best, &s->now);
}

static uint8_t *bit_of(const search *s, int choice)
{
    HAUL__ASSERT(choice >= 0 && choice < s->count);
    const int tensors = s->m->tensor_count;
    return choice < tensors ? &s->now.choice.spilled[choice] : &s->now.choice.again[choice - tensors];
}

static bool can_choose(const search *s, int choice)
{
    return choice >= s->m->tensor_count || s->m->tensors[choice].in >= 0;
}

/* ---- repair ---- */

/* How much a change of one choice takes off the excess for its time. */
static double worth_of(const search *s, const haul__memory_figures *before)
{
    const double less = (double)(before->excess - s->now.figures.excess);
    const double more = (double)larger(s->now.figures.ps - before->ps, 0);
    return less > 0 ? less / (more + 1) : 0;
}

/* The bytes that a segment which runs again takes off an operation. */
static int64_t dropped_at(const haul__memory_model *m, int segment, int operation)
{
    int64_t bytes = 0;
    for (int i = 0; i < m->tensor_count; i++) {
        const haul__memory_tensor *t = &m->tensors[i];
        const bool drops = t->drop < operation && operation <= m->segments[segment].back && operation <= t->until;
        bytes += t->segment == segment && drops ? t->bytes : 0;
    }
    return bytes;
}

/* What a choice promises to take off an operation, for its time; below 0: it cannot. A choice that was made is undone
 * only if it may be what needs the memory. */
static double promise_of(const search *s, int choice, int operation)
{
    HAUL__ASSERT(0 <= operation && operation < s->m->operation_count);
    const haul__memory_model *m = s->m;
    if (choice >= m->tensor_count) {
        const haul__memory_segment *x = &m->segments[choice - m->tensor_count];
        if (*bit_of(s, choice))
            return x->back == operation ? 0 : -1;
        const int64_t bytes = dropped_at(m, choice - m->tensor_count, operation);
        return bytes ? (double)bytes / (double)(s->relaxed.before[x->last + 1] - s->relaxed.before[x->first] + 1) : -1;
    }
    const haul__memory_tensor *t = &m->tensors[choice];
    if (t->in < 0 || *bit_of(s, choice) || t->leave >= operation || (t->back >= 0 && t->back < operation))
        return -1;
    return (double)t->bytes / (double)(t->out + t->in + 1);
}

/* The choices that promise most, the best first; returns how many. */
static int list_promising(const search *s, int operation, int out[PROMISING])
{
    double promises[PROMISING];
    int    count = 0;
    for (int i = 0; i < s->count; i++) {
        const double promise = promise_of(s, i, operation);
        if (promise < 0 || (count == PROMISING && promise <= promises[count - 1]))
            continue;
        int k = count < PROMISING ? count++ : count - 1;
        for (; k > 0 && promises[k - 1] < promise; k--) {
            promises[k] = promises[k - 1];
            out[k] = out[k - 1];
        }
        promises[k] = promise;
        out[k] = i;
    }
    HAUL__ASSERT(count <= PROMISING && (count < 2 || promises[0] >= promises[count - 1]));
    return count;
}

/* One choice after the other changes, each time the one that is worth most at the peak, until the limit is kept. */
static void repair(search *s)
{
    int next[PROMISING];
    try_now(s);
    while (s->now.figures.over && s->steps > 0) {
        const haul__memory_figures before = s->now.figures;
        const int                  count = list_promising(s, before.peak_at, next);
        double                     most = 0;
        int                        best = -1;
        for (int i = 0; i < count; i++) {
            *bit_of(s, next[i]) ^= 1;
            try_now(s);
            const double worth = worth_of(s, &before);
            *bit_of(s, next[i]) ^= 1;
            if (worth > most) {
                most = worth;
                best = next[i];
            }
        }
        HAUL__ASSERT(best < 0 || most > 0);
        if (best >= 0)
            *bit_of(s, best) ^= 1;
        try_now(s);
        if (best < 0)
            return;
    }
}

/* ---- improvement ---- */

/* Keeps a change of the state if it is better than `before`. */
static bool keep_change(search *s, const haul__memory_figures *before)
{
    try_now(s);
    return is_better(&s->now.figures, before);
}

static bool change_one(search *s, int i)
{
    const haul__memory_figures before = s->now.figures;
    if (!can_choose(s, i))
        return false;
    *bit_of(s, i) ^= 1;
    if (keep_change(s, &before))
        return true;
    *bit_of(s, i) ^= 1;
    s->now.figures = before;
    return false;
}

static bool change_two(search *s, int i, int k)
{
    const haul__memory_figures before = s->now.figures;
    if (!can_choose(s, i) || !can_choose(s, k))
        return false;
    *bit_of(s, i) ^= 1;
    *bit_of(s, k) ^= 1;
    if (keep_change(s, &before))
        return true;
    *bit_of(s, i) ^= 1;
    *bit_of(s, k) ^= 1;
    s->now.figures = before;
    return false;
}

/* A segment runs again instead of spilling its tensors, or the other way round. */
static bool change_segment(search *s, int segment)
{
    const haul__memory_model *m = s->m;
    HAUL__ASSERT(segment >= 0 && segment < m->segment_count);
    const haul__memory_figures before = s->now.figures;
    copy_choice(s, &s->priced, &s->now.choice);
    const uint8_t again = s->now.choice.again[segment] ^= 1;
    for (int t = 0; t < m->tensor_count; t++)
        if (m->tensors[t].segment == segment)
            s->now.choice.spilled[t] = !again && m->tensors[t].in >= 0;
    if (keep_change(s, &before))
        return true;
    copy_choice(s, &s->now.choice, &s->priced);
    s->now.figures = before;
    return false;
}

static bool improve_once(search *s)
{
    bool better = false;
    for (int i = 0; i < s->count && s->steps > 0; i++)
        better = change_one(s, i) || better;
    for (int i = 0; i < s->m->segment_count && s->steps > 0; i++)
        better = change_segment(s, i) || better;
    for (int i = 0; i < s->count && s->steps > 0; i++)
        for (int k = i + 1; k < s->count && s->steps > 0; k++)
            if (*bit_of(s, i) || *bit_of(s, k))
                better = change_two(s, i, k) || better;
    return better;
}

/* Nothing is better than the best, by its bound. */
static bool is_done(const search *s)
{
    return !s->best.figures.over && s->best.figures.ps <= s->base + larger(s->bound, 0);
}

/* With a quarter of the steps that are left. */
static void repair_and_improve(search *s)
{
    const int64_t others = s->steps / 4 * 3;
    if (is_done(s))
        return;
    s->steps -= others;
    repair(s);
    keep_best(s);
    while (s->steps > 0 && !is_done(s) && improve_once(s))
        keep_best(s);
    keep_best(s);
    HAUL__ASSERT(s->best.figures.over <= s->now.figures.over);
    s->steps = others + larger(s->steps, 0);
}

/* ---- prices ---- */

/* Whole prices, so small that no sum of them is too large. */
static void round_prices(search *s)
{
    const int64_t most = (INT64_C(1) << 56) / (s->m->operation_count + 1) / (s->relaxed.kib + 1) / HAUL__MEMORY_SHARES;
    HAUL__ASSERT(most > 0);
    for (int i = 0; i < s->m->operation_count; i++)
        s->kib[i] = s->price[i] < (double)most ? (int64_t)s->price[i] : most;
}

/* A step of the subgradient method towards the best known time. */
static void move_prices(search *s, int64_t bound, double scale)
{
    const int n = s->m->operation_count;
    double    squares = 0;
    for (int i = 0; i < n; i++)
        if (s->over[i] > 0 || s->price[i] > 0)
            squares += (double)s->over[i] * (double)s->over[i];
    const double target =
        s->best.figures.over ? (double)larger(2 * s->base, 1) : (double)(s->best.figures.ps - s->base);
    if (squares <= 0)
        return;
    const double step = scale * fmax(target - (double)bound, 1) / squares;
    for (int i = 0; i < n; i++)
        s->price[i] = fmax(0, s->price[i] + step * (double)s->over[i]);
}

static void use_weights(search *s, int out, int in)
{
    double  scale = 1.2;
    int64_t highest = INT64_MIN;
    HAUL__ASSERT(!s->m->overlaps || out + in <= HAUL__MEMORY_SHARES);
    int since = 0;
    memset(s->price, 0, ((size_t)s->m->operation_count + 1) * sizeof *s->price);
    for (int round = 0; round < ROUNDS; round++) {
        round_prices(s);
        const haul__memory_prices p = {s->kib, out, in};
        const int64_t             bound = haul__memory_bound(&s->relaxed, &p, &s->priced, s->over);
        since = bound > highest ? 0 : since + 1;
        highest = larger(highest, bound);
        if (since > 4) {
            scale *= 0.6;
            since = 0;
        }
        move_prices(s, bound, scale);
    }
    s->bound = larger(s->bound, highest);
    copy_choice(s, &s->now.choice, &s->priced);
    repair_and_improve(s);
}

static void use_prices(search *s)
{
    static const int weights[][2] = {{8, 8}, {16, 0}, {0, 16}, {4, 4}, {12, 4}, {4, 12}};
    if (!s->m->overlaps) {
        use_weights(s, HAUL__MEMORY_SHARES, HAUL__MEMORY_SHARES);
        return;
    }
    s->bound = larger(s->bound, haul__memory_crossing_bound(&s->relaxed));
    for (size_t i = 0; i < sizeof weights / sizeof *weights && !is_done(s); i++)
        use_weights(s, weights[i][0], weights[i][1]);
}

/* ---- the whole ---- */

static void clear(search *s, uint8_t bit)
{
    for (int i = 0; i < s->count; i++)
        *bit_of(s, i) = can_choose(s, i) ? bit : 0;
}

static uint64_t next_random(search *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* From nothing, from all segments, and for few choices from random ones. */
static void use_starts(search *s)
{
    const int tensors = s->m->tensor_count;
    clear(s, 0);
    repair_and_improve(s);
    clear(s, 0);
    memset(s->now.choice.again, 1, (size_t)s->m->segment_count);
    repair_and_improve(s);
    for (int i = 0; i < STARTS && s->count <= FEW_CHOICES; i++) {
        for (int k = 0; k < s->count; k++)
            *bit_of(s, k) = can_choose(s, k) && next_random(s) % (k < tensors ? 2 : 3) == 0;
        repair_and_improve(s);
    }
}

/* Leaves out of the best what does not help, the smallest first. */
static void trim(search *s)
{
    HAUL__ASSERT(!is_better(&s->now.figures, &s->best.figures));
    copy_state(s, &s->now, &s->best);
    for (int i = s->count - 1; i >= 0; i--)
        if (*bit_of(s, i))
            change_one(s, i);
    keep_best(s);
}

/* Nothing fits: what comes close is enough. */
static void come_close(search *s)
{
    clear(s, 0);
    repair(s);
    keep_best(s);
}

static haul_status take_plan(search *s, haul__memory_plan *out)
{
    const size_t tensors = (size_t)s->m->tensor_count + 1, segments = (size_t)s->m->segment_count + 1;
    out->issued = haul__malloc(tensors * sizeof *out->issued);
    out->choice.spilled = haul__calloc(tensors + segments, 1);
    if (!out->issued || !out->choice.spilled) {
        haul__memory_plan_free(out);
        return haul__fail_memory("haul_fit", tensors * sizeof *out->issued);
    }
    out->choice.again = out->choice.spilled + tensors;
    copy_choice(s, &out->choice, &s->best.choice);
    out->figures = haul__memory_try(&s->work, &out->choice);
    memcpy(out->issued, s->work.issued, (tensors - 1) * sizeof *out->issued);
    for (size_t t = 0; t + 1 < tensors; t++)
        out->choice.spilled[t] = out->issued[t] >= 0; /* without those that have no gap */
    out->bound = s->base + larger(s->bound, 0);
    out->least = haul__memory_least(s->m);
    HAUL__ASSERT(out->figures.over || out->figures.ps >= out->bound);
    HAUL__ASSERT(out->figures.over || out->figures.peak >= out->least);
    return HAUL_OK;
}

static haul_status begin(search *s)
{
    const size_t operations = (size_t)s->m->operation_count + 1;
    const size_t each = (size_t)s->count + 2;
    s->memory = haul__calloc(3 * each, 1);
    s->kib = haul__calloc(3 * operations, sizeof *s->kib);
    if (!s->memory || !s->kib)
        return haul__fail_memory("haul_fit", 3 * operations * sizeof *s->kib);
    s->over = s->kib + operations;
    s->price = (double *)(s->over + operations);
    haul__memory_choice *const all[] = {&s->now.choice, &s->best.choice, &s->priced};
    for (int i = 0; i < 3; i++)
        *all[i] =
            (haul__memory_choice){s->memory + (size_t)i * each, s->memory + (size_t)i * each + s->m->tensor_count};
    haul_status status = haul__memory_work_new(&s->work, s->m);
    return status ? status : haul__memory_relaxed_new(&s->relaxed, s->m);
}

static void end(search *s)
{
    haul__free(s->memory);
    haul__free(s->kib);
    haul__memory_work_free(&s->work);
    haul__memory_relaxed_free(&s->relaxed);
}

haul_status haul__memory_solve(const haul__memory_model *m, haul__memory_plan *out)
{
    search s = {.m = m, .count = m->tensor_count + m->segment_count, .steps = STEPS, .random = 88172645463325252};
    *out = (haul__memory_plan){.bound = 0};
    haul_status status = haul__memory_model_check(m);
    if (!status)
        status = begin(&s);
    if (!status) {
        s.base = haul__memory_time(m);
        s.best.figures = s.now.figures = haul__memory_try(&s.work, &s.now.choice);
        if (s.best.figures.over && haul__memory_least(m) > m->limit) {
            come_close(&s);
        } else if (s.best.figures.over) {
            use_prices(&s);
            use_starts(&s);
            trim(&s);
        }
        status = take_plan(&s, out);
    }
    end(&s);
    return status;
}

void haul__memory_plan_free(haul__memory_plan *p)
{
    haul__free(p->choice.spilled);
    haul__free(p->issued);
    *p = (haul__memory_plan){.bound = 0};
}
