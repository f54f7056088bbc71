#include "observe/audit/audit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "device/device.h"

static const char *const names[] = {
    [HAUL_FINDING_PING_PONG] = "ping-pong",   [HAUL_FINDING_WAIT_PER_STEP] = "wait-per-step",
    [HAUL_FINDING_PAGEABLE] = "pageable",     [HAUL_FINDING_UNCHANGED] = "unchanged",
    [HAUL_FINDING_MANY_SMALL] = "many-small", [HAUL_FINDING_CPU_ISLAND] = "cpu-island",
    [HAUL_FINDING_WRONG_SIDE] = "wrong-side", [HAUL_FINDING_LOADER_BOUND] = "loader-bound",
    [HAUL_FINDING_HOST_BOUND] = "host-bound", [HAUL_FINDING_COMPILATION] = "compilation"};

const char *haul_finding_name(haul_finding_kind kind)
{
    return (unsigned)kind < HAUL_FINDING_END ? names[kind] : "invalid";
}

/* ---- suspects ---- */

static bool same_suspect(const haul__suspect *a, const haul__suspect *b)
{
    return a->kind == b->kind && a->call_site == b->call_site && a->down == b->down &&
           (a->planned > 0) == (b->planned > 0) && a->layer == b->layer && a->device == b->device &&
           (a->call_site || a->operation == b->operation);
}

static haul__suspect *find(haul__suspects *all, const haul__suspect *what)
{
    for (size_t i = 0; i < all->count; i++)
        if (same_suspect(&all->items[i], what))
            return &all->items[i];
    if (!haul__grow(&all->items, &all->room, all->count + 1, sizeof *all->items))
        return NULL;
    HAUL__ASSERT(all->count < all->room);
    haul__suspect *new = &all->items[all->count++];
    *new = *what;
    new->count = new->bytes = new->ns = new->planned = new->carried = 0;
    new->when = (haul__intervals){0};
    new->about = (haul__about){0};
    new->steps = new->last_step = 0;
    return new;
}

haul__suspect *haul__suspect_add(haul__suspects *all, const haul__suspect *what, int step)
{
    HAUL__ASSERT(step >= 0);
    haul__suspect *s = find(all, what);
    if (!s) {
        all->failed = true;
        return NULL;
    }
    s->tensor = s->tensor == what->tensor ? s->tensor : 0;
    s->count += what->count;
    s->bytes += what->bytes;
    s->ns += what->ns;
    s->planned += what->planned;
    s->steps += s->last_step != step + 1;
    s->last_step = step + 1;
    return s;
}

void haul__suspect_about(haul__suspects *all, haul__suspect *s, const haul_profile *p, const haul__profile_event *m)
{
    if (!s)
        return;
    HAUL__ASSERT(p->events <= m && m < p->events + p->count);
    if (haul__grow(&s->about.events, &s->about.room, s->about.count + 1, sizeof *s->about.events))
        s->about.events[s->about.count++] = (uint32_t)(m - p->events);
    else
        all->failed = true;
}

/* ---- judgement ---- */

/* Rare or cheap suspects are dropped. Data that are sent again can only be noticed from the second or third step on, so
 * what a step costs is the mean over the steps in which it happened. The warm-up was judged already. */
static bool is_finding(const haul_profile *p, const haul__suspect *s)
{
    HAUL__ASSERT(s->steps > 0);
    enum { MUCH = 64 << 10 };
    const double step_ns = p->analysis->summary.steady_ms * 1e6;
    const int    unseen = s->kind == HAUL_FINDING_UNCHANGED; /* the first times */
    if (s->kind == HAUL_FINDING_COMPILATION)
        return true;
    return 2 * (size_t)(s->steps + unseen) >= haul__steady_count(p, p->analysis) &&
           ((double)s->ns / s->steps >= step_ns / 100 || s->bytes / s->steps >= MUCH);
}

static haul_finding make_finding(const haul_profile *p, const haul__suspect *s)
{
    haul_finding f = {.kind = s->kind,
                      .count_per_step = llround((double)s->count / s->steps),
                      .bytes_per_step = llround((double)s->bytes / s->steps),
                      .ms_per_step = (double)s->ns / s->steps / 1e6,
                      .planned_ms_per_step = (double)s->planned / s->steps / 1e6};
    haul__utf8_copy(f.place, sizeof f.place, haul__profile_text(p, s->call_site ? s->call_site : s->operation));
    haul__finding_text(p, s, &f);
    return f;
}

