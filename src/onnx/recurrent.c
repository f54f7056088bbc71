/* LSTM and GRU: a linear map of all steps at once, then step by step. The gates of an LSTM are in the order input,
 * output, forget, cell; those of a GRU update, reset, hidden. */
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
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
    bool         backwards, reset_last; /* reset_last: a GRU's reset gate multiplies after the product */
} layer;

typedef void step_function(layer *l, haul_tensor *gates);

static haul_tensor *gate(const layer *l, haul_tensor *gates, int k)
{
    return haul_slice(gates, 1, k * l->hidden, (k + 1) * l->hidden, 1);
}

static void lstm_step(layer *l, haul_tensor *gates)
{
    haul_tensor *g = haul_add(gates, haul_linear(l->h, l->recurrent, .bias = l->bias));
    haul_tensor *input = haul_sigmoid(gate(l, g, 0)), *output = haul_sigmoid(gate(l, g, 1));
    haul_tensor *forget = haul_sigmoid(gate(l, g, 2)), *cell = haul_tanh(gate(l, g, 3));
    l->cell = haul_add(haul_mul(forget, l->cell), haul_mul(input, cell));
    l->h = haul_mul(output, haul_tanh(l->cell));
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

static haul_status prepare(haul__onnx_call *c, layer *l, int gates, int64_t direction)
{
    haul_tensor *weight = part_of(c, WEIGHT, direction, NULL), *bias = part_of(c, BIAS, direction, NULL);
    haul_tensor *zeros = haul_zeros(haul__onnx_type(c, INPUT), HAUL_SHAPE(l->batch, l->hidden));
    l->recurrent = part_of(c, RECURRENT, direction, NULL);
    l->bias = bias ? haul_slice(bias, 0, gates * l->hidden, 2 * gates * l->hidden, 1) : NULL;
    l->gates = haul_linear(X(INPUT), weight, .bias = bias ? haul_slice(bias, 0, 0, gates * l->hidden, 1) : NULL);
    l->h = part_of(c, FIRST_HIDDEN, direction, zeros);
    l->cell = gates == 4 ? part_of(c, FIRST_CELL, direction, zeros) : zeros;
    return haul__failed(l->gates) || haul__failed(l->recurrent) || haul__failed(l->h) || haul__failed(l->cell)
               ? haul_error_status()
               : HAUL_OK;
}

/* All results of a direction, [steps, batch, hidden]. */
static haul_tensor *run(layer *l, step_function *step)
{
    haul_tensor **all = haul__calloc((size_t)l->steps + 1, sizeof(haul_tensor *));
    if (!all)
        return haul__fail_memory(HAUL__ONNX_CALL, (size_t)l->steps * sizeof *all), NULL;
    for (int64_t i = 0; i < l->steps && !haul__failed(l->h); i++) {
        const int64_t at = l->backwards ? l->steps - 1 - i : i;
        step(l, haul_select(l->gates, 0, at));
        all[at] = l->h;
    }
    haul_tensor *y = haul__failed(l->h) ? NULL : haul_stack(all, (int)l->steps, 0);
    haul__free(all);
    return y;
}

static haul_tensor *recurrent(haul__onnx_call *c, int gates, step_function *step)
{
    static const char *const refused[] = {"activations", "activation_alpha", "clip", "input_forget", "layout"};
    const char              *direction = haul__onnx_string(c, "direction", "forward");
    const haul_shape         x = haul__onnx_shape(c, INPUT), w = haul__onnx_shape(c, WEIGHT);
    haul_tensor             *y[2], *h[2], *cell[2];
    const int                count = !strcmp(direction, "bidirectional") ? 2 : 1;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const haul__onnx_attribute *a = haul__onnx_attribute_of(c->step->node, refused[i]);
        if (a && (i < 3 || a->i))
            return haul__onnx_refuse(c, refused[i]);
    }
    if (haul__onnx_has(c, LENGTHS) || haul__onnx_has(c, PEEPHOLES))
        return haul__onnx_refuse(c, "sequence_lens or peepholes");
    if (x.ndim != 3 || w.ndim != 3 || w.dims[0] != count || w.dims[1] < gates || x.dims[0] < 1 || x.dims[0] > INT32_MAX)
        return haul__onnx_wrong(c, "the input or the weight has a wrong shape");
    for (int d = 0; d < count; d++) {
        layer l = {.steps = x.dims[0],
                   .batch = x.dims[1],
                   .hidden = w.dims[1] / gates,
                   .backwards = d == 1 || !strcmp(direction, "reverse"),
                   .reset_last = haul__onnx_int(c, "linear_before_reset", 0) != 0};
        if (prepare(c, &l, gates, d))
            return NULL;
        y[d] = run(&l, step);
        h[d] = l.h;
        cell[d] = l.cell;
    }
    c->y[1] = haul_stack(h, count, 0);
    if (gates == 4)
        c->y[2] = haul_stack(cell, count, 0);
    return haul_stack(y, count, 1);
}

haul_tensor *haul__onnx_lstm(haul__onnx_call *c)
{
    return recurrent(c, 4, lstm_step);
}

haul_tensor *haul__onnx_gru(haul__onnx_call *c)
{
    return recurrent(c, 3, gru_step);
}
