/* The recording: a subscriber that keeps events as events. */
#include "observe/profile/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/system/call_site.h"
#include "core/scope.h"
#include "device/device.h"
#include "machine/machine.h"
#include "observe/audit/audit.h"
#include "observe/profile/analysis.h"

enum { USUAL_MOST = 4 << 20 };

static const uint32_t RECORDED = HAUL_EVENT_OPERATION_END | HAUL_EVENT_COMMAND_DONE | HAUL_EVENT_COPY |
                                 HAUL_EVENT_WAITED | HAUL_EVENT_MEMORY_ALLOCATED | HAUL_EVENT_MEMORY_FREED |
                                 HAUL_EVENT_CALL_END | HAUL_EVENT_LABEL_END | HAUL_EVENT_WORK_END |
                                 HAUL_EVENT_DRIVER_CALLED;

/* ---- taking ---- */

static void set_texts(haul_profile *p, haul__profile_event *m, const haul_event *e)
{
    m->operation = haul__texts_number(&p->texts, e->operation);
    m->module = haul__texts_number(&p->texts, e->origin);
    m->label = haul__texts_number(&p->texts, e->label);
    m->text = haul__texts_number(&p->texts, e->text);
    m->name = haul__texts_number(&p->texts, e->kind & HAUL_EVENT_COPY ? e->tensor : e->kernel);
    m->detail = haul__texts_number(&p->texts, e->kind & HAUL_EVENT_COPY            ? e->problem
                                              : e->kind == HAUL_EVENT_MEMORY_FREED ? e->role
                                                                                   : e->stream);
    m->stack = haul__stacks_number(&p->stacks, e->frames, e->frame_count, m->operation);
}

/* What began before the profile counts from its beginning on. */
static int64_t since(const haul_profile *p, int64_t time)
{
    return time > p->began ? time - p->began : 0;
}

static haul__profile_event event_of(haul_profile *p, const haul_event *e)
{
    HAUL__ASSERT(e->duration >= 0 && e->frame_count >= 0);
    haul__profile_event m = {.kind = e->kind,
                             .thread = e->thread,
                             .depth = e->depth,
                             .step = (int)p->step_count,
                             .device = e->device,
                             .other = e->other,
                             .begin = since(p, e->time - e->duration),
                             .end = e->time - p->began,
                             .submitted = e->submitted - p->began,
                             .bytes = e->bytes,
                             .planned = e->planned,
                             .number = e->kind & HAUL_EVENT_COMMAND                                       ? e->command
                                       : e->kind & HAUL_EVENT_WORK || e->kind == HAUL_EVENT_OPERATION_END ? e->node
                                                                                                          : e->storage,
                             .copy = e->copy};
    set_texts(p, &m, e);
    return m;
}

static haul_dtype dtype_of_values(const haul_call_values *v)
{
    haul_dtype found = HAUL_DTYPE_NONE;
    for (int i = 0; v && i < v->count; i++)
        if (!haul__is_none(v->tensors[i]))
            found = haul__work_dtype(found, v->tensors[i]->dtype);
    return found;
}

/* Where operands are converted first, the event has them as they were given. */
static haul_dtype dtype_of(const haul_event *e)
{
    const haul_dtype x = dtype_of_values(e->x), y = dtype_of_values(e->y);
    if (haul_dtype_is_float(x) && haul_dtype_is_float(y))
        return x == y ? x : HAUL_DTYPE_END;
    return haul__work_dtype(x, y);
}

/* Of a copy whose data were made smaller on the other side. */
static void set_excess(haul__profile_event *copy, const haul__computed *c)
{
    const double share = (double)c->excess / (double)c->bytes;
    copy->flow.excess = c->bytes > copy->bytes ? (int64_t)((double)copy->bytes * share) : c->excess;
    HAUL__ASSERT(copy->kind & HAUL_EVENT_COPY && 0 <= copy->flow.excess && copy->flow.excess <= copy->bytes);
}

