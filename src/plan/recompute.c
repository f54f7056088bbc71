#include "plan/recompute.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/text/list.h"
#include "core/error.h"
#include "nn/module.h"

/* ---- finding ---- */

static int child_count(haul_module *m)
{
    return haul_module_children(m, NULL, 0);
}

/* True if the layer has a matrix, or a larger tensor, of weights. */
static bool has_matrix(haul_module *layer)
{
    haul_named_tensor all[8];
    int               count = haul_module_tensors(layer, all, 8);
    bool              found = false;
    for (int i = 0; i < count && i < 8; i++)
        found = found || (!all[i].is_buffer && haul_tensor_ndim(all[i].tensor) >= 2);
    return found;
}

/* A sequence of blocks. */
static bool is_stage(haul_module *m)
{
    haul_named_module children[HAUL__MOST_SEGMENTS];
    int               count = haul_module_children(m, children, HAUL__MOST_SEGMENTS);
    if (strcmp(haul_module_kind(m), "sequential") != 0 || count < 1 || count > HAUL__MOST_SEGMENTS)
        return false;
    for (int i = 0; i < count; i++)
        if (child_count(children[i].module) < 1)
            return false;
    return true;
}

/* Paths and names that do not fit are left out: a segment must be found again by them. */
static void add(haul__segments *out, const char *holder, const char *first, const char *last)
{
    haul__segment *p = &out->items[out->count];
    const bool     one = !strcmp(first, last);
    if (out->count == HAUL__MOST_SEGMENTS || strlen(holder) >= sizeof p->holder || strlen(first) >= sizeof p->first ||
        strlen(last) >= sizeof p->last)
        return;
    *p = (haul__segment){.on = false};
    strcpy(p->holder, holder);
    strcpy(p->first, first);
    strcpy(p->last, last);
    snprintf(p->name, sizeof p->name, "%s%s%s%s%s", holder, *holder ? "." : "", first, one ? "" : "..",
             one ? "" : last);
    out->count++;
}

/* Layers between blocks form runs; each has one layer with a matrix of weights, and those without around it. A module
 * that does not just call its children in order has no runs: its blocks are segments by themselves. */
static void find(haul_module *m, const char *path, haul__segments *out)
{
    haul_named_module children[HAUL__MOST_SEGMENTS];
    int               count = haul_module_children(m, children, HAUL__MOST_SEGMENTS), begin = 0;
    bool              has = false, in_order = haul__calls_in_order(m);
    char              below[80];
    count = count > HAUL__MOST_SEGMENTS ? HAUL__MOST_SEGMENTS : count;
    for (int i = 0; i <= count; i++) {
        HAUL__ASSERT(begin <= i && out->count <= HAUL__MOST_SEGMENTS);
        bool ends = i == count || child_count(children[i].module) > 0;
        bool matrix = !ends && has_matrix(children[i].module);
        if ((ends || (matrix && has)) && begin < i) {
            if (in_order)
                add(out, path, children[begin].name, children[i - 1].name);
            begin = i;
            has = false;
        }
        has = has || matrix;
        if (i == count || !ends)
            continue;
        begin = i + 1;
        if (!is_stage(children[i].module))
            add(out, path, children[i].name, children[i].name);
        else if ((size_t)snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", children[i].name) <
                 sizeof below)
            find(children[i].module, below, out);
    }
}

haul_status haul__segments_find(haul_module *net, haul__segments *out)
{
    *out = (haul__segments){.count = 0};
    if (child_count(net) < 0)
        return haul_error_status();
    find(net, "", out);
    return HAUL_OK;
}

static haul_status apply(const haul__segment *one, haul_module *net)
{
    haul_module *holder = *one->holder ? haul_module_child(net, one->holder) : net;
    if (!holder)
        return haul_error_status();
    if (haul__calls_in_order(holder))
        return haul_module_recompute_children(holder, one->first, one->last, one->on);
    haul_module *block = haul_module_child(holder, one->first);
    return block ? haul_module_recompute(block, one->on) : haul_error_status();
}

haul_status haul__segments_apply(const haul__segments *p, haul_module *net)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < p->count && !status; i++)
        status = apply(&p->items[i], net);
    return status;
}

