/* Asks implementations in order, runs the first that does not refuse, and reports the choice. */
#include "engine/implementation.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/custom/custom.h"
#include "events/events.h"
#include "memory/report/origins.h"

enum { TEXT = 160, REFUSED = 640 };

/* ---- lists ---- */

/* Iterates over the entries of an operation on a device, including those that HAUL_WITHOUT leaves out. */
typedef struct walk {
    const haul__implementation *at, *next_list;
    haul__problem               of;
} walk;

static walk walk_of(const haul__operation *operation, const haul_device *device)
{
    const haul__implementation *own = haul__device_implementations(device);
    const haul__implementation *portable = operation->implementations->portable;
    return (walk){.at = own ? own : portable, .next_list = own ? portable : NULL, .of = operation->implementations->of};
}

/* The next entry; NULL after the last. */
static const haul__implementation *next(walk *w)
{
    for (;;) {
        if (!w->at->refuses) {
            if (!w->next_list)
                return NULL;
            w->at = w->next_list;
            w->next_list = NULL;
            continue;
        }
        const haul__implementation *entry = w->at++;
        if (entry->of == w->of)
            return entry;
    }
}

/* ---- a choice ---- */

/* What an entry did with the forms of a problem. */
typedef struct attempt {
    const char *why;     /* the reason for the last form that it did not compute */
    int64_t     refused; /* bytes of scratch memory that it wanted for a form and did not get */
    bool        waits;   /* the next entry goes first */
} attempt;

typedef struct choice {
    const haul__call           *call;
    void                       *task;
    uint32_t                    without;                        /* the entries that HAUL_WITHOUT leaves out */
    const haul__implementation *waiting[HAUL__IMPLEMENTATIONS]; /* those that let the next one go first */
    int                         waiting_count;
    bool                        heard; /* a subscriber wants the reasons */
    char                        refused[REFUSED];
} choice;

/* ---- reports ---- */

/* Adds to "onednn: it takes f32 only; direct: ...". Refused scratch memory is the reason that counts, because a limit
 * decided about it. The entry that computes is named only if it was refused some. */
static void note(char *refused, const haul__implementation *entry, const attempt *a, bool computed)
{
    char   size[32];
    size_t used = strlen(refused);
    HAUL__ASSERT(used < REFUSED && (a->refused || a->why));
    if (a->refused)
        haul__size_text(a->refused, size, sizeof size);
    snprintf(refused + used, REFUSED - used, "%s%s: %s%s%s", used ? "; " : "", haul__implementation_name(entry->id),
             a->refused ? size : a->why, a->refused ? " of scratch memory were refused" : "",
             computed ? ", so it computed with less" : "");
}

/* Those that let the chosen one go first. */
static void note_waiting(choice *c, const haul__implementation *chosen)
{
    char why[64];
    snprintf(why, sizeof why, "%s takes less time for this shape", haul__implementation_name(chosen->id));
    for (int i = 0; i < c->waiting_count; i++)
        note(c->refused, c->waiting[i], &(attempt){.why = why}, false);
}

static void report(choice *ch, const haul__implementation *chosen)
{
    const haul__call *c = ch->call;
    char              problem[TEXT] = "";
    note_waiting(ch, chosen);
    c->operation->implementations->describe(ch->task, problem, sizeof problem);
    haul__emit(&(haul_event){.kind = HAUL_EVENT_IMPLEMENTATION,
                             .operation = c->operation->name,
                             .device = c->device,
                             .text = haul__implementation_name(chosen->id),
                             .problem = problem,
                             .refused = ch->refused});
}

/* ---- choosing ---- */

/* Portable entries ask for no scratch memory. */
static haul_status compute(const choice *c, const haul__implementation *entry, attempt *a)
{
    int64_t refused = 0;
    if (entry->compute)
        return entry->compute(c->task);
    haul_status status = c->call->operation->implementations->run(c->task, entry, &refused);
    a->refused = refused ? refused : a->refused;
    return status;
}

/* Returns HAUL_UNSUPPORTED, without recording an error, if it takes no form; or if it may wait, and the next entry is
 * faster for the form that it takes. */
