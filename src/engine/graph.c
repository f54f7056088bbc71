/* Nodes of the autograd graph: recording, saved tensors, lifetime. */
#include "engine/graph.h"

#include <string.h>

#include "engine/dispatch.h"

static size_t align_up(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* One block: the node, its edges, its attributes. */
static haul__node *new_node(const haul__record *record)
{
    size_t edges = align_up(sizeof(haul__node)),
           attributes = edges + align_up(record->input_count * sizeof(haul__edge));
    haul__node *node = haul__calloc(1, attributes + record->attributes_size);
    if (!node)
        return NULL;
    haul__object_init(&node->object, &haul__node_class);
    node->name = record->name;
    node->result_count = 1;
    node->backward = record->backward;
    node->order = atomic_fetch_add_explicit(&haul__node_order, 1, memory_order_relaxed) + 1;
    node->edge_count = record->input_count;
    node->edges = (haul__edge *)(void *)((char *)node + edges);
    if (record->attributes_size) {
        node->attributes = (char *)node + attributes;
        memcpy(node->attributes, record->attributes, record->attributes_size);
    }
    return node;
}

static void fill_edge(haul__edge *edge, haul_tensor *input)
{
    if (!input || haul__is_none(input))
        return;
    edge->shape = input->shape;
    edge->dtype = input->dtype;
    edge->device = input->storage->device;
    if (input->node) {
        edge->node = input->node;
        edge->result = input->node_result;
        haul__object_keep(edge->node);
    } else if (input->requires_grad) {
        edge->leaf = input;
        haul__object_keep(edge->leaf);
    }
}

/* Which of the inputs a saved tensor is, so that its graph can be attached again. */
static int origin_of(const haul__record *record, const haul_tensor *saved, const haul_tensor *result)
{
    if (saved == result)
        return HAUL__FROM_RESULT;
    for (int i = 0; i < record->input_count; i++)
        if (record->inputs[i] == saved)
            return i;
    return HAUL__FROM_NOWHERE;
}

static bool fill_saved(haul__node *node, const haul__record *record, const haul_tensor *result)
{
    node->saved_count = record->save_count;
    for (int i = 0; i < record->save_count; i++) {
        haul_tensor *t = record->saves[i];
        if (!t || haul__is_none(t))
            continue;
        haul__saved_tensor *saved = &node->legacy[i];
        saved->alias = haul__tensor_alias(t);
        if (!saved->alias)
            return false;
        saved->version = atomic_load_explicit(&t->storage->version, memory_order_relaxed);
        node->legacy_from[i] = origin_of(record, t, result);
    }
    return true;
}

haul_tensor *haul__finish(haul_tensor *y, const haul__record *record)
{
    if (!y || !haul__records(record->inputs, record->input_count))
        return y;
    haul__node *node = new_node(record);
    if (!node) {
        haul__fail_memory(record->name, sizeof *node);
        return NULL;
    }
    for (int i = 0; i < record->input_count; i++)
        fill_edge(&node->edges[i], record->inputs[i]);
    if (!fill_saved(node, record, y)) {
        haul__object_release(node);
        haul__fail_memory(record->name, sizeof(haul_tensor));
        return NULL;
    }
    y->node = node;
    return y;
}

/* The alias with the graph of what it is an alias of: for gradients that are differentiated again. */
static haul_tensor *with_graph(haul__node *node, const haul__saved_tensor *saved, int from)
{
    haul_tensor *t = haul__tensor_alias(saved->alias);
    if (!t)
        return NULL;
    t->node = from == HAUL__FROM_RESULT ? node : from >= 0 ? node->edges[from].node : NULL;
    t->node_result = from >= 0 ? node->edges[from].result : 0;
    haul__object_keep(t->node);
    return t;
}

haul_tensor *haul__saved(haul__node *node, int i)
{
    const haul__saved_tensor *saved = &node->legacy[i];
    uint64_t                  now = atomic_load_explicit(&saved->alias->storage->version, memory_order_relaxed);
    if (now != saved->version) {
        haul__fail(HAUL_GRAPH, node->name, NULL,
                   "a tensor that the gradient needs was changed in place %llu time(s) since; work on a copy made by "
                   "haul_clone, or change it after haul_backward",
                   (unsigned long long)(now - saved->version));
        return NULL;
    }
    /* The node's own handles, which may be another scope's already: the node outlives the call of its gradient. */
    if (haul__thread()->no_grad)
        return saved->alias;
    int from = node->legacy_from[i];
    if (from >= 0 && node->edges[from].leaf)
        return node->edges[from].leaf;
    haul_tensor *t = with_graph(node, saved, from);
    if (!t) {
        haul__fail_memory(node->name, sizeof *t);
        return NULL;
    }
    return haul__own(t, node->name);
}