/* True if the path begins with a child of the holder between the segment's first and last one. */
static bool contains(const haul__segment *s, haul_module *net, const char *path)
{
    const size_t      length = strlen(s->holder);
    haul_named_module children[HAUL__MOST_SEGMENTS];
    char              child[sizeof s->first];
    if (length && (strncmp(path, s->holder, length) != 0 || path[length] != '.'))
        return false;
    const char  *name = path + length + (length > 0);
    const size_t size = strcspn(name, ".");
    if (!size || size >= sizeof child)
        return false;
    snprintf(child, sizeof child, "%.*s", (int)size, name);
    haul_module *holder = length ? haul_module_child(net, s->holder) : net;
    const int    count = holder ? haul_module_children(holder, children, HAUL__MOST_SEGMENTS) : 0;
    bool         within = false;
    for (int i = 0; i < count && i < HAUL__MOST_SEGMENTS; i++) {
        within = within || !strcmp(children[i].name, s->first);
        if (within && !strcmp(children[i].name, child))
            return true;
        if (!strcmp(children[i].name, s->last))
            return false;
    }
    return false;
}

int haul__segment_of(const haul__segments *p, haul_module *net, const char *path)
{
    for (int i = 0; i < p->count && *path; i++)
        if (contains(&p->items[i], net, path))
            return i;
    return -1;
}

int haul__segments_count_on(const haul__segments *p)
{
    int count = 0;
    for (int i = 0; i < p->count; i++)
        count += p->items[i].on;
    return count;
}

bool haul__segments_equal(const haul__segments *a, const haul__segments *b)
{
    HAUL__ASSERT(a->count == b->count); /* of one network */
    for (int i = 0; i < a->count; i++)
        if (a->items[i].on != b->items[i].on)
            return false;
    return true;
}

void haul__segments_turn_all(haul__segments *p, bool on)
{
    for (int i = 0; i < p->count; i++)
        p->items[i].on = on;
}

void haul__segments_take(haul__segments *p, const haul__memory_model *m, const haul__memory_plan *plan)
{
    haul__segments_turn_all(p, false);
    HAUL__ASSERT(m->segment_count <= p->count);
    for (int i = 0; i < m->segment_count; i++)
        p->items[m->segments[i].number].on = plan->choice.again[i];
}

const char *haul__segments_names(const haul__segments *p, char *out, size_t size)
{
    *out = '\0';
    for (int i = 0; i < p->count; i++)
        if (p->items[i].on)
            haul__list_add(out, size, "%s", p->items[i].name);
    return out;
}

/* ---- choosing ---- */

/* Turns on what the planner of memory chooses for a target, which becomes the model's limit; *peak becomes the plan's.
 */
static haul_status plan_for(haul__segments *p, haul__memory_model *m, int64_t target, int64_t *peak)
{
    haul__memory_plan plan;
    HAUL__ASSERT(target >= 0);
    m->limit = target;
    const haul_status status = haul__memory_solve(m, &plan);
    if (!status)
        haul__segments_take(p, m, &plan);
    *peak = plan.figures.peak;
    haul__memory_plan_free(&plan);
    return status;
}

/* Halves the targets between 0 and `high`, the peak of the choice in *p, and takes each choice whose peak is lower. */
static haul_status find_lower(haul__segments *p, haul__memory_model *m, int64_t high)
{
    enum { HALVINGS = 12 };
    int64_t        low = 0, peak;
    haul_status    status = HAUL_OK;
    haul__segments tried = *p;
    for (int i = 0; i < HALVINGS && !status && high - low > 1; i++) {
        const int64_t middle = low + (high - low) / 2;
        HAUL__ASSERT(low < middle && middle < high);
        status = plan_for(&tried, m, middle, &peak);
        if (!status && peak < high) {
            high = peak;
            *p = tried;
        }
        if (!status && peak > middle)
            low = middle;
    }
    return status;
}

/* Turns on the segments with which a step is fastest and its peak is at most step->limit, by the model. If no choice is
 * within the limit, those with which the peak is lowest; *fits is false then. */
static haul_status choose(haul__segments *p, const haul__memory_step *step, bool *fits)
{
    haul__memory_model m;
    int64_t            peak = 0;
    haul_status        status = haul__memory_model_of(step, &m);
    if (!status)
        status = plan_for(p, &m, step->limit, &peak);
    *fits = !status && peak <= step->limit;
    if (!status && !*fits)
        status = find_lower(p, &m, peak);
    haul__memory_model_free(&m);
    return status;
}

