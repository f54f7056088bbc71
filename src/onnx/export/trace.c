/* Makes the graph: calls the module in a dry run, and has each call of an operation add its nodes.
 *
 * A value of the log is a part of a store, in a dtype and a layout. The last value that was written there, or that a
 * view made, has a number in the graph; so views are nodes like the others. With a batch of any size the module is
 * called twice, with two batches: sizes and attributes that differ depend on it. */
#include "onnx/export/trace.h"

#include <haul/autograd.h>
#include <haul/estimate.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/list.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "engine/follow.h"
#include "nn/module.h"
#include "record/dry_function.h"

enum { SMALL_BATCH = 3, MOST_NAMED = 6 };

/* One call of the module. */
typedef struct call {
    size_t             first, end; /* its described calls */
    haul_program_value inputs[HAUL_MAX_ARGUMENTS], outputs[HAUL_MAX_ARGUMENTS];
    int                output_count;
} call;

/* A value that is known: where it is, and its number. */
typedef struct known {
    haul_program_value at;
    int                value;
    int                next; /* of the same store; -1: it is the last */
} known;

/* Elements that a loaded model makes on the host, in one of the calls. */
typedef struct noted {
    haul_program_value at;
    int                round;
    size_t             from, bytes; /* in the graph's bytes */
} noted;

typedef struct tracer {
    haul__recorder                recorder; /* first: haul__onnx_note finds the tracer by it */
    haul__onnx_saved             *g;
    haul_module                  *module;
    const haul_save_onnx_options *options;
    haul__dry_run                *run;
    haul_named_tensor            *tensors;
    int                           tensor_count, input_count;
    call                          calls[2];
    int                           round; /* of the call that is made */
    known                        *known;
    size_t                        known_count, known_room;
    noted                        *noted;
    size_t                        noted_count, noted_room;
    int                          *newest; /* of each store; -1: nothing is known of it */
    char                          list[360];
    int                           missing; /* calls that cannot be written */
} tracer;

/* ---- calling the module ---- */

static haul_program_value place_of(const haul_tensor *t)
{
    haul_program_value v = {.store = haul__dry_run_store(t->storage), .dtype = t->dtype, .shape = t->shape};
    v.offset = t->offset;
    memcpy(v.strides, t->strides, sizeof v.strides);
    return v;
}

/* The inputs that share the first one's first size are batches. */
static haul_shape input_shape(const tracer *t, int i, int round)
{
    HAUL__ASSERT(i < t->input_count && (round == 0 || round == 1));
    const haul_shape *first = &t->options->x[0]->shape;
    haul_shape        shape = t->options->x[i]->shape;
    if (t->options->dynamic && shape.ndim && first->ndim && shape.dims[0] == first->dims[0])
        shape.dims[0] = t->g->batch[round];
    return shape;
}

static haul_status call_module(void *context)
{
    tracer           *t = context;
    call             *c = &t->calls[t->round];
    haul_tensor      *more[HAUL_MAX_ARGUMENTS] = {NULL};
    haul_call_options o = {.mode = HAUL_EVALUATE};
    haul_set_grad_enabled(false);
    for (int i = 0; i < t->input_count; i++) {
        o.x[i] = haul_empty(t->options->x[i]->dtype, input_shape(t, i, t->round));
        if (haul__failed(o.x[i]))
            return haul_error_status();
        c->inputs[i] = place_of(o.x[i]);
    }
    c->output_count = t->module->results.count;
    for (int i = 1; i < c->output_count; i++)
        o.more[i - 1] = &more[i];
    c->first = t->run->program.described_count;
    more[0] = haul_call_with(t->module, &o);
    c->end = t->run->program.described_count;
    HAUL__ASSERT(c->first <= c->end && 0 < c->output_count && c->output_count <= HAUL_MAX_ARGUMENTS);
    for (int i = 0; i < c->output_count; i++) {
        if (haul__failed(more[i]))
            return haul_error_status();
        c->outputs[i] = haul__is_none(more[i]) ? (haul_program_value){.store = -1} : place_of(more[i]);
    }
    return t->run->program.incomplete ? haul__fail_memory(t->g->operation, sizeof *t->known) : HAUL_OK;
}

/* ---- the recorder ---- */

