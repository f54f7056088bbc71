/* Data parallel training in one process: gradients of pieces against those of one batch, the tree of their sums, the
 * rules for buffers and random numbers, loss scaling, the loader's pieces, and refused calls.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/object.h"
#include "parallel/sums.h"
#include "support/devices/auto.h"

enum { FEATURES = 4, CLASSES = 3, MOST_VALUES = 4096, MOST_TENSORS = 32 };

static int setup_seeded(void **state)
{
    const int failed = setup(state);
    haul_manual_seed(7);
    return failed;
}

/* ---- a training ---- */

typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
    haul_tensor    *x, *y;
} training;

static haul_module *network(bool normalises, double dropout)
{
    haul_module *first = haul_nn_linear(FEATURES, 8), *last = haul_nn_linear(8, CLASSES);
    if (normalises)
        return HAUL_SEQUENTIAL(first, haul_nn_batch_norm(8), haul_nn_relu(), last);
    if (dropout > 0)
        return HAUL_SEQUENTIAL(first, haul_nn_dropout(dropout), haul_nn_relu(), last);
    return HAUL_SEQUENTIAL(first, haul_nn_relu(), last);
}

/* The same network and data each time. */
static training make(int64_t examples, bool normalises, double dropout)
{
    training t = {.net = NULL};
    haul_manual_seed(1);
    t.net = network(normalises, dropout);
    t.optimizer = haul_adamw(t.net, 0.01);
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(examples, FEATURES), 0, 1);
    t.y = haul_randint(HAUL_I64, HAUL_SHAPE(examples), 0, CLASSES);
    assert_int_equal(haul_error_status(), HAUL_OK);
    return t;
}

/* The sum of losses of the examples [first, end), HAUL_NONE if there are none. */
static haul_tensor *sum_of(const training *t, int64_t first, int64_t end)
{
    const int64_t examples = haul_tensor_shape(t->x).dims[0];
    end = end < examples ? end : examples;
    if (first >= end)
        return HAUL_NONE;
    haul_tensor *logits = haul_call(t->net, haul_slice(t->x, 0, first, end, 1));
    return haul_cross_entropy(logits, haul_slice(t->y, 0, first, end, 1), .reduction = HAUL_REDUCE_SUM);
}

static void step_in_pieces(const training *t, haul_parallel *p, int64_t step, int pieces, int64_t size)
{
    for (int i = 0; i < pieces; i++) {
        haul_scope *inner = haul_scope_push();
        assert_false(haul_parallel_ready(p) && i > 0);
        assert_int_equal(haul_parallel_begin(p, step), HAUL_OK);
        const int64_t examples = haul_tensor_shape(t->x).dims[0], left = examples - i * size;
        const int64_t n = left > size ? size : left > 0 ? left : 0;
        if (haul_parallel_backward(p, sum_of(t, i * size, i * size + size), (double)n))
            fail_msg("%s", haul_error_message());
        haul_scope_pop(inner);
    }
    assert_true(haul_parallel_ready(p));
}

/* All gradients, or all tensors of the module, one after the other. */
static int64_t read_all(haul_module *net, bool gradients, float *out)
{
    haul_named_tensor all[MOST_TENSORS];
    const int         n = haul_module_tensors(net, all, MOST_TENSORS);
    int64_t           count = 0;
    for (int i = 0; i < n; i++) {
        if ((gradients && all[i].is_buffer) || haul_tensor_dtype(all[i].tensor) != HAUL_F32)
            continue;
        haul_tensor *t = gradients ? haul_tensor_grad(all[i].tensor) : all[i].tensor;
        assert_true(count + haul_tensor_count(all[i].tensor) <= MOST_VALUES);
        assert_int_equal(haul_read(t, out + count, (size_t)haul_tensor_count(all[i].tensor) * sizeof *out), HAUL_OK);
        count += haul_tensor_count(all[i].tensor);
    }
    return count;
}

static void assert_close(const float *a, const float *b, int64_t count, double bound)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= bound))
            fail_msg("value %d is %.9g and %.9g", (int)i, (double)a[i], (double)b[i]);
}

/* ---- gradients ---- */

