/* Recordings: the variants of a step function, and which of them a run follows. */
#include <haul/recording.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hostile.h"
#include "core/guest.h"
#include "core/object.h"
#include "core/scope.h"
#include "engine/anomaly.h"
#include "events/events.h"
#include "memory/dry_run/dry_run.h"
#include "record/follow/follow.h"
#include "record/follow/recording.h"

/* A variant that was not used in OUT_OF_USE steps makes room for another one. After a recording that could not be
 * followed, the next one waits for a number of steps, which doubles each time up to LONGEST_WAIT. */
enum { MOST_VARIANTS = 64, USUAL_VARIANTS = 4, OUT_OF_USE = 32, LONGEST_WAIT = 256 };

struct haul_recording {
    haul__object        object;
    haul_step_function *function;
    void               *context;
    int                 most;
    bool                strict, frozen;
    bool                begun;                   /* a step has run as it is, so that optimizers have their state */
    atomic_bool         running;                 /* a run is under way */
    haul__dry_run      *dry_run;                 /* in which it was made; NULL: in none */
    haul__variant      *variants[MOST_VARIANTS]; /* the one that was used last first */
    haul__arenas        arenas;
    haul__following     following;
    uint64_t            steps, attempts;
    char                unfollowed[256]; /* why the last recording could not be followed */
    uint64_t            wait, next;      /* the wait for the next recording, and the step in which it ends */

    haul_recording_report report;
};

static void forget_variants(haul_recording *r)
{
    while (r->report.variants)
        haul__variant_free(r->variants[--r->report.variants]);
}

static void destroy(void *object)
{
    haul_recording *r = object;
    forget_variants(r);
    haul__arenas_free(&r->arenas);
    haul__workspace_free(&r->arenas.work);
    haul__object_release(r->arenas.given);
    haul__following_free(&r->following);
    haul__object_free(&r->object, sizeof *r);
}

static const haul__class recording_class = {.name = "recording", .destroy = destroy};

static haul_status check_arena(haul_tensor *arena, const char *operation)
{
    haul_status status = haul__check_tensor(operation, "arena", arena);
    if (status || haul__refuse_planned(arena->storage, operation))
        return haul_error_status();
    const int alignment = (int)haul__device_part_alignment(arena->storage->device);
    if (arena->offset || !arena->contiguous || (uintptr_t)arena->storage->buffer.host % (uintptr_t)alignment)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "arena",
                          "the arena is a view, or does not begin at a multiple of %d bytes; use haul_empty",
                          alignment);
    return HAUL_OK;
}

haul_recording *haul_recording_new_with(haul_step_function *function, const haul_recording_options *options)
{
    static const char operation[] = "haul_recording_new";
    if (!function || !options) {
        function ? haul__fail_null(operation, "options") : haul__fail_no_function(operation, "function");
        return NULL;
    }
    if (options->variants < 0 || options->variants > MOST_VARIANTS) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "variants", "variants is %d; from 1 to %d are possible",
                   options->variants, MOST_VARIANTS);
        return NULL;
    }
    if (options->arena && check_arena(options->arena, operation))
        return NULL;
    haul_recording *r = haul__object_new_zeroed(sizeof *r, &recording_class);
    if (!r) {
        haul__fail_memory(operation, sizeof *r);
        return NULL;
    }
    r->function = function;
    r->context = options->context;
    r->most = options->variants ? options->variants : haul__is_hostile(HAUL__HOSTILE_CACHES) ? 1 : USUAL_VARIANTS;
    r->strict = options->strict;
    r->dry_run = haul__is_dry() ? haul__dry_run_now() : NULL;
    r->frozen = options->frozen;
    r->arenas.given = options->arena;
    haul__object_keep(options->arena);
    haul__following_init(&r->following);
    return haul__own(r, operation);
}

/* ---- a run ---- */

static const char operation[] = "haul_recording_run";