/* What follows from where the data come from. */
static void note_data(haul_profile *p, haul__profile_event *m, const haul_event *e)
{
    const uint32_t number = (uint32_t)p->count + 1;
    if (e->kind == HAUL_EVENT_OPERATION_END) {
        const haul__computed computed = haul__flow_computed(&p->flows, e);
        HAUL__ASSERT(computed.narrowed <= p->count && computed.with <= p->count);
        if (computed.narrowed)
            set_excess(&p->events[computed.narrowed - 1], &computed);
        m->computed_with = computed.with;
        m->flops = e->flops;
        m->dtype = dtype_of(e);
    } else if (e->kind & HAUL_EVENT_COPY) {
        m->flow = haul__flow_copied(&p->flows, e, number);
        HAUL__ASSERT(m->flow.back_from <= p->count);
        m->unchanged = e->kind == HAUL_EVENT_COPY_TO_DEVICE && haul__was_copied(p->copied, e);
    } else if (e->kind == HAUL_EVENT_MEMORY_ALLOCATED) {
        haul__flow_allocated(&p->flows, e);
    }
}

/* Where the program does something else for long: by the stack of the next call. Walking it takes microseconds. */
static void note_gap(haul_profile *p, haul__profile_event *m)
{
    enum { LONG = 20000 };
    void      *frames[HAUL__STACK_FRAMES];
    const bool asks = m->kind == HAUL_EVENT_DRIVER_CALLED ||
                      (m->kind == HAUL_EVENT_WORK_END && !strcmp(haul__profile_text(p, m->text), "next batch"));
    const int64_t gap = m->begin - p->last_end;
    if (m->thread != p->thread || !haul__is_span(m))
        return;
    if (p->call_sites && !m->stack && (gap > LONG || asks))
        m->stack = haul__stacks_number(&p->stacks, frames, haul__take_frames(frames, HAUL__STACK_FRAMES), m->operation);
    HAUL__ASSERT(m->stack <= p->stacks.count);
    m->gap = gap > LONG && m->stack ? gap : 0;
    p->last_end = m->end > p->last_end ? m->end : p->last_end;
}

/* Of the calls of drivers only these are kept: what a program that runs for longer does once. */
static bool gets_ready(const haul_event *e)
{
    static const char *const ready[] = {"was compiled", "was compiled for its first run", "planned a convolution"};
    bool                     found = false;
    for (size_t i = 0; i < sizeof ready / sizeof *ready; i++)
        found = found || !strcmp(e->text, ready[i]);
    return found;
}

static void take(const haul_event *e, void *context)
{
    haul_profile *p = context;
    if (e->kind == HAUL_EVENT_DRIVER_CALLED && !gets_ready(e))
        return;
    if (!p->everywhere && e->thread != p->thread && !(e->kind & HAUL_EVENT_MEMORY)) /* memory is the device's */
        return;
    if (p->count >= p->most || !haul__grow(&p->events, &p->room, p->count + 1, sizeof *p->events)) {
        p->lost++;
        return;
    }
    haul__profile_event m = event_of(p, e);
    note_gap(p, &m);
    note_data(p, &m, e);
    if (haul__is_span(&m))
        haul__energy_read(&p->energy, m.end, false);
    HAUL__ASSERT(p->count < p->room && p->count < p->most);
    p->events[p->count++] = m;
}

/* ---- memory from before the profile ---- */

/* The blocks of a device that are live now. Without memory for them the memory of the profile begins at 0. */
static void look_at(haul_profile *p, const haul_device *device)
{
    haul__error_record before;
    haul__error_save(&before);
    int                count = haul_memory_snapshot(device, NULL, 0);
    haul_memory_block *blocks = count > 0 ? haul__calloc((size_t)count, sizeof *blocks) : NULL;
    if (blocks && haul__grow(&p->earlier, &p->earlier_room, p->earlier_count + 1, sizeof *p->earlier)) {
        const int found = haul_memory_snapshot(device, blocks, count);
        count = found < count ? found : count;
        HAUL__ASSERT(p->earlier_count < p->earlier_room && count >= 0);
        haul__earlier *new = &p->earlier[p->earlier_count++];
        *new = (haul__earlier){.device = device, .blocks = blocks};
        for (int i = 0; i < count && blocks[i].live; i++, new->count++)
            new->bytes += blocks[i].spilled ? 0 : blocks[i].bytes;
    } else {
        haul__free(blocks);
    }
    haul__error_restore(&before);
}