/* 22 examples in pieces of 3 are 3 3 3 3 3 3 3 1, of 4 are 4 4 4 4 4 2 0 0. */
static void test_parallel__gradients_are_those_of_the_whole_batch(void **state)
{
    (void)state;
    static const struct {
        int     pieces;
        int64_t size;
    } cases[] = {{1, 22}, {2, 11}, {4, 6}, {8, 3}, {8, 4}, {16, 2}, {32, 1}};
    float    want[MOST_VALUES], got[MOST_VALUES];
    training whole = make(22, false, 0);
    assert_int_equal(haul_backward(haul_cross_entropy(haul_call(whole.net, whole.x), whole.y)), HAUL_OK);
    const int64_t count = read_all(whole.net, true, want);
    const double  loss = haul_item(haul_cross_entropy(haul_call(whole.net, whole.x), whole.y));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        training       t = make(22, false, 0);
        haul_parallel *p = haul_parallel_new(t.net, .pieces = cases[i].pieces);
        assert_non_null(p);
        step_in_pieces(&t, p, 0, cases[i].pieces, cases[i].size);
        assert_int_equal(read_all(t.net, true, got), count);
        assert_close(got, want, count, 1e-6);
        assert_true(fabs(haul_item(haul_parallel_loss(p)) - loss) < 1e-6);
    }
}

/* A mean of means would weight the examples of a small piece more. */
static void test_parallel__weights_are_summed_before_the_division(void **state)
{
    (void)state;
    haul_module *net = haul_nn_linear(1, 1);
    haul_tensor *weight = haul_module_parameter(net, "weight");
    haul_set_grad_enabled(false);
    haul_fill_into(weight, 2);
    haul_set_grad_enabled(true);
    haul_parallel *p = haul_parallel_new(net, .pieces = 2);
    const double   factors[] = {3, 5}, weights[] = {3, 1};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(haul_parallel_begin(p, 0), HAUL_OK);
        assert_int_equal(haul_parallel_backward(p, haul_mul_scalar(haul_sum(weight), factors[i]), weights[i]), HAUL_OK);
    }
    assert_true(haul_item(haul_tensor_grad(weight)) == 2);
    assert_true(haul_item(haul_parallel_loss(p)) == 4);
    assert_true(haul_item(haul_tensor_grad(haul_module_parameter(net, "bias"))) == 0); /* no piece uses it */
}

static void test_parallel__a_step_of_weight_0_has_gradients_of_0(void **state)
{
    (void)state;
    haul_module   *net = haul_nn_linear(1, 1);
    haul_parallel *p = haul_parallel_new(net, .pieces = 1);
    assert_int_equal(haul_parallel_begin(p, 0), HAUL_OK);
    assert_int_equal(haul_parallel_backward(p, HAUL_NONE, 0), HAUL_OK);
    assert_true(haul_item(haul_tensor_grad(haul_module_parameter(net, "weight"))) == 0);
    assert_true(haul_item(haul_parallel_loss(p)) == 0);
}

static void test_parallel__gradients_in_half_precision_are_summed_in_f32(void **state)
{
    (void)state;
    haul_module *net = haul_nn_linear(1, 1);
    assert_int_equal(haul_module_cast(net, HAUL_BF16), HAUL_OK);
    haul_tensor   *weight = haul_module_parameter(net, "weight");
    haul_parallel *p = haul_parallel_new(net, .pieces = 4);
    const double   factors[] = {256, 1, 1, 0.5}; /* bf16 has 8 bits: a sum in it would stay 256 */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(haul_parallel_begin(p, 0), HAUL_OK);
        assert_int_equal(haul_parallel_backward(p, haul_mul_scalar(haul_sum(weight), factors[i]), i == 0), HAUL_OK);
    }
    haul_tensor *gradient = haul_tensor_grad(weight);
    assert_int_equal(haul_tensor_dtype(gradient), HAUL_BF16);
    assert_true(haul_item(gradient) == 258);
}

/* ---- the tree ---- */

static haul_tensor *leaf(int i)
{
    haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1.0F / (float)(i + 3), (float)i * 1e7F, 0.1F});
    t = haul_clone(t);
    haul__object_keep(t);
    return t;
}

