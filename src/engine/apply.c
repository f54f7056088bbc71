/* The driver: every operation goes through here.
 *
 * A call is on the C stack, and so is the scope that owns intermediate tensors: moved, cast and copied operands, and
 * the temporaries of `compute`. The results have no owner until the call has succeeded; then the caller's innermost
 * scope owns them. */
#include <string.h>

#include "backends/index_check.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/small_blocks.h"
#include "engine/anomaly.h"
#include "engine/autocast.h"
#include "engine/copy.h"
#include "engine/driver.h"
#include "engine/dry_call.h"
#include "engine/follow.h"
#include "engine/node.h"
#include "engine/placement/reason.h"
#include "engine/price.h"
#include "events/events.h"
#include "memory/dry_run/dry_run.h"

static int count_results(const haul__operation *operation)
{
    int count = 0;
    while (count < HAUL__MAX_RESULTS && operation->results[count].name)
        count++;
    return count;
}

/* For operands that do not fit the call's own arrays; the second half is for c->inputs. */
static size_t room_for(const haul__call *c)
{
    return 2 * (size_t)c->count * sizeof *c->operands;
}

static haul_status begin(haul__call *c, const haul__operation *operation, const void *attributes, int count)
{
    haul__call_begin(c, operation, attributes, count, count_results(operation));
    if (count <= HAUL__OWN_OPERANDS)
        return HAUL_OK;
    c->operands = haul__small_alloc(room_for(c));
    return c->operands ? HAUL_OK : haul__fail_memory(operation->name, room_for(c));
}

static void end(haul__call *c)
{
    if (c->operands != c->own_operands)
        haul__small_free(c->operands, room_for(c));
}

/* Handles without storage, for infer. */
static haul_status make_handles(haul__call *c)
{
    HAUL__ASSERT(c->result_count <= HAUL__MAX_RESULTS);
    for (int i = 0; i < c->result_count; i++) {
        if (c->operation->results[i].hidden && !c->records)
            continue;
        c->results[i] = haul__tensor_new();
        if (!c->results[i])
            return haul_error_status();
    }
    return HAUL_OK;
}

/* True if there are elements to compute: not on meta, and not if all results are empty. */
static bool has_work(const haul__call *c)
{
    if (!c->operation->compute || c->view_of >= 0 || !haul__device_computes(c->device))
        return false;
    for (int i = 0; i < c->result_count; i++)
        if (c->results[i] && c->results[i]->count)
            return true;
    return c->result_count == 0;
}

static bool is_of_library(const char *name)
{
    return strncmp(name, "haul_", 5) == 0; /* which is reserved */
}

/* Operations within a call failed on behalf of it, so the error names the function that the program has called. Errors
 * of devices keep the device's name, and those of the program's own functions keep theirs. */
static haul_status name_call(const haul__call *c, haul_status status)
{
    if (status && is_of_library(c->operation->name) && is_of_library(haul_error_operation()))
        haul__fail_within(c->operation->name);
    return status;
}

/* Operations that `compute` calls are not recorded: the call's own node knows how to differentiate it. */
static haul_status compute(haul__call *c)
{
    HAUL__ASSERT(c->inferred && !c->operation->compose);
    if (haul__is_dry() && haul__dry_call_describe(c))
        return haul_error_status();
    if (!has_work(c))
        return HAUL_OK;
    haul__thread()->no_grad = true; /* the scope restores the grad mode */
    const bool  priced = haul__watched(HAUL_EVENT_COMMAND) && haul__price_begin(c);
    haul_status status = name_call(c, c->operation->compute(c));
    if (priced)
        haul__price_end();
    for (int i = 0; i < c->result_count && !c->into; i++) /* in-place steps are part of making a result */
        if (c->results[i])
            atomic_store_explicit(&c->results[i]->storage->version, 0, memory_order_relaxed);
    return status;
}

static void count_versions(const haul__call *c, uint64_t written)
{
    for (uint64_t left = written; left; left &= left - 1)
        haul__storage_changed(c->operands[__builtin_ctzll(left)]->storage);
}

/* A result of a composite operation: a tensor that `scope` owns, or another owner's handle. */
static haul_tensor *taken(haul_scope *scope, haul_tensor *t)
{
    if (haul__scope_take(scope, t))
        return t;
    haul_tensor *handle = haul__tensor_alias(t);
    if (!handle)
        return NULL;
    HAUL__ASSERT(!handle->node); /* an alias has no graph, so there is none to release */
    handle->node = t->node;
    handle->node_result = t->node_result;
    haul__object_keep(t->node);
    return handle;
}

