/* Recurrent layers and cells: LSTM, GRU and RNN. Equations, parameter names and the order of gates are those of
 * torch.nn.LSTM, GRU and RNN.
 *
 * Each direction of each layer is one operation (ops/recurrent), with time as the first axis; a cell is that operation
 * with one step. With lengths a step that is past the end of a sequence keeps its state, in both directions, and its
 * output is 0. */
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "nn/module.h"
#include "ops/recurrent/recurrent.h"

typedef struct recurrent {
    haul__recurrent_cell cell;
    int64_t              in, hidden;
    int                  gates, states, layers, directions;
    bool                 has_bias, relu;
    double               dropout;
} recurrent;

enum { MAX_STATES = 2 };

/* ---- a layer, in one direction ---- */

static const char *parameter_name(char name[40], const char *what, int layer, bool backward)
{
    snprintf(name, 40, "%s_l%d%s", what, layer, backward ? "_reverse" : "");
    return name;
}

static haul_tensor *parameter(haul_module *m, const char *what, int layer, bool backward)
{
    char name[40];
    return haul_module_parameter(m, parameter_name(name, what, layer, backward));
}

/* The bias that the operation takes. */
static haul_tensor *bias_of(const recurrent *r, haul_tensor *ih, haul_tensor *hh)
{
    if (!r->has_bias)
        return HAUL_NONE;
    return r->cell == HAUL__GRU ? haul_stack((haul_tensor *[]){ih, hh}, 2, 0) : haul_add(ih, hh);
}

/* The initial state that the operation takes, from those of the call [..., N, hidden], of which it is entry `row` if
 * they have three dimensions. x is [T, N, in]. */
static haul_tensor *state_of(const recurrent *r, haul_tensor *const *given, haul_tensor *x, int row)
{
    haul_tensor *states[MAX_STATES];
    bool         any = false;
    HAUL__ASSERT(r->states > 0 && r->states <= MAX_STATES);
    for (int i = 0; i < r->states; i++)
        any = any || !haul__is_none(given[i]);
    if (!any)
        return HAUL_NONE;
    for (int i = 0; i < r->states; i++) {
        states[i] = given[i];
        if (haul__is_none(given[i])) /* on the device and with the dtype of x, even if that is not the current device */
            states[i] = haul_to(haul_zeros(x->dtype, HAUL_SHAPE(x->shape.dims[1], r->hidden)), x->storage->device);
        else if (given[i]->shape.ndim == 3)
            states[i] = haul_select(given[i], 0, row);
        if (haul__failed(states[i]))
            return states[i];
    }
    return haul_stack(states, r->states, 0);
}

/* Zeros in place of the outputs y [T, N, hidden] that are past the end of their sequence. */
static haul_tensor *without_padding(haul_tensor *y, haul_tensor *lengths)
{
    if (haul__is_none(lengths) || haul__failed(y))
        return y;
    haul_tensor *steps = haul_to(haul_arange_i64(0, y->shape.dims[0], 1), y->storage->device);
    haul_tensor *past = haul_ge(haul_unsqueeze(steps, 1), lengths);
    return haul_masked_fill(y, haul_unsqueeze(past, 2), 0);
}

/* Outputs [T, N, hidden] of x [T, N, in]; `last` gets the final states. */
static haul_tensor *run_steps(haul_module *m, haul_tensor *x, int layer, bool backward, const haul_args *args,
                              haul_tensor **last)
{
    const recurrent *r = haul_module_state(m);
    haul_tensor     *lengths = args->x[1 + r->states], *states[MAX_STATES];
    haul__recurrent  call = {
         .x = x,
         .weight_ih = parameter(m, "weight_ih", layer, backward),
         .weight_hh = parameter(m, "weight_hh", layer, backward),
         .bias = HAUL_NONE,
         .state = state_of(r, args->x + 1, x, layer * r->directions + backward),
         .lengths = lengths,
         .attributes = {.reverse = backward, .relu = r->relu},
    };
    HAUL__ASSERT(layer < r->layers && (!backward || r->directions == 2));
    if (r->has_bias)
        call.bias = bias_of(r, parameter(m, "bias_ih", layer, backward), parameter(m, "bias_hh", layer, backward));
    if (haul__recurrent_steps(r->cell, &call, states))
        return haul__failed_tensor();
    const int64_t end = backward ? 0 : x->shape.dims[0];
    for (int i = 0; i < r->states; i++)
        last[i] = haul_select(states[i], 0, end);
    return without_padding(haul__recurrent_states(states[0], backward, 1), lengths);
}

/* ---- all layers ---- */