/* The largest sums of a process that has the pieces [first, end), to the sum of all. */
static void sum_of_process(haul__piece_sums *all, int first, int end)
{
    haul__piece_sums own = {.count = 0};
    for (int i = first; i < end; i++)
        assert_int_equal(haul__piece_sums_add(&own, leaf(i), i, 1), HAUL_OK);
    for (int k = 0; k < own.count; k++)
        assert_int_equal(haul__piece_sums_add(all, own.nodes[k].sum, own.nodes[k].first, own.nodes[k].count), HAUL_OK);
}

static void test_parallel__the_tree_has_one_sum_however_pieces_are_divided(void **state)
{
    (void)state;
    for (int pieces = 1; pieces <= 64; pieces *= 2) {
        float want[3], got[3];
        for (int ranks = 1; ranks <= pieces; ranks++) {
            haul__piece_sums all = {.count = 0};
            for (int r = 0; r < ranks; r++)
                sum_of_process(&all, pieces * r / ranks, pieces * (r + 1) / ranks);
            assert_int_equal(all.count, 1);
            assert_int_equal(haul_read(all.nodes[0].sum, got, sizeof got), HAUL_OK);
            if (ranks == 1)
                memcpy(want, got, sizeof got);
            assert_memory_equal(got, want, sizeof got);
            haul__piece_sums_clear(&all);
        }
    }
}

/* ---- buffers and random numbers ---- */

static void test_parallel__running_statistics_are_the_mean_over_pieces(void **state)
{
    (void)state;
    enum { PIECES = 4, SIZE = 6 };
    training     t = make(PIECES * SIZE, true, 0);
    haul_tensor *running = haul_module_buffer(t.net, "1.running_mean");
    haul_tensor *before = haul_clone(running), *sum = haul_zeros_like(running);
    for (int i = 0; i < PIECES; i++) { /* by hand: each piece from the same start */
        haul_copy_into(running, before);
        sum_of(&t, i * SIZE, i * SIZE + SIZE);
        sum = haul_add(sum, running);
    }
    float want[8], got[8];
    assert_int_equal(haul_read(haul_mul_scalar(sum, 1.0 / PIECES), want, sizeof want), HAUL_OK);
    haul_copy_into(running, before);
    haul_fill_into(haul_module_buffer(t.net, "1.num_batches_tracked"), 0);
    haul_parallel *p = haul_parallel_new(t.net, .pieces = PIECES);
    step_in_pieces(&t, p, 0, PIECES, SIZE);
    assert_int_equal(haul_read(running, got, sizeof got), HAUL_OK);
    assert_close(got, want, 8, 1e-7);
    assert_int_equal(haul_item_i64(haul_module_buffer(t.net, "1.num_batches_tracked")), 1);
    step_in_pieces(&t, p, 1, PIECES, 2 * SIZE); /* the last two pieces are empty */
    assert_int_equal(haul_item_i64(haul_module_buffer(t.net, "1.num_batches_tracked")), 2);
}

static void test_parallel__random_numbers_depend_on_seed_step_and_piece(void **state)
{
    (void)state;
    float          values[3][2][2][4];
    haul_module   *net = haul_nn_linear(1, 1);
    const uint64_t seeds[] = {1, 2, 1};
    for (int k = 0; k < 3; k++) {
        haul_parallel *p = haul_parallel_new(net, .pieces = 2, .seed = seeds[k]);
        haul_uniform(HAUL_F32, HAUL_SHAPE(5), 0, 1); /* what the process draws does not matter */
        for (int step = 0; step < 2; step++)
            for (int piece = 0; piece < 2; piece++) {
                haul_scope *inner = haul_scope_push();
                assert_int_equal(haul_parallel_begin(p, step), HAUL_OK);
                haul_read(haul_uniform(HAUL_F32, HAUL_SHAPE(4), 0, 1), values[k][step][piece],
                          sizeof values[k][step][piece]);
                assert_int_equal(haul_parallel_backward(p, HAUL_NONE, 0), HAUL_OK);
                haul_scope_pop(inner);
            }
    }
    assert_memory_equal(values[0], values[2], sizeof values[0]);
    const float *all = &values[0][0][0][0];
    for (int a = 0; a < 32; a++)
        for (int b = 0; b < a; b++)
            assert_true(all[a] != all[b]);
    assert_null(haul_current_generator());
}

