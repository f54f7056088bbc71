/* Recurrent layers on every device: one operation for all steps gives what its equations give when they are written as
 * operations, in all floating dtypes, for sizes that fill vectors and threads and for those that do not.
 *
 * ctest: cuda */
#include "ops/recurrent/recurrent.h"
#include "support/failure.h"
#include "support/into.h"

typedef struct sizes {
    int64_t n, steps, in, hidden;
} sizes;

enum { X, WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, INPUTS };

/* ---- the equations ---- */

static haul_tensor *gate(haul_tensor *gates, int i, int64_t hidden)
{
    return haul_slice(gates, 1, i * hidden, (i + 1) * hidden, 1);
}

static void lstm_equations(haul_tensor *x, haul_tensor *h, int64_t n, haul_tensor **states)
{
    haul_tensor *gates = haul_add(x, h);
    haul_tensor *i = haul_sigmoid(gate(gates, 0, n)), *f = haul_sigmoid(gate(gates, 1, n));
    haul_tensor *g = haul_tanh(gate(gates, 2, n)), *o = haul_sigmoid(gate(gates, 3, n));
    states[1] = haul_add(haul_mul(f, states[1]), haul_mul(i, g));
    states[0] = haul_mul(o, haul_tanh(states[1]));
}

static void gru_equations(haul_tensor *x, haul_tensor *h, int64_t n, haul_tensor **states)
{
    haul_tensor *r = haul_sigmoid(haul_add(gate(x, 0, n), gate(h, 0, n)));
    haul_tensor *z = haul_sigmoid(haul_add(gate(x, 1, n), gate(h, 1, n)));
    haul_tensor *new = haul_tanh(haul_add(gate(x, 2, n), haul_mul(r, gate(h, 2, n))));
    states[0] = haul_add(new, haul_mul(z, haul_sub(states[0], new)));
}

static void rnn_equations(haul_tensor *x, haul_tensor *h, int64_t n, haul_tensor **states)
{
    (void)n;
    states[0] = haul_tanh(haul_add(x, h));
}

typedef struct cell_case {
    const char *name;
    haul_module *(*make)(const sizes *s);
    void (*equations)(haul_tensor *x, haul_tensor *h, int64_t n, haul_tensor **states);
} cell_case;

static const cell_case *cell;

/* Outputs [N, T, hidden] of x [N, T, in]. */
static haul_tensor *by_equations(haul_tensor *const *in, const sizes *s)
{
    haul_tensor *outputs[8], *zeros = haul_zeros(haul_tensor_dtype(in[X]), HAUL_SHAPE(s->n, s->hidden));
    haul_tensor *states[] = {haul_to(zeros, haul_tensor_device(in[X])), haul_to(zeros, haul_tensor_device(in[X]))};
    for (int t = 0; t < s->steps; t++) {
        haul_tensor *x = haul_linear(haul_select(in[X], 1, t), in[WEIGHT_IH], .bias = in[BIAS_IH]);
        cell->equations(x, haul_linear(states[0], in[WEIGHT_HH], .bias = in[BIAS_HH]), s->hidden, states);
        outputs[t] = states[0];
    }
    return haul_stack(outputs, (int)s->steps, 1);
}

/* ---- comparison ---- */

static haul_module *lstm(const sizes *s)
{
    return haul_nn_lstm(s->in, s->hidden);
}

static haul_module *gru(const sizes *s)
{
    return haul_nn_gru(s->in, s->hidden);
}

static haul_module *rnn(const sizes *s)
{
    return haul_nn_rnn(s->in, s->hidden);
}

static const cell_case cells[] = {
    {"lstm", lstm, lstm_equations}, {"gru", gru, gru_equations}, {"rnn", rnn, rnn_equations}};

/* The parts of the gradient of a weighted sum of y. */
static void differentiate(haul_tensor *y, haul_tensor *const *in, haul_tensor **gradients)
{
    haul_tensor *seed = sample_tensor(haul_tensor_device(y), haul_tensor_dtype(y), haul_tensor_shape(y), 9, NULL);
    assert_int_equal(haul_grad(y, in, INPUTS, gradients, .seed = seed), HAUL_OK);
}

static void assert_near(haul_tensor *have, haul_tensor *want, double tolerance, const char *what)
{
    assert_valid(have);
    double far = haul_item(haul_max(haul_abs(haul_sub(haul_cast(have, HAUL_F64), want))));
    double large = haul_item(haul_max(haul_abs(want)));
    if (!(far <= tolerance * (1 + large)))
        fail_msg("%s of %s: off by %g of %g", what, cell->name, far, large);
}

