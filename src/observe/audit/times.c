/* Waits in every step, steps that wait for the loader, devices that wait for the host, and compilation. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "device/device.h"
#include "observe/audit/audit.h"

/* ---- waits ---- */

static bool is_wait(const haul_profile *p, size_t i)
{
    HAUL__ASSERT(i < p->count);
    const haul__profile_event *m = &p->events[i];
    return m->kind == HAUL_EVENT_WAITED && m->thread == p->thread && haul__is_steady(p->analysis, m) &&
           p->analysis->spans[i].phase == HAUL__PHASE_WAIT;
}

/* Data that leave a device to come back are waited for, which is a part of that finding. */
static bool is_explained(const haul_profile *p, const haul__suspects *all, const haul__profile_event *wait)
{
    for (size_t i = 0; i < all->count; i++)
        if ((all->items[i].kind == HAUL_FINDING_PING_PONG || all->items[i].kind == HAUL_FINDING_CPU_ISLAND) &&
            all->items[i].call_site == haul__call_site_of(p, wait->stack))
            return true;
    return false;
}

/* The copy to the host that the main thread waits for: the newest one of the step. NULL: it waits for other work. */
static const haul__profile_event *find_copy(const haul_profile *p, const haul__profile_event *wait)
{
    HAUL__ASSERT(p->events <= wait && wait < p->events + p->count);
    if (strcmp(haul__profile_text(p, wait->detail), "download") != 0)
        return NULL;
    for (const haul__profile_event *m = wait; m-- > p->events && m->step == wait->step;)
        if (m->kind == HAUL_EVENT_COPY_TO_HOST && m->other == wait->device && m->thread == wait->thread)
            return m;
    return NULL;
}

/* True if the copy brings the input of a layer, because the layer or the placement has it elsewhere: the network is
 * split here. */
static bool is_border(const haul_profile *p, const haul__profile_event *copy)
{
    return copy && copy->module &&
           (copy->planned || (copy->name && !strcmp(haul__profile_text(p, copy->operation), "haul_to")));
}

static haul__suspect wait_of(const haul_profile *p, const haul__profile_event *m)
{
    HAUL__ASSERT(m->begin <= m->end);
    const haul__profile_event *copy = find_copy(p, m);
    haul__suspect              s = {.kind = HAUL_FINDING_WAIT_PER_STEP,
                                    .call_site = haul__call_site_of(p, m->stack),
                                    .operation = m->operation,
                                    .device = m->device,
                                    .count = 1,
                                    .bytes = m->bytes,
                                    .ns = m->end - m->begin};
    if (!is_border(p, copy))
        return s;
    s.bytes = copy->bytes;
    s.layer = copy->module;
    s.tensor = copy->name;
    s.planned = copy->planned;
    return s;
}

static void suspect_waits(const haul_profile *p, haul__suspects *all)
{
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (!is_wait(p, i) || is_explained(p, all, m))
            continue;
        const haul__suspect what = wait_of(p, m);
        haul__suspect_about(all, haul__suspect_add(all, &what, m->step), p, m);
    }
}

/* ---- time in which the device has no work, by steps ---- */

typedef struct starved {
    int64_t *loader; /* of each step: in haul_loader_next */
    int64_t *held;   /* neither there nor in another wait of the main thread: the host does not keep up */
} starved;

static bool is_next_batch(const haul_profile *p, const haul__profile_event *m)
{
    return m->kind == HAUL_EVENT_WORK_END && m->thread == p->thread && haul__is_steady(p->analysis, m) &&
           !strcmp(haul__profile_text(p, m->text), "next batch");
}

static void measure(const haul_profile *p, starved *s)
{
    const haul__analysis *a = p->analysis;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        HAUL__ASSERT(m->step >= 0 && (size_t)m->step <= haul__step_count(p));
        if (is_next_batch(p, m))
            s->loader[m->step] += haul__starved(a, m);
        else if (is_wait(p, i))
            s->held[m->step] -= haul__starved(a, m);
    }
    for (size_t i = 0; i < haul__step_count(p); i++)
        if (!a->steps.warm_up[i])
            s->held[i] +=
                haul__intervals_covered(&a->idle.times, haul__step_begin(p, i), haul__step_end(p, i)) - s->loader[i];
}

static int64_t sum_of(const haul_profile *p, const int64_t *of)
{
    int64_t sum = 0;
    for (size_t i = 0; i < haul__step_count(p); i++)
        sum += of[i];
    return sum;
}

static int64_t most_of(const haul_profile *p, const int64_t *of)
{
    int64_t most = 0;
    for (size_t i = 0; i < haul__step_count(p); i++)
        most = larger(most, of[i]);
    return most;
}

/* ---- the loader ---- */

/* Waiting for a batch costs nothing while the device still has work. Workers make batches at once, so many steps find
 * theirs and one waits for long; but one wait alone is none of every step. */
static void suspect_loader(const haul_profile *p, const starved *s, haul__suspects *all)
{
    const int64_t cost = sum_of(p, s->loader);
    const int64_t usual = haul__steady_count(p, p->analysis) > 2 ? cost - most_of(p, s->loader) : cost;
    HAUL__ASSERT(0 <= usual && usual <= cost);
    for (size_t i = 0; i < p->count && 4 * usual > p->analysis->steps.steady_ns; i++) {
        const haul__profile_event *m = &p->events[i];
        const haul__suspect        what = {.kind = HAUL_FINDING_LOADER_BOUND,
                                           .call_site = haul__call_site_of(p, m->stack),
                                           .operation = m->operation,
                                           .count = 1,
                                           .ns = haul__starved(p->analysis, m)};
        if (is_next_batch(p, m))
            haul__suspect_about(all, haul__suspect_add(all, &what, m->step), p, m);
    }
}

