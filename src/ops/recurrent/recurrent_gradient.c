/* The gradients of a recurrent layer's operands: those of the gates' sums, by the backward pass over the steps, and one
 * product of all steps for each weight. */
#include "base/assert.h"
#include "ops/recurrent/recurrent.h"

enum { X = HAUL__RECURRENT_X, IH, HH, BIAS, STATE, LENGTHS };

/* [T, N, k] as [T N, k] */
static haul_tensor *rows_of(haul_tensor *t)
{
    return haul__failed(t)
               ? t
               : haul_reshape(t, HAUL_SHAPE(t->shape.dims[0] * t->shape.dims[1], t->shape.dims[2])); /* it has them */
}

static haul_tensor *weight_gradient(haul_tensor *d, haul_tensor *in)
{
    return haul_matmul(haul_transpose(rows_of(d), 0, 1), rows_of(in));
}

static haul_tensor *bias_gradient(const haul__cell_kind *kind, const haul__recurrent_gradients *d)
{
    haul_tensor *sums[] = {haul_sum(rows_of(d->x), HAUL_AXES(0)), NULL};
    if (kind->cell != HAUL__GRU)
        return sums[0];
    sums[1] = haul_sum(rows_of(d->h), HAUL_AXES(0));
    return haul_stack(sums, 2, 0);
}

static haul_status apply_backward(const haul__gradient *g, const haul__cell_kind *kind, haul__recurrent_gradients *out)
{
    static const haul__operation *const operations[] = {
        [HAUL__LSTM] = &haul__operation_lstm_backward,
        [HAUL__GRU] = &haul__operation_gru_backward,
        [HAUL__RNN] = &haul__operation_rnn_backward,
    };
    HAUL__ASSERT((size_t)kind->cell < sizeof operations / sizeof *operations);
    haul_tensor *made[HAUL__MAX_RESULTS] = {NULL};
    haul_tensor *gc = kind->states > 1 ? g->results[1] : HAUL_NONE;
    haul_tensor *gates = kind->kept ? g->saved_results[kind->states] : HAUL_NONE;
    HAUL__ASSERT(!haul__is_none(g->saved_results[kind->states - 1]));
    if (haul__apply(operations[kind->cell], g->attributes,
                    HAUL__OPERANDS(g->results[0], gc, gates, g->saved_results[kind->states - 1], g->saved[HH],
                                   g->saved[LENGTHS]),
                    made))
        return haul_error_status();
    *out = (haul__recurrent_gradients){made[0], kind->cell == HAUL__GRU ? made[2] : made[0], made[1]};
    return HAUL_OK;
}

void haul__recurrent_gradient(haul__gradient *g)
{
    const haul__cell_kind            *kind = g->operation->extra;
    const haul__recurrent_attributes *a = g->attributes;
    haul__recurrent_gradients         d = {NULL};
    haul_status                       status =
        haul__differentiated(g) ? haul__recurrent_compose(g, kind->cell, &d) : apply_backward(g, kind, &d);
    HAUL__ASSERT(status || (!haul__failed(d.x) && !haul__failed(d.h)));
    if (haul__wanted(g, X))
        g->operands[X] = status ? NULL : haul_matmul(d.x, g->saved[IH]);
    if (haul__wanted(g, IH))
        g->operands[IH] = status ? NULL : weight_gradient(d.x, g->saved[X]);
    if (haul__wanted(g, HH))
        g->operands[HH] =
            status ? NULL : weight_gradient(d.h, haul__recurrent_states(g->saved_results[0], a->reverse, 0));
    if (haul__wanted(g, BIAS))
        g->operands[BIAS] = status ? NULL : bias_gradient(kind, &d);
    if (haul__wanted(g, STATE))
        g->operands[STATE] = status ? NULL : d.state;
}
