/* Nodes of the autograd graph: recording, saved tensors, gradients of one node, lifetime. */
#include "engine/node.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/counter.h"
#include "core/small_blocks.h"
#include "engine/anomaly.h"
#include "engine/placement/placing.h"
#include "events/call.h"
#include "events/events.h"
#include "events/label.h"
#include "memory/dry_run/dry_run.h"

static void release_saved(haul__node *node)
{
    for (uint32_t left = node->saves; left; left &= left - 1)
        haul__object_release(node->saved[__builtin_ctz(left)].alias);
    for (uint32_t left = node->saves_results; left; left &= left - 1)
        haul__object_release(node->saved_results[__builtin_ctz(left)].alias);
    node->saves = node->saves_results = 0;
}

static void destroy_node(void *object)
{
    haul__node *node = object;
    HAUL__ASSERT(node->bytes >= sizeof *node && node->edges && node->edge_count >= 0);
    for (int i = 0; i < node->edge_count; i++) {
        haul__object_release(node->edges[i].node);
        haul__object_release(node->edges[i].leaf);
    }
    release_saved(node);
    haul__object_release(node->owned);
    haul__object_release(node->hooks);
    if (node->path)
        haul__small_free(node->path, strlen(node->path) + 1);
    if (node->label)
        haul__small_free(node->label, strlen(node->label) + 1);
    haul__small_free(node, node->bytes);
}

static const haul__class node_class = {.name = "graph node", .destroy = destroy_node};

bool haul__records(haul_tensor *const *inputs, int count)
{
    if (haul__thread()->no_grad)
        return false;
    for (int i = 0; i < count; i++)
        if (inputs[i] && !haul__is_none(inputs[i]) && haul__tracks(inputs[i]))
            return true;
    return false;
}

/* ---- recording ---- */

const char haul__bare_in_function[] =
    "the tensors that its gradient needs were not kept, because it was called in a function that runs again in the "
    "backward pass; differentiate only the results of haul_checkpoint";
const char haul__bare_used[] =
    "the graph was freed by an earlier haul_backward or haul_grad; give that call .keep = true, which keeps the graph";

