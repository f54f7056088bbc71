#include "core/trial.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/text/plain.h"
#include "core/tensor.h"

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

/* ---- changes ---- */

static haul__change *add(haul__trial *trial, const char *operation)
{
    if (haul__grow(&trial->changes, &trial->room, trial->count + 1, sizeof *trial->changes))
        return &trial->changes[trial->count++];
    haul__fail_memory(operation, sizeof *trial->changes);
    return NULL;
}

/* Only the first change of a place knows the value from before the step. A later one would hold on to a tensor of the
 * step itself, so the search is for tensors that a step made. */
static bool is_kept(const haul__trial *trial, const void *place, const void *before)
{
    const haul_tensor *t = before;
    if (!haul__is_tensor(t) || !t->followed)
        return false;
    for (size_t i = 0; i < trial->count; i++)
        if (trial->changes[i].place == place)
            return true;
    return false;
}

haul_status haul__trial_keep_object(haul__trial *trial, void *owner, void *place, const char *operation)
{
    if (is_kept(trial, place, *(void **)place))
        return HAUL_OK;
    haul__change *c = add(trial, operation);
    if (!c)
        return haul_error_status();
    *c = (haul__change){.place = place, .owner = owner, .before = *(void **)place, .is_object = true};
    haul__object_keep(owner);
    haul__object_keep(c->before);
    return HAUL_OK;
}

haul_status haul__trial_keep_integer(haul__trial *trial, void *owner, int64_t *place, const char *operation)
{
    haul__change *c = add(trial, operation);
    if (!c)
        return haul_error_status();
    *c = (haul__change){.place = place, .owner = owner, .number = *place};
    haul__object_keep(owner);
    return HAUL_OK;
}

void haul__trial_undo(haul__trial *trial)
{
    while (trial->count) {
        const haul__change *c = &trial->changes[--trial->count];
        if (c->is_object) {
            void *now = *(void **)c->place;
            *(void **)c->place = c->before;
            haul__object_release(now);
        } else {
            *(int64_t *)c->place = c->number;
        }
        haul__object_release(c->owner);
    }
}

void haul__trial_commit(haul__trial *trial)
{
    while (trial->count) {
        const haul__change *c = &trial->changes[--trial->count];
        haul__object_release(c->before);
        haul__object_release(c->owner);
    }
}

void haul__trial_free(haul__trial *trial)
{
    haul__free(trial->changes);
    trial->changes = NULL;
    trial->room = 0;
}