static haul_status compose(haul__call *c, haul_scope *scope)
{
    haul_tensor *made[HAUL__MAX_RESULTS];
    HAUL__ASSERT(!c->inferred && c->view_of < 0); /* the results are whole tensors, and nothing is given back */
    if (c->operation->gradient)
        haul__thread()->no_grad = true; /* the scope restores both */
    if (c->into && haul__autocast_begun())
        haul__thread()->words[HAUL__AUTOCAST] |= HAUL__AUTOCAST_PAUSED;
    const char *outer = haul__index_call(c->operation->name);
    if (!is_of_library(c->operation->name)) /* the program's own may not exist any more when a check fails */
        haul__index_caller = NULL;
    haul_status status = c->operation->compose(c);
    haul__index_caller = outer;
    for (int i = 0; i < c->result_count; i++) {
        made[i] = c->results[i];
        c->results[i] = NULL;
    }
    for (int i = 0; i < c->result_count && !status; i++) {
        c->results[i] = haul__failed(made[i]) ? NULL : taken(scope, made[i]);
        if (!c->results[i])
            status = haul_error_status();
    }
    return name_call(c, status);
}

haul_status haul__call_try(haul__call *c)
{
    haul_status status = make_handles(c);
    if (!status)
        status = c->operation->infer(c);
    c->inferred = !status;
    return status;
}

static haul_status infer(haul__call *c)
{
    haul_status status = haul__call_try(c);
    return status || !c->writes ? status : haul__check_written(c);
}

static void give_back(haul__call *c)
{
    if (c->inferred && c->operation->give_back)
        c->operation->give_back(c);
}

/* Of tensors that are there. */
static bool are_sound(haul_tensor *const *tensors, int count)
{
    for (int i = 0; i < count; i++)
        if (haul__is_tensor(tensors[i]) && !haul__tensor_is_sound(tensors[i]))
            return false;
    return true;
}

/* All steps up to the results, which have no owner yet. */
static haul_status run(haul__call *c, haul_tensor *const *operands, haul_scope *scope)
{
    HAUL__ASSERT(!c->into && !c->inferred);
    haul_status status = haul__take_operands(c, operands);
    if (!status && !c->fits)
        status = haul__pack_operands(c);
    if (status)
        return status;
    HAUL__ASSERT(are_sound(c->operands, c->count));
    if (c->operation->compose) {
        status = compose(c, scope);
    } else {
        status = infer(c);
        if (!status)
            status = haul__allocate_results(c);
    }
    HAUL__ASSERT(status || are_sound(c->results, c->result_count));
    /* before anything is written in place, because that could not be undone if this fails */
    if (!status && c->records && c->operation->gradient)
        status = haul__node_record(c);
    if (!status && !c->operation->compose)
        status = compute(c);
    if (status)
        give_back(c);
    count_versions(c, status ? c->wrote : c->writes);
    return status;
}

static void release_results(haul__call *c)
{
    for (int i = 0; i < c->result_count; i++)
        haul__object_release(c->results[i]);
}

void haul__call_end_trial(haul__call *c)
{
    give_back(c);
    release_results(c);
}

/* Pass the results to the innermost scope; hidden ones survive only where the graph keeps them. */
static haul_status deliver(haul__call *c, haul_tensor **results)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < c->result_count; i++) {
        bool given = !c->operation->results[i].hidden && results && !status;
        HAUL__ASSERT(!c->results[i] || !c->results[i]->object.scope); /* results have no owner yet */
        if (!given)
            haul__object_release(c->results[i]);
        else if (!c->results[i])
            results[i] = haul_none;
        else if (!(results[i] = haul__own_tensor(c->results[i], c->operation->name)))
            status = haul_error_status();
    }
    return status;
}

/* ---- into given tensors ---- */

static haul_status refuse_recording(const haul__call *c)
{
    for (int i = 0; i < c->count; i++)
        if (!haul__is_none(c->operands[i]) && haul__tracks(c->operands[i]))
            return haul__fail(
                HAUL_GRAPH, c->operation->name, "out",
                "%s requires a gradient, and writing into out cannot be differentiated; detach it or turn "
                "recording off with haul_set_grad_enabled(false)",
                haul__operand_name(c, i));
    return HAUL_OK;
}

