#include "plan/graph/overlap.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/splitmix.h"
#include "core/error.h"
#include "plan/graph/expand.h"
#include "plan/graph/makespan.h"

enum {
    KICKS = 24,
    KICKED = 3 /* groups that a kick moves */
};
static const int64_t STEPS = 40000000; /* operations, uses and tensors that are looked at */

typedef struct ranked {
    double rank;
    int    number;
} ranked;

typedef struct search {
    const haul__place_graph *g;
    haul__makespan           schedule;
    uint8_t                 *best, *now, *kept; /* `kept`: of the groups of a move, before it */
    ranked                  *operations;        /* in the order of their priorities */
    int                     *groups;            /* the same */
    int                     *module;            /* of each group: another group of its module, or itself */
    int64_t                 *scratch;
    int64_t                  before, least, now_ps; /* of the first placement, of `best` and of `now` */
    int64_t                  steps;                 /* that are left */
    bool                     limited;
} search;

static int64_t makespan_of(search *s, const uint8_t *place)
{
    s->steps -= haul__makespan_effort(&s->schedule);
    return haul__makespan_of(&s->schedule, place, NULL);
}

static bool fits(search *s, const uint8_t *place)
{
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    if (!s->limited)
        return true;
    s->steps -= haul__makespan_effort(&s->schedule);
    haul__place_peaks(s->g, place, s->scratch, peaks);
    return haul__place_fits(s->g, peaks);
}

static void keep_if_best(search *s)
{
    if (s->now_ps >= s->least)
        return;
    s->least = s->now_ps;
    memcpy(s->best, s->now, s->g->group_count);
}

/* ---- moves ---- */

/* Accepts the placement in `now` if it is shorter and fits. */
static bool accept(search *s)
{
    const int64_t ps = makespan_of(s, s->now);
    if (ps >= s->now_ps || !fits(s, s->now))
        return false;
    s->now_ps = ps;
    return true;
}

static bool can_move(const search *s, int group, int device)
{
    return s->now[group] != device && haul__place_allows(s->g, group, device);
}

static bool move_group(search *s, int group, int device)
{
    const uint8_t before = s->now[group];
    if (!can_move(s, group, device))
        return false;
    s->now[group] = (uint8_t)device;
    if (accept(s))
        return true;
    s->now[group] = before;
    return false;
}

static bool move_pair(search *s, int a, int b, int on_a, int on_b)
{
    const uint8_t before_a = s->now[a], before_b = s->now[b];
    if (!can_move(s, a, on_a) || !can_move(s, b, on_b))
        return false;
    s->now[a] = (uint8_t)on_a;
    s->now[b] = (uint8_t)on_b;
    if (accept(s))
        return true;
    s->now[a] = before_a;
    s->now[b] = before_b;
    return false;
}

/* All groups of a module that can. */
static bool move_module(search *s, int module, int device)
{
    bool moves = false;
    memcpy(s->kept, s->now, s->g->group_count);
    for (size_t k = 0; k < s->g->group_count; k++)
        if (s->module[k] == module && can_move(s, (int)k, device)) {
            s->now[k] = (uint8_t)device;
            moves = true;
        }
    if (moves && accept(s))
        return true;
    memcpy(s->now, s->kept, s->g->group_count);
    return false;
}

static bool climb_modules(search *s)
{
    bool better = false;
    for (size_t i = 0; i < s->g->group_count; i++)
        for (int d = 0; d < s->g->device_count && s->module[s->groups[i]] == s->groups[i] && s->steps > 0; d++)
            better = move_module(s, s->groups[i], d) || better;
    return better;
}

static bool climb_groups(search *s)
{
    bool better = false;
    for (size_t i = 0; i < s->g->group_count; i++)
        for (int d = 0; d < s->g->device_count && s->steps > 0; d++)
            better = move_group(s, s->groups[i], d) || better;
    return better;
}

static bool climb_pairs(search *s)
{
    const int n = s->g->device_count;
    bool      better = false;
    for (int a = 0; a < (int)s->g->group_count && haul__place_is_small(s->g); a++)
        for (int b = 0; b < a; b++)
            for (int i = 0; i < n * n && s->steps > 0; i++)
                better = move_pair(s, a, b, i / n, i % n) || better;
    return better;
}

