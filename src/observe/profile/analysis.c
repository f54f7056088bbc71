#include "observe/profile/analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "device/device.h"

/* ---- spans ---- */

bool haul__is_span(const haul__profile_event *m)
{
    return m->kind == HAUL_EVENT_OPERATION_END || m->kind == HAUL_EVENT_CALL_END || m->kind == HAUL_EVENT_WORK_END ||
           m->kind == HAUL_EVENT_WAITED || m->kind == HAUL_EVENT_DRIVER_CALLED;
}

/* Spans of a thread that have ended and whose parent has not, as a list through `below`. */
typedef struct tops {
    uint32_t *top; /* by thread: the last one, from 1 */
    uint32_t *below;
} tops;

static int most_threads(const haul_profile *p)
{
    int most = p->thread;
    for (size_t i = 0; i < p->count; i++)
        most = p->events[i].thread > most ? p->events[i].thread : most;
    return most;
}

/* Events of ends come in the order of the ends, so those that a span encloses came before it. */
static void adopt(const haul_profile *p, haul__span_info *spans, tops *t, uint32_t i)
{
    HAUL__ASSERT(p->events[i].thread >= 0);
    const haul__profile_event *m = &p->events[i];
    uint32_t                  *top = &t->top[m->thread];
    const haul__energy_curve  *cpu = haul__energy_of(&p->energy, haul_cpu());
    const int64_t              whole = m->end - m->begin;
    int64_t                    inside = 0;
    spans[i].joules = haul__joules_between(cpu, m->begin, m->end);
    while (*top) {
        const uint32_t k = *top - 1;
        HAUL__ASSERT(k < i && !spans[k].parent); /* of one parent alone */
        const haul__profile_event *child = &p->events[k];
        if (child->begin < m->begin || child->depth <= m->depth)
            break;
        spans[k].parent = i + 1;
        inside += child->end - child->begin;
        spans[i].joules -= haul__joules_between(cpu, child->begin, child->end);
        *top = t->below[k];
    }
    spans[i].self = whole > inside ? whole - inside : 0;
    t->below[i] = *top;
    *top = i + 1;
}

/* The phase of a span whose parent has phase `outer`. */
static haul__phase phase_of(const haul_profile *p, const haul__profile_event *m, haul__phase outer)
{
    const char *text = haul__profile_text(p, m->text);
    if (outer == HAUL__PHASE_DATA || outer == HAUL__PHASE_LOADING)
        return outer;
    if (m->kind == HAUL_EVENT_WAITED)
        return HAUL__PHASE_WAIT;
    if (m->kind == HAUL_EVENT_DRIVER_CALLED)
        return HAUL__PHASE_COMPILE;
    if (m->kind == HAUL_EVENT_WORK_END) {
        if (!strcmp(text, "next batch"))
            return HAUL__PHASE_DATA;
        if (!strcmp(text, "batch made"))
            return HAUL__PHASE_LOADING;
        return strcmp(text, "optimizer step") ? HAUL__PHASE_BACKWARD : HAUL__PHASE_OPTIMIZER;
    }
    return outer ? outer : HAUL__PHASE_FORWARD;
}

bool haul__find_spans(const haul_profile *p, haul__analysis *a)
{
    tops t = {haul__calloc((size_t)most_threads(p) + 1, sizeof *t.top), haul__calloc(p->count + 1, sizeof *t.below)};
    a->spans = haul__calloc(p->count + 1, sizeof *a->spans);
    const bool fine = t.top && t.below && a->spans;
    for (size_t i = 0; fine && i < p->count; i++)
        if (haul__is_span(&p->events[i]))
            adopt(p, a->spans, &t, (uint32_t)i);
    for (size_t i = p->count; fine && i-- > 0;)
        if (haul__is_span(&p->events[i])) {
            const uint32_t parent = a->spans[i].parent;
            HAUL__ASSERT(!parent || (parent > i + 1 && parent <= p->count));
            a->spans[i].phase = phase_of(p, &p->events[i], parent ? a->spans[parent - 1].phase : HAUL__PHASE_OTHER);
        }
    haul__free(t.top);
    haul__free(t.below);
    return fine;
}

/* ---- the recorded section ---- */

static bool runs_later(const haul__profile_event *m)
{
    return m->kind == HAUL_EVENT_COMMAND_DONE && !haul__device_is_synchronous(m->device);
}

bool haul__is_in_stretch(const haul__analysis *a, const haul__profile_event *m)
{
    return runs_later(m) ? m->submitted >= 0 && m->submitted <= a->host_end : m->end <= a->host_end;
}

/* A host that runs ahead has submitted all steps while the device computes the first ones. */
static void find_end(const haul_profile *p, haul__analysis *a)
{
    a->host_end = a->wall = haul__step_end(p, haul__step_count(p) - 1);
    for (size_t i = 0; i < p->count; i++)
        if (runs_later(&p->events[i]) && haul__is_in_stretch(a, &p->events[i]) && p->events[i].end > a->wall)
            a->wall = p->events[i].end;
}

/* ---- the summary ---- */

/* Time in haul_loader_next while the device still has work: the loader waits for the device, not the step for its
 * batch. */
static int64_t held_back(const haul_profile *p, const haul__analysis *a)
{
    int64_t ns = 0;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind == HAUL_EVENT_WORK_END && m->thread == p->thread && haul__is_in_stretch(a, m) &&
            !strcmp(haul__profile_text(p, m->text), "next batch"))
            ns += m->end - m->begin - haul__starved(a, m);
    }
    HAUL__ASSERT(ns >= 0);
    return ns;
}

