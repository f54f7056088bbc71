/* Recurrent layers as nodes: one direction of a layer is an LSTM, a GRU or an RNN of ONNX, which has the gates in
 * another order. ONNX gives the hidden state after each step, and the final states. So the operation's results, which
 * have the initial state, too, are joined of these, and the last entry of each is the final state. */
#include <haul/dtype.h>
#include <string.h>

#include "base/assert.h"
#include "onnx/export/families.h"
#include "ops/recurrent/recurrent.h"

#define NODE HAUL__ONNX_NODE

enum { X = HAUL__RECURRENT_X, IH, HH, BIAS, STATE, LENGTHS, GATES = 4 };

/* PyTorch's gates in ONNX's order. */
typedef struct gate_order {
    int count, at[GATES];
} gate_order;
static const gate_order lstm = {4, {0, 3, 1, 2}}, gru = {3, {1, 0, 2}}, rnn = {1, {0}};

static const gate_order *order_of(const haul__onnx_saving *c)
{
    return !strcmp(c->row->type, "LSTM") ? &lstm : !strcmp(c->row->type, "GRU") ? &gru : &rnn;
}

static int with_axis(haul__onnx_saving *c, int x, int64_t axis)
{
    return NODE(c->g, "Unsqueeze", x, haul__onnx_add_ints(c->g, &axis, 1));
}

static int joined(haul__onnx_saving *c, const int *parts, int count, int64_t axis)
{
    const int y = haul__onnx_add_node(c->g, "Concat", parts, count);
    haul__onnx_set_int(c->g, "axis", axis);
    return y;
}

/* The first of `count` equal parts. */
static int parts_of(haul__onnx_saving *c, int x, int count, int64_t axis)
{
    const int first = haul__onnx_add_nodes(c->g, "Split", &x, 1, count);
    haul__onnx_set_int(c->g, "axis", axis);
    haul__onnx_set_int(c->g, "num_outputs", count);
    return first;
}

static int reordered(haul__onnx_saving *c, int x, int64_t axis)
{
    const gate_order *o = order_of(c);
    int               parts[GATES];
    if (o->count == 1 || x == HAUL__ONNX_ABSENT)
        return x;
    const int first = parts_of(c, x, o->count, axis);
    for (int i = 0; i < o->count; i++)
        parts[i] = first == HAUL__ONNX_ABSENT ? first : first + o->at[i];
    return joined(c, parts, o->count, axis);
}

/* [1, 2 G]: the input's bias, then the state's, which is 0 where the operation takes their sum. */
static int bias_of(haul__onnx_saving *c)
{
    const int64_t rows = c->in[HH].shape.dims[0], all[] = {1, 2 * rows};
    if (c->x[BIAS] == HAUL__ONNX_ABSENT)
        return HAUL__ONNX_ABSENT;
    if (order_of(c) == &gru)
        return NODE(c->g, "Reshape", reordered(c, c->x[BIAS], 1), haul__onnx_add_ints(c->g, all, 2));
    const int zeros = haul__onnx_add_repeated(c->g, c->in[BIAS].dtype, 0, rows);
    return with_axis(c, joined(c, (const int[]){reordered(c, c->x[BIAS], 0), zeros}, 2, 0), 0);
}

/* Zeros [1, N, hidden]. */
static int no_state(haul__onnx_saving *c)
{
    haul_shape shape = c->out[0].shape, other = c->other_out[0].shape;
    shape.dims[0] = other.dims[0] = 1;
    const int sizes = haul__onnx_sizes(c, &shape, &other, false);
    if (c->why)
        return HAUL__ONNX_ABSENT;
    const int y = NODE(c->g, "ConstantOfShape", sizes);
    haul__onnx_set_number(c->g, "value", c->out[0].dtype, 0);
    return y;
}

