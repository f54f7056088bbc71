#include "observe/learn/learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "device/device.h"
#include "device/speeds.h"

/* A call of an operation. */
typedef struct sample {
    const haul_device         *device;
    const haul__profile_event *event;
    uint32_t                   index;
    int64_t                    host, commands; /* ns */
    int                        found, given;   /* commands of this call and of the same calls before it, at one time */
} sample;

typedef struct samples {
    sample *items; /* by the beginning of the call */
    size_t  count, room;
} samples;

/* ---- the calls ---- */

/* Recording takes a microsecond or two of a call, which is a large part of a small one. */
static bool is_large(const haul__profile_event *m)
{
    const int64_t bytes = 128 << 10;
    const double  flops = 1 << 19;
    return m->bytes >= bytes || m->flops >= flops;
}

/* Copies between devices have prices of their own. */
static bool is_copy(const char *operation)
{
    return !strcmp(operation, "haul_to") || !strcmp(operation, "haul_pin") || !strcmp(operation, "haul_copy_into");
}

static bool is_call(const haul_profile *p, const haul__analysis *a, size_t i)
{
    HAUL__ASSERT(i < p->count && a->spans);
    const haul__profile_event *m = &p->events[i];
    return m->kind == HAUL_EVENT_OPERATION_END && m->thread == p->thread && m->device && haul__is_in_stretch(a, m) &&
           m->dtype != HAUL_DTYPE_END && a->spans[i].phase != HAUL__PHASE_LOADING &&
           !is_copy(haul__profile_text(p, m->operation));
}

static int by_beginning(const void *x, const void *y)
{
    const sample *a = x, *b = y;
    if (a->event->begin != b->event->begin)
        return a->event->begin < b->event->begin ? -1 : 1;
    if (a->event->depth != b->event->depth)
        return a->event->depth < b->event->depth ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static bool find_calls(const haul_profile *p, const haul__analysis *a, samples *out)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!is_call(p, a, i))
            continue;
        if (!haul__grow(&out->items, &out->room, out->count + 1, sizeof *out->items))
            return false;
        const haul__profile_event *m = &p->events[i];
        out->items[out->count++] =
            (sample){.device = m->device, .event = m, .index = (uint32_t)i, .host = a->spans[i].self};
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_beginning);
    return true;
}

/* The innermost call of the command's operation in which it was submitted; NULL: none. Operations enclose few others.
 */
static sample *call_of(const samples *s, const haul__profile_event *command)
{
    enum { WITHIN = 64 };
    size_t low = 0, high = s->count; /* the calls that began before */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->items[middle].event->begin <= command->submitted)
            low = middle + 1;
        else
            high = middle;
    }
    HAUL__ASSERT(low <= s->count);
    for (size_t i = low; i-- > 0 && low - i <= WITHIN;) {
        const haul__profile_event *m = s->items[i].event;
        if (m->end >= command->submitted && m->operation == command->operation && m->device == command->device)
            return &s->items[i];
    }
    return NULL;
}

static sample *call_of_event(const haul_profile *p, const samples *s, size_t i)
{
    const haul__profile_event *m = &p->events[i];
    const bool                 later = m->kind == HAUL_EVENT_COMMAND_DONE && !haul__device_is_synchronous(m->device);
    return later && m->thread == p->thread ? call_of(s, m) : NULL;
}

/* The virtual clock stands still while the program submits commands. Of the same calls at one time, each has as many
 * commands as the others, in their order. NULL: that cannot be. */
static sample *next_of(const samples *s, sample *last)
{
    int calls = 0;
    for (const sample *c = last; c >= s->items && c->event->begin == last->event->begin; c--)
        calls += c->event->operation == last->event->operation && c->device == last->device;
    HAUL__ASSERT(calls > 0 && last->found > 0);
    if (last->found % calls)
        return NULL;
    int behind = calls - 1 - last->given++ / (last->found / calls);
    HAUL__ASSERT(behind >= 0);
    for (sample *c = last; c >= s->items; c--)
        if (c->event->operation == last->event->operation && c->device == last->device && behind-- == 0)
            return c;
    return NULL;
}

