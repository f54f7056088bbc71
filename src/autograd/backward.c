/* The backward pass: from a result through its graph to the leaves.
 *
 * Nodes are visited newest first, which is a topological order, because a node is always newer than the nodes it
 * depends on. Each node runs in a scope of its own, so that only gradients that are still needed are live. After its
 * visit a node gives up what it saved, unless the graph is kept. Gradients of leaves are collected and committed at the
 * end, or passed on as soon as they are complete. */
#include "autograd/anomaly.h"
#include "autograd/hooks.h"
#include "autograd/pass.h"
#include "autograd/pass_graph.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/thread.h"
#include "engine/autocast.h"
#include "engine/copy.h"
#include "engine/follow.h"
#include "engine/node.h"
#include "engine/placement/placement.h"
#include "engine/placement/placing.h"
#include "events/call.h"
#include "events/events.h"
#include "memory/dry_run/dry_run.h"
#include "memory/spill/spill.h"
#include "ops/collective/collective.h"
#include "ops/reduce/reduce.h"

/* ---- gradients of nodes and leaves, with references ---- */

static haul_tensor *gradient_in(const haul__map *map, const void *key)
{
    const haul__map_entry *e = haul__map_find(map, key);
    return e ? e->value : NULL;
}

/* ---- the pass ---- */

typedef struct pass {
    haul__pass_graph graph;
    size_t           ahead;      /* the first node of which something may be in host memory (return_ahead) */
    bool             may_return; /* a device may have spilled what nodes saved */
    bool             keeps;      /* the pass is recorded, so its nodes keep what they saved */
    bool             uses_up;    /* nodes give up what they saved as soon as they were visited */
    bool             hooked;     /* tensors have hooks */
    bool             checks;     /* gradients are searched for NaN */
    haul__map        of_leaves;
    haul_tensor    **leaves; /* in the order of their discovery; the graph holds them */
    size_t           leaf_count, leaf_capacity;
    haul_status (*complete)(haul_tensor *leaf, haul_tensor *gradient, void *context);
    void *context;
} pass;

/* ---- gradients arrive ---- */

bool haul__gradient_is_own(const haul_tensor *g)
{
    return !haul__object_is_shared(g) && !haul__object_is_shared(g->storage) && haul__tensor_is_gap_free(g);
}

/* True if the program gets the gradient of an entry: it stays where its tensor is. */
static bool is_given(const pass *p, const haul__map *map, const void *key)
{
    return map == &p->of_leaves || (p->graph.selects && haul__map_find(&p->graph.wanted, key));
}

/* True if the plan in force has the next sum on another device. */
static bool is_elsewhere(const haul_tensor *held)
{
    char path[sizeof((haul__placed *)0)->module];
    if (!haul__is_planned())
        return false;
    const haul__placed *next = haul__placing_peek(haul__placing_now(), "haul_add", haul__call_path(path, sizeof path));
    return next && next->device != held->storage->device;
}

/* The sum of an entry's gradient and another one, in the memory of the first if only the entry holds it: several
 * entries may hold the same tensor, and a recorded pass may save it. A pipeline adds up the gradients of residual
 * connections in the stages that need them, so there the sum has memory of its own. */
static haul_tensor *sum(const pass *p, const haul__map *map, const haul__map_entry *e, haul_tensor *gradient)
{
    haul_tensor *held = e->value;
    HAUL__ASSERT(held->dtype == gradient->dtype && haul__shape_equal(&held->shape, &gradient->shape));
    if (p->keeps || !haul__gradient_is_own(held) || !haul__tensor_same_layout(held, gradient) ||
        (!is_given(p, map, e->key) && is_elsewhere(held)))
        return haul_add(held, gradient);
    return haul_add_into(held, held, gradient) ? NULL : held;
}

/* Adds a gradient to an entry. */
static haul_status accumulate(pass *p, haul__map *map, const void *key, haul_tensor *gradient, bool *is_new)
{
    haul__map_entry *e = haul__map_insert(map, key, is_new);
    if (!e)
        return haul__fail_memory(p->graph.operation, sizeof *e);
    if (e->value) {
        gradient = sum(p, map, e, gradient);
        if (haul__failed(gradient))
            return haul_error_status();
    }
    HAUL__ASSERT(haul__is_tensor(gradient) && e->key == key);
    haul__object_keep(gradient);
    haul__object_release(e->value);
    e->value = gradient;
    return HAUL_OK;
}