static haul_status check_input(const recurrent *r, haul_module *m, const haul_args *args)
{
    static const char *const names[] = {"h", "c"};
    char                     text[160];
    const haul_tensor       *x = args->x[0];
    const char              *kind = haul_module_kind(m);
    HAUL__ASSERT(r->in > 0 && r->hidden > 0 && r->layers > 0);
    if (haul__is_none(x) || x->shape.ndim != 3 || x->shape.dims[2] != r->in)
        return haul__fail(HAUL_SHAPE, kind, "x", "x is %s; [N, T, %lld] is expected",
                          haul__is_none(x) ? "HAUL_NONE" : haul__tensor_text(x, text, sizeof text), (long long)r->in);
    if (x->shape.dims[1] < 1 || x->shape.dims[1] > INT32_MAX)
        return haul__fail(HAUL_SHAPE, kind, "x", "x is %s; at least one step is expected",
                          haul__tensor_text(x, text, sizeof text));
    haul_shape wanted = HAUL_SHAPE((int64_t)r->layers * r->directions, x->shape.dims[0], r->hidden);
    for (int i = 0; i < r->states; i++) {
        const haul_tensor *s = args->x[1 + i];
        if (!haul__is_none(s) && !haul__shape_equal(&s->shape, &wanted))
            return haul__fail(HAUL_SHAPE, kind, names[i], "%s is %s; [%d, %lld, %lld] is expected", names[i],
                              haul__tensor_text(s, text, sizeof text), r->layers * r->directions,
                              (long long)wanted.dims[1], (long long)r->hidden);
    }
    const haul_tensor *lengths = args->x[1 + r->states];
    if (!haul__is_none(lengths) && (lengths->shape.ndim != 1 || lengths->shape.dims[0] != x->shape.dims[0] ||
                                    haul_dtype_is_float(lengths->dtype) || lengths->dtype == HAUL_BOOL))
        return haul__fail(HAUL_SHAPE, kind, "lengths", "lengths is %s; integers of shape [%lld] are expected",
                          haul__tensor_text(lengths, text, sizeof text), (long long)x->shape.dims[0]);
    return HAUL_OK;
}

/* One layer in all directions; appends the final states to `last`. */
static haul_tensor *run_layer(haul_module *m, haul_tensor *x, int layer, const haul_args *args,
                              haul_tensor **last[MAX_STATES])
{
    const recurrent *r = haul_module_state(m);
    haul_tensor     *outputs[2], *states[MAX_STATES];
    HAUL__ASSERT(r->directions == 1 || r->directions == 2);
    for (int d = 0; d < r->directions; d++) {
        outputs[d] = run_steps(m, x, layer, d == 1, args, states);
        if (haul__failed(outputs[d]))
            return outputs[d];
        for (int i = 0; i < r->states; i++)
            last[i][layer * r->directions + d] = states[i];
    }
    return r->directions == 1 ? outputs[0] : haul_cat(outputs, 2, 2);
}

static haul_tensor *run_layers(haul_module *m, haul_args *args, haul_tensor **last[MAX_STATES])
{
    const recurrent *r = haul_module_state(m);
    haul_tensor     *y = haul_transpose(args->x[0], 0, 1);
    for (int layer = 0; layer < r->layers; layer++) {
        if (layer && args->training && r->dropout > 0)
            y = haul_dropout(y, r->dropout, true);
        if (!haul__failed(y))
            y = run_layer(m, y, layer, args, last);
        if (haul__failed(y))
            return y;
    }
    for (int i = 0; i < r->states; i++)
        args->y[1 + i] = haul_stack(last[i], r->layers * r->directions, 0);
    HAUL__ASSERT(y->shape.ndim == 3);
    return haul_contiguous(haul_transpose(y, 0, 1));
}

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const recurrent *r = haul_module_state(m);
    size_t           rows = (size_t)r->layers * (size_t)r->directions;
    HAUL__ASSERT(rows > 0);
    if (check_input(r, m, args))
        return haul__failed_tensor();
    haul_tensor **room = haul__calloc(MAX_STATES * rows, sizeof *room);
    if (!room)
        haul__fail_memory(haul_module_kind(m), MAX_STATES * rows * sizeof *room);
    haul_tensor **last[MAX_STATES] = {room, room ? room + rows : NULL};
    haul_tensor  *y = room ? run_layers(m, args, last) : haul__failed_tensor();
    haul__free(room);
    return y;
}

/* ---- cells: one step ---- */