/* Use the targets as the described results where possible; the other results get storage of their own. */
static haul_status take_targets(haul__call *c, haul_tensor *const *outs)
{
    for (int i = 0; i < c->result_count; i++)
        if (c->results[i] && haul__check_target(c, i, outs[i]))
            return haul_error_status();
    for (int i = 0; i < c->result_count; i++) {
        if (!c->results[i] || haul__needs_detour(c, i, outs[i]))
            continue;
        haul__object_release(c->results[i]);
        c->results[i] = outs[i];
        haul__object_keep(outs[i]);
    }
    return HAUL_OK;
}

/* Copy results that were computed in other memory. */
static haul_status finish_targets(haul__call *c, haul_tensor *const *outs)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < c->result_count && !status; i++) {
        if (!c->results[i])
            continue;
        if (c->results[i] != outs[i])
            status = haul__is_recorded() ? haul__dry_call_copy(outs[i], c->results[i])
                                         : haul__copy_elements(outs[i], c->results[i], c->operation->name);
        HAUL__ASSERT(c->results[i]->dtype == outs[i]->dtype && c->results[i]->count == outs[i]->count);
        if (!status)
            haul__storage_changed(outs[i]->storage);
    }
    return status;
}

static haul_status run_into(haul__call *c, haul_tensor *const *operands, haul_tensor *const *outs, haul_scope *scope)
{
    c->into = true;
    HAUL__ASSERT(c->result_count > 0 && !c->inferred);
    c->target = haul__is_tensor(outs[0]) && outs[0]->storage ? outs[0]->storage->device : NULL;
    haul_status status = haul__take_operands(c, operands);
    if (!status && c->records)
        status = refuse_recording(c);
    if (!status && !c->fits)
        status = haul__pack_operands(c);
    if (status)
        return status;
    if (c->operation->compose) {
        status = compose(c, scope);
        for (int i = 0; i < c->result_count && !status; i++)
            status = haul__check_target(c, i, outs[i]);
    } else {
        status = infer(c);
        if (!status)
            status = take_targets(c, outs);
        if (!status)
            status = haul__allocate_results(c);
        if (!status)
            status = compute(c);
    }
    HAUL__ASSERT(status || are_sound(c->results, c->result_count));
    if (!status)
        status = finish_targets(c, outs);
    if (status)
        give_back(c);
    count_versions(c, status ? c->wrote : c->writes);
    return status;
}

/* ---- whole calls ---- */

/* ---- events ---- */

enum { SHOWN = 16 };

/* The event of a call's end, as far as it is known before the results are handed over. */
__attribute__((noinline)) static haul_event describe(const haul__call *c, haul_status status)
{
    haul_event e = {.device = c->device};
    if (status || !c->inferred)
        return e;
    const haul__cost cost = haul__cost_of(c);
    e.flops = cost.flops;
    e.bytes = cost.bytes;
    for (int i = 0; i < c->result_count && c->records && !e.node; i++)
        if (c->results[i] && c->results[i]->node)
            e.node = c->results[i]->node->order;
    return e;
}

/* results: NULL if the call failed */
__attribute__((noinline)) static void tell_end(haul_event *e, const haul__call *c, haul_tensor *const *operands,
                                               haul_tensor *const *results, int64_t began)
{
    const char      *names[2][SHOWN];
    haul_tensor     *given[SHOWN];
    haul_call_values x = {0, operands, names[0]}, y = {0, given, names[1]};
    for (; results && x.count < c->count && x.count < SHOWN; x.count++)
        names[0][x.count] = haul__operand_name(c, x.count);
    for (int i = 0; results && i < c->result_count && y.count < SHOWN; i++) {
        if (c->operation->results[i].hidden || haul__is_none(results[i]))
            continue;
        names[1][y.count] = c->operation->results[i].name;
        given[y.count++] = results[i];
    }
    e->kind = HAUL_EVENT_OPERATION_END;
    e->operation = c->operation->name;
    e->x = &x;
    e->y = &y;
    haul__emit_end(e, began);
}

/* Results go to `outs` or, if that is NULL, to `results`. ending: receives the event of the call's end, which began at
 * `began`; or NULL. */