static void test_parallel__training_with_dropout_repeats(void **state)
{
    (void)state;
    float first[MOST_VALUES], second[MOST_VALUES], *const runs[] = {first, second};
    for (int k = 0; k < 2; k++) {
        training       t = make(20, false, 0.5);
        haul_parallel *p = haul_parallel_new(t.net, .pieces = 8, .seed = 3);
        for (int step = 0; step < 3; step++) {
            step_in_pieces(&t, p, step, 8, 3);
            haul_clip_grad_norm(t.net, 0.1);
            assert_int_equal(haul_optimizer_step(t.optimizer), HAUL_OK);
        }
        read_all(t.net, false, runs[k]);
    }
    assert_memory_equal(first, second, sizeof(float) * 67);
}

/* ---- loss scaling ---- */

static void test_parallel__a_piece_that_is_not_finite_skips_the_step(void **state)
{
    (void)state;
    training          t = make(8, false, 0);
    haul_grad_scaler *scaler = haul_grad_scaler_new(t.optimizer, .init_scale = 1024);
    haul_parallel    *p = haul_parallel_new(t.net, .pieces = 4, .scaler = scaler);
    float             before[MOST_VALUES], after[MOST_VALUES];
    const int64_t     count = read_all(t.net, false, before);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(haul_parallel_begin(p, 0), HAUL_OK);
        haul_tensor *loss = sum_of(&t, 2 * i, 2 * i + 2);
        loss = i == 2 ? haul_mul_scalar(loss, INFINITY) : loss;
        assert_int_equal(haul_parallel_backward(p, loss, 2), HAUL_OK);
    }
    assert_int_equal(haul_grad_scaler_step(scaler, t.optimizer), HAUL_OK);
    assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
    assert_true(haul_grad_scaler_factor(scaler) == 512);
    assert_int_equal(haul_optimizer_steps(t.optimizer), 0);
    read_all(t.net, false, after);
    assert_memory_equal(before, after, (size_t)count * sizeof *before);
    step_in_pieces(&t, p, 1, 4, 2);
    assert_int_equal(haul_grad_scaler_step(scaler, t.optimizer), HAUL_OK);
    assert_int_equal(haul_optimizer_steps(t.optimizer), 1);
}

/* ---- failures ---- */

static void test_parallel__refused_options(void **state)
{
    (void)state;
    haul_module *net = haul_nn_linear(1, 1);
    assert_null(haul_parallel_new(NULL));
    assert_says(haul_error_status(), HAUL_INVALID_ARGUMENT, "module");
    assert_null(haul_parallel_new(net, .pieces = 6));
    assert_says(haul_error_status(), HAUL_INVALID_ARGUMENT, ".pieces is 6; a power of two from 1 to 4096");
    assert_null(haul_parallel_new(net, .pieces = -8));
    assert_says(haul_error_status(), HAUL_INVALID_ARGUMENT, ".pieces is -8");
    assert_null(haul_parallel_new(net, .pieces = 8192));
    assert_says(haul_error_status(), HAUL_INVALID_ARGUMENT, ".pieces is 8192");
    assert_null(haul_parallel_new(haul_nn_relu()));
    assert_says(haul_error_status(), HAUL_INVALID_ARGUMENT, "no parameter of the module requires a gradient");
    assert_null(haul_parallel_new_with(NULL));
    haul_error_clear();
    assert_int_equal(haul_parallel_first(NULL), -1);
    assert_int_equal(haul_parallel_count(NULL), -1);
    assert_false(haul_parallel_ready(NULL));
    haul_error_clear();
}