/* The run counts as a recording, in which copies of operands to another layout are calls, too. The log has all that the
 * writer needs, so nothing is done here. */

static haul_status see_call(haul__recorder *recorder, int number, const haul__asked *asked)
{
    (void)recorder, (void)number, (void)asked;
    return HAUL_OK;
}

static haul_status see_pass(haul__recorder *recorder, const haul__asked_pass *pass)
{
    (void)recorder, (void)pass;
    return haul__fail(HAUL_UNSUPPORTED, "haul_save_onnx", "module", "forward computes gradients");
}

static void see_pass_end(haul__recorder *recorder)
{
    (void)recorder;
}

static haul_status see_gradients(haul__recorder *recorder, haul_tensor *const *gradients, int count)
{
    (void)recorder, (void)gradients, (void)count;
    return HAUL_OK;
}

static haul_status see_function(haul__recorder *recorder, haul__asked_function *function)
{
    (void)recorder, (void)function;
    return HAUL_OK;
}

static haul_status see_function_end(haul__recorder *recorder, const haul__asked_function *function,
                                    haul_tensor *const *results, int count)
{
    (void)recorder, (void)function, (void)results, (void)count;
    return HAUL_OK;
}

static haul_status see_mark(haul__recorder *recorder, const char *name)
{
    (void)recorder, (void)name;
    return HAUL_OK;
}

static haul_status see_leaf(haul__recorder *recorder, haul_tensor *leaf, haul_tensor *gradient)
{
    (void)recorder, (void)leaf, (void)gradient;
    return HAUL_OK;
}

static void see_refusal(haul__recorder *recorder, const char *why)
{
    (void)recorder, (void)why;
}

static const haul__recorder recorder = {.call = see_call,
                                        .begin_pass = see_pass,
                                        .end_pass = see_pass_end,
                                        .gradients = see_gradients,
                                        .begin_function = see_function,
                                        .end_function = see_function_end,
                                        .mark = see_mark,
                                        .leaf = see_leaf,
                                        .refuse = see_refusal};

void haul__onnx_note(const haul_tensor *t, const void *elements)
{
    tracer *to = haul__is_recorded() ? (tracer *)haul__dry_run_now()->recorder : NULL;
    if (!to || to->recorder.call != see_call || haul__failed(t))
        return;
    const size_t      bytes = haul_tensor_bytes(t);
    haul__onnx_saved *g = to->g;
    if (!haul__grow(&to->noted, &to->noted_room, to->noted_count + 1, sizeof *to->noted) ||
        !haul__grow(&g->bytes, &g->byte_room, g->byte_count + bytes + 1, 1)) {
        g->failed = true;
        return;
    }
    to->noted[to->noted_count++] = (noted){place_of(t), to->round, g->byte_count, bytes};
    memcpy(g->bytes + g->byte_count, elements, bytes);
    g->byte_count += bytes;
    HAUL__ASSERT(g->byte_count < g->byte_room && to->noted_count <= to->noted_room);
}

/* ---- values ---- */

static bool is_at(const haul_program_value *a, const haul_program_value *b)
{
    return a->dtype == b->dtype && a->offset == b->offset && haul__shape_equal(&a->shape, &b->shape) &&
           !memcmp(a->strides, b->strides, (size_t)a->shape.ndim * sizeof *a->strides);
}

static int find(const tracer *t, const haul_program_value *v)
{
    HAUL__ASSERT(v->store >= 0 && (size_t)v->store < t->run->program.store_count);
    for (int i = t->newest[v->store]; i >= 0; i = t->known[i].next)
        if (is_at(&t->known[i].at, v))
            return t->known[i].value;
    return HAUL__ONNX_ABSENT;
}

static haul_status learn(tracer *t, const haul_program_value *v, int value)
{
    if (!haul__grow(&t->known, &t->known_room, t->known_count + 1, sizeof *t->known))
        return haul__fail_memory(t->g->operation, sizeof *t->known);
    HAUL__ASSERT(v->store >= 0 && (size_t)v->store < t->run->program.store_count);
    HAUL__ASSERT(t->known_count < t->known_room && t->newest[v->store] < (int)t->known_count);
    t->known[t->known_count] = (known){.at = *v, .value = value, .next = t->newest[v->store]};
    t->newest[v->store] = (int)t->known_count++;
    return HAUL_OK;
}