/* Entry `at` of a result is the value [1, N, hidden]. */
static void also(haul__onnx_saving *c, int result, int64_t at, int value)
{
    const int64_t       axis = 0;
    haul_program_value *v = &c->parts[result];
    const int           y = NODE(c->g, "Squeeze", value, haul__onnx_add_ints(c->g, &axis, 1));
    *v = c->out[result];
    v->offset += at * v->strides[0];
    v->shape = HAUL_SHAPE(v->shape.dims[1], v->shape.dims[2]);
    memmove(v->strides, v->strides + 1, 2 * sizeof *v->strides);
    c->part_values[result] = y;
}

/* Steps past the end of a sequence keep the state, where ONNX has zeros. */
static int with_kept_states(haul__onnx_saving *c, int after, int state)
{
    haul__onnx_saved *g = c->g;
    const int         count = haul__onnx_add_int(g, c->in[X].shape.dims[0]);
    const int         steps = NODE(g, "Range", haul__onnx_add_int(g, 0), count, haul__onnx_add_int(g, 1));
    const int         past = NODE(g, "GreaterOrEqual", with_axis(c, steps, 1), c->x[LENGTHS]);
    return NODE(g, "Where", with_axis(c, past, 2), state, after);
}

int haul__onnx_save_recurrent(haul__onnx_saving *c)
{
    const haul__recurrent_attributes *a = c->attributes;
    haul__onnx_saved                 *g = c->g;
    const bool                        is_lstm = order_of(c) == &lstm;
    const int64_t                     steps = c->in[X].shape.dims[0], axis = 1;
    int                               in[8] = {[0] = c->x[X]};
    HAUL__ASSERT(steps > 0);
    if (steps != c->other_in[X].shape.dims[0])
        return haul__onnx_cannot(c, "the number of steps depends on the batch; save with a fixed batch");
    in[1] = with_axis(c, reordered(c, c->x[IH], 0), 0);
    in[2] = with_axis(c, reordered(c, c->x[HH], 0), 0);
    in[3] = bias_of(c);
    in[4] = c->x[LENGTHS]; /* a model's lengths are from 0 to the steps */
    if (in[4] != HAUL__ONNX_ABSENT) {
        in[4] = NODE(g, "Clip", in[4], haul__onnx_add_int(g, 0), haul__onnx_add_int(g, steps));
        in[4] = haul__onnx_add_cast(g, in[4], HAUL_I32);
    }
    in[5] = c->x[STATE];
    in[6] = HAUL__ONNX_ABSENT;
    if (is_lstm && in[5] != HAUL__ONNX_ABSENT) {
        in[5] = parts_of(c, c->x[STATE], 2, 0);
        in[6] = in[5] == HAUL__ONNX_ABSENT ? in[5] : in[5] + 1;
    }
    const int y = haul__onnx_add_nodes(g, c->row->type, in, 7, is_lstm ? 3 : 2);
    haul__onnx_set_int(g, "hidden_size", c->in[HH].shape.dims[1]);
    haul__onnx_set_text(g, "direction", a->reverse ? "reverse" : "forward");
    if (order_of(c) == &gru)
        haul__onnx_set_int(g, "linear_before_reset", 1);
    if (a->relu)
        haul__onnx_set_texts(g, "activations", (const char *const[]){"Relu"}, 1);
    const int first = in[5] == HAUL__ONNX_ABSENT ? no_state(c) : in[5];
    int       after = NODE(g, "Squeeze", y, haul__onnx_add_ints(g, &axis, 1));
    if (y == HAUL__ONNX_ABSENT || c->why)
        return HAUL__ONNX_ABSENT;
    if (c->x[LENGTHS] != HAUL__ONNX_ABSENT)
        after = with_kept_states(c, after, a->reverse ? first : y + 1);
    for (int i = 0; i < 1 + is_lstm; i++)
        also(c, i, a->reverse ? 0 : steps, y + 1 + i);
    return joined(c, a->reverse ? (const int[]){after, first} : (const int[]){first, after}, 2, 0);
}