/* With a plan in force the operations that use a gradient move it to where they compute. Gradients that the program
 * gets are where their tensors are. */
static bool moves(const pass *p, const haul__edge *edge)
{
    return !haul__is_planned() || edge->leaf ||
           (p->graph.selects && edge->node &&
            haul__map_find(&p->graph.wanted, haul__pass_key(edge->node, edge->result)));
}

/* Brings a gradient to the input's shape, dtype and device. */
static haul_tensor *fit(const pass *p, haul_tensor *g, const haul__edge *edge)
{
    HAUL__ASSERT(edge->device && (!edge->node || !edge->leaf));
    if (!haul__shape_equal(&g->shape, &edge->shape))
        g = haul__sum_to(g, &edge->shape);
    if (!haul__failed(g) && g->dtype != edge->dtype)
        g = haul_cast(g, edge->dtype);
    if (!haul__failed(g) && g->storage->device != edge->device && moves(p, edge))
        g = haul__is_planned() ? haul__to_placed(g, edge->device) : haul_to(g, edge->device);
    return g;
}

static haul_status deliver(pass *p, const haul__edge *edge, haul_tensor *gradient)
{
    HAUL__ASSERT(edge->node || edge->leaf);
    bool is_new;
    if (!haul__pass_wants(&p->graph, edge))
        return HAUL_OK;
    gradient = fit(p, gradient, edge);
    if (haul__failed(gradient))
        return haul_error_status();
    if (edge->node)
        return accumulate(p, &p->graph.of_nodes, haul__pass_key(edge->node, edge->result), gradient, &is_new);
    haul_status status = accumulate(p, &p->of_leaves, edge->leaf, gradient, &is_new);
    if (status || !is_new)
        return status;
    if (!haul__grow(&p->leaves, &p->leaf_capacity, p->leaf_count + 1, sizeof(haul_tensor *)))
        return haul__fail_memory(p->graph.operation, sizeof(haul_tensor *));
    p->leaves[p->leaf_count++] = edge->leaf;
    HAUL__ASSERT(p->leaf_count == p->of_leaves.count); /* each leaf once */
    return HAUL_OK;
}

/* Calls the hooks of a leaf whose gradient is complete, and passes the gradient on. */
static haul_status complete_leaf(pass *p, haul_tensor *leaf, haul__map_entry *e)
{
    HAUL__ASSERT(e->key == leaf && e->value);
    haul_tensor *gradient = e->value;
    haul_status  status =
        leaf->hooks ? haul__run_gradient_hooks(leaf->hooks, 0, &gradient, p->graph.operation) : HAUL_OK;
    const bool passes_on = !status && p->complete;
    e->value = passes_on ? NULL : gradient;
    return passes_on ? p->complete(leaf, gradient, p->context) : status;
}

/* The same for the leaves of a node to which no more edges are left. */
static haul_status complete_leaves(pass *p, const haul__node *node)
{
    haul_status status = HAUL_OK;
    for (int k = 0; !status && k < node->edge_count; k++) {
        haul_tensor     *leaf = node->edges[k].leaf;
        haul__map_entry *left = leaf ? haul__map_find(&p->graph.uses, leaf) : NULL;
        HAUL__ASSERT(!leaf || (left && left->value)); /* this edge was counted */
        if (!left || (left->value = (void *)((uintptr_t)left->value - 1)))
            continue;
        haul__map_entry *e = haul__map_find(&p->of_leaves, leaf);
        if (e && e->value)
            status = complete_leaf(p, leaf, e);
    }
    return status;
}

#define MAX_INPUTS_ON_STACK 16

static haul_status run_node(pass *p, haul__node *node, haul_tensor *const *results)
{
    haul_tensor *local[MAX_INPUTS_ON_STACK], **out = local;
    if (node->edge_count > MAX_INPUTS_ON_STACK) {
        out = haul__malloc((size_t)node->edge_count * sizeof *out);
        if (!out)
            return haul__fail_memory(p->graph.operation, (size_t)node->edge_count * sizeof *out);
    }
    haul_status status = haul__node_gradient(node, results, out);
    if (!status && p->checks)
        status = haul__check_gradients(node, results, out);
    for (int i = 0; !status && i < node->edge_count; i++)
        if (haul__needs(node, i) && !haul__is_none(out[i]))
            status = deliver(p, &node->edges[i], out[i]);
    if (out != local)
        haul__free(out);
    return status;
}

