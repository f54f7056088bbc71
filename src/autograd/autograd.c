/* The public functions for gradients: leaves, haul_backward, haul_grad. */
#include <haul/haul.h>

#include "autograd/hooks.h"
#include "autograd/pass.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/duration.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "engine/copy.h"
#include "engine/follow.h"
#include "engine/node.h"
#include "engine/placement/placement.h"
#include "memory/dry_run/dry_run.h"
#include "memory/mark.h"
#include "transfer/move_price.h"

/* ---- leaves ---- */

haul_tensor *haul_set_requires_grad(haul_tensor *t, bool on)
{
    static const char operation[] = "haul_set_requires_grad";
    haul_status       status = haul__check_tensor(operation, "t", t);
    if (!status && on && !haul_dtype_is_float(t->dtype))
        status =
            haul__fail(HAUL_DTYPE, operation, "t", "t is %s, and only floating tensors have gradients; cast it first",
                       haul_dtype_name(t->dtype));
    if (!status && t->node)
        status = haul__fail(HAUL_GRAPH, operation, "t",
                            "t is the result of %s; only leaves can be changed; use haul_detach(t)",
                            t->node->operation->name);
    if (status)
        return haul__failed_tensor();
    t->requires_grad = on;
    return t;
}

bool haul_requires_grad(const haul_tensor *t)
{
    return haul__check_tensor("haul_requires_grad", "t", t) == HAUL_OK && haul__tracks(t);
}

haul_tensor *haul_tensor_grad(haul_tensor *t)
{
    if (haul__check_tensor("haul_tensor_grad", "t", t))
        return haul__failed_tensor();
    if (!t->grad)
        return HAUL_NONE;
    return haul__result(haul__own(haul__tensor_alias(t->grad), "haul_tensor_grad"));
}

/* A dry run does not change the gradients of leaves that existed before. */
static haul_status keep_in_dry_run(haul_tensor *leaf, const char *operation)
{
    return haul__is_trial() && !haul__dry_run_made(leaf->storage)
               ? haul__dry_run_keep_tensor(leaf, &leaf->grad, operation)
               : HAUL_OK;
}

/* A copy with elements of their own: those of an expanded tensor share memory, and could not be changed in place, as
 * clipping and scaling do. With a reference. */
static haul_tensor *spread(haul_tensor *grad, const char *operation)
{
    haul_scope   scope;
    haul_tensor *own = NULL;
    if (haul__scope_open(&scope, operation))
        return NULL;
    haul_set_grad_enabled(false);
    haul_tensor *copy = haul_clone(haul_detach(grad));
    if (haul__failed(copy))
        haul__fail_within(operation);
    else if (haul__scope_take(&scope, copy))
        own = copy;
    HAUL__ASSERT(!own || !haul__overlaps_itself(own));
    haul__scope_close(&scope);
    return own;
}

static haul_tensor *own_gradient(haul_tensor *grad, const char *operation)
{
    if (haul__overlaps_itself(grad))
        return spread(grad, operation);
    haul_tensor *own = haul__tensor_alias(grad);
    if (!own)
        haul__fail_memory(operation, sizeof *own);
    return own;
}

static haul_status check_like(const char *operation, const haul_tensor *t, const haul_tensor *grad)
{
    char have[96], want[96], time[HAUL__DURATION];
    if (grad->dtype != t->dtype || !haul__shape_equal(&grad->shape, &t->shape))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "grad",
                          "the gradient must match t, which is %s, but grad is %s",
                          haul__tensor_text(t, want, sizeof want), haul__tensor_text(grad, have, sizeof have));
    const haul_device *device = t->storage->device;
    if (grad->storage->device != device)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "grad",
                          "the gradient must match t, which is on %s, but grad is %s; moving it takes about %s: "
                          "haul_to(grad, haul_device_get(\"%s\"))",
                          device->name, haul__tensor_text(grad, have, sizeof have),
                          haul__duration_text(haul__move_ps(grad, device), time), device->name);
    return HAUL_OK;
}

haul_status haul_set_grad(haul_tensor *t, haul_tensor *grad)
{
    static const char operation[] = "haul_set_grad";
    if (haul__check_tensor(operation, "t", t))
        return haul_error_status();
    if (haul__check_optional(operation, "grad", grad))
        return haul_error_status();
    haul_tensor *own = NULL;
    if (!haul__is_none(grad)) {
        if (check_like(operation, t, grad))
            return haul_error_status();
        own = own_gradient(grad, operation);
        if (!own)
            return haul_error_status();
    }
    if (keep_in_dry_run(t, operation)) {
        haul__object_release(own);
        return haul_error_status();
    }
    HAUL__ASSERT(!own || (!own->node && own->dtype == t->dtype && own->storage->device == t->storage->device));
    haul__object_release(t->grad);
    t->grad = own;
    haul__set_role(own, HAUL__ROLE_GRADIENT);
    return HAUL_OK;
}

/* ---- haul_backward ---- */

static const char backward[] = "haul_backward";

