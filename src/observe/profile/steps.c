/* The steps of a profile: when they were, which one is typical, and which only got the program ready. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "observe/profile/analysis.h"

size_t haul__step_count(const haul_profile *p)
{
    return p->step_count ? p->step_count : 1;
}

int64_t haul__step_begin(const haul_profile *p, size_t i)
{
    HAUL__ASSERT(i <= p->step_count);
    return i ? p->steps[i - 1] : 0;
}

int64_t haul__step_end(const haul_profile *p, size_t i)
{
    HAUL__ASSERT(i < haul__step_count(p));
    return p->step_count ? p->steps[i] : p->stopped;
}

static int64_t step_time(const haul_profile *p, size_t i)
{
    return haul__step_end(p, i) - haul__step_begin(p, i);
}

/* ---- the median ---- */

typedef struct timed {
    int64_t ns;
    size_t  step;
} timed;

static int by_time(const void *a, const void *b)
{
    const timed *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static bool find_median(const haul_profile *p, haul__steps *s)
{
    const size_t count = haul__step_count(p);
    timed       *all = haul__calloc(count, sizeof *all);
    for (size_t i = 0; all && i < count; i++)
        all[i] = (timed){step_time(p, i), i};
    if (all) {
        qsort(all, count, sizeof *all, by_time);
        s->typical = all[(count - 1) / 2].step;
        s->median = all[(count - 1) / 2].ns;
    }
    haul__free(all);
    return all != NULL;
}

/* ---- warm-up ---- */

static void add_compilations(const haul_profile *p, const haul__analysis *a, haul__steps *s)
{
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind != HAUL_EVENT_DRIVER_CALLED || m->thread != p->thread || !haul__is_in_stretch(a, m))
            continue;
        HAUL__ASSERT(m->step >= 0 && (size_t)m->step < haul__step_count(p) + 1);
        s->kernels += !strcmp(haul__profile_text(p, m->text), "was compiled");
        s->compile_ns += m->end - m->begin;
        s->compiling += !s->warm_up[m->step];
        s->warm_up[m->step] = true;
    }
}

/* At the beginning memory is obtained, files are read and drivers get ready. Later a slow step is one of the program:
 * it may wait for a device in a few of its steps. */
static void add_slow_beginning(const haul_profile *p, haul__steps *s)
{
    enum { SLOWER = 4 };
    for (size_t i = 0; i < haul__step_count(p) && (s->warm_up[i] || step_time(p, i) > SLOWER * s->median); i++)
        s->warm_up[i] = true;
}

/* Half of the steps count in any case: the last ones. */
static void keep_half(const haul_profile *p, haul__steps *s)
{
    HAUL__ASSERT(!s->warm_ups && !s->steady_ns);
    const size_t count = haul__step_count(p);
    for (size_t i = 0; i < count; i++) {
        s->warm_up[i] = s->warm_up[i] && s->warm_ups < count / 2;
        s->warm_ups += s->warm_up[i];
        s->steady_ns += s->warm_up[i] ? 0 : step_time(p, i);
    }
}

bool haul__find_steps(const haul_profile *p, haul__analysis *a)
{
    haul__steps *s = &a->steps;
    s->warm_up = haul__calloc(haul__step_count(p) + 1, sizeof *s->warm_up);
    if (!s->warm_up || !find_median(p, s))
        return false;
    add_compilations(p, a, s);
    add_slow_beginning(p, s);
    keep_half(p, s);
    HAUL__ASSERT(s->warm_ups <= haul__step_count(p) / 2 && s->typical < haul__step_count(p));
    s->steady_ns += a->wall - a->host_end;
    return true;
}

bool haul__is_steady(const haul__analysis *a, const haul__profile_event *m)
{
    return haul__is_in_stretch(a, m) && !a->steps.warm_up[m->step];
}