/* From a start in `now` that fits. */
static void climb(search *s)
{
    while (s->steps > 0 && (climb_modules(s) || climb_groups(s) || climb_pairs(s)))
        continue;
    keep_if_best(s);
}

static void try_start(search *s)
{
    if (!fits(s, s->now))
        return;
    s->now_ps = makespan_of(s, s->now);
    climb(s);
}

/* ---- starts ---- */

/* The cheapest placement with copies that take a part of their time, as if the rest were hidden. */
static haul_status start_with_cheap_copies(search *s, int64_t divisor)
{
    static const haul__place_proof unpriced = {.share_count = 0};
    haul__place_graph              cheap = *s->g;
    HAUL__ASSERT(divisor > 0);
    const size_t n = (size_t)cheap.device_count * (size_t)cheap.device_count * cheap.tensor_count;
    cheap.times = haul__malloc((n + 1) * sizeof *cheap.times);
    if (!cheap.times)
        return haul__fail_memory("haul plan", n * sizeof *cheap.times);
    for (size_t i = 0; i < n; i++)
        cheap.times[i] = s->g->times[i] / divisor;
    memcpy(s->now, s->best, s->g->group_count);
    const haul_status status = haul__place_expand_all(&cheap, &unpriced, s->now);
    haul__free(cheap.times);
    return status;
}

/* When the operation would end on a device, in the list schedule; `ends` has the ends of operations, `at` their
 * devices. */
static double end_on(const search *s, int operation, int device, const double *ends, const double *idle)
{
    const haul__place_graph *g = s->g;
    double                   start = idle[device];
    for (int k = s->schedule.input[operation]; k < s->schedule.input[operation + 1]; k++) {
        const haul__place_tensor *t = &g->tensors[s->schedule.inputs[k]];
        const int                 from = s->now[g->operations[t->producer].group];
        const double              there = ends[t->producer] + (double)haul__place_copy_time(g, t, from, device);
        start = there > start ? there : start;
    }
    return start + (double)g->operations[operation].cost[device];
}

/* A group gets its device with the first of its operations. */
static haul_status start_by_list(search *s)
{
    const haul__place_graph *g = s->g;
    double                  *ends = haul__calloc(g->operation_count + 1, sizeof *ends);
    double                   idle[HAUL__PLACE_DEVICES] = {0};
    if (!ends)
        return haul__fail_memory("haul plan", g->operation_count * sizeof *ends);
    memset(s->kept, 0, g->group_count);
    haul__place_all_on(g, 0, s->now);
    for (size_t i = 0; i < g->operation_count; i++) {
        const int operation = s->operations[i].number, group = g->operations[operation].group;
        double    end = end_on(s, operation, s->now[group], ends, idle);
        for (int d = 0; d < g->device_count && !s->kept[group]; d++) {
            const double there = haul__place_allows(g, group, d) ? end_on(s, operation, d, ends, idle) : end;
            if (there < end) {
                s->now[group] = (uint8_t)d;
                end = there;
            }
        }
        HAUL__ASSERT(haul__place_allows(g, group, s->now[group]));
        s->kept[group] = 1;
        ends[operation] = idle[s->now[group]] = end;
    }
    haul__free(ends);
    return HAUL_OK;
}

/* From the best one, with some groups elsewhere. */
static void try_kicks(search *s)
{
    const size_t n = s->g->group_count;
    uint64_t     state = 1;
    for (int i = 0; i < KICKS && haul__place_is_small(s->g) && n && s->steps > 0; i++) {
        memcpy(s->now, s->best, n);
        for (int k = 0; k < KICKED; k++) {
            const int group = (int)(haul__splitmix_draw(&state) % n);
            const int device = (int)(haul__splitmix_draw(&state) % (uint64_t)s->g->device_count);
            s->now[group] = (uint8_t)haul__place_allowed(s->g, group, device);
        }
        try_start(s);
    }
}