static haul_status check_cell(const recurrent *r, haul_module *m, const haul_args *args)
{
    static const char *const names[] = {"h", "c"};
    char                     text[160];
    const haul_tensor       *x = args->x[0];
    const char              *kind = haul_module_kind(m);
    HAUL__ASSERT(r->in > 0 && r->hidden > 0 && r->states <= MAX_STATES);
    if (haul__is_none(x) || x->shape.ndim != 2 || x->shape.dims[1] != r->in)
        return haul__fail(HAUL_SHAPE, kind, "x", "x is %s; [N, %lld] is expected",
                          haul__is_none(x) ? "HAUL_NONE" : haul__tensor_text(x, text, sizeof text), (long long)r->in);
    haul_shape wanted = HAUL_SHAPE(x->shape.dims[0], r->hidden);
    for (int i = 0; i < r->states; i++) {
        const haul_tensor *s = args->x[1 + i];
        if (!haul__is_none(s) && !haul__shape_equal(&s->shape, &wanted))
            return haul__fail(HAUL_SHAPE, kind, names[i], "%s is %s; [%lld, %lld] is expected", names[i],
                              haul__tensor_text(s, text, sizeof text), (long long)wanted.dims[0], (long long)r->hidden);
    }
    return HAUL_OK;
}

static haul_tensor *forward_cell(haul_module *m, haul_args *args)
{
    const recurrent *r = haul_module_state(m);
    haul_tensor     *states[MAX_STATES];
    if (check_cell(r, m, args))
        return haul__failed_tensor();
    haul__recurrent call = {
        .x = haul_unsqueeze(args->x[0], 0),
        .weight_ih = haul_module_parameter(m, "weight_ih"),
        .weight_hh = haul_module_parameter(m, "weight_hh"),
        .bias = HAUL_NONE,
        .state = HAUL_NONE,
        .lengths = HAUL_NONE,
        .attributes = {.relu = r->relu},
    };
    if (r->has_bias)
        call.bias = bias_of(r, haul_module_parameter(m, "bias_ih"), haul_module_parameter(m, "bias_hh"));
    if (!haul__failed(call.x))
        call.state = state_of(r, args->x + 1, call.x, 0);
    if (haul__recurrent_steps(r->cell, &call, states))
        return haul__failed_tensor();
    HAUL__ASSERT(r->states == 1 || r->states == 2);
    if (r->states > 1)
        args->y[1] = haul_select(states[1], 0, 1);
    return haul_select(states[0], 0, 1);
}

/* ---- making ---- */

static haul_status check_relu(bool relu, const recurrent *settings, const char *operation)
{
    if (!relu || settings->cell == HAUL__RNN)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "relu",
                      "relu is set, but only haul_nn_rnn and haul_nn_rnn_cell have it");
}

static haul_status add_parameters(haul_module *m, const recurrent *r)
{
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    char                     name[40];
    int64_t                  rows = r->gates * r->hidden;
    HAUL__ASSERT(r->gates > 0 && r->hidden > 0);
    for (int layer = 0; layer < r->layers; layer++)
        for (int d = 0; d < r->directions; d++) {
            int64_t    in = layer ? r->hidden * r->directions : r->in;
            haul_shape shapes[] = {HAUL_SHAPE(rows, in), HAUL_SHAPE(rows, r->hidden), HAUL_SHAPE(rows),
                                   HAUL_SHAPE(rows)};
            for (int i = 0; i < (r->has_bias ? 4 : 2); i++) {
                parameter_name(name, names[i], layer, d == 1);
                if (haul__module_draw_parameter(m, name, shapes[i], r->hidden))
                    return haul_error_status();
            }
        }
    return HAUL_OK;
}

static haul_module *new_recurrent(const haul_module_options *module, const char *kind, const char *operation,
                                  recurrent settings, const haul_nn_recurrent_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int layers = options->layers ? options->layers : 1;
    if (haul__module_size(settings.in, operation, "in_features") ||
        haul__module_size(options->hidden, operation, "hidden") || haul__module_size(layers, operation, "layers") ||
        haul__module_probability(options->dropout, operation, "dropout") ||
        check_relu(options->relu, &settings, operation))
        return NULL;
    if (options->hidden > INT32_MAX || layers > 1 << 20) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "hidden", "%lld features in %d layers are too many",
                   (long long)options->hidden, layers);
        return NULL;
    }
    haul_module *m = haul__module_make(kind, module, operation);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    settings.hidden = options->hidden;
    settings.layers = layers;
    settings.directions = options->bidirectional ? 2 : 1;
    settings.has_bias = !options->no_bias;
    settings.relu = options->relu;
    settings.dropout = options->dropout;
    HAUL__ASSERT(settings.states > 0 && settings.states <= MAX_STATES && settings.gates > 0);
    *(recurrent *)haul_module_state(m) = settings;
    return haul__module_built(m, scope, add_parameters(m, &settings), operation);
}