static void test_parallel__calls_in_another_order_are_refused(void **state)
{
    (void)state;
    training       t = make(4, false, 0);
    haul_parallel *p = haul_parallel_new(t.net, .pieces = 2);
    assert_int_equal(haul_parallel_first(p), 0);
    assert_int_equal(haul_parallel_count(p), 2);
    assert_says(haul_parallel_backward(p, HAUL_NONE, 0), HAUL_STATE, "call haul_parallel_begin before");
    assert_says(haul_parallel_begin(p, -1), HAUL_INVALID_ARGUMENT, "step is -1");
    assert_int_equal(haul_parallel_begin(p, 5), HAUL_OK);
    assert_says(haul_parallel_begin(p, 5), HAUL_STATE, "piece 0 of step 5 was begun and not finished");
    assert_says(haul_parallel_backward(p, haul_call(t.net, t.x), 1), HAUL_SHAPE, "one element is expected");
    assert_says(haul_parallel_backward(p, HAUL_NONE, 3), HAUL_INVALID_ARGUMENT, "a piece without a loss has weight 0");
    assert_says(haul_parallel_backward(p, sum_of(&t, 0, 2), -1), HAUL_INVALID_ARGUMENT, "weight is -1");
    assert_says(haul_parallel_backward(p, sum_of(&t, 0, 2), NAN), HAUL_INVALID_ARGUMENT, "weight is nan");
    assert_int_equal(haul_parallel_backward(p, sum_of(&t, 0, 2), 2), HAUL_OK);
    assert_says(haul_parallel_begin(p, 6), HAUL_STATE, "only 1 of the 2 pieces of step 5");
    assert_false(haul_tensor_is_valid(haul_parallel_loss(p)));
    assert_says(haul_error_status(), HAUL_STATE, "the step has pieces left");
    assert_int_equal(haul_parallel_begin(p, 5), HAUL_OK);
    assert_int_equal(haul_parallel_backward(p, sum_of(&t, 2, 4), 2), HAUL_OK);
    assert_true(haul_parallel_ready(p));
    assert_says(haul_parallel_begin(p, 5), HAUL_STATE, "the next step has another number");
    haul_set_requires_grad(haul_module_parameter(t.net, "0.bias"), false);
    assert_says(haul_parallel_begin(p, 6), HAUL_STATE, "'0.bias' does not require a gradient now");
}

static void test_parallel__a_failed_pass_begins_the_step_anew(void **state)
{
    (void)state;
    training       t = make(4, true, 0), u = make(4, true, 0);
    haul_parallel *p = haul_parallel_new(t.net, .pieces = 2), *q = haul_parallel_new(u.net, .pieces = 2);
    assert_int_equal(haul_parallel_begin(p, 0), HAUL_OK);
    assert_int_equal(haul_parallel_backward(p, sum_of(&t, 0, 2), 2), HAUL_OK);
    assert_int_equal(haul_parallel_begin(p, 0), HAUL_OK);
    haul_tensor *loss = sum_of(&t, 2, 4);
    assert_int_equal(haul_backward(loss), HAUL_OK);
    assert_int_equal(haul_parallel_backward(p, loss, 2), HAUL_GRAPH);
    haul_error_clear();
    float a[MOST_VALUES], b[MOST_VALUES];
    step_in_pieces(&t, p, 0, 2, 2);
    step_in_pieces(&u, q, 0, 2, 2);
    const int64_t count = read_all(t.net, false, a);
    read_all(u.net, false, b);
    assert_memory_equal(a, b, (size_t)count * sizeof *a);
    read_all(t.net, true, a);
    read_all(u.net, true, b);
    assert_memory_equal(a, b, (size_t)count / 2 * sizeof *a);
}

/* ---- the loader ---- */

enum { EXAMPLES = 22 };

static haul_dataset *numbers(void)
{
    int64_t values[EXAMPLES];
    for (int64_t i = 0; i < EXAMPLES; i++)
        values[i] = i;
    haul_tensor *x = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(EXAMPLES), values), haul_cpu());
    return haul_dataset_from_tensors(x, x);
}

/* What a loader gives, by the number of the piece among those of all loaders. */
static void collect(haul_loader *loader, int pieces, int64_t first, int64_t got[8][4], int64_t sizes[8])
{
    assert_int_equal(haul_loader_start_at(loader, 3, first), HAUL_OK);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        const int64_t k = b->step * pieces + b->piece;
        sizes[k] = b->size;
        if (b->size)
            assert_int_equal(haul_read(b->x, got[k], (size_t)b->size * sizeof got[k][0]), HAUL_OK);
        else
            assert_true(b->x == HAUL_NONE && b->tensors[0] == HAUL_NONE);
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
}