static void compare(haul_device *device, haul_dtype dtype, const sizes *s, double tolerance)
{
    static const char *const names[] = {"x", "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
    haul_tensor             *in[INPUTS], *wide[INPUTS], *gradients[INPUTS], *want[INPUTS];
    haul_module             *m = cell->make(s);
    assert_int_equal(haul_module_cast(m, dtype), HAUL_OK);
    assert_int_equal(haul_module_place(m, device), HAUL_OK);
    in[X] = haul_set_requires_grad(
        haul_detach(sample_tensor(device, dtype, HAUL_SHAPE(s->n, s->steps, s->in), 1, NULL)), true);
    for (int i = 1; i < INPUTS; i++)
        in[i] = haul_module_parameter(m, names[i]);
    for (int i = 0; i < INPUTS; i++)
        wide[i] = haul_set_requires_grad(haul_clone(haul_detach(haul_cast(in[i], HAUL_F64))), true);
    haul_tensor *y = haul_call(m, in[X]), *of_equations = by_equations(wide, s);
    assert_near(haul_detach(y), haul_detach(of_equations), tolerance, "result");
    differentiate(y, in, gradients);
    differentiate(of_equations, wide, want);
    for (int i = 0; i < INPUTS; i++)
        assert_near(gradients[i], want[i], 4 * tolerance, names[i]);
}

static void test_recurrent__is_its_equations(void **state)
{
    static const sizes problems[] = {{33, 5, 7, 40}, {1, 4, 3, 65}, {7, 6, 5, 17}, {2, 1, 4, 3}};
    static const struct {
        haul_dtype dtype;
        double     tolerance;
    } dtypes[] = {{HAUL_F64, 1e-12}, {HAUL_F32, 1e-5}, {HAUL_F16, 1e-2}, {HAUL_BF16, 1e-1}};
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    haul_manual_seed(5);
    for (int d = 0; d < count; d++)
        for (int k = 0; k < 3; k++)
            for (int p = 0; p < 4; p++)
                for (int t = 0; t < 4; t++) {
                    haul_scope *scope = haul_scope_push();
                    cell = &cells[k];
                    compare(devices[d], dtypes[t].dtype, &problems[p], dtypes[t].tolerance);
                    haul_scope_pop(scope);
                }
}

/* The result, or a gradient, as bits. */
static haul_tensor *compute(void *context)
{
    const int   *which = context;
    const sizes  s = {40, 6, 24, 70};
    haul_tensor *g[2];
    haul_manual_seed(6);
    haul_module *m = cell->make(&s);
    haul_tensor *in[] = {haul_set_requires_grad(haul_normal(HAUL_F32, HAUL_SHAPE(s.n, s.steps, s.in), 0, 1), true),
                         haul_module_parameter(m, "weight_hh_l0")};
    haul_tensor *y = haul_call(m, in[0]);
    if (haul_grad(haul_sum(haul_square(y)), in, 2, g))
        return NULL;
    return *which == 2 ? haul_detach(y) : g[*which];
}

static void test_recurrent__threads_do_not_change_bits(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++)
        for (int which = 0; which < 3; which++) {
            cell = &cells[k];
            assert_same_for_threads(compute, &which);
        }
}

static void test_recurrent__an_empty_batch_has_an_empty_result(void **state)
{
    haul_scope *scope = haul_scope_push();
    const sizes s = {0, 3, 4, 5};
    (void)state;
    for (int k = 0; k < 3; k++) {
        haul_module *m = cells[k].make(&s);
        haul_tensor *weight = haul_module_parameter(m, "weight_hh_l0"), *g;
        haul_tensor *y = haul_call(m, haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3, 4)));
        assert_valid(y);
        assert_int_equal(haul_tensor_count(y), 0);
        assert_int_equal(haul_tensor_dim(y, 2), 5);
        assert_int_equal(haul_grad(haul_sum(y), &weight, 1, &g), HAUL_OK);
        assert_true(haul_item(haul_max(haul_abs(g))) == 0);
    }
    haul_scope_pop(scope);
}

/* The second half of a tensor whose second half are the elements of t. */
static haul_tensor *as_part(haul_tensor *t)
{
    const int64_t n = haul_tensor_dim(t, 0);
    return haul_slice(haul_cat(HAUL_TENSORS(haul_ones_like(t), t), 0), 0, n, 2 * n, 1);
}

/* The states of a GRU and the gradient of its weight, in whose backward pass the gradient of the states is a part of
 * another tensor. */
