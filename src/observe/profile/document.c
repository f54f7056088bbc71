/* profile.json: the summary, the tables, the timeline of the median step, the memory over it. docs/profile.md describes
 * the members. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "device/device.h"
#include "observe/audit/audit.h"
#include "observe/profile/save.h"

static double milliseconds(int64_t ns)
{
    return (double)ns / 1e6;
}

/* ---- the summary ---- */

/* The device whose commands took the longest; the CPU if none ran later. */
static const haul_device *busiest(const haul_profile *p)
{
    const haul__table *table = &p->analysis->tables[HAUL_PROFILE_KERNEL];
    for (int i = 0; i < table->count; i++)
        if (!haul__device_is_synchronous(table->rows[i].device))
            return table->rows[i].device;
    return haul_cpu();
}

static void write_peaks(haul__json_text *t, const haul_profile *p)
{
    haul__json_begin(t, "peaks", '[');
    for (size_t i = 0; i < p->peak_count; i++) {
        haul__json_begin(t, NULL, '{');
        haul__json_string(t, "device", haul_device_name(p->peaks[i].device));
        haul__json_number(t, "gflops", p->peaks[i].flops / 1e9);
        haul__json_number(t, "gbps", p->peaks[i].bytes / 1e9);
        haul__json_end(t, '}');
    }
    haul__json_end(t, ']');
}

static void write_phases(haul__json_text *t, const haul_profile_summary *s)
{
    const struct {
        const char *name;
        double      ms;
    } phases[] = {{"data", s->data_ms},           {"forward", s->forward_ms}, {"backward", s->backward_ms},
                  {"optimizer", s->optimizer_ms}, {"compile", s->compile_ms}, {"wait", s->wait_ms},
                  {"other", s->other_ms}};
    haul__json_begin(t, "phases", '[');
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        haul__json_begin(t, NULL, '{');
        haul__json_string(t, "name", phases[i].name);
        haul__json_number(t, "ms", phases[i].ms);
        haul__json_end(t, '}');
    }
    haul__json_end(t, ']');
}

static void write_summary(haul__json_text *t, const haul_profile *p)
{
    const haul_profile_summary *s = &p->analysis->summary;
    HAUL__ASSERT(0 <= s->warm_ups && (size_t)s->warm_ups < haul__step_count(p));
    haul__json_string(t, "device", haul_device_name(busiest(p)));
    haul__json_integer(t, "steps", (int64_t)haul__step_count(p));
    haul__json_number(t, "wall_ms", s->wall_ms);
    haul__json_number(t, "step_ms", s->step_ms);
    haul__json_number(t, "median_ms", s->median_ms);
    haul__json_number(t, "steady_ms", s->steady_ms);
    haul__json_integer(t, "warm_ups", s->warm_ups);
    haul__json_number(t, "step_joules", s->step_joules);
    haul__json_integer(t, "events", s->events);
    haul__json_integer(t, "lost", s->lost);
    write_peaks(t, p);
    write_phases(t, s);
}

/* ---- tables ---- */

static const char *name_of(const haul_device *device)
{
    return device ? haul_device_name(device) : "";
}

/* FLOP or bytes in 10^9 a second. */
static double rate(double amount, double ms)
{
    return ms > 0 ? amount / ms / 1e6 : 0;
}

static const char *bound_text(haul_bound bound)
{
    static const char *const texts[] = {"", "compute", "memory", "overhead"};
    HAUL__ASSERT((unsigned)bound < sizeof texts / sizeof *texts);
    return texts[bound];
}

static void write_operation(haul__json_text *t, const haul_profile_row *r)
{
    const bool   later = r->device && !haul__device_is_synchronous(r->device);
    const double ms = later ? r->device_ms : r->host_ms;
    haul__json_string(t, "device", name_of(r->device));
    haul__json_integer(t, "calls", r->calls);
    haul__json_number(t, "host_ms", r->host_ms);
    haul__json_number(t, "device_ms", r->device_ms);
    haul__json_number(t, "share", r->share);
    haul__json_number(t, "flop", r->flops);
    haul__json_number(t, "bytes", r->bytes);
    haul__json_number(t, "gflops", rate(r->flops, ms));
    haul__json_number(t, "gbps", rate(r->bytes, ms));
    haul__json_string(t, "bound", bound_text(r->bound));
    haul__json_number(t, "joules", r->joules);
    haul__json_integer(t, "made_bytes", r->made_bytes);
    haul__json_integer(t, "peak_bytes", r->peak_bytes);
}