static haul_status try_forms(const choice *c, const haul__implementation *entry, attempt *a, bool may_wait)
{
    const haul__implementations *list = c->call->operation->implementations;
    const void                  *problem;
    for (int i = 0; (problem = list->form(c->task, i)); i++) {
        a->why = entry->refuses(c->call->device, problem);
        if (a->why)
            continue;
        a->waits = may_wait && entry->is_slower && entry->is_slower(c->call->device, problem);
        haul_status status = a->waits ? HAUL_UNSUPPORTED : compute(c, entry, a);
        if (status != HAUL_UNSUPPORTED || a->waits)
            return status;
        a->why = "it found out too late that it cannot";
    }
    return HAUL_UNSUPPORTED;
}

static haul_status try_entry(choice *c, const haul__implementation *entry, bool may_wait)
{
    attempt     a = {.why = "HAUL_WITHOUT names it"};
    haul_status status = HAUL_UNSUPPORTED;
    if (!(c->without >> entry->id & 1))
        status = try_forms(c, entry, &a, may_wait);
    HAUL__ASSERT(!a.waits || (may_wait && c->waiting_count < HAUL__IMPLEMENTATIONS));
    if (a.waits)
        c->waiting[c->waiting_count++] = entry;
    else if (c->heard && (status == HAUL_UNSUPPORTED || (!status && a.refused)))
        note(c->refused, entry, &a, !status);
    if (c->heard && !status)
        report(c, entry);
    return status;
}

/* An entry that waits for the next one is tried after it. */
static haul_status try_in_turn(choice *c, const haul__implementation *entry)
{
    const int   before = c->waiting_count;
    haul_status status = try_entry(c, entry, true);
    if (c->waiting_count > before)
        return status;
    while (status == HAUL_UNSUPPORTED && c->waiting_count > 0)
        status = try_entry(c, c->waiting[--c->waiting_count], false);
    return status;
}

haul_status haul__implement(const haul__call *call, void *task)
{
    choice                      c; /* filled in by hand, because it is large */
    const haul__implementation *entry;
    haul_status                 status = haul__implementations_without(&c.without);
    if (status)
        return status;
    c.call = call;
    c.task = task;
    c.waiting_count = 0;
    c.heard = haul__watched(HAUL_EVENT_IMPLEMENTATION);
    c.refused[0] = '\0';
    status = HAUL_UNSUPPORTED;
    for (walk w = walk_of(call->operation, call->device); status == HAUL_UNSUPPORTED && (entry = next(&w));)
        status = try_in_turn(&c, entry);
    return status;
}

bool haul__prefers_channels_last(const haul__operation *operation, haul_device *device, const void *problem)
{
    const haul__implementation *entry;
    for (walk w = walk_of(operation, device); (entry = next(&w));)
        if (entry->wants_channels_last && !haul__implementation_left_out(entry->id) &&
            entry->wants_channels_last(device, problem))
            return true;
    return false;
}

bool haul__takes_inner(const haul__operation *operation, haul_device *device, haul_dtype dtype)
{
    const haul__implementation *entry;
    for (walk w = walk_of(operation, device); (entry = next(&w));)
        if (entry->takes_inner && !haul__implementation_left_out(entry->id) &&
            !entry->refuses(device, &(haul__gemm){.dtype = dtype}))
            return true;
    return false;
}

bool haul__library_takes(const haul__operation *operation, haul_device *device, const void *problem)
{
    const haul__implementation *entry;
    for (walk w = walk_of(operation, device); (entry = next(&w));)
        if (entry->run && !haul__implementation_left_out(entry->id) && !entry->refuses(device, problem))
            return true;
    return false;
}

int haul__list_implementations(const haul__operation *operation, haul_device *device, const char **names, int capacity)
{
    const haul__implementation *entry;
    int                         count = 0;
    if (device->properties.kind == HAUL_KIND_META)
        return 0;
    if (!operation->implementations) {
        const char *name = haul__custom_of(operation) ? haul__custom_way(haul__custom_of(operation), device)
                           : operation->compute       ? "kernel"
                           : operation->compose       ? "operations"
                                                      : "view";
        if (capacity > 0 && name)
            names[0] = name;
        return name != NULL;
    }
    for (walk w = walk_of(operation, device); (entry = next(&w));) {
        if (haul__implementation_left_out(entry->id) || entry->refuses(device, NULL))
            continue;
        if (count < capacity)
            names[count] = haul__implementation_name(entry->id);
        count++;
    }
    return count;
}