/* True if the leaf may keep the tensor itself. */
static bool may_keep(const haul_tensor *leaf, const haul_tensor *g)
{
    return haul__tensor_same_layout(leaf, g) && haul__gradient_is_own(g);
}

/* The sum of the leaf's gradient and another one, in the memory of the other one if it has no other reference. The
 * leaf's gradient stays as it is: the pass may still fail, and the program may hold it. */
static haul_tensor *sum(const haul_tensor *leaf, haul_tensor *arrived)
{
    HAUL__ASSERT(leaf->grad && haul__shape_equal(&leaf->grad->shape, &arrived->shape));
    if (!may_keep(leaf, arrived) || !haul__tensor_same_layout(leaf->grad, arrived))
        return haul_add(leaf->grad, arrived);
    return haul_add_into(arrived, leaf->grad, arrived) ? NULL : arrived;
}

/* True if a gradient may be added to what the leaf has in place: no other tensor sees that. */
static bool may_add(const haul_tensor *held, const haul_tensor *arrived)
{
    return haul__gradient_is_own(held) && held->dtype == arrived->dtype && haul__tensor_same_layout(held, arrived);
}

/* The same for a pass that may leave gradients that are not complete if it fails: the sum is in the memory of the
 * leaf's gradient where that is possible, so a followed step needs no second set of gradients. */
static haul_tensor *sum_at_once(const haul_tensor *leaf, haul_tensor *arrived)
{
    if (!may_add(leaf->grad, arrived))
        return sum(leaf, arrived);
    return haul_add_into(leaf->grad, leaf->grad, arrived) ? NULL : leaf->grad;
}

/* The leaf may have been moved or cast since the graph was recorded; its gradient follows it. Takes over the reference
 * to `arrived`; the caller gets one. */
static haul_tensor *new_gradient(haul_tensor *leaf, haul_tensor *arrived, bool at_once)
{
    haul_device   *device = leaf->storage->device;
    haul_tensor   *g = arrived;
    const uint32_t policy = haul__thread()->words[HAUL__PLACEMENT];
    haul__place_as_given(); /* a plan places the operations of the pass, not these */
    if (g->storage->device != device || g->dtype != leaf->dtype)
        g = haul_to(g, device, .dtype = leaf->dtype);
    if (!haul__failed(g) && leaf->grad)
        g = at_once ? sum_at_once(leaf, g) : sum(leaf, g);
    else if (!haul__failed(g) && !may_keep(leaf, g))
        g = haul__copy_to_order_of(g, leaf);
    haul__thread()->words[HAUL__PLACEMENT] = policy;
    if (g == arrived)
        return g;
    haul__object_release(arrived);
    HAUL__ASSERT(haul__failed(g) || (g->storage->device == device && g->dtype == leaf->dtype));
    if (haul__failed(g))
        return NULL;
    haul__object_keep(g);
    return g;
}

/* Prepares a recorder and a dry run for the gradient of a leaf, which is about to be replaced, or was added to. */
static haul_status prepare_leaf(haul_tensor *leaf, haul_tensor *g)
{
    haul__recorder *r = haul__recorder_now();
    haul_status     status = r ? r->leaf(r, leaf, g) : HAUL_OK;
    return status || g == leaf->grad ? status : keep_in_dry_run(leaf, backward);
}

/* Takes over the reference to the gradient. */
static void replace_gradient(haul_tensor *leaf, haul_tensor *g)
{
    HAUL__ASSERT(g && g->dtype == leaf->dtype && haul__shape_equal(&g->shape, &leaf->shape));
    haul__object_release(leaf->grad);
    leaf->grad = g;
    haul__set_role(g, HAUL__ROLE_GRADIENT);
}

/* The gradients of all leaves change, or none does. */
static haul_status commit_leaves(const haul__pass_result *result, void *context)
{
    (void)context;
    const size_t count = result->leaf_count;
    HAUL__ASSERT(result->leaves || !count);
    haul_tensor **fresh = haul__calloc(count, sizeof *fresh);
    haul_status   status = fresh || !count ? HAUL_OK : haul__fail_memory(backward, count * sizeof *fresh);
    for (size_t i = 0; !status && i < count; i++) {
        fresh[i] = new_gradient(result->leaves[i], haul__gradient_take(result, result->leaves[i]), false);
        status = fresh[i] ? HAUL_OK : haul_error_status();
    }
    for (size_t i = 0; !status && i < count; i++)
        status = prepare_leaf(result->leaves[i], fresh[i]);
    for (size_t i = 0; fresh && i < count; i++) {
        if (status)
            haul__object_release(fresh[i]);
        else
            replace_gradient(result->leaves[i], fresh[i]);
    }
    haul__free(fresh);
    for (size_t i = 0; !status && i < count; i++)
        if (result->leaves[i]->hooks)
            status = haul__run_leaf_hooks(result->leaves[i], backward);
    return status;
}

/* The function to call for each leaf, and what it gets. */
typedef struct listener {
    haul__leaf_done *done;
    void            *context;
} listener;