static void give_back(haul_recording *r)
{
    if (!r->arenas.count)
        return;
    for (int i = 0; i < r->report.variants; i++)
        haul__variant_give_back(r->variants[i]);
    haul__arenas_free(&r->arenas);
}

/* The step then has the memory of the arenas. */
static haul_status run_eagerly(haul_recording *r, const char *why)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    give_back(r);
    HAUL__ASSERT(!r->arenas.count); /* the step may use all of the memory */
    snprintf(r->report.reason, sizeof r->report.reason, "%s", why);
    haul__workspace *work = haul__workspace_set(&r->arenas.work);
    haul__guest      before = haul__guest_begin();
    haul_status      status = haul__guest_end(&before, r->function(r->context), operation);
    haul__workspace_set(work);
    haul_scope_pop(scope);
    r->begun = true;
    r->report.eager++;
    return status;
}

static void use(haul_recording *r, int at)
{
    haul__variant *v = r->variants[at];
    HAUL__ASSERT(0 <= at && at < r->report.variants && r->report.variants <= r->most);
    memmove(r->variants + 1, r->variants, (size_t)at * sizeof(haul__variant *));
    r->variants[0] = v;
    v->used = r->steps;
    r->report.operations = (int64_t)v->call_count;
}

static haul_status follow(haul_recording *r, int at, bool *followed)
{
    HAUL__ASSERT(0 <= at && at < r->report.variants && atomic_load(&r->running));
    if (at)
        haul__variant_let_go(r->variants[0]);
    if (haul__arenas_spill(&r->arenas))
        give_back(r);
    haul_status status = haul__follow(&r->following, r->variants[at], &r->arenas, ++r->attempts, r->frozen, r->function,
                                      r->context, followed);
    if (*followed) {
        r->report.followed++;
        use(r, at);
    }
    return status;
}

/* In a dry run, whose figures would be those of another step. */
static bool must_fail(void)
{
    return haul__is_dry() && haul_error_status() == HAUL_OUT_OF_MEMORY;
}

/* Records the step as it would run now. Sets `*why` if it cannot be followed. The new variant is the last one. */
static haul_status record(haul_recording *r, char *why, size_t size)
{
    haul__error_record before;
    haul__error_save(&before);
    haul__variant *v = haul__variant_record(r->function, r->context, operation);
    if (!v && must_fail())
        return HAUL_OUT_OF_MEMORY;
    if (!v)
        snprintf(why, size, "it cannot be recorded: %s", haul_error_message());
    else if (*v->refused)
        snprintf(why, size, "%s", v->refused);
    haul__error_restore(&before);
    if (!v || *v->refused) {
        haul__variant_free(v);
        return HAUL_OK;
    }
    HAUL__ASSERT(r->report.variants < r->most && r->most <= MOST_VARIANTS);
    r->variants[r->report.variants++] = v;
    return HAUL_OK;
}

static haul_status refuse_eager(const char *why)
{
    return haul__fail(HAUL_STATE, operation, NULL, "the step cannot be followed, and the recording is strict: %s", why);
}

/* Records the step as it would run now and follows that. Sets `*why` if it cannot be followed; the next recording then
 * waits. */
static haul_status follow_new(haul_recording *r, char *why, size_t size, bool *followed)
{
    const int before = r->report.variants;
    if (before) /* memory that is the program's alone is recorded as what it is */
        haul__variant_let_go(r->variants[0]);
    haul_status status = record(r, why, size);
    if (r->report.variants > before) {
        status = follow(r, before, followed);
        if (!*followed) {
            snprintf(why, size, "%s", r->following.base.trial.why);
            haul__variant_free(r->variants[--r->report.variants]);
        }
    }
    HAUL__ASSERT(status || r->report.variants == before + *followed); /* one that differs is not kept */
    r->wait = *followed ? 0 : r->wait < LONGEST_WAIT / 2 ? 2 * r->wait + 1 : LONGEST_WAIT;
    r->next = r->steps + r->wait;
    return status;
}

