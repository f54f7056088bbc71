/* trace.json: the trace event format, as Chrome and Perfetto read it ("Trace Event Format", 2016). Processes are the
 * host and the devices; their threads are threads and streams. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "device/device.h"
#include "observe/profile/save.h"

enum { HOST = 1, MOST_TRACKS = 1024 };

static double microseconds(int64_t ns)
{
    return (double)ns / 1e3;
}

/* ---- processes and threads ---- */

static int process_of(const haul__profile_event *m)
{
    return haul__is_on_stream(m) ? HOST + 1 + m->device->slot : HOST;
}

/* Streams are numbered by their texts, of which there are few. */
static int64_t thread_of(const haul__profile_event *m)
{
    return haul__is_on_stream(m) ? (int64_t)m->detail : m->thread;
}

static void write_name(haul__json_text *t, const char *what, int process, int64_t thread, const char *name)
{
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "ph", "M");
    haul__json_string(t, "name", what);
    haul__json_integer(t, "pid", process);
    haul__json_integer(t, "tid", thread);
    haul__json_begin(t, "args", '{');
    haul__json_string(t, "name", name);
    haul__json_end(t, '}');
    haul__json_end(t, '}');
}

static bool is_shown(const haul__profile_event *m)
{
    return haul__is_on_thread(m) || haul__is_on_stream(m);
}

/* Tracks that have a name already. */
typedef struct seen {
    int     processes[MOST_TRACKS];
    int64_t threads[MOST_TRACKS];
    int     count;
} seen;

static bool is_new(seen *s, int process, int64_t thread)
{
    HAUL__ASSERT(0 <= s->count && s->count <= MOST_TRACKS);
    for (int i = 0; i < s->count; i++)
        if (s->processes[i] == process && s->threads[i] == thread)
            return false;
    if (s->count == MOST_TRACKS)
        return false;
    s->processes[s->count] = process;
    s->threads[s->count++] = thread;
    return true;
}

static void write_names(haul__json_text *t, const haul_profile *p)
{
    seen processes = {.count = 0}, tracks = {.count = 0};
    char name[HAUL__TRACK_NAME];
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (!is_shown(m))
            continue;
        const int     process = process_of(m);
        const int64_t thread = thread_of(m);
        if (is_new(&processes, process, 0))
            write_name(t, "process_name", process, 0, process == HOST ? "host" : haul_device_name(m->device));
        if (!is_new(&tracks, process, thread))
            continue;
        haul__track_name(p, m, name);
        write_name(t, "thread_name", process, thread, process == HOST ? name : haul__profile_text(p, m->detail));
    }
}

/* ---- bars ---- */

static void begin_event(haul__json_text *t, const char *phase, const char *name, const char *category, int process,
                        int64_t thread, int64_t time)
{
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "ph", phase);
    haul__json_string(t, "name", name);
    haul__json_string(t, "cat", category);
    haul__json_integer(t, "pid", process);
    haul__json_integer(t, "tid", thread);
    haul__json_number(t, "ts", microseconds(time));
}

static void write_text(haul__json_text *t, const haul_profile *p, const char *name, uint32_t text)
{
    if (text)
        haul__json_string(t, name, haul__profile_text(p, text));
}

static void write_details(haul__json_text *t, const haul_profile *p, const haul__profile_event *m)
{
    haul__json_begin(t, "args", '{');
    write_text(t, p, "operation", m->operation);
    write_text(t, p, "module", m->module);
    write_text(t, p, "label", m->label);
    if (m->device)
        haul__json_string(t, "device", haul_device_name(m->device));
    if (m->bytes)
        haul__json_integer(t, "bytes", m->bytes);
    if (m->kind == HAUL_EVENT_OPERATION_END && m->flops > 0)
        haul__json_number(t, "flops", m->flops);
    haul__json_integer(t, "step", m->step);
    haul__json_end(t, '}');
}

static void write_bar(haul__json_text *t, const haul_profile *p, const haul__profile_event *m, int64_t begin,
                      int64_t end)
{
    begin_event(t, "X", haul__bar_name(p, m), haul__bar_kind(p, m), process_of(m), thread_of(m), begin);
    haul__json_number(t, "dur", microseconds(end - begin));
    write_details(t, p, m);
    haul__json_end(t, '}');
}