/* ---- the host ---- */

/* Where the main thread spends its time: by number of a text. */
typedef struct spent {
    int64_t *operations; /* of operations that compute, without those that they enclose */
    int64_t *call_sites; /* between two calls of the library, by the call site of the second one */
} spent;

static void add_spent(const haul_profile *p, spent *s)
{
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (!haul__is_span(m) || m->thread != p->thread || !haul__is_steady(p->analysis, m))
            continue;
        HAUL__ASSERT(m->operation < p->texts.count && m->gap >= 0);
        if (m->kind == HAUL_EVENT_OPERATION_END && m->flops + (double)m->bytes > 0)
            s->operations[m->operation] += p->analysis->spans[i].self;
        s->call_sites[haul__call_site_of(p, m->stack)] += m->gap;
    }
}

static uint32_t longest(const haul_profile *p, const int64_t *ns)
{
    uint32_t found = 0;
    HAUL__ASSERT(p->texts.count > 0);
    for (uint32_t n = 1; n < p->texts.count; n++)
        found = ns[n] > ns[found] ? n : found;
    return found;
}

/* Where the main thread spent most of its time: between two calls of the library, or in an operation. False without
 * memory. */
static bool find_slowest(const haul_profile *p, haul__suspect *out)
{
    spent      s = {haul__calloc(p->texts.count + 1, sizeof *s.operations),
                    haul__calloc(p->texts.count + 1, sizeof *s.call_sites)};
    const bool fine = s.operations && s.call_sites;
    if (fine) {
        add_spent(p, &s);
        s.call_sites[0] = s.operations[0] = 0;
        const uint32_t call_site = longest(p, s.call_sites);
        out->operation = longest(p, s.operations);
        HAUL__ASSERT(call_site < p->texts.count && out->operation < p->texts.count);
        out->call_site = s.call_sites[call_site] > s.operations[out->operation] ? call_site : 0;
    }
    haul__free(s.operations);
    haul__free(s.call_sites);
    return fine;
}

/* True if the host holds the device up for a fifth of the steps' time, and in half of the steps. */
static bool is_held(const haul_profile *p, const starved *s)
{
    size_t in = 0;
    for (size_t i = 0; i < haul__step_count(p); i++)
        in += s->held[i] > 0 && 5 * s->held[i] >= haul__step_end(p, i) - haul__step_begin(p, i);
    return 5 * sum_of(p, s->held) >= p->analysis->steps.steady_ns && 2 * in >= haul__steady_count(p, p->analysis);
}

static void suspect_host(const haul_profile *p, const starved *s, haul__suspects *all)
{
    haul__suspect what = {
        .kind = HAUL_FINDING_HOST_BOUND, .device = p->analysis->idle.device, .count = 1, .ns = sum_of(p, s->held)};
    const int64_t steps = (int64_t)haul__steady_count(p, p->analysis);
    if (!what.device || !is_held(p, s))
        return;
    HAUL__ASSERT(steps > 0);
    all->failed = !find_slowest(p, &what) || all->failed;
    what.ns /= steps;
    for (int i = 0; i < steps; i++)
        (void)haul__suspect_add(all, &what, i);
}

/* ---- compilation ---- */

static const haul__profile_event *longest_compilation(const haul_profile *p)
{
    const haul__profile_event *longest = NULL;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind == HAUL_EVENT_DRIVER_CALLED && m->thread == p->thread && haul__is_in_stretch(p->analysis, m) &&
            (!longest || m->end - m->begin > longest->end - longest->begin))
            longest = m;
    }
    return longest;
}

/* It happens once and needs no steps; what it costs is spread over all steps. */
static void suspect_compilation(const haul_profile *p, haul__suspects *all)
{
    const haul__steps         *s = &p->analysis->steps;
    const haul__profile_event *m = longest_compilation(p);
    if (!m || 10 * s->compile_ns < p->analysis->wall)
        return;
    HAUL__ASSERT(s->compiling > 0 && s->compile_ns >= 0);
    const haul__suspect what = {.kind = HAUL_FINDING_COMPILATION,
                                .call_site = haul__call_site_of(p, m->stack),
                                .operation = m->operation,
                                .device = m->device,
                                .count = s->kernels,
                                .ns = s->compile_ns / (int64_t)haul__step_count(p)};
    haul__suspect_about(all, haul__suspect_add(all, &what, m->step), p, m);
}

void haul__suspect_times(const haul_profile *p, haul__suspects *all)
{
    HAUL__ASSERT(p->analysis->spans && p->analysis->steps.warm_up);
    const size_t steps = haul__step_count(p) + 1; /* and after the last one */
    starved      s = {haul__calloc(steps, sizeof *s.loader), haul__calloc(steps, sizeof *s.held)};
    suspect_waits(p, all);
    suspect_compilation(p, all);
    if (s.loader && s.held) {
        measure(p, &s);
        suspect_loader(p, &s, all);
        suspect_host(p, &s, all);
    } else {
        all->failed = true;
    }
    haul__free(s.loader);
    haul__free(s.held);
}
