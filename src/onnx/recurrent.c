/* LSTM, GRU and RNN: a linear map of all steps at once, then step by step. The gates of an LSTM are in the order input,
 * output, forget, cell; those of a GRU update, reset, hidden. Peepholes are in the order input, output, forget. */
#include <haul/elementwise.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"
#include "onnx/run.h"

#define X(i) haul__onnx_x(c, i)

enum { INPUT, WEIGHT, RECURRENT, BIAS, LENGTHS, FIRST_HIDDEN, FIRST_CELL, PEEPHOLES };

/* One direction. */
typedef struct layer {
    int64_t      steps, batch, hidden;
    haul_tensor *gates;                 /* [steps, batch, gates x hidden]: what the inputs add to the gates */
    haul_tensor *recurrent, *bias;      /* [gates x hidden, hidden]; the recurrent bias, [gates x hidden], or NULL */
    haul_tensor *h, *cell;              /* [batch, hidden] */
    haul_tensor *peepholes;             /* [3 x hidden], or NULL */
    haul_tensor *lengths;               /* [batch, 1]: the steps of each example, or NULL */
    bool         backwards, reset_last; /* reset_last: a GRU's reset gate multiplies after the product */
    bool         relu;                  /* an RNN's, in the place of tanh */
} layer;

typedef void step_function(layer *l, haul_tensor *gates);

static haul_tensor *gate(const layer *l, haul_tensor *gates, int k)
{
    HAUL__ASSERT(l->hidden > 0 && 0 <= k && k < 4);
    return haul_slice(gates, 1, k * l->hidden, (k + 1) * l->hidden, 1);
}

/* A gate that also sees the cell. */
static haul_tensor *peeping(const layer *l, haul_tensor *gate, int k, haul_tensor *cell)
{
    if (l->peepholes)
        gate = haul_add(gate, haul_mul(haul_slice(l->peepholes, 0, k * l->hidden, (k + 1) * l->hidden, 1), cell));
    return haul_sigmoid(gate);
}

static void lstm_step(layer *l, haul_tensor *gates)
{
    haul_tensor *g = haul_add(gates, haul_linear(l->h, l->recurrent, .bias = l->bias));
    haul_tensor *input = peeping(l, gate(l, g, 0), 0, l->cell), *forget = peeping(l, gate(l, g, 2), 2, l->cell);
    l->cell = haul_add(haul_mul(forget, l->cell), haul_mul(input, haul_tanh(gate(l, g, 3))));
    l->h = haul_mul(peeping(l, gate(l, g, 1), 1, l->cell), haul_tanh(l->cell));
}

static void rnn_step(layer *l, haul_tensor *gates)
{
    haul_tensor *sum = haul_add(gates, haul_linear(l->h, l->recurrent, .bias = l->bias));
    l->h = l->relu ? haul_relu(sum) : haul_tanh(sum);
}

/* The part of the recurrent map that belongs to the hidden gate. */
static haul_tensor *hidden_part(const layer *l, haul_tensor *h)
{
    haul_tensor *weight = haul_slice(l->recurrent, 0, 2 * l->hidden, 3 * l->hidden, 1);
    return haul_linear(h, weight, .bias = l->bias ? haul_slice(l->bias, 0, 2 * l->hidden, 3 * l->hidden, 1) : NULL);
}

static void gru_step(layer *l, haul_tensor *gates)
{
    haul_tensor *g = haul_linear(l->h, l->recurrent, .bias = l->bias);
    haul_tensor *update = haul_sigmoid(haul_add(gate(l, gates, 0), gate(l, g, 0)));
    haul_tensor *reset = haul_sigmoid(haul_add(gate(l, gates, 1), gate(l, g, 1)));
    haul_tensor *part = l->reset_last ? haul_mul(reset, gate(l, g, 2)) : hidden_part(l, haul_mul(reset, l->h));
    haul_tensor *next = haul_tanh(haul_add(gate(l, gates, 2), part));
    l->h = haul_add(next, haul_mul(update, haul_sub(l->h, next)));
}

/* Entry `direction` of an input; `otherwise` if it is left out. */
static haul_tensor *part_of(haul__onnx_call *c, int i, int64_t direction, haul_tensor *otherwise)
{
    return haul__onnx_has(c, i) ? haul_select(X(i), 0, direction) : otherwise;
}

/* A first state of a direction, [batch, hidden]. */
static haul_tensor *first_of(haul__onnx_call *c, int i, int64_t direction, bool batch_first, haul_tensor *zeros)
{
    return haul__onnx_has(c, i) ? haul_select(X(i), batch_first, direction) : zeros;
}

static haul_status prepare(haul__onnx_call *c, layer *l, int gates, int64_t direction, bool batch_first)
{
    haul_tensor *weight = part_of(c, WEIGHT, direction, NULL), *bias = part_of(c, BIAS, direction, NULL);
    haul_tensor *x = batch_first ? haul_transpose(X(INPUT), 0, 1) : X(INPUT);
    haul_tensor *zeros = haul_zeros(haul__onnx_type(c, INPUT), HAUL_SHAPE(l->batch, l->hidden));
    l->recurrent = part_of(c, RECURRENT, direction, NULL);
    l->bias = bias ? haul_slice(bias, 0, gates * l->hidden, 2 * gates * l->hidden, 1) : NULL;
    l->gates = haul_linear(x, weight, .bias = bias ? haul_slice(bias, 0, 0, gates * l->hidden, 1) : NULL);
    l->h = first_of(c, FIRST_HIDDEN, direction, batch_first, zeros);
    l->cell = gates == 4 ? first_of(c, FIRST_CELL, direction, batch_first, zeros) : zeros;
    l->peepholes = gates == 4 ? part_of(c, PEEPHOLES, direction, NULL) : NULL;
    l->lengths = haul__onnx_has(c, LENGTHS) ? haul_unsqueeze(X(LENGTHS), 1) : NULL;
    return haul__failed(l->gates) || haul__failed(l->recurrent) || haul__failed(l->h) || haul__failed(l->cell)
               ? haul_error_status()
               : HAUL_OK;
}