static size_t align_up(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

static atomic_ullong newest; /* the order of the newest node */

uint64_t haul__node_newest(void)
{
    return atomic_load_explicit(&newest, memory_order_relaxed);
}

/* One block: the node, its edges, its attributes. The caller fills in the edges. Inlined, for the short call of
 * haul__node_record. */
__attribute__((always_inline)) static inline haul__node *new_node(const haul__operation *operation, const void *values,
                                                                  int count, int result_count)
{
    size_t edges = align_up(sizeof(haul__node)), size = operation->attributes_size,
           attributes = edges + align_up((size_t)count * sizeof(haul__edge));
    HAUL__ASSERT(count >= 0 && result_count > 0 && result_count <= HAUL__NODE_RESULTS);
    haul__node *node = haul__small_alloc(attributes + size);
    if (!node)
        return NULL;
    node->saves = node->saves_results = 0;
    node->bare = NULL;
    node->owned = NULL;
    node->path = NULL;
    node->label = NULL;
    node->hooks = NULL;
    node->bytes = attributes + size;
    haul__object_init(&node->object, &node_class);
    node->operation = operation;
    node->order = haul__add_long(&newest, 1) + 1;
    node->edge_count = count;
    node->result_count = result_count;
    node->edges = (haul__edge *)(void *)((char *)node + edges);
    node->attributes = (char *)node + attributes;
    if (size && values)
        memcpy(node->attributes, values, size);
    return node;
}

haul__node *haul__node_over(const haul__operation *operation, const haul__edge *edges, int count, int result_count)
{
    haul__node *node = new_node(operation, NULL, count, result_count);
    for (int i = 0; node && i < count; i++) {
        node->edges[i] = edges[i];
        HAUL__ASSERT(!edges[i].node || edges[i].node->order < node->order); /* the graph has no cycles */
        haul__object_keep(edges[i].node);
        haul__object_keep(edges[i].leaf);
    }
    return node;
}

haul__edge haul__edge_to(haul_tensor *t)
{
    haul__edge edge = {.shape = t->shape, .dtype = t->dtype, .device = t->storage->device};
    HAUL__ASSERT(!t->node || (t->node_result >= 0 && t->node_result < t->node->result_count));
    if (t->node) {
        edge.node = t->node;
        edge.result = t->node_result;
    } else if (t->requires_grad) {
        edge.leaf = t;
    }
    return edge;
}

static void fill_edge(haul__edge *edge, haul_tensor *input)
{
    if (haul__is_none(input)) {
        *edge = (haul__edge){NULL};
        return;
    }
    edge->node = NULL;
    edge->leaf = NULL;
    edge->shape = input->shape;
    edge->dtype = input->dtype;
    edge->device = input->storage->device;
    if (input->node) {
        edge->node = input->node;
        edge->result = input->node_result;
        haul__object_keep(edge->node);
        HAUL__ASSERT(edge->result >= 0 && edge->result < edge->node->result_count);
    } else if (input->requires_grad) {
        edge->leaf = input;
        haul__object_keep(edge->leaf);
    }
}

/* Saves t in an entry of `saved` and sets its bit. */
static bool save(haul__saved_tensor *saved, uint32_t *set, int i, const haul_tensor *t)
{
    if (!t || haul__is_none(t))
        return true;
    haul_tensor *alias = haul__tensor_alias(t);
    if (!alias)
        return false;
    HAUL__ASSERT(i < 32 && !(*set >> i & 1) && !alias->node); /* an alias has no graph, so nodes hold no results */
    saved[i] = (haul__saved_tensor){alias, atomic_load_explicit(&t->storage->version, memory_order_relaxed)};
    *set |= 1u << i;
    return true;
}

static bool save_all(haul__node *node, const haul__call *c)
{
    bool fine = true;
    HAUL__ASSERT(!(c->saves >> HAUL__MAX_OPERANDS) && !(c->saves_results >> HAUL__MAX_RESULTS));
    if (haul__thread()->words[HAUL__RECOMPUTE] & HAUL__BARE) {
        node->bare = c->saves || c->saves_results ? haul__bare_in_function : NULL;
        return true;
    }
    for (uint32_t left = c->saves; left && fine; left &= left - 1) {
        int i = __builtin_ctz(left);
        fine = save(node->saved, &node->saves, i, c->operands[i]);
    }
    for (uint32_t left = c->saves_results; left && fine; left &= left - 1) {
        int i = __builtin_ctz(left);
        fine = save(node->saved_results, &node->saves_results, i, c->results[i]);
    }
    return fine;
}

/* No gradient flows through hidden results, which only the gradient reads. */
static bool is_differentiable(const haul__operation *operation, int i, const haul_tensor *t)
{
    return (HAUL__FLOATS >> t->dtype & 1) && !operation->results[i].hidden;
}

/* NULL for "" and without memory. */
static char *copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char        *copy = *text ? haul__small_alloc(size) : NULL;
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

/* Events of the gradient name the module too, and plans know it by that. Without memory they do not. Apart, because of
 * its stack. */
__attribute__((noinline)) static void note_path(haul__node *node)
{
    char path[HAUL__EVENT_PATH];
    node->path = copy_text(haul__call_path(path, sizeof path));
    if (haul__checks(HAUL__CHECKS_BACKWARD))
        node->label = copy_text(haul__label());
}

haul_status haul__node_record(haul__call *c)
{
    int         holders = 0;
    haul__node *node = new_node(c->operation, c->attributes, c->count, c->result_count);
    if (!node)
        return haul__fail_memory(c->operation->name, sizeof *node);
    HAUL__ASSERT(c->wanted && c->result_count > 0);
    if (haul__watched(HAUL_EVENT_ALL) || haul__is_dry() || haul__is_planned() || haul__checks(HAUL__CHECKS_BACKWARD))
        note_path(node);
    for (int i = 0; i < c->count; i++)
        fill_edge(&node->edges[i], c->inputs[i]);
    if (!save_all(node, c)) {
        haul__object_release(node);
        return haul__fail_memory(c->operation->name, sizeof(haul_tensor));
    }
    for (int i = 0; i < c->result_count; i++) {
        haul_tensor *y = c->results[i];
        if (!y || !is_differentiable(c->operation, i, y))
            continue;
        if (holders++) /* the first result takes over the reference */
            haul__object_keep(node);
        if (y->node) /* an operand that a composed operation returns as it is */
            haul__object_release(y->node);
        y->node = node;
        y->node_result = i;
    }
    if (!holders)
        haul__object_release(node);
    return HAUL_OK;
}

/* ---- giving up ---- */

static void put_back(void *node, void *before)
{
    haul__node *n = node, *b = before;
    HAUL__ASSERT(n->bare && !n->owned && !n->saves && !n->saves_results);
    n->bare = NULL;
    n->owned = b->owned;
    n->saves = b->saves;
    n->saves_results = b->saves_results;
    memcpy(n->saved, b->saved, sizeof n->saved);
    memcpy(n->saved_results, b->saved_results, sizeof n->saved_results);
    haul__small_free(b, sizeof *b);
}

/* Counts the memory of saved tensors as freed where nothing else holds it. */
static haul_status count_as_freed(const haul__saved_tensor *saved, uint32_t set)
{
    haul_status status = HAUL_OK;
    for (uint32_t left = set; left && !status; left &= left - 1) {
        haul_tensor *alias = saved[__builtin_ctz(left)].alias;
        if (!haul__object_is_shared(alias))
            status = haul__dry_run_let_go(alias->storage);
    }
    return status;
}

/* The dry run takes over what the node holds, and puts it back at its end. */
static haul_status strip_for_now(haul__node *node, const char *why)
{
    haul__node *before = haul__small_alloc(sizeof *before);
    if (!before)
        return haul__fail_memory(node->operation->name, sizeof *before);
    *before = *node;
    if (haul__dry_run_keep_state(node, before, put_back, node->operation->name)) {
        haul__small_free(before, sizeof *before);
        return haul_error_status();
    }
    node->bare = why;
    node->owned = NULL;
    node->saves = node->saves_results = 0;
    haul_status status = count_as_freed(before->saved, before->saves);
    return status ? status : count_as_freed(before->saved_results, before->saves_results);
}

haul_status haul__node_strip(haul__node *node, const char *why)
{
    if (!node->saves && !node->saves_results && !node->owned)
        return HAUL_OK;
    if (haul__is_dry() && haul__dry_run_found(node->order))
        return strip_for_now(node, why);
    node->bare = why;
    release_saved(node);
    haul__object_release(node->owned);
    node->owned = NULL;
    return HAUL_OK;
}

/* ---- gradients ---- */

/* A saved tensor, valid until the gradient function returns. With grad mode on it carries the graph of the tensor it is
 * an alias of: `node` and `result`, or the leaf. Fails with HAUL_GRAPH and returns NULL if its elements were changed in
 * place since. */
static haul_tensor *restore(const haul__node *node, const haul__saved_tensor *saved, haul__node *from, int result,
                            haul_tensor *leaf)
{
    uint64_t now = atomic_load_explicit(&saved->alias->storage->version, memory_order_relaxed);
    HAUL__ASSERT(now >= saved->version); /* a version only grows once a node has it */
    if (now != saved->version) {
        haul__fail(HAUL_GRAPH, node->operation->name, NULL,
                   "a tensor that the gradient needs was changed in place %llu time%s since; work on a copy made by "
                   "haul_clone, or change it after haul_backward",
                   (unsigned long long)(now - saved->version), now - saved->version == 1 ? "" : "s");
        return NULL;
    }
    /* A handle that the node holds is returned as it is, whichever scope owns it: the node outlives this call. */
    if (haul__thread()->no_grad || (!from && !leaf))
        return saved->alias;
    if (leaf)
        return leaf;
    haul_tensor *t = haul__tensor_alias(saved->alias);
    if (t) {
        t->node = from;
        t->node_result = result;
        haul__object_keep(from);
    }
    return haul__own(t, node->operation->name);
}

haul_status haul__node_refuse(const haul__node *node)
{
    return haul__fail(HAUL_GRAPH, node->operation->name, NULL, "%s", node->bare);
}

static haul_status restore_all(haul__node *node, haul__gradient *g)
{
    if (node->bare)
        return haul__node_refuse(node);
    HAUL__ASSERT(node->edge_count >= HAUL__MAX_OPERANDS || !(node->saves >> node->edge_count));
    for (uint32_t left = node->saves; left; left &= left - 1) {
        const int         i = __builtin_ctz(left);
        const haul__edge *edge = &node->edges[i];
        g->saved[i] = restore(node, &node->saved[i], edge->node, edge->result, edge->leaf);
        if (haul__failed(g->saved[i]))
            return haul_error_status();
    }
    for (uint32_t left = node->saves_results; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        bool      tracks = is_differentiable(node->operation, i, node->saved_results[i].alias);
        g->saved_results[i] = restore(node, &node->saved_results[i], tracks ? node : NULL, i, NULL);
        if (haul__failed(g->saved_results[i]))
            return haul_error_status();
    }
    return HAUL_OK;
}

haul_status haul__node_gradient(haul__node *node, haul_tensor *const *results, haul_tensor **out)
{
    HAUL__ASSERT(node->operation->gradient && node->edge_count > 0);
    haul__gradient g;
    g.operation = node->operation;
    g.attributes = node->attributes;
    g.node = node;
    g.count = node->edge_count;
    g.operands = out;
    for (int i = 0; i < HAUL__MAX_OPERANDS; i++)
        g.saved[i] = &haul__none;
    for (int i = 0; i < HAUL__MAX_RESULTS; i++) {
        g.saved_results[i] = &haul__none;
        g.results[i] = i < node->result_count ? results[i] : &haul__none;
    }
    for (int i = 0; i < node->edge_count; i++)
        out[i] = &haul__none;
    if (restore_all(node, &g))
        return haul_error_status();
    node->operation->gradient(&g);
    for (int i = 0; i < node->edge_count; i++)
        if (haul__needs(node, i) && haul__failed(out[i]))
            return haul_error_status();
    return HAUL_OK;
}

bool haul__wanted(const haul__gradient *g, int i)
{
    return haul__needs(g->node, i);
}

bool haul__differentiated(const haul__gradient *g)
{
    return haul__records(g->results, HAUL__MAX_RESULTS) || haul__records(g->saved, HAUL__MAX_OPERANDS) ||
           haul__records(g->saved_results, HAUL__MAX_RESULTS);
}

const haul_shape *haul__operand_shape(const haul__gradient *g, int i)
{
    return &g->node->edges[i].shape;
}

haul_dtype haul__operand_dtype(const haul__gradient *g, int i)
{
    return g->node->edges[i].dtype;
}