/* ---- functions that run again ---- */

/* Runs a function again. Its graph takes the gradients, and is visited next. */
static haul_status run_again(pass *p, haul__node *node, haul_tensor *const *gradients)
{
    haul_tensor   *results[HAUL__NODE_RESULTS];
    const uint64_t before = haul__node_newest();
    HAUL__ASSERT(p->graph.nodes[p->graph.at] == node && node->result_count <= HAUL__NODE_RESULTS);
    haul_status status = node->operation->again(node, results);
    if (!status)
        status = haul__pass_add(&p->graph, results, node->result_count, before);
    HAUL__ASSERT(p->graph.nodes[p->graph.at] == node); /* added nodes come after it */
    p->ahead = p->graph.at + 1;
    for (int k = 0; k < node->result_count && !status; k++) {
        if (haul__is_none(gradients[k]))
            continue;
        const haul__edge edge = haul__edge_to(results[k]);
        status = deliver(p, &edge, gradients[k]);
    }
    return status;
}

/* ---- visiting ---- */

/* Remembers the gradient of a node's result if it is wanted. */
static void capture(pass *p, haul__node *node, haul_tensor *const *arrived)
{
    for (int k = 0; k < node->result_count; k++) {
        haul__map_entry *e = haul__map_find(&p->graph.wanted, haul__pass_key(node, k));
        if (e) {
            HAUL__ASSERT(!e->value); /* a node is visited once */
            haul__object_keep(arrived[k]);
            e->value = arrived[k];
        }
    }
}

/* The gradient of a node, in the module that called its operation. */
static haul_status differentiate(pass *p, haul__node *node, haul_tensor *const *results)
{
    static const char       text[] = "gradient";
    const haul__call_frame *outer = haul__call_now(), here = {.name = node->path};
    const char             *operation = node->operation->name;
    if (node->path)
        haul__call_set(&here);
    const int64_t began = haul__work_begin(operation, text, node->order);
    haul_status   status = node->operation->again ? run_again(p, node, results) : run_node(p, node, results);
    haul__work_end(operation, text, node->order, began);
    if (node->path)
        haul__call_set(outer);
    return status;
}

/* The gradients at this node are complete, because newer nodes are done. */
static haul_status visit(pass *p, haul__node *node)
{
    haul_tensor *arrived[HAUL__NODE_RESULTS], *results[HAUL__NODE_RESULTS];
    haul_status  status = HAUL_OK;
    bool         any = false;
    HAUL__ASSERT(node->result_count > 0 && node->result_count <= HAUL__NODE_RESULTS);
    for (int k = 0; k < node->result_count; k++) {
        haul__map_entry *e = haul__map_find(&p->graph.of_nodes, haul__pass_key(node, k));
        arrived[k] = e ? e->value : NULL;
        if (e)
            e->value = NULL;
        if (p->hooked && node->hooks && arrived[k] && !status)
            status = haul__run_gradient_hooks(node->hooks, k, &arrived[k], p->graph.operation);
        results[k] = arrived[k] ? arrived[k] : HAUL_NONE;
        any = any || arrived[k];
    }
    if (!any)
        return HAUL_OK;
    capture(p, node, arrived);
    haul_scope scope;
    const bool on = haul__pass_leads(&p->graph, node) && !status;
    if (on)
        status = haul__scope_open(&scope, p->graph.operation);
    if (!status && on) {
        status = differentiate(p, node, results);
        haul__scope_close(&scope);
    }
    for (int k = 0; k < node->result_count; k++)
        haul__object_release(arrived[k]);
    return status;
}

/* ---- spilled tensors ---- */

/* How many nodes ahead of the one that is visited. What returns too early takes room that nearer nodes need. */
enum { NODES_AHEAD = 2 };

/* Brings back what the node saved; false if there is no room for all of it. */
static bool return_saved(const haul__node *node)
{
    bool works = true;
    for (uint32_t left = node->saves; left && works; left &= left - 1)
        works = haul__spill_return_ahead(node->saved[__builtin_ctz(left)].alias->storage, 0);
    for (uint32_t left = node->saves_results; left && works; left &= left - 1)
        works = haul__spill_return_ahead(node->saved_results[__builtin_ctz(left)].alias->storage, 0);
    return works;
}