/* 22 examples in pieces of 3, 4 pieces a step, are 3 3 3 3 | 3 3 3 1. */
static void test_parallel__loaders_divide_the_same_batches(void **state)
{
    (void)state;
    haul_dataset *data = numbers();
    int64_t       want[8][4] = {{0}}, wanted_sizes[8];
    memset(wanted_sizes, -1, sizeof wanted_sizes);
    haul_loader *plain = haul_loader_new(data, .batch = 3, .shuffle = true, .seed = 5);
    collect(plain, 1, 0, want, wanted_sizes);
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int workers = 0; workers <= 2; workers += 2) {
            int64_t got[8][4] = {{0}}, sizes[8];
            memset(sizes, -1, sizeof sizes);
            for (int r = 0; r < ranks; r++) {
                const int    first = 4 * r / ranks, count = 4 * (r + 1) / ranks - first;
                haul_loader *own = haul_loader_new(data, .batch = 3, .shuffle = true, .seed = 5, .pieces = 4,
                                                   .first_piece = first, .piece_count = count, .workers = workers);
                assert_int_equal(haul_loader_batches(own), 2 * count);
                collect(own, 4, 0, got, sizes);
            }
            assert_memory_equal(got, want, sizeof got);
            assert_memory_equal(sizes, wanted_sizes, sizeof sizes);
        }
}

/* 22 examples in pieces of 4, 4 pieces a step, are 4 4 4 4 | 4 2 0 0. */
static void test_parallel__the_last_pieces_of_an_epoch_may_be_empty(void **state)
{
    (void)state;
    const int64_t wanted[] = {4, 4, 4, 4, 4, 2, 0, 0};
    int64_t       got[8][4], sizes[8];
    haul_loader  *loader = haul_loader_new(numbers(), .batch = 4, .pieces = 4);
    assert_int_equal(haul_loader_batches(loader), 8);
    collect(loader, 4, 0, got, sizes);
    assert_memory_equal(sizes, wanted, sizeof sizes);
    memset(sizes, 0, sizeof sizes);
    collect(loader, 4, 4, got, sizes); /* from the second step on */
    assert_memory_equal(sizes + 4, wanted + 4, sizeof sizes / 2);
    assert_int_equal(haul_loader_batches(haul_loader_new(numbers(), .batch = 4, .pieces = 4, .drop_last = true)), 4);
}

static void test_parallel__pieces_that_loaders_refuse(void **state)
{
    (void)state;
    haul_dataset *data = numbers();
    assert_null(haul_loader_new(data, .pieces = -1));
    assert_says(haul_error_status(), HAUL_INVALID_ARGUMENT, ".pieces is -1");
    assert_null(haul_loader_new(data, .pieces = 4, .first_piece = 4));
    assert_says(haul_error_status(), HAUL_INVALID_ARGUMENT, ".first_piece is 4; it must be from 0 to 3");
    assert_null(haul_loader_new(data, .pieces = 4, .first_piece = 2, .piece_count = 3));
    assert_says(haul_error_status(), HAUL_INVALID_ARGUMENT, ".piece_count is 3; it must be from 0 to 2");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_parallel__##name, setup_seeded, teardown)
    const struct CMUnitTest tests[] = {
        T(gradients_are_those_of_the_whole_batch),
        T(weights_are_summed_before_the_division),
        T(a_step_of_weight_0_has_gradients_of_0),
        T(gradients_in_half_precision_are_summed_in_f32),
        T(the_tree_has_one_sum_however_pieces_are_divided),
        T(running_statistics_are_the_mean_over_pieces),
        T(random_numbers_depend_on_seed_step_and_piece),
        T(training_with_dropout_repeats),
        T(a_piece_that_is_not_finite_skips_the_step),
        T(refused_options),
        T(calls_in_another_order_are_refused),
        T(a_failed_pass_begins_the_step_anew),
        T(loaders_divide_the_same_batches),
        T(the_last_pieces_of_an_epoch_may_be_empty),
        T(pieces_that_loaders_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
