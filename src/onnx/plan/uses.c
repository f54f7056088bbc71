/* Which operators a model has. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "onnx/plan/plan.h"

const char *haul__onnx_name_of(const haul__onnx_node *node)
{
    return *node->name || !node->output_count ? node->name : node->outputs[0];
}

static size_t count_nodes(const haul__onnx_graph *g)
{
    size_t count = g->node_count;
    for (size_t n = 0; n < g->node_count; n++)
        for (size_t i = 0; i < g->nodes[n].attribute_count; i++)
            count += g->nodes[n].attributes[i].graph ? count_nodes(g->nodes[n].attributes[i].graph) : 0;
    return count;
}

static void add_nodes(const haul__onnx_graph *g, haul__onnx_use *uses, size_t *count)
{
    for (size_t n = 0; n < g->node_count; n++) {
        const haul__onnx_node *node = &g->nodes[n];
        uses[(*count)++] =
            (haul__onnx_use){.domain = node->domain, .type = node->type, .count = 1, .node = haul__onnx_name_of(node)};
        for (size_t i = 0; i < node->attribute_count; i++)
            if (node->attributes[i].graph)
                add_nodes(node->attributes[i].graph, uses, count);
    }
}

static int compare(const void *a, const void *b)
{
    const haul__onnx_use *x = a, *y = b;
    const int             order = strcmp(x->domain, y->domain);
    return order ? order : strcmp(x->type, y->type);
}

static void judge(haul__onnx_use *use, int64_t opset)
{
    HAUL__ASSERT(use->count > 0);
    const haul__onnx_row *row = *use->domain ? NULL : haul__onnx_find_row(use->type);
    use->missing = !row || opset < row->first || opset > row->last;
    use->other_form = row && use->missing;
}

haul__onnx_use *haul__onnx_uses(const haul__onnx_model *model, int *count, const char *operation)
{
    const size_t    nodes = count_nodes(&model->graph);
    size_t          listed = 0;
    haul__onnx_use *uses = haul__calloc(nodes + 1, sizeof *uses);
    *count = 0;
    if (!uses) {
        haul__fail_memory(operation, nodes * sizeof *uses);
        return NULL;
    }
    add_nodes(&model->graph, uses, &listed);
    HAUL__ASSERT(listed == nodes);
    qsort(uses, listed, sizeof *uses, compare);
    for (size_t i = 0; i < listed; i++) {
        if (*count && !compare(&uses[*count - 1], &uses[i]))
            uses[*count - 1].count++;
        else
            uses[(*count)++] = uses[i];
    }
    HAUL__ASSERT(*count >= 0 && (size_t)*count <= nodes && (*count > 0) == (nodes > 0));
    for (int i = 0; i < *count; i++)
        judge(&uses[i], model->opset);
    return uses;
}