static haul_status try_all(search *s)
{
    haul_status status = HAUL_OK;
    memcpy(s->now, s->best, s->g->group_count);
    s->now_ps = s->least = s->before = makespan_of(s, s->now);
    climb(s);
    for (int64_t divisor = 2; divisor <= 8 && !status; divisor *= 4) {
        status = start_with_cheap_copies(s, divisor);
        if (!status)
            try_start(s);
    }
    if (!status)
        status = start_by_list(s);
    if (status)
        return status;
    try_start(s);
    for (int d = 0; d < s->g->device_count; d++) {
        haul__place_all_on(s->g, d, s->now);
        try_start(s);
    }
    try_kicks(s);
    return HAUL_OK;
}

/* ---- the whole ---- */

static int compare_ranks(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? 1 : -1;
    return x->number - y->number;
}

typedef struct named {
    const char *path;
    int         group;
} named;

static int compare_names(const void *a, const void *b)
{
    const named *x = a, *y = b;
    const int    order = strcmp(x->path, y->path);
    return order ? order : x->group - y->group;
}

/* The first group of each module stands for it; groups without a module stand for themselves. */
static haul_status find_modules(search *s, const int *first)
{
    const size_t n = s->g->group_count;
    named       *names = haul__malloc((n + 1) * sizeof *names);
    if (!names)
        return haul__fail_memory("haul plan", n * sizeof *names);
    for (size_t k = 0; k < n; k++) {
        HAUL__ASSERT(first[k] >= 0); /* each group has an operation */
        names[k] = (named){s->g->operations[first[k]].module, (int)k};
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 0; i < n; i++) {
        const bool same = i && *names[i].path && !strcmp(names[i].path, names[i - 1].path);
        s->module[names[i].group] = same ? s->module[names[i - 1].group] : names[i].group;
        HAUL__ASSERT(s->module[names[i].group] <= names[i].group);
    }
    haul__free(names);
    return HAUL_OK;
}

static haul_status sort_groups(search *s)
{
    const haul__place_graph *g = s->g;
    double                  *ranks = haul__calloc(g->operation_count + 1, sizeof *ranks);
    int                     *first = haul__malloc((g->group_count + 1) * sizeof *first);
    size_t                   count = 0;
    if (!ranks || !first) {
        haul__free(ranks);
        haul__free(first);
        return haul__fail_memory("haul plan", g->operation_count * sizeof *ranks);
    }
    haul__makespan_ranks(&s->schedule, ranks);
    for (size_t i = 0; i < g->operation_count; i++)
        s->operations[i] = (ranked){ranks[i], (int)i};
    qsort(s->operations, g->operation_count, sizeof *s->operations, compare_ranks);
    for (size_t k = 0; k < g->group_count; k++)
        first[k] = -1;
    for (size_t i = 0; i < g->operation_count; i++) {
        const int group = g->operations[s->operations[i].number].group;
        if (first[group] < 0) {
            first[group] = s->operations[i].number;
            s->groups[count++] = group;
        }
    }
    HAUL__ASSERT(count == g->group_count);
    const haul_status status = find_modules(s, first);
    haul__free(ranks);
    haul__free(first);
    return status;
}

haul_status haul__place_overlap(const haul__place_graph *g, uint8_t *place, int64_t *before, int64_t *makespan)
{
    const size_t n = g->group_count + 1, moments = (size_t)g->device_count * (g->operation_count + 1);
    search       s = {.g = g,
                      .best = place,
                      .now = haul__calloc(2 * n, 1),
                      .operations = haul__calloc(g->operation_count + 1, sizeof *s.operations),
                      .groups = haul__calloc(2 * n, sizeof *s.groups),
                      .scratch = haul__calloc(moments, sizeof *s.scratch),
                      .steps = STEPS};
    haul_status  status = haul__makespan_new(g, &s.schedule);
    if (!status && (!s.now || !s.operations || !s.groups || !s.scratch))
        status = haul__fail_memory("haul plan", moments * sizeof *s.scratch);
    if (!status) {
        s.kept = s.now + n;
        s.module = s.groups + n;
        for (int d = 0; d < g->device_count; d++)
            s.limited = s.limited || g->limit[d] > 0;
        status = sort_groups(&s);
    }
    if (!status)
        status = try_all(&s);
    HAUL__ASSERT(status || s.least <= s.before);
    *before = s.before;
    *makespan = s.least;
    haul__makespan_free(&s.schedule);
    haul__free(s.now);
    haul__free(s.operations);
    haul__free(s.groups);
    haul__free(s.scratch);
    return status;
}
