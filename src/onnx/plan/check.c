/* What must hold of a model before it is planned: its operators, the types of attributes, and nested graphs. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/list.h"
#include "base/text/quoted.h"
#include "base/text/word_list.h"
#include "core/error.h"
#include "onnx/plan/plan.h"

typedef struct checker {
    const haul__onnx_model *model;
    const char             *path, *operation;
} checker;

static haul_status refuse(const checker *p, const char *what)
{
    return haul__fail(HAUL_UNSUPPORTED, p->operation, "path", "%s %s", p->path, what);
}

static haul_status check_operators(const checker *p)
{
    const haul__onnx_model *m = p->model;
    char                    list[320] = "", quoted[HAUL__QUOTED_SIZE];
    int                     count = 0, missing = 0;
    haul__onnx_use         *uses = haul__onnx_uses(m, &count, p->operation);
    if (!uses)
        return haul_error_status();
    for (int i = 0; i < count; i++)
        if (uses[i].missing && ++missing)
            haul__list_add(list, sizeof list, "%s%s%.60s (%zu, at %s)", uses[i].domain, *uses[i].domain ? "." : "",
                           uses[i].type, uses[i].count, haul__quoted(uses[i].node, quoted));
    haul__free(uses);
    if (!missing)
        return HAUL_OK;
    return haul__fail(HAUL_UNSUPPORTED, p->operation, "path",
                      "%s has %d operator%s (opset %lld) that Haul does not have: %s", p->path, missing,
                      missing == 1 ? "" : "s", (long long)m->opset, list);
}

/* What attributes hold, by their names; "value", which is a number of old operators and else a tensor, is left out. */
static const struct {
    haul__onnx_attribute_type type;
    const char               *text, *names;
} attribute_types[] = {
    {HAUL__ONNX_INT, "a whole number",
     "align_corners allowzero antialias axis batch_axis batch_dims block_size blocksize ceil_mode center_point_box "
     "count_include_pad detect_negative detect_positive dtype end exclude_outside exclusive fmod group ignore_index "
     "input_forget interleaved inverse is_causal k keepdims kv_num_heads largest layout left_window_size "
     "linear_before_reset noop_with_empty_axes num_groups num_heads num_outputs num_scan_inputs onesided "
     "output_datatype output_dtype p periodic q_num_heads qk_matmul_output_mode reverse right_window_size "
     "rotary_embedding_dim select_last_index size softmax_precision sorted spatial start storage_order time_axis to "
     "training_mode transA transB upper"},
    {HAUL__ONNX_FLOAT, "a number",
     "alpha beta bias cubic_coeff_a epsilon extrapolation_value gamma lambd max min momentum ratio scale softcap"},
    {HAUL__ONNX_STRING, "a text",
     "activation approximate auto_pad coordinate_transformation_mode direction equation keep_aspect_ratio_policy mode "
     "nearest_mode padding_mode reduction update_rule"},
    {HAUL__ONNX_INTS, "whole numbers",
     "axes dilations directions ends kernel_shape output_padding output_shape pads perm scan_input_axes "
     "scan_input_directions "
     "scan_output_axes scan_output_directions split starts steps strides"},
    {HAUL__ONNX_STRINGS, "texts", "activations"}};

/* Files of old exporters leave the type out. */
static haul_status check_attribute(const checker *p, const haul__onnx_node *node, const haul__onnx_attribute *a)
{
    char quoted[HAUL__QUOTED_SIZE];
    for (size_t i = 0; a->type && i < sizeof attribute_types / sizeof *attribute_types; i++)
        if (attribute_types[i].type != a->type && haul__word_list_has(attribute_types[i].names, a->name))
            return haul__fail(HAUL_FORMAT, p->operation, "path",
                              "%s is not a valid ONNX model: the attribute %s of a node %.40s is not %s (its type is "
                              "%lld, not %d)",
                              p->path, haul__quoted(a->name, quoted), node->type, attribute_types[i].text,
                              (long long)a->type, (int)attribute_types[i].type);
    return HAUL_OK;
}

static haul_status check_node(const checker *p, const haul__onnx_node *node);

static haul_status check_graph(const checker *p, const haul__onnx_graph *g)
{
    haul_status status = g->has_sparse ? refuse(p, "has sparse initialisers") : HAUL_OK;
    for (size_t n = 0; n < g->node_count && !status; n++)
        status = check_node(p, &g->nodes[n]);
    return status;
}