typedef struct judged {
    haul_finding   finding;
    haul__suspect *suspect;
} judged;

static int by_cost(const void *a, const void *b)
{
    const haul_finding *x = &((const judged *)a)->finding, *y = &((const judged *)b)->finding;
    if (x->ms_per_step != y->ms_per_step)
        return x->ms_per_step < y->ms_per_step ? 1 : -1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->place, y->place);
}

/* What a finding is about goes from the suspect to it. */
static void take(haul__findings *out, judged *from)
{
    HAUL__ASSERT(out->count >= 0 && (unsigned)from->finding.kind < HAUL_FINDING_END);
    out->items[out->count] = from->finding;
    out->devices[out->count] = from->suspect->device;
    out->about[out->count++] = from->suspect->about;
    from->suspect->about = (haul__about){0};
}

static bool judge(const haul_profile *p, const haul__suspects *all, haul__findings *out)
{
    judged *found = haul__calloc(all->count + 1, sizeof *found);
    size_t  count = 0;
    out->items = haul__calloc(all->count + 1, sizeof *out->items);
    out->about = haul__calloc(all->count + 1, sizeof *out->about);
    out->devices = haul__calloc(all->count + 1, sizeof *out->devices);
    const bool fine = found && out->items && out->about && out->devices;
    for (size_t i = 0; fine && i < all->count; i++)
        if (is_finding(p, &all->items[i]))
            found[count++] = (judged){make_finding(p, &all->items[i]), &all->items[i]};
    HAUL__ASSERT(count <= all->count);
    if (count)
        qsort(found, count, sizeof *found, by_cost);
    for (size_t i = 0; i < count; i++)
        take(out, &found[i]);
    haul__free(found);
    return fine && haul__find_marks(p, out);
}

void haul__findings_free(haul__findings *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->count; i++)
        haul__free(f->about[i].events);
    haul__free(f->about);
    haul__free((void *)f->devices);
    haul__free(f->items);
    haul__free(f->marks);
    haul__free(f);
}

const haul__findings *haul__profile_findings(haul_profile *p, const char *operation)
{
    haul__suspects all = {.items = NULL};
    if (p->findings)
        return p->findings;
    HAUL__ASSERT(p->ended && p->analysis);
    haul__findings *f = haul__calloc(1, sizeof *f);
    haul__suspect_copies(p, &all);
    haul__suspect_times(p, &all);
    if (f && !all.failed && judge(p, &all, f)) {
        p->findings = f;
    } else {
        haul__findings_free(f);
        haul__fail_memory(operation, all.count * sizeof *all.items);
    }
    for (size_t i = 0; i < all.count; i++)
        haul__free(all.items[i].about.events);
    haul__free(all.items);
    return p->findings;
}

int haul_profile_audit(haul_profile *profile, haul_finding *out, int capacity)
{
    static const char operation[] = "haul_profile_audit";
    if (haul__profile_check(profile, operation) || haul__check_list(operation, out, capacity))
        return -1;
    const haul__findings *f =
        haul__profile_analysis(profile, operation) ? haul__profile_findings(profile, operation) : NULL;
    if (!f)
        return -1;
    const int count = f->count < capacity ? f->count : capacity;
    if (count)
        memcpy(out, f->items, (size_t)count * sizeof *out);
    return f->count;
}

/* ---- audit.json ---- */

void haul__write_findings(haul__json_text *t, const haul_profile *p)
{
    HAUL__ASSERT(p->findings);
    haul__json_begin(t, NULL, '[');
    for (int i = 0; i < p->findings->count; i++) {
        const haul_finding *f = &p->findings->items[i];
        haul__json_begin(t, NULL, '{');
        haul__json_string(t, "finding", haul_finding_name(f->kind));
        haul__json_string(t, "place", f->place);
        haul__json_string(t, "what", f->what);
        haul__json_integer(t, "count_per_step", f->count_per_step);
        haul__json_integer(t, "bytes_per_step", f->bytes_per_step);
        haul__json_number(t, "ms_per_step", f->ms_per_step);
        haul__json_number(t, "planned_ms_per_step", f->planned_ms_per_step);
        haul__json_string(t, "fix", f->fix);
        haul__json_string(t, "device", p->findings->devices[i] ? haul_device_name(p->findings->devices[i]) : "");
        haul__write_copies(t, p, &p->findings->about[i]);
        haul__json_end(t, '}');
    }
    haul__json_end(t, ']');
}