/* ---- the object ---- */

static void destroy(void *object)
{
    haul_profile *p = object;
    haul__detach(&p->subscriber);
    haul__findings_free(p->findings);
    haul__analysis_free(p->analysis);
    for (size_t i = 0; i < p->earlier_count; i++)
        haul__free(p->earlier[i].blocks);
    haul__free(p->earlier);
    haul__free(p->peaks);
    haul__energy_close(&p->energy);
    haul__free(p->copied);
    haul__stacks_close(&p->stacks);
    haul__texts_close(&p->texts);
    haul__free(p->steps);
    haul__free(p->events);
    haul__object_free(&p->object, sizeof *p);
}

static const haul__class profile_class = {.name = "profile", .destroy = destroy};

/* So that no work of before is done in the section; and at its end, so that the times of all commands arrive. */
static haul_status wait_for_devices(void)
{
    haul_status status = HAUL_OK;
    for (int slot = 0; slot < HAUL__MAX_DEVICES && !status; slot++) {
        haul_device *device = haul__device_in_use(slot);
        if (device && haul__device_computes(device) && !haul__device_is_synchronous(device))
            status = haul_device_sync(device);
    }
    return status;
}

static haul_status prepare(haul_profile *p, const haul_profile_options *o, const char *operation)
{
    HAUL__ASSERT(!p->ended && !p->count && !p->step_count);
    p->thread = haul__event_thread();
    p->everywhere = o->everywhere;
    p->call_sites = !o->no_places;
    p->most = o->most_events ? (size_t)o->most_events : USUAL_MOST;
    p->copied = haul__calloc(1, sizeof *p->copied);
    if (wait_for_devices())
        return haul_error_status();
    if (!p->copied || !haul__texts_open(&p->texts))
        return haul__fail_memory(operation, sizeof *p->copied);
    for (int slot = 0; slot < HAUL__MAX_DEVICES; slot++)
        if (haul__device_in_use(slot) && haul__device_computes(haul__device_in_use(slot)))
            look_at(p, haul__device_in_use(slot));
    haul__energy_open(&p->energy);
    p->began = haul__now_ns();
    p->subscriber.of =
        (haul_subscription){.take = take,
                            .context = p,
                            .kinds = RECORDED,
                            .everywhere = true, /* it may be ended by another thread */
                            .frames = o->no_places ? 0 : (uint32_t)HAUL_EVENT_COPY | (uint32_t)HAUL_EVENT_WAITED};
    if (!haul__attach(&p->subscriber))
        return haul__fail(HAUL_OUT_OF_MEMORY, operation, NULL,
                          "the system cannot register another thread key or fork handler");
    return HAUL_OK;
}

static haul_status check_options(const haul_profile_options *o, const char *operation)
{
    if (!o)
        return haul__fail_null(operation, "options");
    if (o->most_events < 0 || o->most_events > UINT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "most_events",
                          ".most_events is %lld; expected from 1 to %u, or 0 for the default",
                          (long long)o->most_events, UINT32_MAX);
    if (haul__event_muted())
        return haul__fail(HAUL_STATE, operation, NULL,
                          "a subscriber to events makes no events that a profile could record; call it elsewhere");
    return HAUL_OK;
}