/* ---- tries ---- */

/* A choice that was tried, by the bits of its segments. */
typedef struct tried {
    uint64_t on;
    int64_t  peak;
} tried;

enum { MOST_PROPOSALS = 4, MOST_EXCHANGES = 24, MOST_TRIED = 256 };

typedef struct search {
    const haul__segments_tries *tries;
    haul__segments              best;                      /* the choice so far */
    int64_t                     peak;                      /* its peak */
    int64_t                     time[HAUL__MOST_SEGMENTS]; /* ps of each segment; HAUL__MEMORY_MOST: not known */
    tried                       tried[MOST_TRIED];
    int                         count;
} search;

static uint64_t bits_of(const haul__segments *p)
{
    uint64_t on = 0;
    for (int i = 0; i < p->count; i++)
        on |= (uint64_t)p->items[i].on << i;
    return on;
}

static haul_status try_choice(search *s, const haul__segments *p, int64_t enough, int64_t *peak)
{
    HAUL__ASSERT(p->count == s->best.count && s->count <= MOST_TRIED);
    const uint64_t on = bits_of(p);
    for (int i = 0; i < s->count; i++)
        if (s->tried[i].on == on) {
            *peak = s->tried[i].peak;
            return HAUL_OK;
        }
    const haul_status status = s->tries->run(s->tries->context, p, enough, peak);
    if (!status && s->count < MOST_TRIED)
        s->tried[s->count++] = (tried){on, *peak};
    return status;
}

static bool is_within(const search *s, int64_t peak)
{
    return s->tries->limit && peak <= s->tries->limit;
}

static int64_t time_of(const search *s, const haul__segments *p)
{
    int64_t ps = 0;
    for (int i = 0; i < p->count; i++)
        ps += p->items[i].on ? smaller(s->time[i], HAUL__MEMORY_MOST / HAUL__MOST_SEGMENTS) : 0;
    return ps;
}

static haul_status find_times(search *s, const haul__memory_step *step)
{
    haul__memory_model m;
    for (int i = 0; i < HAUL__MOST_SEGMENTS; i++)
        s->time[i] = HAUL__MEMORY_MOST;
    const haul_status status = haul__memory_model_of(step, &m);
    for (int i = 0; i < m.segment_count && !status; i++) {
        int64_t *ps = &s->time[m.segments[i].number];
        *ps = 0;
        HAUL__ASSERT(m.segments[i].number < HAUL__MOST_SEGMENTS && m.segments[i].first <= m.segments[i].last);
        for (int k = m.segments[i].first; k <= m.segments[i].last; k++)
            *ps += m.time[k];
    }
    haul__memory_model_free(&m);
    return status;
}

/* Tries a choice as a whole. It remains if it is the first one within the limit, or faster than another one that is, or
 * if none is and its peak is lower. */
static haul_status propose(search *s, const haul__segments *p, int64_t *peak)
{
    const haul_status status = try_choice(s, p, 0, peak);
    if (status)
        return status;
    const bool fits = is_within(s, *peak), fitted = is_within(s, s->peak);
    if (fits != fitted ? fits : fits ? time_of(s, p) < time_of(s, &s->best) : *peak < s->peak) {
        HAUL__ASSERT(fits || !fitted); /* what fits is replaced by what fits */
        s->best = *p;
        s->peak = *peak;
    }
    return HAUL_OK;
}

/* What the planner proposes, for lower limits as long as steps exceed its own. */
static haul_status propose_some(search *s, const haul__memory_step *step)
{
    haul__segments    p = s->best;
    haul__memory_step now = *step;
    bool              fits = true;
    int64_t           peak = 0;
    haul_status       status = HAUL_OK;
    for (int i = 0; i < MOST_PROPOSALS && fits && !status; i++) {
        status = choose(&p, &now, &fits);
        if (!status && haul__segments_count_on(&p))
            status = propose(s, &p, &peak);
        if (status || is_within(s, s->peak))
            return status;
        now.limit -= smaller(now.limit, larger(peak - s->tries->limit, 1));
    }
    return status;
}

/* All segments if nothing is within the limit yet, and what the planner proposes for limits above its own, which may be
 * too strict: halves the range up to its peak without recomputation. */