/* A result that is written makes other values of its store unknown: they may be parts of it. */
static haul_status learn_result(tracer *t, const haul_program_value *v, int value)
{
    if (v->store < 0)
        return HAUL_OK;
    if (v->written)
        t->newest[v->store] = -1;
    return learn(t, v, value);
}

/* The module's tensors that the log has. A tensor with two names has the first. */
static haul_status learn_tensors(tracer *t)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < t->tensor_count && !status; i++) {
        haul_tensor       *x = t->tensors[i].tensor;
        haul_program_value v = {.store = haul__program_find(&t->run->program, x->storage)};
        if (v.store < 0)
            continue;
        v = place_of(x);
        if (find(t, &v) == HAUL__ONNX_ABSENT)
            status = learn(t, &v, haul__onnx_add_tensor(t->g, t->tensors[i].name, x));
    }
    return status;
}

/* What a loaded model made on the host, where it is the same in both calls. */
static haul_status learn_noted(tracer *t)
{
    haul__onnx_saved *g = t->g;
    size_t            count = 0;
    haul_status       status = HAUL_OK;
    while (count < t->noted_count && !t->noted[count].round)
        count++;
    if (t->options->dynamic && t->noted_count != 2 * count)
        return HAUL_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const noted *a = &t->noted[i], *b = t->options->dynamic ? &t->noted[count + i] : a;
        if (a->bytes != b->bytes || memcmp(g->bytes + a->from, g->bytes + b->from, a->bytes))
            continue;
        const int value = haul__onnx_add_constant(g, a->at.dtype, &a->at.shape, a->from, a->bytes);
        status = value == HAUL__ONNX_ABSENT ? haul__fail_memory(g->operation, a->bytes) : learn(t, &a->at, value);
    }
    return status;
}

static haul_status learn_inputs(tracer *t)
{
    haul__onnx_saved *g = t->g;
    haul_status       status = HAUL_OK;
    HAUL__ASSERT(0 < t->input_count && t->input_count <= HAUL_MAX_ARGUMENTS && g->input_count == 0);
    g->input_count = t->input_count;
    for (int i = 0; i < t->input_count && !status; i++) {
        g->inputs[i] =
            (haul__onnx_saved_port){.value = haul__onnx_add_value(g, haul__names_at(&t->module->inputs, i), -1),
                                    .dtype = t->calls[0].inputs[i].dtype,
                                    .shape = t->calls[0].inputs[i].shape,
                                    .other = t->calls[t->options->dynamic].inputs[i].shape};
        status = learn(t, &t->calls[0].inputs[i], g->inputs[i].value);
    }
    return status;
}

/* ---- calls of operations ---- */

static void cannot(tracer *t, const haul__program_call *c, const char *why)
{
    if (t->missing++ < MOST_NAMED)
        haul__list_add(t->list, sizeof t->list, "%.40s in %s%.60s%s%s", c->name, *c->module.path ? "" : "the module",
                       c->module.path, *why ? ": " : "", why);
}

/* The value of an operand; ABSENT, with the reason, if the graph has none. */
static int operand_of(const tracer *t, const haul_program_value *v, const char **why)
{
    const int value = v->store < 0 ? HAUL__ONNX_ABSENT : find(t, v);
    if (v->written)
        *why = "it changes a tensor in place";
    else if (v->store >= 0 && value == HAUL__ONNX_ABSENT)
        *why = t->run->program.stores[v->store].planned
                   ? "it reads values that forward makes from host memory or in parts; make them a buffer"
                   : "it reads a tensor that is not in the module; make it a buffer";
    return value;
}

static int save_call(tracer *t, haul__onnx_saving *s, const haul__program_call *c)
{
    s->row = haul__onnx_saved_row_of(c->name);
    if (!s->row && !s->why)
        return haul__onnx_cannot(s, "");
    memcpy(t->g->module, c->module.path, sizeof t->g->module);
    return s->why ? HAUL__ONNX_ABSENT : s->row->save(s);
}

