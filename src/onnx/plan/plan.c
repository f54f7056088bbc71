#include "onnx/plan/plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"

enum { MOST_VALUES = 1 << 24, MOST_CONSTANTS = 1 << 14 };

/* A name and what has it. Definitions are in the order in which values are made. */
typedef struct name {
    const char *text;
    int         value, step; /* step: the node of its graph that makes it; -1: it is there before */
} name;

/* How much of everything a graph and those in it have. */
typedef struct extent {
    size_t nodes, values, places, constants, graphs;
} extent;

typedef struct planner {
    haul__onnx_plan *plan;
    extent           most; /* of the model */
    const char      *path, *operation;
    name            *names;    /* as many as values: those of a graph in a row, sorted once all are there */
    int             *last_use; /* of each value: the step of its body after which it is dropped */
    int             *place;    /* the next free one */
} planner;

/* A graph in which names are looked for. */
typedef struct names_of {
    const struct names_of *outer; /* the graph around it */
    const haul__onnx_body *body;  /* its names are in the places of its values */
    int                    step;  /* the node that is being planned: what comes from it on is not made yet */
} names_of;

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

static const name *find(const planner *p, const names_of *graph, const char *text)
{
    int low = graph->body->first_value, high = low + graph->body->value_count;
    HAUL__ASSERT(0 <= low && low <= high && high <= p->plan->value_count);
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(p->names[middle].text, text);
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
    HAUL__ASSERT((size_t)value < p->most.values && step >= -1);
    p->names[value] = (name){text, value, step};
    return value;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void define_input(planner *p, haul__onnx_body *body, const char *text)
{
    HAUL__ASSERT(p->place < p->plan->places + p->most.places);
    *p->place++ = define(p, text, -1);
    body->input_count++;
}

/* The model's inputs that are not initialisers: before version 4 of the format, initialisers were inputs, too. */
static haul_status define_model_inputs(planner *p, haul__onnx_body *body)
{
    const haul__onnx_graph *g = body->graph;
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
        if (body->input_count == HAUL_MAX_ARGUMENTS) {
            status = refuse(p, "has more than 8 inputs, the most of a module");
            continue;
        }
        p->plan->input_infos[body->input_count] = &g->inputs[i];
        define_input(p, body, g->inputs[i].name);
    }
    HAUL__ASSERT(body->input_count <= HAUL_MAX_ARGUMENTS);
    haul__free(tensors);
    return status;
}

static const haul__onnx_tensor *constant_of(const haul__onnx_node *node)
{
    const haul__onnx_attribute *a =
        !*node->domain && !strcmp(node->type, "Constant") ? haul__onnx_attribute_of(node, "value") : NULL;
    return a ? a->tensor : NULL;
}

static void define_results(planner *p, const haul__onnx_graph *g)
{
    haul__onnx_plan *plan = p->plan;
    for (size_t n = 0; n < g->node_count; n++) {
        const haul__onnx_tensor *constant = constant_of(&g->nodes[n]);
        for (size_t i = 0; i < g->nodes[n].output_count; i++) {
            if (!*g->nodes[n].outputs[i])
                continue;
            const int value = define(p, g->nodes[n].outputs[i], (int)n);
            HAUL__ASSERT(!constant || i > 0 || (size_t)plan->constant_count < p->most.constants);
            if (constant && i == 0)
                plan->constants[plan->constant_count++] =
                    (haul__onnx_constant){.tensor = constant, .value = value, .name = g->nodes[n].outputs[0]};
        }
    }
}