static haul_status propose_more(search *s, const haul__memory_step *step)
{
    enum { HALVINGS = 10 };
    haul__segments    p = s->best;
    haul__memory_step now = *step;
    int64_t           low = step->limit, high = 0, peak = 0;
    bool              fits;
    haul_status       status = haul__segments_peak(step, &high);
    haul__segments_turn_all(&p, true);
    if (!status && !is_within(s, s->peak))
        status = propose(s, &p, &peak);
    for (int i = 0; i < HALVINGS && !status && is_within(s, s->peak) && high - low > 1; i++) {
        now.limit = low + (high - low) / 2;
        HAUL__ASSERT(low < now.limit && now.limit < high);
        status = choose(&p, &now, &fits);
        if (!status)
            status = propose(s, &p, &peak);
        *(is_within(s, peak) ? &low : &high) = now.limit;
    }
    return status;
}

/* Takes the choice if it is within the limit. */
static haul_status take_within(search *s, const haul__segments *p, bool *taken)
{
    int64_t peak;
    HAUL__ASSERT(s->tries->limit > 0 && is_within(s, s->peak)); /* the choice so far fits */
    const haul_status status = try_choice(s, p, s->tries->limit, &peak);
    *taken = !status && is_within(s, peak);
    if (*taken) {
        s->best = *p;
        s->peak = peak;
    }
    return status;
}

/* The segment with the longest time of those that are on and not `done`; -1: none. */
static int slowest(const search *s, uint64_t done)
{
    int best = -1;
    for (int i = 0; i < s->best.count; i++)
        if (s->best.items[i].on && !(done >> i & 1) && (best < 0 || s->time[i] > s->time[best]))
            best = i;
    return best;
}

/* Turns off segments without which the peak is within the limit, the slowest ones first, until there is none. */
static haul_status turn_off(search *s)
{
    haul_status status = HAUL_OK;
    uint64_t    done = 0;
    for (int i = slowest(s, done); i >= 0 && !status; i = slowest(s, done)) {
        haul__segments p = s->best;
        bool           taken;
        p.items[i].on = false;
        status = take_within(s, &p, &taken);
        done = taken ? 0 : done | UINT64_C(1) << i;
    }
    return status;
}

/* Puts a segment that takes less time in the place of one that is on. */
static haul_status exchange(search *s, int *left, bool *changed)
{
    haul_status status = HAUL_OK;
    uint64_t    done = 0;
    *changed = false;
    for (int i = slowest(s, done); i >= 0 && !*changed; i = slowest(s, done)) {
        for (int k = 0; k<s->best.count && * left> 0 && !*changed && !status; k++) {
            haul__segments p = s->best;
            if (p.items[k].on || s->time[k] >= s->time[i])
                continue;
            p.items[i].on = false;
            p.items[k].on = true;
            HAUL__ASSERT(s->best.items[i].on && !s->best.items[k].on);
            --*left;
            status = take_within(s, &p, changed);
        }
        done |= UINT64_C(1) << i;
    }
    return status;
}

haul_status haul__segments_search(haul__segments *p, const haul__memory_step *step, const haul__segments_tries *tries)
{
    search *s = haul__malloc(sizeof *s);
    int     left = MOST_EXCHANGES;
    bool    changed = true;
    if (!s)
        return haul__fail_memory("haul_fit", sizeof *s);
    *s = (search){.tries = tries, .best = *p, .peak = tries->plain_peak};
    haul__segments_turn_all(&s->best, false);
    haul_status status = find_times(s, step);
    if (!status)
        status = propose_some(s, step);
    if (!status)
        status = propose_more(s, step);
    while (!status && is_within(s, s->peak) && changed) {
        status = turn_off(s);
        if (!status)
            status = exchange(s, &left, &changed);
    }
    HAUL__ASSERT(0 <= left && left <= MOST_EXCHANGES);
    *p = s->best;
    haul__free(s);
    return status;
}

haul_status haul__segments_peak(const haul__memory_step *step, int64_t *peak)
{
    haul__segments     none = {.count = 0};
    haul__memory_step  all = *step;
    haul__memory_model m;
    all.segment = NULL;
    all.segment_count = 0;
    haul_status status = haul__memory_model_of(&all, &m);
    if (!status)
        status = plan_for(&none, &m, HAUL__MEMORY_MOST, peak);
    haul__memory_model_free(&m);
    return status;
}