static void write_module(haul__json_text *t, const haul_profile_row *r)
{
    haul__json_string(t, "kind", r->kind);
    haul__json_integer(t, "calls", r->calls);
    haul__json_number(t, "forward_ms", r->forward_ms);
    haul__json_number(t, "backward_ms", r->backward_ms);
    haul__json_number(t, "share", r->share);
    haul__json_number(t, "flop", r->flops);
    haul__json_number(t, "bytes", r->bytes);
    haul__json_number(t, "joules", r->joules);
    haul__json_integer(t, "made_bytes", r->made_bytes);
    haul__json_integer(t, "peak_bytes", r->peak_bytes);
}

static void write_kernel(haul__json_text *t, const haul_profile_row *r)
{
    haul__json_string(t, "device", name_of(r->device));
    haul__json_string(t, "stream", r->kind);
    haul__json_string(t, "operation", r->operation);
    haul__json_integer(t, "calls", r->calls);
    haul__json_number(t, "ms", r->device_ms);
    haul__json_number(t, "share", r->share);
    haul__json_number(t, "bytes", r->bytes);
    haul__json_number(t, "gbps", rate(r->bytes, r->device_ms));
}

static void write_table(haul__json_text *t, const char *name, const haul__table *table,
                        void (*write)(haul__json_text *, const haul_profile_row *))
{
    HAUL__ASSERT(table->count >= 0 && (table->rows || !table->count));
    haul__json_begin(t, name, '[');
    for (int i = 0; i < table->count; i++) {
        haul__json_begin(t, NULL, '{');
        haul__json_string(t, "name", table->rows[i].name);
        write(t, &table->rows[i]);
        haul__json_end(t, '}');
    }
    haul__json_end(t, ']');
}

/* ---- the timeline of the median step ---- */

typedef struct window {
    int64_t begin, end;
} window;

static bool is_in(const haul__profile_event *m, window w)
{
    return m->begin < w.end && m->end > w.begin;
}

static bool same_track(const haul__profile_event *a, const haul__profile_event *b)
{
    if (haul__is_on_stream(a) != haul__is_on_stream(b))
        return false;
    return haul__is_on_stream(a) ? a->device == b->device && a->detail == b->detail : a->thread == b->thread;
}

static bool is_bar(const haul__profile_event *m, window w)
{
    return (haul__is_on_thread(m) || haul__is_on_stream(m)) && is_in(m, w);
}

static void write_span(haul__json_text *t, const haul_profile *p, const haul__profile_event *m, window w)
{
    const int64_t begin = m->begin > w.begin ? m->begin : w.begin, end = m->end < w.end ? m->end : w.end;
    HAUL__ASSERT(begin >= w.begin && end <= w.end && begin <= end);
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "name", haul__bar_name(p, m));
    haul__json_string(t, "kind", haul__bar_kind(p, m));
    haul__json_string(t, "module", haul__profile_text(p, m->module));
    haul__json_number(t, "begin_ms", milliseconds(begin - w.begin));
    haul__json_number(t, "ms", milliseconds(end - begin));
    haul__json_integer(t, "depth", haul__is_on_stream(m) ? 0 : m->depth);
    haul__json_integer(t, "bytes", m->bytes);
    haul__write_marks(t, p, m);
    haul__json_end(t, '}');
}

static void write_track(haul__json_text *t, const haul_profile *p, const haul__profile_event *first, window w)
{
    char name[HAUL__TRACK_NAME];
    HAUL__ASSERT(is_bar(first, w));
    haul__track_name(p, first, name);
    const bool stream = haul__is_on_stream(first);
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "name", name);
    haul__json_string(t, "kind", stream ? "device" : !strncmp(name, "worker", 6) ? "worker" : "host");
    haul__json_string(t, "device", stream ? haul_device_name(first->device) : "");
    haul__json_begin(t, "spans", '[');
    for (size_t i = 0; i < p->count; i++)
        if (is_bar(&p->events[i], w) && same_track(&p->events[i], first))
            write_span(t, p, &p->events[i], w);
    haul__json_end(t, ']');
    haul__json_end(t, '}');
}

enum { MOST_TRACKS = 64 };