static haul_status define_values(planner *p, haul__onnx_body *body)
{
    haul__onnx_plan        *plan = p->plan;
    const haul__onnx_graph *g = body->graph;
    const bool              nested = body != plan->bodies;
    HAUL__ASSERT(plan->bodies <= body && body < plan->bodies + plan->body_count);
    body->first_value = plan->value_count;
    body->inputs = p->place;
    if (!nested && define_model_inputs(p, body))
        return haul_error_status();
    for (size_t i = 0; nested && i < g->input_count; i++)
        define_input(p, body, g->inputs[i].name);
    for (size_t i = 0; i < g->tensor_count; i++)
        plan->constants[plan->constant_count++] = (haul__onnx_constant){.tensor = &g->tensors[i],
                                                                        .value = define(p, g->tensors[i].name, -1),
                                                                        .name = g->tensors[i].name,
                                                                        .initializer = true};
    HAUL__ASSERT((size_t)plan->constant_count <= p->most.constants);
    define_results(p, g);
    body->value_count = plan->value_count - body->first_value;
    qsort(p->names + body->first_value, (size_t)body->value_count, sizeof *p->names, compare);
    for (int i = body->first_value + 1; i < plan->value_count; i++)
        if (!strcmp(p->names[i - 1].text, p->names[i].text))
            return malformed(p, p->names[i].text, "is made twice");
    return HAUL_OK;
}

/* ---- steps ---- */

/* The value with a name, in this graph or one around it, where it is in use up to the node that is being planned. */
static haul_status use(planner *p, const names_of *graph, const char *text, int *value)
{
    const bool  is_result = graph->step == INT_MAX;
    const name *found = find(p, graph, text);
    for (; !found && graph->outer; found = find(p, graph, text))
        graph = graph->outer;
    if (!found)
        return malformed(p, text, is_result ? "is a result, but not made" : "is used, but not made");
    HAUL__ASSERT(0 <= found->value && found->value < p->plan->value_count);
    if (found->step >= graph->step)
        return malformed(p, text, "is used before it is made");
    if (p->last_use[found->value] < graph->step)
        p->last_use[found->value] = graph->step;
    *value = found->value;
    return HAUL_OK;
}

static haul_status place_inputs(planner *p, haul__onnx_step *step, const names_of *graph)
{
    haul_status status = HAUL_OK;
    step->inputs = p->place;
    p->place += step->node->input_count;
    HAUL__ASSERT(p->place <= p->plan->places + p->most.places);
    for (size_t i = 0; i < step->node->input_count && !status; i++) {
        step->inputs[i] = -1;
        if (*step->node->inputs[i])
            status = use(p, graph, step->node->inputs[i], &step->inputs[i]);
    }
    return status;
}

static haul_status place_outputs(planner *p, haul__onnx_step *step, const names_of *graph)
{
    if (step->node->output_count > HAUL__ONNX_RESULTS)
        return refuse(p, "has a node with more than 64 results");
    step->outputs = p->place;
    p->place += step->node->output_count;
    HAUL__ASSERT(p->place <= p->plan->places + p->most.places);
    for (size_t i = 0; i < step->node->output_count; i++) {
        const name *found = *step->node->outputs[i] ? find(p, graph, step->node->outputs[i]) : NULL;
        step->outputs[i] = found ? found->value : -1;
        if (found)
            p->last_use[found->value] = graph->step;
    }
    return HAUL_OK;
}

/* The results of a graph. A name that no value has is refused as a result that is not made. */
static haul_status place_results(planner *p, haul__onnx_body *body, names_of *graph)
{
    const haul__onnx_graph *g = body->graph;
    haul_status             status = HAUL_OK;
    graph->step = INT_MAX;
    body->outputs = p->place;
    body->output_count = (int)g->output_count;
    p->place += g->output_count;
    HAUL__ASSERT(p->place <= p->plan->places + p->most.places);
    for (size_t i = 0; i < g->output_count && !status; i++)
        status = use(p, graph, g->outputs[i].name, &body->outputs[i]);
    return status;
}

static haul_status make_nested(planner *p, haul__onnx_step *step, const names_of *outer);