static haul_status trace_call(tracer *t, const haul__program_call *c, const haul__program_call *other)
{
    const haul__program *p = &t->run->program;
    haul__onnx_saving    s = {.g = t->g, .count = c->operand_count, .result_count = c->result_count};
    haul_status          status = HAUL_OK;
    int                 *x = haul__calloc((size_t)c->operand_count + 1, sizeof *x);
    if (!x)
        return haul__fail_memory(t->g->operation, sizeof *x);
    HAUL__ASSERT(c->operand_count == other->operand_count && c->result_count == other->result_count);
    HAUL__ASSERT(c->result_count <= HAUL__MAX_RESULTS);
    s.x = x;
    s.in = p->values + c->value;
    s.out = s.in + c->operand_count;
    s.other_in = p->values + other->value;
    s.other_out = s.other_in + c->operand_count;
    s.attributes = p->attributes.bytes + c->form.attributes;
    s.other = p->attributes.bytes + other->form.attributes;
    for (int i = 0; i < HAUL__MAX_RESULTS; i++)
        s.y[i] = s.part_values[i] = HAUL__ONNX_ABSENT;
    for (int i = 0; i < c->operand_count; i++)
        x[i] = operand_of(t, &s.in[i], &s.why);
    for (int i = 0; i < c->operand_count + c->result_count; i++)
        if (s.in[i].shape.ndim != s.other_in[i].shape.ndim)
            s.why = "its number of dimensions depends on the batch; save with a fixed batch";
    s.y[0] = save_call(t, &s, c);
    if (s.why)
        cannot(t, c, s.why);
    for (int i = 0; i < c->result_count && !status; i++) /* the calls that follow are looked at, too */
        status = learn_result(t, &s.out[i], s.why ? haul__onnx_add_value(t->g, NULL, -1) : s.y[i]);
    for (int i = 0; i < c->result_count && !status && !s.why; i++)
        if (s.part_values[i] != HAUL__ONNX_ABSENT)
            status = learn(t, &s.parts[i], s.part_values[i]);
    haul__free(x);
    return status;
}

/* A view of elements that have a value already. */
static bool is_known_view(const tracer *t, const haul__program_call *c)
{
    const haul_program_value *y = t->run->program.values + c->value + c->operand_count;
    return c->view_of >= 0 && c->result_count == 1 && y->store >= 0 && find(t, y) != HAUL__ONNX_ABSENT;
}

static haul_status differ(const tracer *t)
{
    return haul__fail(HAUL_UNSUPPORTED, t->g->operation, "module",
                      "the module calls other operations for a batch of %lld than for one of %lld; save it with a "
                      "fixed batch",
                      (long long)t->g->batch[0], (long long)t->g->batch[1]);
}

static haul_status trace_calls(tracer *t)
{
    const haul__program *p = &t->run->program;
    const call          *a = &t->calls[0], *b = &t->calls[t->options->dynamic];
    haul_status          status = HAUL_OK;
    HAUL__ASSERT(a->first <= a->end && b->first <= b->end);
    if (a->end - a->first != b->end - b->first)
        return differ(t);
    for (size_t i = 0; i < a->end - a->first && !status; i++) {
        const haul__program_call *c = &p->calls[p->described[a->first + i]];
        const haul__program_call *other = &p->calls[p->described[b->first + i]];
        if (c->operation != other->operation || c->operand_count != other->operand_count ||
            c->result_count != other->result_count)
            return differ(t);
        if (c->listed && !is_known_view(t, c))
            status = trace_call(t, c, other);
    }
    return status;
}

/* ---- results ---- */

static haul_status trace_results(tracer *t)
{
    haul__onnx_saved *g = t->g;
    const call       *a = &t->calls[0], *b = &t->calls[t->options->dynamic];
    memset(g->module, 0, sizeof g->module);
    for (int i = 0; i < a->output_count; i++) {
        if (a->outputs[i].store < 0)
            continue;
        int value = find(t, &a->outputs[i]);
        if (value == HAUL__ONNX_ABSENT)
            return haul__fail(HAUL_UNSUPPORTED, g->operation, "module",
                              "result %s is neither computed from the inputs nor a tensor of the module",
                              haul__names_at(&t->module->results, i));
        HAUL__ASSERT(value >= 0 && (size_t)value < g->value_count && g->output_count < HAUL_MAX_ARGUMENTS);
        /* A value that has a name, or that two results are, gets another one. */
        if (g->values[value].node < 0 || g->values[value].name)
            value = HAUL__ONNX_NODE(g, "Identity", value);
        if (value == HAUL__ONNX_ABSENT)
            break;
        const int named = haul__onnx_add_value(g, haul__names_at(&t->module->results, i), -1);
        if (named == HAUL__ONNX_ABSENT)
            break;
        g->values[value].name = g->values[named].name;
        g->values[named].name = NULL;
        g->outputs[g->output_count++] = (haul__onnx_saved_port){
            .value = value, .dtype = a->outputs[i].dtype, .shape = a->outputs[i].shape, .other = b->outputs[i].shape};
    }
    return g->failed ? haul__fail_memory(g->operation, sizeof *g->values) : HAUL_OK;
}