haul_module *haul_nn_lstm_with(int64_t in_features, const haul_nn_recurrent_options *options)
{
    const haul_module_options module = {
        .forward = forward, .inputs = "x, h?, c?, lengths?", .results = "y, h, c", .state_bytes = sizeof(recurrent)};
    const recurrent settings = {.cell = HAUL__LSTM, .in = in_features, .gates = 4, .states = 2};
    return new_recurrent(&module, "lstm", "haul_nn_lstm", settings, options);
}

haul_module *haul_nn_gru_with(int64_t in_features, const haul_nn_recurrent_options *options)
{
    const haul_module_options module = {
        .forward = forward, .inputs = "x, h?, lengths?", .results = "y, h", .state_bytes = sizeof(recurrent)};
    const recurrent settings = {.cell = HAUL__GRU, .in = in_features, .gates = 3, .states = 1};
    return new_recurrent(&module, "gru", "haul_nn_gru", settings, options);
}

haul_module *haul_nn_rnn_with(int64_t in_features, const haul_nn_recurrent_options *options)
{
    const haul_module_options module = {
        .forward = forward, .inputs = "x, h?, lengths?", .results = "y, h", .state_bytes = sizeof(recurrent)};
    const recurrent settings = {.cell = HAUL__RNN, .in = in_features, .gates = 1, .states = 1};
    return new_recurrent(&module, "rnn", "haul_nn_rnn", settings, options);
}

static haul_status add_cell_parameters(haul_module *m, const recurrent *r)
{
    int64_t rows = r->gates * r->hidden;
    if (haul__module_draw_parameter(m, "weight_ih", HAUL_SHAPE(rows, r->in), r->hidden) ||
        haul__module_draw_parameter(m, "weight_hh", HAUL_SHAPE(rows, r->hidden), r->hidden) ||
        (r->has_bias && (haul__module_draw_parameter(m, "bias_ih", HAUL_SHAPE(rows), r->hidden) ||
                         haul__module_draw_parameter(m, "bias_hh", HAUL_SHAPE(rows), r->hidden))))
        return haul_error_status();
    return HAUL_OK;
}

static haul_module *new_cell(const haul_module_options *module, const char *kind, const char *operation,
                             recurrent settings, const haul_nn_cell_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__module_size(settings.in, operation, "in_features") ||
        haul__module_size(options->hidden, operation, "hidden") || check_relu(options->relu, &settings, operation))
        return NULL;
    if (options->hidden > INT32_MAX) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "hidden", "hidden is %lld; less than 2^31 is expected",
                   (long long)options->hidden);
        return NULL;
    }
    haul_module *m = haul__module_make(kind, module, operation);
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    settings.hidden = options->hidden;
    settings.has_bias = !options->no_bias;
    settings.relu = options->relu;
    HAUL__ASSERT(settings.states > 0 && settings.states <= MAX_STATES && settings.gates > 0);
    *(recurrent *)haul_module_state(m) = settings;
    return haul__module_built(m, scope, add_cell_parameters(m, &settings), operation);
}

haul_module *haul_nn_lstm_cell_with(int64_t in_features, const haul_nn_cell_options *options)
{
    const haul_module_options module = {
        .forward = forward_cell, .inputs = "x, h?, c?", .results = "h, c", .state_bytes = sizeof(recurrent)};
    const recurrent settings = {.cell = HAUL__LSTM, .in = in_features, .gates = 4, .states = 2};
    return new_cell(&module, "lstm_cell", "haul_nn_lstm_cell", settings, options);
}

haul_module *haul_nn_gru_cell_with(int64_t in_features, const haul_nn_cell_options *options)
{
    const haul_module_options module = {
        .forward = forward_cell, .inputs = "x, h?", .results = "h", .state_bytes = sizeof(recurrent)};
    const recurrent settings = {.cell = HAUL__GRU, .in = in_features, .gates = 3, .states = 1};
    return new_cell(&module, "gru_cell", "haul_nn_gru_cell", settings, options);
}

haul_module *haul_nn_rnn_cell_with(int64_t in_features, const haul_nn_cell_options *options)
{
    const haul_module_options module = {
        .forward = forward_cell, .inputs = "x, h?", .results = "h", .state_bytes = sizeof(recurrent)};
    const recurrent settings = {.cell = HAUL__RNN, .in = in_features, .gates = 1, .states = 1};
    return new_cell(&module, "rnn_cell", "haul_nn_rnn_cell", settings, options);
}