static haul_status make_body(planner *p, const haul__onnx_graph *g, const names_of *outer)
{
    haul__onnx_plan *plan = p->plan;
    HAUL__ASSERT((size_t)plan->body_count < p->most.graphs && !outer == (plan->body_count == 0));
    haul__onnx_body *body = &plan->bodies[plan->body_count++];
    names_of         graph = {.outer = outer, .body = body};
    *body = (haul__onnx_body){.graph = g, .first_step = plan->step_count, .step_count = (int)g->node_count};
    plan->step_count += body->step_count;
    HAUL__ASSERT((size_t)plan->step_count <= p->most.nodes);
    haul_status status = define_values(p, body);
    for (int n = 0; n < body->step_count && !status; n++) {
        haul__onnx_step *step = &plan->steps[body->first_step + n];
        *step = (haul__onnx_step){.node = &g->nodes[n],
                                  .row = haul__onnx_find_row(g->nodes[n].type),
                                  .is_constant = constant_of(&g->nodes[n]) != NULL,
                                  .input_count = (int)g->nodes[n].input_count,
                                  .output_count = (int)g->nodes[n].output_count};
        graph.step = n;
        status = place_outputs(p, step, &graph);
        if (!status)
            status = place_inputs(p, step, &graph);
        if (!status)
            status = make_nested(p, step, &graph);
    }
    return status ? status : place_results(p, body, &graph);
}

/* The graphs of If, Loop and Scan. Other operators have none, so graphs in their attributes mean nothing. */
static haul_status make_nested(planner *p, haul__onnx_step *step, const names_of *outer)
{
    const char *names[2];
    const int   count = haul__onnx_graphs_of(step->node, names);
    haul_status status = HAUL_OK;
    HAUL__ASSERT(count <= 2 && step->body_count == 0);
    for (int i = 0; i < count && !status; i++) {
        const haul__onnx_attribute *a = haul__onnx_attribute_of(step->node, names[i]);
        HAUL__ASSERT(a && a->graph); /* check.c */
        step->bodies[step->body_count++] = p->plan->body_count;
        status = make_body(p, a->graph, outer);
    }
    return status;
}

/* Sorts the values of a body by the step after which they are dropped. */
static void sort_drops(const planner *p, const haul__onnx_body *body)
{
    haul__onnx_step *steps = p->plan->steps + body->first_step;
    int             *next = p->plan->drops + body->first_value;
    for (int v = body->first_value; v < body->first_value + body->value_count; v++)
        if (p->last_use[v] < body->step_count)
            steps[p->last_use[v]].drop_count++;
    for (int s = 0; s < body->step_count; s++) {
        steps[s].drops = next;
        next += steps[s].drop_count;
        steps[s].drop_count = 0;
    }
    HAUL__ASSERT(next <= p->plan->drops + body->first_value + body->value_count);
    for (int v = body->first_value; v < body->first_value + body->value_count; v++)
        if (p->last_use[v] < body->step_count) {
            haul__onnx_step *step = &steps[p->last_use[v]];
            step->drops[step->drop_count++] = v;
        }
}

static haul_status make_steps(planner *p)
{
    haul__onnx_plan *plan = p->plan;
    p->place = plan->places;
    if (make_body(p, &plan->model.graph, NULL))
        return haul_error_status();
    plan->input_count = plan->bodies->input_count;
    plan->output_count = plan->bodies->output_count;
    for (int i = 0; i < plan->body_count; i++)
        sort_drops(p, &plan->bodies[i]);
    return HAUL_OK;
}

/* ---- constants ---- */

static haul__onnx_constant *constant_with(haul__onnx_plan *plan, const int *of_value, int value)
{
    HAUL__ASSERT(value < plan->value_count);
    return value >= 0 && of_value[value] >= 0 ? &plan->constants[of_value[value]] : NULL;
}