/* Of all devices with a counter, in a step; NaN without one. */
static double step_joules(const haul_profile *p, const haul__analysis *a)
{
    double joules = p->energy.count ? 0 : NAN;
    for (size_t i = 0; i < p->energy.count; i++)
        joules += haul__joules_between(&p->energy.curves[i], 0, a->wall);
    return joules / (double)haul__step_count(p);
}

static void summarize(const haul_profile *p, haul__analysis *a)
{
    HAUL__ASSERT(a->wall >= a->host_end && haul__steady_count(p, a) > 0);
    int64_t phases[HAUL__PHASES] = {0}, inside = 0;
    for (size_t i = 0; i < p->count; i++)
        if (haul__is_span(&p->events[i]) && p->events[i].thread == p->thread && haul__is_in_stretch(a, &p->events[i]))
            phases[a->spans[i].phase] += a->spans[i].self;
    for (int i = 0; i < HAUL__PHASES; i++)
        inside += phases[i];
    const int64_t held = held_back(p, a);
    phases[HAUL__PHASE_DATA] -= held;
    phases[HAUL__PHASE_WAIT] += held + a->wall - a->host_end;
    a->summary =
        (haul_profile_summary){.steps = (int64_t)p->step_count,
                               .events = (int64_t)p->count,
                               .lost = p->lost,
                               .wall_ms = (double)a->wall / 1e6,
                               .step_ms = (double)a->wall / 1e6 / (double)haul__step_count(p),
                               .median_ms = (double)a->steps.median / 1e6,
                               .steady_ms = (double)a->steps.steady_ns / 1e6 / (double)haul__steady_count(p, a),
                               .warm_ups = (int64_t)a->steps.warm_ups,
                               .step_joules = step_joules(p, a),
                               .data_ms = (double)phases[HAUL__PHASE_DATA] / 1e6,
                               .forward_ms = (double)phases[HAUL__PHASE_FORWARD] / 1e6,
                               .backward_ms = (double)phases[HAUL__PHASE_BACKWARD] / 1e6,
                               .optimizer_ms = (double)phases[HAUL__PHASE_OPTIMIZER] / 1e6,
                               .compile_ms = (double)phases[HAUL__PHASE_COMPILE] / 1e6,
                               .wait_ms = (double)phases[HAUL__PHASE_WAIT] / 1e6,
                               .other_ms = (double)(a->host_end - inside) / 1e6};
}

/* ---- all of it ---- */

void haul__analysis_free(haul__analysis *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < sizeof a->tables / sizeof *a->tables; i++)
        haul__free(a->tables[i].rows);
    for (int c = 0; c < a->curve_count; c++)
        haul__free(a->curves[c].held);
    haul__free(a->curves);
    haul__free(a->idle.times.items);
    haul__free(a->call_sites);
    haul__free(a->spans);
    haul__free(a->steps.warm_up);
    haul__free(a);
}

const haul__analysis *haul__profile_analysis(haul_profile *p, const char *operation)
{
    if (p->analysis)
        return p->analysis;
    HAUL__ASSERT(p->ended);
    haul__analysis *a = haul__calloc(1, sizeof *a);
    if (a) {
        find_end(p, a);
        if (haul__find_steps(p, a) && haul__find_spans(p, a) && haul__find_idle(p, a) && haul__find_memory(p, a) &&
            haul__find_call_sites(p, a)) {
            summarize(p, a);
            if (haul__find_tables(p, a))
                return p->analysis = a;
        }
    }
    haul__analysis_free(a);
    haul__fail_memory(operation, p->count * sizeof *a->spans);
    return NULL;
}

haul_status haul_profile_summary_get(haul_profile *profile, haul_profile_summary *out)
{
    static const char operation[] = "haul_profile_summary_get";
    haul_status       status = haul__profile_check(profile, operation);
    if (status)
        return status;
    if (!out)
        return haul__fail_null(operation, "out");
    const haul__analysis *a = haul__profile_analysis(profile, operation);
    if (!a)
        return haul_error_status();
    *out = a->summary;
    return HAUL_OK;
}

/* ---- rows ---- */

static haul_status check_rows(const haul_profile *p, const haul_profile_row *out, const haul_profile_rows_options *o,
                              const char *operation)
{
    haul_status status = haul__profile_check(p, operation);
    if (status)
        return status;
    if (!o)
        return haul__fail_null(operation, "options");
    if (haul__check_list(operation, out, o->capacity))
        return haul_error_status();
    if ((unsigned)o->by > HAUL_PROFILE_KERNEL)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "by", "by is %d; expected a haul_profile_key", (int)o->by);
    return HAUL_OK;
}

int haul_profile_rows_with(haul_profile *profile, haul_profile_row *out, const haul_profile_rows_options *options)
{
    static const char operation[] = "haul_profile_rows";
    if (check_rows(profile, out, options, operation))
        return -1;
    const haul__analysis *a = haul__profile_analysis(profile, operation);
    if (!a)
        return -1;
    const haul__table *table = &a->tables[options->by ? options->by : HAUL_PROFILE_OPERATION];
    const int          count = table->count < options->capacity ? table->count : options->capacity;
    HAUL__ASSERT(table->count >= 0 && (table->rows || !table->count));
    if (count)
        memcpy(out, table->rows, (size_t)count * sizeof *out);
    return table->count;
}