static void add_commands(const haul_profile *p, samples *s)
{
    for (size_t i = 0; i < p->count; i++) {
        sample *call = call_of_event(p, s, i);
        if (call)
            call->found++;
    }
    for (size_t i = 0; i < p->count; i++) {
        sample *call = call_of_event(p, s, i);
        if (call && (call = next_of(s, call)) != NULL)
            call->commands += p->events[i].end - p->events[i].begin;
    }
}

/* ---- their medians ---- */

static int64_t time_of(const sample *s)
{
    return larger(s->host, s->commands);
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_kind(const sample *a, const sample *b)
{
    const haul__profile_event *x = a->event, *y = b->event;
    if (a->device != b->device)
        return compare(a->device->slot, b->device->slot);
    if (x->operation != y->operation)
        return compare(x->operation, y->operation);
    if (x->dtype != y->dtype)
        return compare(x->dtype, y->dtype);
    if (x->flops != y->flops)
        return x->flops < y->flops ? -1 : 1;
    return compare(x->bytes, y->bytes);
}

static int by_kind_and_time(const void *a, const void *b)
{
    const int order = by_kind(a, b);
    return order ? order : compare(time_of(a), time_of(b));
}

/* Of samples of one kind, by time. */
static haul__machine_learnt median_of(const haul_profile *p, const sample *s, size_t count)
{
    HAUL__ASSERT(count > 0 && time_of(&s[0]) <= time_of(&s[count - 1]));
    const haul__profile_event *m = s->event;
    haul__machine_learnt       l = {.dtype = m->dtype,
                                    .flops = haul__whole_flops(m->flops),
                                    .bytes = m->bytes,
                                    .ps = 1000 * time_of(&s[count / 2])};
    snprintf(l.operation, sizeof l.operation, "%s", haul__profile_text(p, m->operation));
    return l;
}

typedef struct taker {
    haul__learn_take     *take;
    void                 *context;
    haul__machine_learnt *room; /* for the times of a device */
} taker;

/* The samples of one device. */
static void learn_device(const haul_profile *p, const sample *s, size_t count, const taker *t)
{
    int found = 0;
    for (size_t i = 0, end; i < count && found < HAUL__MACHINE_LEARNT; i = end) {
        for (end = i + 1; end < count && by_kind(&s[i], &s[end]) == 0;)
            end++;
        HAUL__ASSERT(found < HAUL__MACHINE_LEARNT && s[i].device == s->device);
        t->room[found] = median_of(p, &s[i], end - i);
        found += is_large(s[i].event) && t->room[found].ps > 0;
    }
    t->take(s->device, t->room, found, t->context);
}

void haul__profile_learn_into(const haul_profile *p, const haul__analysis *a, haul__learn_take *take, void *context)
{
    samples     s = {0};
    const taker t = {take, context, haul__calloc(HAUL__MACHINE_LEARNT, sizeof *t.room)};
    if (t.room && find_calls(p, a, &s) && s.count) {
        add_commands(p, &s);
        qsort(s.items, s.count, sizeof *s.items, by_kind_and_time);
        for (size_t i = 0, end; i < s.count; i = end) {
            for (end = i + 1; end < s.count && s.items[end].device == s.items[i].device;)
                end++;
            learn_device(p, &s.items[i], end - i, &t);
        }
    }
    haul__free(t.room);
    haul__free(s.items);
}

static void keep(const haul_device *device, const haul__machine_learnt *times, int count, void *context)
{
    (void)context;
    haul__speeds_learn(device, times, count);
}

void haul__profile_learn(const haul_profile *p, const haul__analysis *a)
{
    haul__profile_learn_into(p, a, keep, NULL);
}