/* A step of the examples that have it: the others keep their state, and their result is 0. */
static haul_tensor *run_step(layer *l, step_function *step, int64_t at)
{
    haul_tensor *h = l->h, *cell = l->cell;
    step(l, haul_select(l->gates, 0, at));
    if (!l->lengths)
        return l->h;
    haul_tensor *has = haul_gt_scalar(l->lengths, (double)at), *y = haul_where_scalar(has, l->h, 0);
    l->h = haul_where(has, l->h, h);
    l->cell = haul_where(has, l->cell, cell);
    return y;
}

/* All results of a direction, [steps, batch, hidden]. */
static haul_tensor *run(layer *l, step_function *step)
{
    HAUL__ASSERT(0 < l->steps && l->steps <= INT32_MAX);
    haul_tensor **all = haul__calloc((size_t)l->steps + 1, sizeof(haul_tensor *));
    if (!all)
        return haul__fail_memory(HAUL__ONNX_CALL, (size_t)l->steps * sizeof *all), NULL;
    for (int64_t i = 0; i < l->steps && !haul__failed(l->h); i++) {
        const int64_t at = l->backwards ? l->steps - 1 - i : i;
        all[at] = run_step(l, step, at);
    }
    haul_tensor *y = haul__failed(l->h) ? NULL : haul_stack(all, (int)l->steps, 0);
    haul__free(all);
    return y;
}

/* The activations of a direction are the default ones, or relu of an RNN. */
static bool knows_activations(const haul__onnx_attribute *a, int gates, int direction, bool *relu)
{
    static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
    const int                each = gates == 4 ? 3 : gates == 3 ? 2 : 1;
    *relu = false;
    for (int i = 0; a && i < each; i++) {
        const size_t at = (size_t)(direction * each + i);
        const char  *name = at < a->text_count ? a->texts[at] : NULL;
        if (each == 1 && name && !strcmp(name, "Relu"))
            *relu = true;
        else if (!name || strcmp(name, usual[each == 1 ? 1 : i]) != 0)
            return false;
    }
    return true;
}

static haul_status check(haul__onnx_call *c, int gates, int directions, bool batch_first)
{
    static const char *const refused[] = {"activation_alpha", "activation_beta", "clip", "input_forget"};
    const haul_shape         x = haul__onnx_shape(c, INPUT), w = haul__onnx_shape(c, WEIGHT);
    const haul_shape         lengths = haul__onnx_shape(c, LENGTHS);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const haul__onnx_attribute *a = haul__onnx_attribute_of(c->step->node, refused[i]);
        if (a && (i < 3 || a->i))
            return haul__onnx_refuse(c, refused[i]), haul_error_status();
    }
    if (x.ndim != 3 || w.ndim != 3 || w.dims[0] != directions || w.dims[1] < gates || x.dims[batch_first] < 1 ||
        x.dims[batch_first] > INT32_MAX ||
        (haul__onnx_has(c, LENGTHS) && (lengths.ndim != 1 || lengths.dims[0] != x.dims[!batch_first])))
        return haul__onnx_wrong(c, "the input, the weight or the lengths have a wrong shape"), haul_error_status();
    return HAUL_OK;
}

/* Results are [steps, directions, batch, hidden] and [directions, batch, hidden]; with the attribute layout the batch
 * is first, and the directions are before the last axis. */
static haul_tensor *recurrent(haul__onnx_call *c, int gates, step_function *step)
{
    const char      *direction = haul__onnx_string(c, "direction", "forward");
    const bool       batch_first = haul__onnx_int(c, "layout", 0) != 0;
    const haul_shape x = haul__onnx_shape(c, INPUT), w = haul__onnx_shape(c, WEIGHT);
    haul_tensor     *y[2], *h[2], *cell[2];
    const int        count = !strcmp(direction, "bidirectional") ? 2 : 1;
    if (check(c, gates, count, batch_first))
        return NULL;
    for (int d = 0; d < count; d++) {
        layer l = {.steps = x.dims[batch_first],
                   .batch = x.dims[!batch_first],
                   .hidden = w.dims[1] / gates,
                   .backwards = d == 1 || !strcmp(direction, "reverse"),
                   .reset_last = haul__onnx_int(c, "linear_before_reset", 0) != 0};
        if (!knows_activations(haul__onnx_attribute_of(c->step->node, "activations"), gates, d, &l.relu))
            return haul__onnx_refuse(c, "activations");
        if (prepare(c, &l, gates, d, batch_first))
            return NULL;
        y[d] = run(&l, step);
        h[d] = l.h;
        cell[d] = l.cell;
    }
    c->y[1] = haul_stack(h, count, batch_first);
    if (gates == 4)
        c->y[2] = haul_stack(cell, count, batch_first);
    haul_tensor *all = haul_stack(y, count, batch_first ? 2 : 1);
    return batch_first ? haul_transpose(all, 0, 1) : all;
}

haul_tensor *haul__onnx_lstm(haul__onnx_call *c)
{
    return recurrent(c, 4, lstm_step);
}

haul_tensor *haul__onnx_gru(haul__onnx_call *c)
{
    return recurrent(c, 3, gru_step);
}

haul_tensor *haul__onnx_rnn(haul__onnx_call *c)
{
    return recurrent(c, 1, rnn_step);
}
