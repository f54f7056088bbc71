/* Recurrent layers as operations: all steps of one direction of one layer of an LSTM, a GRU or an RNN. The equations
 * and the order of the gates are those of torch.nn.LSTM, GRU and RNN. */
#ifndef HAUL_OPS_RECURRENT_RECURRENT_H
#define HAUL_OPS_RECURRENT_RECURRENT_H

#include "engine/operation.h"

enum {
    HAUL__RECURRENT_X,
    HAUL__RECURRENT_IH,
    HAUL__RECURRENT_HH,
    HAUL__RECURRENT_BIAS,
    HAUL__RECURRENT_STATE,
    HAUL__RECURRENT_LENGTHS
};

typedef enum haul__recurrent_cell { HAUL__LSTM, HAUL__GRU, HAUL__RNN } haul__recurrent_cell;

/* What the operations of a cell differ in: `extra` of each. */
typedef struct haul__cell_kind {
    haul__recurrent_cell cell;
    int                  gates, states; /* multiples of hidden; tensors */
    int                  kept; /* multiples of hidden that are kept of each step for the gradient, apart from states */
    int                  forward, backward;
} haul__cell_kind;

typedef struct haul__recurrent_attributes {
    bool reverse; /* the first step is the last one of x */
    bool relu;    /* of RNNs: in the place of tanh */
} haul__recurrent_attributes;

/* The operands of a layer. With G = 4 hidden for an LSTM, 3 hidden for a GRU and hidden for an RNN: */
typedef struct haul__recurrent {
    haul_tensor *x;                     /* [T, N, in] */
    haul_tensor *weight_ih, *weight_hh; /* [G, in], [G, hidden] */
    haul_tensor *bias;    /* [G], the sum of both biases; of a GRU [2, G], the input's and the state's; or HAUL_NONE */
    haul_tensor *state;   /* the initial state: [1, N, hidden], of an LSTM [2, N, hidden], h and then c; HAUL_NONE: 0 */
    haul_tensor *lengths; /* integers [N]: a step at or past it keeps the state; or HAUL_NONE */
    haul__recurrent_attributes attributes;
} haul__recurrent;

/* results[0] becomes h [T + 1, N, hidden], and of an LSTM results[1] becomes c: the states between the steps. The
 * initial state is the first entry, and in reverse the last one. */
haul_status haul__recurrent_steps(haul__recurrent_cell cell, const haul__recurrent *r, haul_tensor **results);

/* What the gates get: gradients of their sums, [T, N, G]. `h` is that of the state's part, and differs from `x`, that
 * of the input's, in a GRU alone. `state` is the gradient of the initial state. */
typedef struct haul__recurrent_gradients {
    haul_tensor *x, *h, *state;
} haul__recurrent_gradients;

/* The same as haul_lstm_backward and so on, composed of operations, so that it can be differentiated again. */
haul_status haul__recurrent_compose(const haul__gradient *g, haul__recurrent_cell cell, haul__recurrent_gradients *out);

extern const haul__operation haul__operation_lstm_backward, haul__operation_gru_backward, haul__operation_rnn_backward;

/* The gradients of a layer's operands. */
void haul__recurrent_gradient(haul__gradient *g);

/* The states before (0) or after (1) each step: a part of `states` [T + 1, N, hidden]. */
static inline haul_tensor *haul__recurrent_states(haul_tensor *states, bool reverse, int after)
{
    const int64_t first = reverse ? 1 - after : after;
    return haul_slice(states, 0, first, states->shape.dims[0] - 1 + first, 1);
}

#endif