haul_profile *haul_profile_begin_with(const haul_profile_options *options)
{
    static const char operation[] = "haul_profile_begin";
    if (check_options(options, operation))
        return NULL;
    haul_profile *p = haul__object_new_zeroed(sizeof *p, &profile_class);
    if (!p) {
        haul__fail_memory(operation, sizeof *p);
        return NULL;
    }
    if (prepare(p, options, operation) == HAUL_OK)
        return haul__own(p, operation);
    haul__object_release(p);
    return NULL;
}

/* ---- steps and the end ---- */

/* A profile that is recording, and whose main thread calls. */
static haul_status check_running(haul_profile *p, const char *operation)
{
    haul_status status = haul__check_object(p, &profile_class, operation, "profile");
    if (!status && p->ended)
        return haul__fail(HAUL_STATE, operation, "profile", "it has ended; haul_profile_begin begins another");
    if (!status && p->thread != haul__event_thread())
        return haul__fail(HAUL_STATE, operation, "profile",
                          "it was begun by another thread, which must divide it into steps and end it");
    return status;
}

haul_status haul_profile_step(haul_profile *profile)
{
    static const char operation[] = "haul_profile_step";
    haul_status       status = check_running(profile, operation);
    if (status)
        return status;
    haul__subscribers_lock();
    bool fits = haul__grow(&profile->steps, &profile->step_room, profile->step_count + 1, sizeof *profile->steps);
    if (fits)
        profile->steps[profile->step_count++] = haul__now_ns() - profile->began;
    const size_t count = profile->step_count;
    HAUL__ASSERT(!fits || count < 2 || profile->steps[count - 2] <= profile->steps[count - 1]);
    haul__subscribers_unlock();
    return fits ? HAUL_OK : haul__fail_memory(operation, profile->step_count * sizeof *profile->steps);
}

haul_status haul_profile_end(haul_profile *profile)
{
    haul_status status = check_running(profile, "haul_profile_end");
    if (status)
        return status;
    HAUL__ASSERT(!profile->findings && !profile->analysis);
    profile->stopped = haul__now_ns() - profile->began;
    status = wait_for_devices();
    haul__detach(&profile->subscriber);
    haul__energy_read(&profile->energy, haul__now_ns() - profile->began, true);
    haul__note_roles(profile);
    profile->ended = true;
    return status;
}

/* ---- for readers ---- */

haul_status haul__profile_check(const haul_profile *profile, const char *operation)
{
    haul_status status = haul__check_object(profile, &profile_class, operation, "profile");
    if (!status && !profile->ended)
        return haul__fail(HAUL_STATE, operation, "profile", "it is still recording; call haul_profile_end first");
    return status;
}

haul_status haul_profile_set_peak(haul_profile *profile, haul_device *device, double flops, double bytes)
{
    static const char operation[] = "haul_profile_set_peak";
    haul_status       status = haul__check_object(profile, &profile_class, operation, "profile");
    if (!status)
        status = haul__device_check(device, operation, "device");
    if (status)
        return status;
    if (!(flops >= 0 && flops < 1e30) || !(bytes >= 0 && bytes < 1e30))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "flops",
                          "flops and bytes are %g and %g a second; expected finite numbers, or 0 for unknown", flops,
                          bytes);
    haul__analysis_free(profile->analysis); /* which compares with the peaks */
    profile->analysis = NULL;
    for (size_t i = 0; i < profile->peak_count; i++)
        if (profile->peaks[i].device == device) {
            profile->peaks[i] = (haul__peak){device, flops, bytes};
            return HAUL_OK;
        }
    if (!haul__grow(&profile->peaks, &profile->peak_room, profile->peak_count + 1, sizeof *profile->peaks))
        return haul__fail_memory(operation, sizeof *profile->peaks);
    profile->peaks[profile->peak_count++] = (haul__peak){device, flops, bytes};
    return HAUL_OK;
}

haul__peak haul__profile_peak(const haul_profile *p, const haul_device *device)
{
    for (size_t i = p->peak_count; i-- > 0;)
        if (p->peaks[i].device == device)
            return p->peaks[i];
    return (haul__peak){.device = device};
}