/* Nodes without a result that is read are left out, as are initialisers. A node that is needed names all its results.
 */
static void mark_needed(haul__onnx_saved *g)
{
    for (int i = 0; i < g->output_count; i++)
        g->values[g->outputs[i].value].needed = true;
    for (size_t n = g->node_count; n-- > 0;) {
        haul__onnx_saved_node *node = &g->nodes[n];
        HAUL__ASSERT(node->output == node->input + node->input_count);
        HAUL__ASSERT((size_t)(node->output + node->output_count) <= g->number_count);
        for (int i = 0; i < node->output_count; i++)
            node->needed = node->needed || g->values[g->numbers[node->output + i]].needed;
        for (int i = 0; i < node->output_count && node->needed; i++)
            g->values[g->numbers[node->output + i]].needed = true;
        for (int i = 0; i < node->input_count && node->needed; i++)
            if (g->numbers[node->input + i] != HAUL__ONNX_ABSENT)
                g->values[g->numbers[node->input + i]].needed = true;
    }
}

/* ---- the whole ---- */

static haul_status trace(tracer *t)
{
    haul_status status = HAUL_OK;
    for (t->round = 0; t->round <= t->options->dynamic && !status; t->round++)
        status = haul__dry_function_call(call_module, t, t->g->operation);
    if (status)
        return status;
    HAUL__ASSERT(!t->newest && !t->known);
    t->newest = haul__malloc((t->run->program.store_count + 1) * sizeof *t->newest);
    if (!t->newest)
        return haul__fail_memory(t->g->operation, t->run->program.store_count * sizeof *t->newest);
    for (size_t i = 0; i < t->run->program.store_count; i++)
        t->newest[i] = -1;
    status = learn_tensors(t);
    status = status ? status : learn_noted(t);
    status = status ? status : learn_inputs(t);
    status = status ? status : trace_calls(t);
    if (!status && t->g->failed)
        return haul__fail_memory(t->g->operation, sizeof *t->known);
    if (!status && t->missing)
        return haul__fail(HAUL_UNSUPPORTED, t->g->operation, "module",
                          "%d call%s cannot be written as ONNX (opset %lld): %s%s", t->missing,
                          t->missing == 1 ? "" : "s", (long long)t->g->opset, t->list,
                          t->missing > MOST_NAMED ? " and others" : "");
    status = status ? status : trace_results(t);
    if (!status)
        mark_needed(t->g);
    return status;
}

haul_status haul__onnx_trace(haul__onnx_saved *g, haul_module *module, const haul_save_onnx_options *options)
{
    tracer             t = {.recorder = recorder, .g = g, .module = module, .options = options};
    haul__dry_function d;
    const haul_shape  *first = &options->x[0]->shape;
    while (t.input_count < HAUL_MAX_ARGUMENTS && options->x[t.input_count])
        t.input_count++;
    g->batch[0] = g->batch[1] = first->ndim ? first->dims[0] : 1;
    if (options->dynamic) {
        g->batch[0] = g->batch[0] > 1 && g->batch[0] < INT32_MAX ? g->batch[0] : SMALL_BATCH;
        g->batch[1] = 2 * g->batch[0] + 1;
    }
    t.tensors = haul__module_tensor_list(module, &t.tensor_count);
    if (!t.tensors)
        return haul_error_status();
    haul_status status = haul__dry_function_begin_recorded(&d, &t.recorder, g->operation);
    if (!status) {
        HAUL__ASSERT(d.run);
        t.run = d.run;
        status = trace(&t);
        haul__dry_function_end(&d);
    }
    haul__free(t.tensors);
    haul__free(t.known);
    haul__free(t.noted);
    haul__free(t.newest);
    return status;
}