static haul_status apply_with(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                              int count, haul_tensor *const *outs, haul_tensor **results, haul_event *ending,
                              int64_t began)
{
    haul__call  c;
    haul_scope  scope;
    haul_status status = begin(&c, operation, attributes, count);
    int         dry = -1;
    if (!status && haul__is_dry())
        status = haul__dry_run_begin_call(operation, operation->name, &dry);
    if (!status)
        status = haul__scope_open(&scope, operation->name);
    if (!status) {
        status = outs ? run_into(&c, operands, outs, &scope) : run(&c, operands, &scope);
        if (ending)
            *ending = describe(&c, status);
        if (c.reason)
            haul__reason_attach(&c);
        haul__scope_close(&scope);
        if (outs || status)
            release_results(&c);
        else
            status = deliver(&c, results);
    }
    if (dry >= 0) {
        haul__recorder *r = status ? NULL : haul__recorder_now();
        if (r)
            status = r->call(r, dry, &(haul__asked){operation, attributes, operands, count, outs, results});
        haul__dry_call_end(dry, status);
    }
    if (ending)
        tell_end(ending, &c, operands, status ? NULL : outs ? outs : results, began);
    end(&c);
    return status;
}

/* Apart, because the event would be on the stack of every call. */
__attribute__((noinline)) static haul_status apply_watched(const haul__operation *operation, const void *attributes,
                                                           haul_tensor *const *operands, int count,
                                                           haul_tensor *const *outs, haul_tensor **results)
{
    haul_event    ending = {.kind = HAUL_EVENT_OPERATION_END};
    const int64_t began = haul__operation_begin(operation->name);
    return apply_with(operation, attributes, operands, count, outs, results, began ? &ending : NULL, began);
}

static haul_status apply(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                         int count, haul_tensor *const *outs, haul_tensor **results);

/* ---- anomaly detection ---- */

_Atomic(haul__result_check *) haul__check_results;

/* Operations within the call are not checked: what they compute need not reach its result. */
__attribute__((noinline)) static haul_status apply_checked(const haul__operation *operation, const void *attributes,
                                                           haul_tensor *const *operands, int count,
                                                           haul_tensor *const *outs, haul_tensor **results)
{
    uint32_t *word = &haul__thread()->words[HAUL__ANOMALY];
    HAUL__ASSERT(haul__check_results && (*word & HAUL__CHECKS_FORWARD));
    const uint32_t before = *word;
    *word = 0;
    haul_status status = apply(operation, attributes, operands, count, outs, results);
    if (!status)
        status = haul__check_results(operation, operands, count, outs, results);
    *word = before;
    return status;
}

static haul_status apply(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                         int count, haul_tensor *const *outs, haul_tensor **results)
{
    if (haul__is_followed())
        return haul__follower_now()->call(haul__follower_now(),
                                          &(haul__asked){operation, attributes, operands, count, outs, results});
    if (haul__checks(HAUL__CHECKS_FORWARD))
        return apply_checked(operation, attributes, operands, count, outs, results);
    if (haul__watched(HAUL_EVENT_OPERATION))
        return apply_watched(operation, attributes, operands, count, outs, results);
    return apply_with(operation, attributes, operands, count, outs, results, NULL, 0);
}

haul_status haul__apply(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                        int count, haul_tensor **results)
{
    return apply(operation, attributes, operands, count, NULL, results);
}

haul_tensor *haul__apply_long(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                              int count)
{
    haul_tensor *results[HAUL__MAX_RESULTS];
    return apply(operation, attributes, operands, count, NULL, results) ? haul__failed_tensor() : results[0];
}

haul_status haul__apply_long_into(haul_tensor *const *outs, const haul__operation *operation, const void *attributes,
                                  haul_tensor *const *operands, int count)
{
    return apply(operation, attributes, operands, count, outs, NULL);
}

haul_tensor *haul__apply1(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                          int count)
{
    return operation->pointwise ? haul__apply_short(operation, attributes, operands, count)
           : operation->view    ? haul__apply_view(operation, attributes, operands, count)
                                : haul__apply_long(operation, attributes, operands, count);
}

haul_status haul__apply_into(haul_tensor *const *outs, const haul__operation *operation, const void *attributes,
                             haul_tensor *const *operands, int count)
{
    return operation->pointwise ? haul__apply_short_into(outs[0], operation, attributes, operands, count)
                                : haul__apply_long_into(outs, operation, attributes, operands, count);
}

haul_tensor *haul__no_options(const haul__operation *operation)
{
    haul__fail_null(operation->name, "options");
    return haul__failed_tensor();
}