/* The variant that was used last differs: follows another one, or a new one, or runs the step as it is. */
static haul_status run_otherwise(haul_recording *r)
{
    char        why[256];
    bool        followed = false;
    haul_status status = HAUL_OK;
    snprintf(why, sizeof why, "%s", r->report.variants ? r->following.base.trial.why : r->unfollowed);
    for (int i = 1; i < r->report.variants && !followed && !status; i++)
        status = follow(r, i, &followed);
    if (r->report.variants == r->most && r->steps - r->variants[r->most - 1]->used > OUT_OF_USE)
        haul__variant_free(r->variants[--r->report.variants]);
    if (!followed && !status && r->report.variants < r->most && r->steps >= r->next) {
        status = follow_new(r, why, sizeof why, &followed);
        snprintf(r->unfollowed, sizeof r->unfollowed, "%s", why);
    }
    HAUL__ASSERT(r->report.variants <= r->most);
    if (followed || status)
        return status;
    return r->strict ? refuse_eager(why) : run_eagerly(r, why);
}

/* Follows the variant that was used last, if the step still does the same. */
static haul_status run(haul_recording *r, const char *why)
{
    bool        followed = false;
    haul_status status = HAUL_OK;
    r->steps++;
    HAUL__ASSERT(r->report.variants <= r->most && r->most <= MOST_VARIANTS);
    if (!r->begun)
        return run_eagerly(r, "the first step runs as it is");
    if (why)
        return run_eagerly(r, why);
    if (haul__watched(HAUL_EVENT_OPERATION))
        return run_eagerly(r, "a subscriber watches operations");
    if (haul__checks(HAUL__CHECKS_BACKWARD | HAUL__CHECKS_FORWARD))
        return run_eagerly(r, "anomaly detection reads values");
    if (r->report.variants)
        status = follow(r, 0, &followed);
    return followed || status ? status : run_otherwise(r);
}

/* In the dry run in which it was made, a recording does what it would do. One from before must not change, and a step
 * that is being recorded is recorded with the steps in it. */
static bool is_from_outside(const haul_recording *r)
{
    return haul__is_dry() && (haul__is_recorded() || r->dry_run != haul__dry_run_now());
}

/* why: NULL, or why the step is not to be followed. */
static haul_status run_once(haul_recording *recording, const char *why)
{
    haul_status status = haul__check_object(recording, &recording_class, operation, "recording");
    if (status)
        return status;
    if (haul__is_followed())
        return haul__refuse_followed(operation, "runs");
    if (is_from_outside(recording))
        return recording->function(recording->context);
    if (atomic_exchange(&recording->running, true))
        return haul__fail(HAUL_STATE, operation, "recording",
                          "the recording is running: its own step function, or another thread, runs it again");
    status = run(recording, why);
    atomic_store(&recording->running, false);
    return status;
}

haul_status haul_recording_run(haul_recording *recording)
{
    return run_once(recording, NULL);
}

haul_status haul__recording_run_as_it_is(haul_recording *recording, const char *why)
{
    return run_once(recording, why);
}

void haul__recording_give_back(haul_recording *recording)
{
    if (!atomic_load(&recording->running))
        give_back(recording);
}

void haul__recording_forget(haul_recording *recording)
{
    haul_recording *r = recording;
    if (atomic_load(&r->running))
        return;
    forget_variants(r);
    haul__arenas_free(&r->arenas);
    r->begun = false;
    r->steps = r->wait = r->next = 0;
    r->unfollowed[0] = '\0';
    r->report = (haul_recording_report){.followed = 0};
}

haul_status haul_recording_report_get(const haul_recording *recording, haul_recording_report *out)
{
    static const char name[] = "haul_recording_report_get";
    haul_status       status = haul__check_object(recording, &recording_class, name, "recording");
    if (!status && !out)
        status = haul__fail_null(name, "out");
    if (!status)
        *out = recording->report;
    if (!status)
        out->arena_bytes = haul__arenas_bytes(&recording->arenas);
    return status;
}
