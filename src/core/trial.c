#include "core/trial.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"

/* ---- changes ---- */

bool haul__changes_reserve(haul__changes *changes, size_t more)
{
    return haul__grow(&changes->items, &changes->room, changes->count + more, sizeof *changes->items);
}

haul_status haul__changes_add(haul__changes *changes, const haul__change *change, const char *operation)
{
    if (!haul__changes_reserve(changes, 1))
        return haul__fail_memory(operation, sizeof *changes->items);
    HAUL__ASSERT(changes->count < changes->room && (change->kind == HAUL__CHANGED_STATE || change->place));
    changes->items[changes->count++] = *change;
    haul__object_keep(change->owner);
    if (change->kind == HAUL__CHANGED_OBJECT)
        haul__object_keep(change->before);
    return HAUL_OK;
}

static void put_back(const haul__change *c)
{
    HAUL__ASSERT(c->owner);
    if (c->kind == HAUL__CHANGED_STATE) {
        c->put_back(c->owner, c->before);
    } else if (c->kind == HAUL__CHANGED_OBJECT) {
        void *now = *(void **)c->place;
        *(void **)c->place = c->before;
        haul__object_release(now);
    } else {
        *(int64_t *)c->place = c->number;
    }
}

void haul__changes_undo(haul__changes *changes)
{
    while (changes->count) {
        const haul__change c = changes->items[--changes->count];
        put_back(&c);
        haul__object_release(c.owner);
    }
}

void haul__changes_commit(haul__changes *changes)
{
    while (changes->count) {
        const haul__change c = changes->items[--changes->count];
        if (c.kind == HAUL__CHANGED_OBJECT)
            haul__object_release(c.before);
        haul__object_release(c.owner);
    }
}

void haul__changes_free(haul__changes *changes)
{
    haul__free(changes->items);
    *changes = (haul__changes){NULL, 0, 0};
}

/* ---- followed steps ---- */

haul__trial *haul__trial_now(void)
{
    return haul__thread_kept(HAUL__DRY_RUN);
}

/* The message that a program sees only if it prints the error of a step that will run again. */
static haul_status fail(const char *operation)
{
    return haul__fail(HAUL_STATE, operation, NULL,
                      "the step differs from its recording; haul_recording_run calls it again, without following");
}

haul_status haul__trial_differs(haul__trial *trial, const char *operation, const char *format, ...)
{
    if (!trial->differs) {
        va_list arguments;
        va_start(arguments, format);
        haul__vsnprintf(trial->why, sizeof trial->why, format, arguments);
        va_end(arguments);
        trial->differs = true;
    }
    return fail(operation);
}

haul_status haul__refuse_followed(const char *operation, const char *what)
{
    if (!haul__is_followed())
        return HAUL_OK;
    return haul__trial_differs(haul__trial_now(), operation, "%s %s in the step; move that behind haul_recording_run",
                               operation ? operation : "a call", what);
}
