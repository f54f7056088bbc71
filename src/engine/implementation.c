/* Asks implementations in order, runs the first that does not refuse, and reports the choice. */
#include "engine/implementation.h"

#include <stdio.h>
#include <string.h>

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

/* ---- reports ---- */

/* What an entry did with the forms of a problem. */
typedef struct attempt {
    bool        heard;   /* a subscriber wants the reasons */
    const char *why;     /* the reason for the last form that it did not compute */
    int64_t     refused; /* bytes of scratch memory that it wanted for a form and did not get */
} attempt;

/* Adds to "onednn: it takes f32 only; direct: ...". Refused scratch memory is the reason that counts, because a limit
 * decided about it. The entry that computes is named only if it was refused some. */
static void note(char *refused, const haul__implementation *entry, const attempt *a, bool computed)
{
    char   size[32];
    size_t used = strlen(refused);
    if (a->refused)
        haul__size_text(a->refused, size, sizeof size);
    snprintf(refused + used, REFUSED - used, "%s%s: %s%s%s", used ? "; " : "", haul__implementation_name(entry->id),
             a->refused ? size : a->why, a->refused ? " of scratch memory were refused" : "",
             computed ? ", so it computed with less" : "");
}

static void report(const haul__call *c, const void *task, const haul__implementation *chosen, const char *refused)
{
    char problem[TEXT] = "";
    c->operation->implementations->describe(task, problem, sizeof problem);
    haul__emit(&(haul_event){.kind = HAUL_EVENT_IMPLEMENTATION,
                             .operation = c->operation->name,
                             .device = c->device,
                             .text = haul__implementation_name(chosen->id),
                             .problem = problem,
                             .refused = refused});
}

/* ---- choosing ---- */

/* Portable entries ask for no scratch memory. */
static haul_status compute(const haul__call *c, void *task, const haul__implementation *entry, attempt *a)
{
    int64_t refused = 0;
    if (entry->compute)
        return entry->compute(task);
    haul_status status = c->operation->implementations->run(task, entry, &refused);
    a->refused = refused ? refused : a->refused;
    return status;
}

/* Returns HAUL_UNSUPPORTED, without recording an error, if it takes no form. */
static haul_status try_forms(const haul__call *c, void *task, const haul__implementation *entry, attempt *a)
{
    const haul__implementations *list = c->operation->implementations;
    const void                  *problem;
    for (int i = 0; (problem = list->form(task, i)); i++) {
        a->why = entry->refuses(c->device, problem);
        if (a->why)
            continue;
        haul_status status = compute(c, task, entry, a);
        if (status != HAUL_UNSUPPORTED)
            return status;
        a->why = "it found out too late that it cannot";
    }
    return HAUL_UNSUPPORTED;
}

haul_status haul__implement(const haul__call *c, void *task)
{
    char                        refused[REFUSED];
    bool                        heard = haul__watched(HAUL_EVENT_IMPLEMENTATION);
    uint32_t                    without;
    haul_status                 status = haul__implementations_without(&without);
    const haul__implementation *entry;
    if (status)
        return status;
    *refused = '\0';
    status = HAUL_UNSUPPORTED;
    for (walk w = walk_of(c->operation, c->device); status == HAUL_UNSUPPORTED && (entry = next(&w));) {
        attempt a = {.heard = heard, .why = "HAUL_WITHOUT names it"};
        if (!(without >> entry->id & 1))
            status = try_forms(c, task, entry, &a);
        if (heard && (status == HAUL_UNSUPPORTED || (!status && a.refused)))
            note(refused, entry, &a, !status);
        if (heard && !status)
            report(c, task, entry, refused);
    }
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