static void write_tracks(haul__json_text *t, const haul_profile *p, window w)
{
    const haul__profile_event *firsts[MOST_TRACKS];
    int                        count = 0;
    for (size_t i = 0; i < p->count && count == 0; i++) /* the main thread comes first */
        if (is_bar(&p->events[i], w) && haul__is_on_thread(&p->events[i]) && p->events[i].thread == p->thread)
            firsts[count++] = &p->events[i];
    if (count)
        write_track(t, p, firsts[0], w);
    for (size_t i = 0; i < p->count && count < MOST_TRACKS; i++) {
        int known = 0;
        if (!is_bar(&p->events[i], w))
            continue;
        while (known < count && !same_track(firsts[known], &p->events[i]))
            known++;
        if (known < count)
            continue;
        firsts[count++] = &p->events[i];
        write_track(t, p, &p->events[i], w);
    }
    HAUL__ASSERT(count <= MOST_TRACKS);
}

static void write_timeline(haul__json_text *t, const haul_profile *p, size_t step, window w)
{
    HAUL__ASSERT(step < haul__step_count(p) && w.begin <= w.end);
    haul__json_begin(t, "timeline", '{');
    haul__json_integer(t, "step", (int64_t)step + 1);
    haul__json_number(t, "ms", milliseconds(w.end - w.begin));
    haul__json_begin(t, "tracks", '[');
    write_tracks(t, p, w);
    haul__json_end(t, ']');
    haul__json_end(t, '}');
}

/* ---- memory ---- */

static void write_point(haul__json_text *t, double ms, int64_t bytes)
{
    haul__json_begin(t, NULL, '[');
    haul__json_number(t, NULL, ms);
    haul__json_integer(t, NULL, bytes);
    haul__json_end(t, ']');
}

/* Live bytes within the step, from its first event on. */
static void write_points(haul__json_text *t, const haul_profile *p, const haul__curve *c, window w)
{
    int64_t now = c->before;
    bool    begun = false;
    for (size_t i = 0; i < p->count && p->events[i].end <= w.end; i++) {
        const haul__profile_event *m = &p->events[i];
        const int64_t              change = haul__memory_change(p, m);
        if (m->device != c->device || !change)
            continue;
        if (m->end >= w.begin && !begun)
            write_point(t, 0, now);
        begun = m->end >= w.begin;
        now += change;
        if (begun)
            write_point(t, milliseconds(m->end - w.begin), now);
    }
    write_point(t, milliseconds(w.end - w.begin), now);
}

static void write_holdings(haul__json_text *t, const haul_profile *p, const haul__curve *c)
{
    haul__json_begin(t, "at_peak", '[');
    for (int i = 0; i < c->held_count; i++) {
        const haul__holding *h = &c->held[i];
        HAUL__ASSERT(h->count > 0 && (i == 0 || h->bytes <= c->held[i - 1].bytes));
        haul__json_begin(t, NULL, '{');
        haul__json_string(t, "operation", h->named ? h->named : haul__profile_text(p, h->operation));
        haul__json_string(t, "module", h->named ? h->where : haul__profile_text(p, h->module));
        haul__json_string(t, "role", h->role);
        haul__json_bool(t, "before", h->named != NULL);
        haul__json_integer(t, "bytes", h->bytes);
        haul__json_integer(t, "count", h->count);
        haul__json_end(t, '}');
    }
    haul__json_end(t, ']');
}

static void write_memory(haul__json_text *t, const haul_profile *p, window w)
{
    haul__json_begin(t, "memory", '[');
    for (int i = 0; i < p->analysis->curve_count; i++) {
        const haul__curve *c = &p->analysis->curves[i];
        HAUL__ASSERT(c->device && c->before <= c->peak);
        haul__json_begin(t, NULL, '{');
        haul__json_string(t, "device", haul_device_name(c->device));
        haul__json_integer(t, "peak_bytes", c->peak);
        haul__json_begin(t, "points", '[');
        write_points(t, p, c, w);
        haul__json_end(t, ']');
        write_holdings(t, p, c);
        haul__json_end(t, '}');
    }
    haul__json_end(t, ']');
}

void haul__write_tables(haul__json_text *t, const haul_profile *p)
{
    HAUL__ASSERT(p->analysis && p->findings);
    const haul__table *tables = p->analysis->tables;
    const size_t       step = p->analysis->steps.typical;
    const window       w = {haul__step_begin(p, step), haul__step_end(p, step)};
    haul__json_begin(t, NULL, '{');
    write_summary(t, p);
    write_table(t, "operations", &tables[HAUL_PROFILE_OPERATION], write_operation);
    write_table(t, "modules", &tables[HAUL_PROFILE_MODULE], write_module);
    write_table(t, "kernels", &tables[HAUL_PROFILE_KERNEL], write_kernel);
    write_timeline(t, p, step, w);
    write_memory(t, p, w);
    haul__json_end(t, '}');
}
