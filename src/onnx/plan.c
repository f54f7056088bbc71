#include "onnx/plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/list.h"
#include "base/text/quoted.h"
#include "base/text/word_list.h"
#include "core/error.h"

enum { MOST_VALUES = 1 << 24, MOST_CONSTANTS = 1 << 14 };

/* A name and what has it. Definitions are in the order in which values are made. */
typedef struct name {
    const char *text;
    int         value, step; /* step: the node that makes it; -1: it is there before */
} name;

typedef struct planner {
    haul__onnx_plan *plan;
    const char      *path, *operation;
    name            *names; /* sorted once all are there */
    size_t           count;
} planner;

static haul_status malformed(const planner *p, const char *text, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, p->operation, "path", "%s is not a valid ONNX model: the value %s %s", p->path,
                      haul__quoted(text, quoted), what);
}

static haul_status refuse(const planner *p, const char *what)
{
    return haul__fail(HAUL_UNSUPPORTED, p->operation, "path", "%s %s", p->path, what);
}

/* ---- names ---- */

static int compare(const void *a, const void *b)
{
    const name *x = a, *y = b;
    const int   order = strcmp(x->text, y->text);
    return order ? order : (x->value > y->value) - (x->value < y->value);
}

static const name *find(const planner *p, const char *text)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int    order = strcmp(p->names[middle].text, text);
        if (!order)
            return &p->names[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static int define(planner *p, const char *text, int step)
{
    const int value = p->plan->value_count++;
    p->names[p->count++] = (name){text, value, step};
    return value;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The inputs that are not initialisers: before version 4 of the format, initialisers were inputs, too. */
static haul_status define_inputs(planner *p)
{
    haul__onnx_plan        *plan = p->plan;
    const haul__onnx_graph *g = &plan->model.graph;
    haul_status             status = HAUL_OK;
    const char            **tensors = haul__calloc(g->tensor_count + 1, sizeof *tensors);
    if (!tensors)
        return haul__fail_memory(p->operation, g->tensor_count * sizeof *tensors);
    for (size_t i = 0; i < g->tensor_count; i++)
        tensors[i] = g->tensors[i].name;
    qsort(tensors, g->tensor_count, sizeof *tensors, by_text);
    for (size_t i = 0; i < g->input_count && !status; i++) {
        if (bsearch(&g->inputs[i].name, tensors, g->tensor_count, sizeof *tensors, by_text))
            continue;
        if (plan->input_count == HAUL_MAX_ARGUMENTS) {
            status = refuse(p, "has more than 8 inputs, the most of a module");
            continue;
        }
        plan->input_infos[plan->input_count] = &g->inputs[i];
        plan->inputs[plan->input_count++] = define(p, g->inputs[i].name, -1);
    }
    haul__free(tensors);
    return status;
}

static const haul__onnx_tensor *constant_of(const haul__onnx_node *node)
{
    const haul__onnx_attribute *a =
        !*node->domain && !strcmp(node->type, "Constant") ? haul__onnx_attribute_of(node, "value") : NULL;
    return a ? a->tensor : NULL;
}

static haul_status define_values(planner *p)
{
    haul__onnx_plan        *plan = p->plan;
    const haul__onnx_graph *g = &plan->model.graph;
    haul_status             status = define_inputs(p);
    for (size_t i = 0; i < g->tensor_count && !status; i++)
        plan->constants[plan->constant_count++] = (haul__onnx_constant){.tensor = &g->tensors[i],
                                                                        .value = define(p, g->tensors[i].name, -1),
                                                                        .name = g->tensors[i].name,
                                                                        .initializer = true};
    for (size_t n = 0; n < g->node_count && !status; n++) {
        const haul__onnx_tensor *constant = constant_of(&g->nodes[n]);
        for (size_t i = 0; i < g->nodes[n].output_count; i++) {
            if (!*g->nodes[n].outputs[i])
                continue;
            const int value = define(p, g->nodes[n].outputs[i], (int)n);
            if (constant && i == 0)
                plan->constants[plan->constant_count++] =
                    (haul__onnx_constant){.tensor = constant, .value = value, .name = g->nodes[n].outputs[0]};
        }
    }
    qsort(p->names, p->count, sizeof *p->names, compare);
    for (size_t i = 1; i < p->count && !status; i++)
        if (!strcmp(p->names[i - 1].text, p->names[i].text))
            status = malformed(p, p->names[i].text, "is made twice");
    return status;
}

/* ---- steps ---- */

static haul_status place_inputs(planner *p, haul__onnx_step *step, int number)
{
    for (size_t i = 0; i < step->node->input_count; i++) {
        const char *text = step->node->inputs[i];
        const name *found = *text ? find(p, text) : NULL;
        step->inputs[i] = found ? found->value : -1;
        if (*text && !found)
            return malformed(p, text, "is used, but not made");
        if (found && found->step >= number)
            return malformed(p, text, "is used before it is made");
        if (found)
            p->plan->last_use[found->value] = number;
    }
    return HAUL_OK;
}

static haul_status place_outputs(planner *p, haul__onnx_step *step, int number)
{
    if (step->node->output_count > HAUL__ONNX_RESULTS)
        return refuse(p, "has a node with more than 64 results");
    for (size_t i = 0; i < step->node->output_count; i++) {
        const name *found = *step->node->outputs[i] ? find(p, step->node->outputs[i]) : NULL;
        step->outputs[i] = found ? found->value : -1;
        if (found)
            p->plan->last_use[found->value] = number;
    }
    return HAUL_OK;
}

static haul_status make_steps(planner *p)
{
    haul__onnx_plan        *plan = p->plan;
    const haul__onnx_graph *g = &plan->model.graph;
    int                    *place = plan->places;
    haul_status             status = HAUL_OK;
    for (size_t n = 0; n < g->node_count && !status; n++) {
        haul__onnx_step *step = &plan->steps[n];
        *step = (haul__onnx_step){.node = &g->nodes[n],
                                  .row = haul__onnx_find_row(g->nodes[n].type),
                                  .input_count = (int)g->nodes[n].input_count,
                                  .output_count = (int)g->nodes[n].output_count};
        step->inputs = place;
        step->outputs = place += step->input_count;
        place += step->output_count;
        status = place_outputs(p, step, (int)n);
        if (!status)
            status = place_inputs(p, step, (int)n);
    }
    plan->step_count = (int)g->node_count;
    for (size_t i = 0; i < g->output_count && !status; i++) {
        const name *found = find(p, g->outputs[i].name);
        if (!found)
            return malformed(p, g->outputs[i].name, "is a result, but not made");
        plan->outputs[plan->output_count++] = found->value;
        plan->last_use[found->value] = INT_MAX;
    }
    return status;
}

/* ---- constants ---- */

static haul__onnx_constant *constant_with(haul__onnx_plan *plan, const int *of_value, int value)
{
    return value >= 0 && of_value[value] >= 0 ? &plan->constants[of_value[value]] : NULL;
}

static void see_uses(haul__onnx_plan *plan, const int *of_value)
{
    for (int s = 0; s < plan->step_count; s++) {
        const haul__onnx_step *step = &plan->steps[s];
        const bool             is_norm = !strcmp(step->row->name, "BatchNormalization");
        for (int i = 0; i < step->input_count; i++) {
            haul__onnx_constant *constant = constant_with(plan, of_value, step->inputs[i]);
            const bool           host = i < 32 && (step->row->host >> i & 1);
            if (!constant)
                continue;
            constant->host = constant->host || host;
            constant->used = constant->used || !host;
            constant->statistic = constant->statistic || (is_norm && i >= 3);
        }
    }
    for (int i = 0; i < plan->output_count; i++) {
        haul__onnx_constant *constant = constant_with(plan, of_value, plan->outputs[i]);
        if (constant)
            constant->used = true;
    }
}

/* Constants whose tensors Haul cannot represent matter only if something uses them. */
static haul_status check_constants(const planner *p)
{
    char quoted[HAUL__QUOTED_SIZE];
    for (int i = 0; i < p->plan->constant_count; i++) {
        const haul__onnx_constant *c = &p->plan->constants[i];
        if ((c->used || c->host) && c->tensor->fault)
            return haul__fail(HAUL_UNSUPPORTED, p->operation, "path",
                              "%s has the tensor %s, which cannot be loaded: %s", p->path,
                              haul__quoted(c->tensor->name, quoted), c->tensor->fault);
    }
    return HAUL_OK;
}

static haul_status find_uses(planner *p)
{
    haul__onnx_plan *plan = p->plan;
    int             *of_value = haul__calloc((size_t)plan->value_count + 1, sizeof *of_value);
    if (!of_value)
        return haul__fail_memory(p->operation, (size_t)plan->value_count * sizeof *of_value);
    for (int i = 0; i < plan->value_count; i++)
        of_value[i] = -1;
    for (int i = 0; i < plan->constant_count; i++)
        of_value[plan->constants[i].value] = i;
    see_uses(plan, of_value);
    haul__free(of_value);
    return check_constants(p);
}

/* ---- the model as a whole ---- */

static haul_status check_operators(const planner *p)
{
    const haul__onnx_model *m = &p->plan->model;
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
     "align_corners allowzero antialias axis batch_axis batch_dims block_size blocksize ceil_mode count_include_pad "
     "detect_negative detect_positive dtype end exclude_outside exclusive fmod group ignore_index input_forget "
     "interleaved inverse is_causal k keepdims kv_num_heads largest layout left_window_size linear_before_reset "
     "noop_with_empty_axes num_groups num_heads num_outputs onesided output_dtype p q_num_heads qk_matmul_output_mode "
     "reverse right_window_size rotary_embedding_dim select_last_index size softmax_precision sorted spatial start "
     "storage_order time_axis to training_mode transA transB upper"},
    {HAUL__ONNX_FLOAT, "a number",
     "alpha beta bias cubic_coeff_a epsilon extrapolation_value gamma lambd max min momentum ratio scale softcap"},
    {HAUL__ONNX_STRING, "a text",
     "activation approximate auto_pad coordinate_transformation_mode direction equation keep_aspect_ratio_policy mode "
     "nearest_mode padding_mode reduction"},
    {HAUL__ONNX_INTS, "whole numbers",
     "axes dilations ends kernel_shape output_padding output_shape pads perm split starts strides"}};

/* Files of old exporters leave the type out. */
static haul_status check_attribute(const planner *p, const haul__onnx_node *node, const haul__onnx_attribute *a)
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

static haul_status check_attributes(const planner *p)
{
    const haul__onnx_graph *g = &p->plan->model.graph;
    haul_status             status = HAUL_OK;
    for (size_t n = 0; n < g->node_count && !status; n++)
        for (size_t i = 0; i < g->nodes[n].attribute_count && !status; i++)
            status = check_attribute(p, &g->nodes[n], &g->nodes[n].attributes[i]);
    return status;
}

/* A model without the domain ai.onnx may have operators of others only, which are missing. */
static bool has_own_operators(const haul__onnx_graph *g)
{
    for (size_t n = 0; n < g->node_count; n++)
        if (!*g->nodes[n].domain)
            return true;
    return !g->node_count;
}

static haul_status check_model(const planner *p)
{
    const haul__onnx_graph *g = &p->plan->model.graph;
    if (p->plan->model.opset < 1 && has_own_operators(g))
        return haul__fail(HAUL_FORMAT, p->operation, "path",
                          "%s is not a valid ONNX model: it imports no set of operators of the domain ai.onnx",
                          p->path);
    if (check_operators(p) || check_attributes(p))
        return haul_error_status();
    if (!g->output_count || g->output_count > HAUL_MAX_ARGUMENTS)
        return refuse(p, "has no results, or more than 8, the most of a module");
    if (g->has_sparse)
        return refuse(p, "has sparse initialisers");
    return HAUL_OK;
}

static haul_status allocate(planner *p)
{
    haul__onnx_plan        *plan = p->plan;
    const haul__onnx_graph *g = &plan->model.graph;
    size_t                  places = 0, outputs = 0, constants = g->tensor_count;
    for (size_t n = 0; n < g->node_count; n++) {
        outputs += g->nodes[n].output_count;
        places += g->nodes[n].input_count + g->nodes[n].output_count;
        constants += constant_of(&g->nodes[n]) != NULL;
    }
    const size_t values = outputs + g->tensor_count + HAUL_MAX_ARGUMENTS;
    if (values > MOST_VALUES || places > MOST_VALUES || constants > MOST_CONSTANTS)
        return refuse(p, "has more than 16,384 initialisers, or more values than Haul counts");
    p->names = haul__calloc(values, sizeof *p->names);
    plan->steps = haul__calloc(g->node_count + 1, sizeof *plan->steps);
    plan->places = haul__calloc(places + 1, sizeof *plan->places);
    plan->last_use = haul__calloc(values, sizeof *plan->last_use);
    plan->constants = haul__calloc(constants + 1, sizeof *plan->constants);
    plan->inputs = haul__calloc(HAUL_MAX_ARGUMENTS, sizeof *plan->inputs);
    plan->outputs = haul__calloc(HAUL_MAX_ARGUMENTS, sizeof *plan->outputs);
    return p->names && plan->steps && plan->places && plan->last_use && plan->constants && plan->inputs && plan->outputs
               ? HAUL_OK
               : haul__fail_memory(p->operation, values * sizeof *p->names);
}

haul__onnx_plan *haul__onnx_plan_new(haul__onnx_model *model, const char *path, const char *operation)
{
    planner     p = {.plan = haul__calloc(1, sizeof *p.plan), .path = path, .operation = operation};
    haul_status status = HAUL_OK;
    if (!p.plan) {
        haul__fail_memory(operation, sizeof *p.plan);
        haul__onnx_free(model);
        return NULL;
    }
    p.plan->model = *model;
    *model = (haul__onnx_model){.producer = ""};
    atomic_init(&p.plan->refs, 1);
    status = check_model(&p);
    if (!status)
        status = allocate(&p);
    if (!status)
        status = define_values(&p);
    if (!status)
        status = make_steps(&p);
    if (!status)
        status = find_uses(&p);
    haul__free(p.names);
    if (!status)
        return p.plan;
    haul__onnx_plan_release(p.plan);
    return NULL;
}

void haul__onnx_plan_release(haul__onnx_plan *plan)
{
    if (!plan || atomic_fetch_sub(&plan->refs, 1) > 1)
        return;
    for (int i = 0; i < plan->constant_count; i++) {
        haul__free(plan->constants[i].path);
        haul__free(plan->constants[i].numbers);
    }
    for (int i = 0; i < plan->step_count; i++)
        haul__free(plan->steps[i].value);
    haul__onnx_free(&plan->model);
    haul__free(plan->steps);
    haul__free(plan->places);
    haul__free(plan->last_use);
    haul__free(plan->constants);
    haul__free(plan->inputs);
    haul__free(plan->outputs);
    haul__free(plan);
}