static haul_tensor *gru_of(const haul__recurrent *r)
{
    haul_tensor *h, *g;
    assert_int_equal(haul__recurrent_steps(HAUL__GRU, r, &h), HAUL_OK);
    haul_tensor *both = haul_cat(HAUL_TENSORS(haul_zeros_like(haul_detach(h)), h), 0);
    assert_int_equal(haul_grad(haul_sum(haul_square(both)), &(haul_tensor *){r->weight_ih}, 1, &g), HAUL_OK);
    return haul_cat(HAUL_TENSORS(haul_reshape(haul_detach(h), HAUL_SHAPE(-1)), haul_reshape(g, HAUL_SHAPE(-1))), 0);
}

static void takes_parts(haul_device *device)
{
    const haul_shape shapes[] = {HAUL_SHAPE(3, 2, 4), HAUL_SHAPE(15, 4), HAUL_SHAPE(15, 5), HAUL_SHAPE(2, 15),
                                 HAUL_SHAPE(1, 2, 5)};
    haul_tensor     *t[5];
    for (int i = 0; i < 5; i++)
        t[i] = sample_tensor(device, HAUL_F32, shapes[i], (unsigned)i + 1, NULL);
    haul__recurrent r = {t[0], haul_set_requires_grad(t[1], true), t[2], t[3], t[4], HAUL_NONE, {.reverse = false}};
    haul_tensor    *want = gru_of(&r);
    r.x = as_part(t[0]);
    r.weight_hh = as_part(t[2]);
    r.bias = as_part(t[3]);
    r.state = as_part(t[4]);
    assert_equal_bits(gru_of(&r), want, "parts of tensors");
}

static void test_recurrent__operands_may_be_parts_of_tensors(void **state)
{
    (void)state;
    on_devices(takes_parts);
}

static haul_tensor *f32(haul_shape shape)
{
    return haul_zeros(HAUL_F32, shape);
}

static void test_recurrent__operations_name_the_operand(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    const haul__recurrent right = {
        .x = f32(HAUL_SHAPE(2, 3, 4)),
        .weight_ih = f32(HAUL_SHAPE(20, 4)),
        .weight_hh = f32(HAUL_SHAPE(20, 5)),
        .bias = f32(HAUL_SHAPE(20)),
        .state = f32(HAUL_SHAPE(2, 3, 5)),
        .lengths = haul_zeros(HAUL_I32, HAUL_SHAPE(3)),
    };
    const struct {
        size_t       at;
        haul_tensor *wrong;
        const char  *message;
    } cases[] = {
        {offsetof(haul__recurrent, x), f32(HAUL_SHAPE(2, 4)), "it must be [T, N, in], with at least one step"},
        {offsetof(haul__recurrent, x), f32(HAUL_SHAPE(0, 3, 4)), "it must be [T, N, in], with at least one step"},
        {offsetof(haul__recurrent, weight_ih), f32(HAUL_SHAPE(20, 3)), "it must have the rows of weight_hh"},
        {offsetof(haul__recurrent, weight_hh), f32(HAUL_SHAPE(20, 4)), "it must be [gates hidden, hidden]"},
        {offsetof(haul__recurrent, bias), f32(HAUL_SHAPE(5)), "it must have an element for each row of weight_hh"},
        {offsetof(haul__recurrent, state), f32(HAUL_SHAPE(1, 3, 5)), "it must be [states, N, hidden]"},
        {offsetof(haul__recurrent, lengths), haul_zeros(HAUL_I32, HAUL_SHAPE(2)), "it must be [N]"},
    };
    haul_tensor *states[2];
    assert_int_equal(haul__recurrent_steps(HAUL__LSTM, &right, states), HAUL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul__recurrent r = right;
        memcpy((char *)&r + cases[i].at, &cases[i].wrong, sizeof cases[i].wrong);
        assert_int_equal(haul__recurrent_steps(HAUL__LSTM, &r, states), HAUL_SHAPE);
        assert_failed(states[0]);
        assert_failed(states[1]);
        if (!strstr(haul_error_message(), cases[i].message))
            fail_msg("%s", haul_error_message());
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recurrent__is_its_equations),
        cmocka_unit_test(test_recurrent__threads_do_not_change_bits),
        cmocka_unit_test(test_recurrent__an_empty_batch_has_an_empty_result),
        cmocka_unit_test(test_recurrent__operations_name_the_operand),
        cmocka_unit_test(test_recurrent__operands_may_be_parts_of_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