/* From the thread that submitted a command to the command. */
static void write_arrow(haul__json_text *t, const haul__profile_event *m, int64_t begin)
{
    HAUL__ASSERT(haul__is_on_stream(m) && m->submitted >= 0);
    begin_event(t, "s", "submit", "flow", HOST, m->thread, m->submitted);
    haul__json_integer(t, "id", (int64_t)m->number);
    haul__json_end(t, '}');
    begin_event(t, "f", "submit", "flow", process_of(m), thread_of(m), begin);
    haul__json_integer(t, "id", (int64_t)m->number);
    haul__json_string(t, "bp", "e");
    haul__json_end(t, '}');
}

/* When the last bar of each stream ended: device times are rounded, and bars of a stream must not overlap. */
typedef struct ends {
    int64_t at[HAUL__MAX_DEVICES][4];
} ends;

static int64_t *end_of(ends *e, const haul_profile *p, const haul__profile_event *m)
{
    HAUL__ASSERT(0 <= m->device->slot && m->device->slot < HAUL__MAX_DEVICES);
    const char *stream = haul__profile_text(p, m->detail);
    return &e->at[m->device->slot][!strcmp(stream, "compute")  ? 0
                                   : !strcmp(stream, "upload") ? 1
                                   : !strcmp(stream, "ahead")  ? 2
                                                               : 3];
}

static void write_bars(haul__json_text *t, const haul_profile *p)
{
    ends last = {{{0}}};
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (haul__is_on_thread(m))
            write_bar(t, p, m, m->begin > 0 ? m->begin : 0, m->end);
        if (!haul__is_on_stream(m) || m->end <= 0)
            continue;
        int64_t      *free = end_of(&last, p, m);
        const int64_t begin = m->begin > *free ? m->begin : *free;
        *free = m->end > begin ? m->end : begin;
        write_bar(t, p, m, begin, *free);
        if (m->submitted >= 0)
            write_arrow(t, m, begin);
    }
}

/* ---- counters ---- */

static void write_counter(haul__json_text *t, const char *name, const haul_device *device, int64_t time,
                          const char *what, double value)
{
    char text[HAUL__TRACK_NAME];
    snprintf(text, sizeof text, "%s %s", name, haul_device_name(device));
    begin_event(t, "C", text, "counter", HOST, 0, time > 0 ? time : 0);
    haul__json_begin(t, "args", '{');
    haul__json_number(t, what, value);
    haul__json_end(t, '}');
    haul__json_end(t, '}');
}

static void write_memory(haul__json_text *t, const haul_profile *p, const haul__curve *c)
{
    int64_t now = c->before;
    write_counter(t, "memory", c->device, 0, "allocated", (double)now);
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        const int64_t              change = haul__memory_change(p, m);
        if (m->device != c->device || !change)
            continue;
        now += change;
        write_counter(t, "memory", c->device, m->end, "allocated", (double)now);
    }
}

/* The speed of each copy while it lasts. */
static void write_links(haul__json_text *t, const haul_profile *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (!haul__is_on_stream(m) || !m->copy || m->end <= m->begin)
            continue;
        const char *name = !strcmp(haul__profile_text(p, m->detail), "download") ? "link from" : "link to";
        write_counter(t, name, m->device, m->begin, "GB/s", (double)m->bytes / (double)(m->end - m->begin));
        write_counter(t, name, m->device, m->end, "GB/s", 0);
    }
}

/* ---- steps ---- */

static void write_steps(haul__json_text *t, const haul_profile *p)
{
    char name[40];
    for (size_t i = 0; i < p->step_count; i++) {
        snprintf(name, sizeof name, "step %zu", i + 1);
        begin_event(t, "i", name, "step", HOST, p->thread, haul__step_end(p, i));
        haul__json_string(t, "s", "p");
        haul__json_end(t, '}');
    }
}

void haul__write_trace(haul__json_text *t, const haul_profile *p)
{
    HAUL__ASSERT(p->ended && p->analysis);
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "displayTimeUnit", "ms");
    haul__json_begin(t, "otherData", '{');
    haul__json_integer(t, "main_thread", p->thread);
    haul__json_number(t, "host_us", microseconds(p->analysis->host_end));
    haul__json_number(t, "wall_us", microseconds(p->analysis->wall));
    haul__json_end(t, '}');
    haul__json_begin(t, "traceEvents", '[');
    write_names(t, p);
    write_bars(t, p);
    write_steps(t, p);
    for (int c = 0; c < p->analysis->curve_count; c++)
        write_memory(t, p, &p->analysis->curves[c]);
    write_links(t, p);
    haul__json_end(t, ']');
    haul__json_end(t, '}');
}