/* The device computes the gradients of earlier nodes while what the next ones saved returns from host memory. */
static void return_ahead(pass *p)
{
    HAUL__ASSERT(p->graph.at < p->graph.count && p->ahead <= p->graph.count);
    const size_t end = p->graph.count - p->graph.at > NODES_AHEAD ? p->graph.at + NODES_AHEAD + 1 : p->graph.count;
    p->ahead = p->ahead > p->graph.at ? p->ahead : p->graph.at + 1;
    while (p->ahead < end && return_saved(p->graph.nodes[p->ahead]))
        p->ahead++;
}

static haul_status give_up(const pass *p, haul__node *node)
{
    if (p->uses_up && haul__pass_leads(&p->graph, node))
        return haul__node_strip(node, haul__bare_used);
    if (node->order > p->graph.before && !p->keeps)
        return haul__node_strip(node, haul__bare_in_function);
    return HAUL_OK;
}

/* Other ranks make the collectives that are left in the graph, and wait for this one. They get its error. */
static void fail_on_all_ranks(const pass *p)
{
    for (size_t i = p->graph.at; i < p->graph.count; i++) {
        const haul__node *node = p->graph.nodes[i];
        if (!node->operation->between_ranks)
            continue;
        haul__collective_fail(node->operation, node->attributes);
        return;
    }
}

static haul_status run(pass *p)
{
    haul_status status = HAUL_OK;
    for (p->graph.at = 0; !status && p->graph.at < p->graph.count; p->graph.at++) {
        HAUL__ASSERT(!p->graph.at || p->graph.nodes[p->graph.at - 1]->order > p->graph.nodes[p->graph.at]->order ||
                     p->graph.nodes[p->graph.at]->order > p->graph.before);
        haul__node *node = p->graph.nodes[p->graph.at];
        if (p->may_return)
            return_ahead(p);
        status = visit(p, node);
        const haul_status given_up = give_up(p, node);
        status = status ? status : given_up;
        if (!status && p->graph.counts)
            status = complete_leaves(p, node);
        if (status)
            fail_on_all_ranks(p);
    }
    return status;
}

static haul_status seed_pass(pass *p, haul_tensor *y, haul_tensor *seed)
{
    char have[80], want[80];
    bool is_new;
    HAUL__ASSERT(y->node && y->node_result >= 0 && y->node_result < y->node->result_count);
    if (haul__is_none(seed)) {
        if (y->count != 1)
            return haul__fail(
                HAUL_SHAPE, p->graph.operation, "y",
                "y has shape %s; give its gradient, or reduce it to one element with haul_sum or haul_mean",
                haul__shape_text(&y->shape, have, sizeof have));
        seed = haul_ones_like(y);
    } else if (!haul__shape_equal(&seed->shape, &y->shape)) {
        return haul__fail(HAUL_SHAPE, p->graph.operation, "seed", "the gradient of y must have y's shape %s, not %s",
                          haul__shape_text(&y->shape, want, sizeof want),
                          haul__shape_text(&seed->shape, have, sizeof have));
    }
    haul__edge as_edge = {.shape = y->shape, .dtype = y->dtype, .device = y->storage->device};
    seed = haul__failed(seed) ? NULL : fit(p, seed, &as_edge);
    if (haul__failed(seed))
        return haul_error_status();
    if (p->checks && haul__check_seed(p->graph.operation, seed))
        return haul_error_status();
    return accumulate(p, &p->graph.of_nodes, haul__pass_key(y->node, y->node_result), seed, &is_new);
}

static haul_status check_root(const char *operation, haul_tensor *y, haul_tensor *seed)
{
    if (haul__check_tensor(operation, "y", y))
        return haul_error_status();
    if (haul__check_optional(operation, "seed", seed))
        return haul_error_status();
    if (!y->node)
        return haul__fail(HAUL_GRAPH, operation, "y",
                          y->requires_grad ? "y is a leaf: nothing was computed from it"
                                           : "y does not depend on a tensor that requires a gradient; make one with "
                                             "haul_set_requires_grad, and check that haul_grad_enabled()");
    return HAUL_OK;
}