/* Adds a complete gradient to its leaf at once. context: a listener, or NULL. */
static haul_status add_to_leaf(haul_tensor *leaf, haul_tensor *arrived, void *context)
{
    const listener *l = context;
    haul_scope      scope;
    HAUL__ASSERT(!l || l->done);
    haul_status status = haul__scope_open(&scope, backward);
    if (status) {
        haul__object_release(arrived);
        return status;
    }
    haul_tensor *g = new_gradient(leaf, arrived, true);
    status = g ? prepare_leaf(leaf, g) : haul_error_status();
    if (status)
        haul__object_release(g);
    else
        replace_gradient(leaf, g);
    if (!status && leaf->hooks)
        status = haul__run_leaf_hooks(leaf, backward);
    if (!status && l)
        status = l->done(leaf, l->context);
    haul__scope_close(&scope);
    return status;
}

haul_status haul__backward_once(haul_tensor *y, haul_tensor *seed, haul__leaf_done *done, void *context)
{
    listener l = {.done = done, .context = context};
    return haul__gradient_pass(
        &(haul__pass_request){.operation = backward, .y = y, .seed = seed, .complete = add_to_leaf, .context = &l});
}

haul_status haul_backward_with(const haul_backward_options *options)
{
    if (!options)
        return haul__fail_null(backward, "options");
    if (options->keep && options->once)
        return haul__fail(HAUL_INVALID_ARGUMENT, backward, "once",
                          "keep and once are both true; a pass with once frees the graph, so leave out one of them");
    return haul__gradient_pass(&(haul__pass_request){.operation = backward,
                                                     .y = options->y,
                                                     .seed = haul__optional(options->seed),
                                                     .keep = options->keep,
                                                     .complete = options->once ? add_to_leaf : NULL,
                                                     .commit = options->once ? NULL : commit_leaves});
}

/* ---- haul_grad ---- */

typedef struct grad_call {
    haul_tensor *const *inputs;
    int                 count;
    haul_tensor       **kept; /* gradients, with references that outlive the pass; NULL where there is none */
} grad_call;

static haul_status take_gradients(const haul__pass_result *result, void *context)
{
    grad_call *call = context;
    HAUL__ASSERT(call->count > 0 && !call->kept[0]);
    for (int i = 0; i < call->count; i++) {
        call->kept[i] = haul__gradient_of(result, call->inputs[i]);
        haul__object_keep(call->kept[i]);
    }
    return HAUL_OK;
}

/* A scope may own the gradient already (a seed that was passed through), so the caller gets a new handle. */
static haul_tensor *fresh_handle(haul_tensor *g)
{
    HAUL__ASSERT(!g->node || (0 <= g->node_result && g->node_result < g->node->result_count));
    haul_tensor *handle = haul__tensor_alias(g);
    if (handle && g->node) {
        handle->node = g->node;
        handle->node_result = g->node_result;
        haul__object_keep(handle->node);
    }
    return haul__own(handle, "haul_grad");
}

static haul_status record_gradients(haul_tensor *const *gradients, int count)
{
    haul__recorder *r = haul__recorder_now();
    return r ? r->gradients(r, gradients, count) : HAUL_OK;
}

static haul_status check_inputs(haul_tensor *const *inputs, int count, const haul_grad_options *options)
{
    static const char operation[] = "haul_grad";
    if (!inputs || !options || !options->results)
        return haul__fail_null(operation, !inputs ? "inputs" : "results");
    if (count < 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "count is %d; give at least one input", count);
    for (int i = 0; i < count; i++) {
        if (haul__check_tensor(operation, "inputs", inputs[i]))
            return haul_error_status();
        if (!haul__tracks(inputs[i]))
            return haul__fail(HAUL_GRAPH, operation, "inputs", "input %d does not require a gradient", i);
    }
    return HAUL_OK;
}

haul_status haul_grad_with(haul_tensor *y, haul_tensor *const *inputs, int count, const haul_grad_options *options)
{
    haul_status status = check_inputs(inputs, count, options);
    grad_call   call = {inputs, count, NULL};
    if (!status && !(call.kept = haul__calloc((size_t)count, sizeof *call.kept)))
        status = haul__fail_memory("haul_grad", (size_t)count * sizeof *call.kept);
    if (!status)
        status = haul__gradient_pass(&(haul__pass_request){.operation = "haul_grad",
                                                           .y = y,
                                                           .seed = haul__optional(options->seed),
                                                           .create_graph = options->create_graph,
                                                           .keep = options->keep,
                                                           .inputs = inputs,
                                                           .input_count = count,
                                                           .gradients = call.kept,
                                                           .commit = take_gradients,
                                                           .context = &call});
    for (int i = 0; call.kept && i < count; i++) {
        haul_tensor *g = call.kept[i];
        call.kept[i] = !g ? HAUL_NONE : status ? NULL : fresh_handle(g);
        haul__object_release(g);
        if (!call.kept[i] && !status)
            status = haul_error_status();
    }
    if (!status)
        status = record_gradients(call.kept, count);
    for (int i = 0; options && options->results && i < count; i++)
        options->results[i] = status ? haul__failed_tensor() : call.kept[i];
    haul__free(call.kept);
    return status;
}