static void see_uses(haul__onnx_plan *plan, const int *of_value)
{
    for (int s = 0; s < plan->step_count; s++) {
        const haul__onnx_step *step = &plan->steps[s];
        HAUL__ASSERT(step->row && step->node); /* each operator has a row: check.c */
        const bool is_norm = !strcmp(step->row->name, "BatchNormalization");
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
    for (int b = 0; b < plan->body_count; b++)
        for (int i = 0; i < plan->bodies[b].output_count; i++) {
            haul__onnx_constant *constant = constant_with(plan, of_value, plan->bodies[b].outputs[i]);
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
    for (int i = 0; i < plan->constant_count; i++) {
        HAUL__ASSERT(0 <= plan->constants[i].value && plan->constants[i].value < plan->value_count);
        of_value[plan->constants[i].value] = i;
    }
    see_uses(plan, of_value);
    haul__free(of_value);
    return check_constants(p);
}

/* ---- the model as a whole ---- */

static void measure(const haul__onnx_graph *g, extent *e)
{
    const char *names[2];
    e->graphs++;
    e->nodes += g->node_count;
    e->values += g->tensor_count + g->input_count;
    e->places += g->input_count + g->output_count;
    e->constants += g->tensor_count;
    for (size_t n = 0; n < g->node_count; n++) {
        const haul__onnx_node *node = &g->nodes[n];
        e->values += node->output_count;
        e->places += node->input_count + node->output_count;
        e->constants += constant_of(node) != NULL;
        for (int i = 0; i < haul__onnx_graphs_of(node, names); i++)
            measure(haul__onnx_attribute_of(node, names[i])->graph, e);
    }
}

static haul_status allocate(planner *p)
{
    haul__onnx_plan *plan = p->plan;
    extent           e = {0};
    measure(&plan->model.graph, &e); /* as deep as the reader lets graphs be */
    HAUL__ASSERT(e.graphs > 0 && !plan->bodies);
    p->most = e;
    if (e.values > MOST_VALUES || e.places > MOST_VALUES || e.nodes > MOST_VALUES || e.constants > MOST_CONSTANTS)
        return refuse(p, "has more than 16,384 initialisers, or more values than Haul counts");
    p->names = haul__calloc(e.values + 1, sizeof *p->names);
    p->last_use = haul__calloc(e.values + 1, sizeof *p->last_use);
    plan->bodies = haul__calloc(e.graphs, sizeof *plan->bodies);
    plan->steps = haul__calloc(e.nodes + 1, sizeof *plan->steps);
    plan->places = haul__calloc(e.places + 1, sizeof *plan->places);
    plan->drops = haul__calloc(e.values + 1, sizeof *plan->drops);
    plan->constants = haul__calloc(e.constants + 1, sizeof *plan->constants);
    return p->names && p->last_use && plan->bodies && plan->steps && plan->places && plan->drops && plan->constants
               ? HAUL_OK
               : haul__fail_memory(p->operation, e.values * sizeof *p->names);
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
    status = haul__onnx_check(&p.plan->model, path, operation);
    if (!status)
        status = allocate(&p);
    if (!status)
        status = make_steps(&p);
    if (!status)
        status = find_uses(&p);
    HAUL__ASSERT(status || (p.plan->body_count == (int)p.most.graphs && p.plan->step_count == (int)p.most.nodes));
    haul__free(p.names);
    haul__free(p.last_use);
    if (!status)
        return p.plan;
    haul__onnx_plan_release(p.plan);
    return NULL;
}

void haul__onnx_plan_release(haul__onnx_plan *plan)
{
    HAUL__ASSERT(!plan || atomic_load(&plan->refs) > 0);
    if (!plan || atomic_fetch_sub(&plan->refs, 1) > 1)
        return;
    for (int i = 0; i < plan->constant_count; i++) {
        haul__free(plan->constants[i].path);
        haul__free(plan->constants[i].numbers);
    }
    for (int i = 0; i < plan->step_count; i++)
        haul__free(plan->steps[i].value);
    haul__onnx_free(&plan->model);
    haul__free(plan->bodies);
    haul__free(plan->drops);
    haul__free(plan->steps);
    haul__free(plan->places);
    haul__free(plan->constants);
    haul__free(plan);
}