static haul_status whole(const haul__pass_request *request)
{
    haul_scope  scope;
    haul_status status = haul__scope_open(&scope, request->operation);
    if (status)
        return status;
    pass p = {.graph = {.operation = request->operation,
                        .before = haul__node_newest(),
                        .counts = request->complete || haul__has_hooks()},
              .may_return = haul__may_spill(),
              .keeps = request->create_graph,
              .hooked = haul__has_hooks(),
              .checks = haul__checks(HAUL__CHECKS_BACKWARD),
              .uses_up = !request->keep && !request->create_graph,
              .complete = request->complete,
              .context = request->context};
    haul__thread()->no_grad = !request->create_graph; /* the scope restores the settings */
    haul__thread()->words[HAUL__ANOMALY] &= HAUL__CHECKS_BACKWARD;
    if (!haul__is_planned())
        haul__place_as_given(); /* gradients compute where the operations did */
    if (haul__autocast_begun())
        haul__thread()->words[HAUL__AUTOCAST] |= HAUL__AUTOCAST_PAUSED;
    status = haul__pass_want(&p.graph, request->inputs, request->input_count);
    if (!status)
        status = haul__pass_collect(&p.graph, request->y->node);
    if (!status)
        status = seed_pass(&p, request->y, request->seed);
    if (!status)
        status = run(&p);
    HAUL__ASSERT(status || p.leaf_count == p.of_leaves.count);
    if (!status && request->commit)
        status = request->commit(&(haul__pass_result){&p.of_leaves, &p.graph.wanted, p.leaves, p.leaf_count},
                                 request->context);
    haul__gradients_release(&p.of_leaves);
    haul__pass_graph_free(&p.graph);
    haul__free(p.leaves);
    haul__scope_close(&scope);
    return status;
}

static haul__asked_pass asked(const haul__pass_request *r)
{
    enum { CREATES_GRAPH = 1, KEEPS = 2, SELECTS = 4, AT_ONCE = 8 };
    return (haul__asked_pass){.operation = r->operation,
                              .y = r->y,
                              .seed = r->seed,
                              .flags = (r->create_graph ? CREATES_GRAPH : 0) | (r->keep ? KEEPS : 0) |
                                       (r->inputs ? SELECTS : 0) | (r->complete ? AT_ONCE : 0),
                              .inputs = r->inputs,
                              .input_count = r->input_count,
                              .gradients = r->gradients};
}

/* The pass as one call of a recording, if the dry run becomes one. */
static haul_status recorded(const haul__pass_request *request)
{
    haul__recorder *r = haul__recorder_now();
    if (!r)
        return whole(request);
    const haul__asked_pass call = asked(request);
    haul_status            status = r->begin_pass(r, &call);
    if (status)
        return status;
    status = whole(request);
    r->end_pass(r);
    return status;
}

haul_status haul__gradient_pass(const haul__pass_request *request)
{
    static const char text[] = "backward pass";
    int               section;
    HAUL__ASSERT(!request->complete || !request->commit); /* gradients of leaves go one way */
    HAUL__ASSERT(!request->inputs == !request->input_count);
    if (haul__is_followed()) {
        const haul__asked_pass call = asked(request);
        return haul__follower_now()->pass(haul__follower_now(), &call);
    }
    haul_status status = check_root(request->operation, request->y, request->seed);
    if (status)
        return status;
    const int64_t began = haul__work_begin(request->operation, text, 0);
    status = haul__dry_run_begin_call(NULL, text, &section);
    status = status ? status : recorded(request);
    haul__dry_run_end_call(section);
    haul__work_end(request->operation, text, 0, began);
    return status;
}

haul_tensor *haul__gradient_of(const haul__pass_result *result, const haul_tensor *t)
{
    return t->node ? gradient_in(result->of_nodes, haul__pass_key(t->node, t->node_result))
                   : gradient_in(result->of_leaves, t);
}

haul_tensor *haul__gradient_take(const haul__pass_result *result, const haul_tensor *leaf)
{
    haul__map_entry *e = haul__map_find(result->of_leaves, leaf);
    HAUL__ASSERT(e && e->value); /* a leaf of the result, of which the gradient is taken once */
    haul_tensor *gradient = e->value;
    e->value = NULL;
    return gradient;
}
