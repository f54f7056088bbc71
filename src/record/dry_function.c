/* Begins and ends dry runs. */
#include "record/dry_function.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "core/guest.h"
#include "core/scope.h"
#include "engine/node.h"

static void destroy(void *object)
{
    haul__dry_run *run = object;
    haul__dry_run_free(run);
    haul__free(run);
}

static const haul__class run_class = {.name = "dry run", .destroy = destroy};

/* The run under way, or a new one; the caller gets a reference. A recording has a run of its own. */
static haul__dry_run *enter(haul__recorder *recorder, const char *operation, bool *is_new)
{
    haul__dry_run *run = haul__is_dry() && !recorder ? haul__dry_run_now() : NULL;
    *is_new = !run;
    if (run) {
        haul__object_keep(run);
        return run;
    }
    run = haul__calloc(1, sizeof *run);
    if (!run) {
        haul__fail_memory(operation, sizeof *run);
        return NULL;
    }
    haul__object_init(&run->object, &run_class);
    run->newest_node = haul__node_newest();
    run->recorder = recorder;
    if (haul__dry_run_begin(run, operation)) {
        haul__object_release(run);
        return NULL;
    }
    HAUL__ASSERT(haul__is_dry() && haul__dry_run_now() == run);
    return run;
}

static void leave(haul__dry_function *call)
{
    haul_scope_pop(call->scope);
    if (call->outer)
        haul__object_release(haul__thread_exchange(HAUL__DRY_RUN, call->outer));
}

haul_status haul__dry_function_begin(haul__dry_function *call, const char *operation)
{
    return haul__dry_function_begin_recorded(call, NULL, operation);
}

haul_status haul__dry_function_begin_recorded(haul__dry_function *call, haul__recorder *recorder, const char *operation)
{
    call->scope = haul__scope_push(NULL);
    if (!call->scope)
        return haul_error_status();
    call->outer = recorder && haul__is_dry() ? haul__thread_exchange(HAUL__DRY_RUN, NULL) : NULL;
    call->run = enter(recorder, operation, &call->is_new);
    HAUL__ASSERT(!call->run || !call->outer || call->is_new); /* a recording has a run of its own */
    if (call->run)
        return HAUL_OK;
    leave(call);
    return haul_error_status();
}

haul_status haul__dry_function_call(haul_estimate_function *function, void *context, const char *operation)
{
    haul__guest before = haul__guest_begin();
    return haul__guest_end(&before, function(context), operation);
}

void haul__dry_function_end(haul__dry_function *call)
{
    HAUL__ASSERT(haul__dry_run_now() == call->run); /* what began within it has ended */
    if (call->is_new)
        haul__dry_run_restore(call->run);
    leave(call);
    haul__object_release(call->run);
}
