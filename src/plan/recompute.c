#include "plan/recompute.h"

#include <stdio.h>
#include <string.h>

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

/* ---- choosing ---- */

typedef struct choice {
    haul__segments         *p;
    int64_t                 limit;
    haul__segments_measure *measure;
    void                   *context;
    haul_status             status;
    int                     tries; /* measurements that are left */
} choice;

static int64_t peak_of(choice *c)
{
    int64_t peak = INT64_MAX;
    c->tries--;
    if (!c->status)
        c->status = c->measure(c->p, &peak, c->context);
    return peak;
}

/* Turn on the segment that lowers the peak most. */
static int64_t add_best(choice *c)
{
    int64_t best = INT64_MAX;
    int     at = -1;
    for (int i = 0; i < c->p->count && !c->status; i++) {
        haul__segment *one = &c->p->items[i];
        if (one->on)
            continue;
        one->on = true;
        int64_t peak = peak_of(c);
        one->on = false;
        if (peak < best) {
            best = peak;
            at = i;
        }
    }
    if (at >= 0)
        c->p->items[at].on = true;
    return best;
}

/* Turn off segments without which the peak is still at most `bound`. */
static int64_t drop_idle(choice *c, int64_t bound, int64_t peak)
{
    for (int i = c->p->count - 1; i >= 0 && !c->status; i--) {
        haul__segment *one = &c->p->items[i];
        if (!one->on)
            continue;
        one->on = false;
        int64_t without = peak_of(c);
        if (without <= bound)
            peak = without;
        else
            one->on = true;
    }
    return peak;
}

/* Turn on `left` of the segments from `from` on so that the peak fits; all are off if none do. */
static bool find_few(choice *c, int from, int left, int64_t *peak)
{
    if (!left) {
        int64_t now = peak_of(c);
        if (now <= c->limit)
            *peak = now;
        return now <= c->limit;
    }
    for (int i = from; i <= c->p->count - left && c->tries > 0 && !c->status; i++) {
        c->p->items[i].on = true;
        if (find_few(c, i + 1, left - 1, peak))
            return true;
        c->p->items[i].on = false;
    }
    return false;
}

static void turn_off(haul__segments *p)
{
    for (int i = 0; i < p->count; i++)
        p->items[i].on = false;
}

/* One segment after another, each time the best: a good choice, but not always one of the fewest. */
static int64_t choose_greedily(choice *c, int64_t peak)
{
    haul__segments best = *c->p;
    int64_t        lowest = peak;
    for (int k = 0; k < c->p->count && !c->status && !(c->limit && lowest <= c->limit); k++) {
        int64_t now = add_best(c);
        if (now < lowest) {
            lowest = now;
            best = *c->p;
        }
    }
    *c->p = best;
    bool fits = c->limit && lowest <= c->limit;
    return haul__segments_count_on(c->p) ? drop_idle(c, fits ? c->limit : lowest, lowest) : lowest;
}

haul_status haul__segments_choose(haul__segments *p, int64_t limit, haul__segments_measure *measure, void *context,
                                  int64_t *peak)
{
    enum { MOST_TRIES = 400 };
    choice c = {.p = p, .limit = limit, .measure = measure, .context = context};
    turn_off(p);
    *peak = choose_greedily(&c, *peak);
    if (c.status || !limit || *peak > limit)
        return c.status;
    const haul__segments greedy = *p;
    const int            most = haul__segments_count_on(p);
    c.tries = MOST_TRIES;
    turn_off(p);
    for (int k = 1; k < most; k++)
        if (find_few(&c, 0, k, peak))
            return c.status;
    *p = greedy;
    return c.status;
}