/* ---- nested graphs ---- */

int haul__onnx_graphs_of(const haul__onnx_node *node, const char *names[2])
{
    const bool is_if = !strcmp(node->type, "If");
    if (*node->domain || (!is_if && strcmp(node->type, "Loop") != 0 && strcmp(node->type, "Scan") != 0))
        return 0;
    names[0] = is_if ? "then_branch" : "body";
    names[1] = "else_branch";
    return is_if ? 2 : 1;
}

static haul_status wrong_graph(const checker *p, const haul__onnx_node *node, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, p->operation, "path", "%s is not a valid ONNX model: the node %s (%s) %s", p->path,
                      haul__quoted(haul__onnx_name_of(node), quoted), node->type, what);
}

/* Scan of opset 8 has the lengths of examples before its states, which its graph does not get. */
static size_t scan_inputs(const checker *p, const haul__onnx_node *node)
{
    const bool has_lengths = p->model->opset < 9;
    return node->input_count > has_lengths ? node->input_count - has_lengths : 0;
}

/* If gives its graphs nothing. Loop gives the number of the repetition, the condition and its states, and gets the
 * condition, the states and the values to join. Scan gives its states and parts of the others, and gets the same
 * without the condition. */
static haul_status check_counts(const checker *p, const haul__onnx_node *node, const haul__onnx_graph *body)
{
    const haul__onnx_attribute *scanned = haul__onnx_attribute_of(node, "num_scan_inputs");
    const bool                  is_if = !strcmp(node->type, "If"), is_loop = !strcmp(node->type, "Loop");
    const size_t                extra = is_loop; /* the condition, the first result of a loop's body */
    size_t                      inputs = is_if ? 0 : node->input_count, states = 0;
    if (is_loop) {
        states = inputs > 2 ? inputs - 2 : 0;
        inputs = states + 2;
    } else if (!is_if) {
        inputs = scan_inputs(p, node);
        if (!scanned || scanned->i < 1 || (uint64_t)scanned->i > inputs)
            return wrong_graph(p, node, "has num_scan_inputs that are less than 1, or more than its inputs");
        states = inputs - (size_t)scanned->i;
    }
    HAUL__ASSERT(states <= inputs && extra <= 1);
    if (body->input_count != inputs)
        return wrong_graph(p, node, "has a graph with another number of inputs than its own give");
    if (body->output_count < states + extra || node->output_count > body->output_count - extra ||
        (is_if && body->output_count != node->output_count))
        return wrong_graph(p, node, "has a graph with another number of results than its own need");
    return HAUL_OK;
}

static haul_status check_node(const checker *p, const haul__onnx_node *node)
{
    const char *names[2];
    haul_status status = HAUL_OK;
    for (size_t i = 0; i < node->attribute_count && !status; i++)
        status = check_attribute(p, node, &node->attributes[i]);
    for (int i = 0; i < haul__onnx_graphs_of(node, names) && !status; i++) {
        const haul__onnx_attribute *a = haul__onnx_attribute_of(node, names[i]);
        if (!a || !a->graph)
            return wrong_graph(p, node, "lacks a graph");
        status = check_counts(p, node, a->graph);
        if (!status)
            status = check_graph(p, a->graph); /* as deep as the reader lets graphs be */
    }
    return status;
}

/* ---- the model ---- */

/* A model without the domain ai.onnx may have operators of others only, which are missing. */
static bool has_own_operators(const haul__onnx_graph *g)
{
    for (size_t n = 0; n < g->node_count; n++)
        if (!*g->nodes[n].domain)
            return true;
    return !g->node_count;
}

haul_status haul__onnx_check(const haul__onnx_model *model, const char *path, const char *operation)
{
    const checker           p = {.model = model, .path = path, .operation = operation};
    const haul__onnx_graph *g = &model->graph;
    if (model->opset < 1 && has_own_operators(g))
        return haul__fail(HAUL_FORMAT, operation, "path",
                          "%s is not a valid ONNX model: it imports no set of operators of the domain ai.onnx", path);
    if (check_operators(&p))
        return haul_error_status();
    if (!g->output_count || g->output_count > HAUL_MAX_ARGUMENTS)
        return refuse(&p, "has no results, or more than 8, the most of a module");
    return check_graph(&p, g);
}
