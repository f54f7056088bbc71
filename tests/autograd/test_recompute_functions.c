/* Functions that run again in the backward pass: the same bits as without, failures, and refused calls.
 *
 * ctest: cuda */
#include <haul/haul.h>

#include "base/alloc.h"
#include "support/bits.h"

/* The same up to rounding. */
static void assert_near(haul_tensor *a, haul_tensor *b, const char *what)
{
    int64_t count = haul_tensor_count(a);
    double *x = calloc((size_t)count, sizeof *x), *y = calloc((size_t)count, sizeof *y);
    assert_true(x && y);
    assert_int_equal(read_values(a, x, count), HAUL_OK);
    assert_int_equal(read_values(b, y, count), HAUL_OK);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(x[i] - y[i]) <= 1e-9 * (1 + fabs(x[i]))))
            fail_msg("%s: element %lld is %.9g, and %.9g without recomputation", what, (long long)i, y[i], x[i]);
    free(x);
    free(y);
}

/* ---- functions ---- */

typedef struct shared {
    haul_tensor *w, *v; /* leaves */
    haul_tensor *made;  /* from leaves; may be NULL */
    int          calls, released, fails_at, ends_at;
} shared;

/* Uses w twice, each input once or twice, and v. */
static haul_tensor *compute(haul_tensor *const *inputs, int count, void *context)
{
    shared *s = context;
    s->calls++;
    if (s->calls == s->fails_at) {
        haul_error_set(HAUL_STATE, "compute", NULL, "the function fails now");
        return NULL;
    }
    haul_tensor *y = haul_mul(haul_tanh(haul_matmul(inputs[0], s->w)), s->v);
    for (int i = 1; i < count; i++)
        if (inputs[i] != HAUL_NONE)
            y = haul_add(y, haul_mul(inputs[i], haul_sigmoid(inputs[i])));
    if (s->made)
        y = haul_mul(y, s->made);
    y = haul_dropout(haul_matmul(haul_mul(y, y), s->w), 0.5, true);
    return s->calls == s->ends_at ? haul_sum(y) : y;
}

static void count_release(void *context)
{
    ((shared *)context)->released++;
}

static haul_tensor *leaf(haul_device *device, haul_dtype dtype, haul_shape shape, unsigned seed)
{
    return haul_set_requires_grad(sample_tensor(device, dtype, shape, seed, NULL), true);
}

/* The leaves and x are used inside and outside of the function, so the order of sums matters. */
static haul_tensor *around(shared *s, haul_tensor *x, haul_tensor *z, bool again)
{
    haul_tensor *before = haul_mul(haul_exp(haul_mul_scalar(x, 0.1)), s->v), *inputs[] = {before, z, HAUL_NONE};
    s->made = haul_cos(s->v);
    haul_tensor *y = again ? haul_checkpoint(compute, inputs, 3, s, .release = count_release) : compute(inputs, 3, s);
    y = haul_add(haul_matmul(y, s->w), haul_mul(before, z));
    return haul_sum(haul_mul(y, haul_mul_scalar(s->v, 0.37)));
}

enum { LEAVES = 4, SIDE = 17 };

static void leaves_of(haul_device *device, haul_dtype dtype, shared *s, haul_tensor *leaves[LEAVES])
{
    *s = (shared){.w = leaf(device, dtype, HAUL_SHAPE(SIDE, SIDE), 1), .v = leaf(device, dtype, HAUL_SHAPE(SIDE), 2)};
    leaves[0] = s->w;
    leaves[1] = s->v;
    leaves[2] = leaf(device, dtype, HAUL_SHAPE(SIDE, SIDE), 3);
    leaves[3] = leaf(device, dtype, HAUL_SHAPE(SIDE, SIDE), 4);
}

static void check_gradients(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *results[2][LEAVES];
    leaves_of(device, HAUL_F32, &s, leaves);
    for (int again = 0; again < 2; again++) {
        haul_scope *scope = haul_scope_push();
        haul_manual_seed(5);
        haul_tensor *y = around(&s, leaves[2], leaves[3], again);
        for (int passes = 0; passes < 2; passes++) /* the graph can be used again */
            assert_int_equal(haul_backward(y, .keep = true), HAUL_OK);
        haul_scope_pop(scope);
        for (int i = 0; i < LEAVES; i++) {
            results[again][i] = haul_clone(haul_tensor_grad(leaves[i]));
            haul_set_grad(leaves[i], HAUL_NONE);
        }
    }
    for (int i = 0; i < LEAVES; i++)
        assert_same_bits(results[0][i], results[1][i], "a gradient");
    assert_int_equal(s.calls, 1 + 1 + 2);
    assert_int_equal(s.released, 1);
}

/* Gradients of gradients: their sums have another order, because the second run's nodes are newer than others. */
static void check_second_order(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *results[2][LEAVES];
    leaves_of(device, HAUL_F64, &s, leaves);
    haul_scope *scope = haul_scope_push(); /* the graphs end before `s` */
    for (int again = 0; again < 2; again++) {
        haul_tensor *first[LEAVES], *sum = NULL;
        haul_manual_seed(5);
        haul_tensor *y = around(&s, leaves[2], leaves[3], again);
        assert_int_equal(haul_grad(y, leaves, LEAVES, first, .create_graph = true), HAUL_OK);
        for (int i = 0; i < LEAVES; i++) {
            haul_tensor *part = haul_sum(haul_mul(first[i], first[i]));
            sum = sum ? haul_add(sum, part) : part;
        }
        assert_int_equal(haul_grad(sum, leaves, LEAVES, results[again]), HAUL_OK);
    }
    for (int i = 0; i < LEAVES; i++)
        assert_near(results[0][i], results[1][i], "a second gradient");
    haul_scope_pop(scope);
}

/* The gradient of an intermediate result that is an input, and of the result itself. */
static void check_intermediate(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *results[2][2];
    leaves_of(device, HAUL_F32, &s, leaves);
    for (int again = 0; again < 2; again++) {
        haul_manual_seed(5);
        haul_tensor *x = haul_exp(leaves[2]);
        haul_tensor *y = again ? haul_checkpoint(compute, &x, 1, &s) : compute(&x, 1, &s), *wanted[] = {x, y};
        assert_int_equal(haul_grad(haul_sum(haul_mul(y, y)), wanted, 2, results[again]), HAUL_OK);
    }
    assert_same_bits(results[0][0], results[1][0], "the input's gradient");
    assert_same_bits(results[0][1], results[1][1], "the result's gradient");
}

static void test_recompute__gradients_of_functions(void **state)
{
    (void)state;
    on_devices(check_gradients);
    on_devices(check_second_order);
    on_devices(check_intermediate);
}

/* ---- results that need no second run ---- */

static haul_tensor *first_of(haul_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return inputs[0];
}

static haul_tensor *detached(haul_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return haul_exp(haul_detach(inputs[0]));
}

static void check_plain(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *x, *plain = sample_tensor(device, HAUL_F32, HAUL_SHAPE(SIDE, SIDE), 9, NULL);
    leaves_of(device, HAUL_F32, &s, leaves);
    x = haul_checkpoint(first_of, &leaves[2], 1, NULL); /* the function returns its input, a leaf */
    assert_int_equal(haul_backward(haul_sum(x)), HAUL_OK);
    assert_true(haul_item(haul_sum(haul_tensor_grad(leaves[2]))) == SIDE * SIDE);
    assert_true(haul_checkpoint(first_of, &plain, 1, NULL) == plain);
    assert_false(haul_requires_grad(haul_checkpoint(detached, leaves, 1, &s, .release = count_release)));
    assert_int_equal(s.released, 1);
    haul_scope *scope = haul_scope_push();
    haul_set_grad_enabled(false);
    assert_false(haul_requires_grad(haul_checkpoint(compute, &plain, 1, &s, .release = count_release)));
    assert_int_equal(s.released, 2);
    haul_scope_pop(scope);
    x = haul_checkpoint(compute, &plain, 1, &s); /* only leaves that are not inputs require gradients */
    assert_int_equal(haul_backward(haul_sum(x)), HAUL_OK);
    assert_true(haul_tensor_grad(s.v) != HAUL_NONE);
}

static void test_recompute__results_without_a_second_run(void **state)
{
    (void)state;
    on_devices(check_plain);
}

/* ---- failures ---- */

static void check_failures(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES];
    leaves_of(device, HAUL_F32, &s, leaves);
    s.fails_at = 1;
    assert_refused(haul_checkpoint(compute, &leaves[2], 1, &s, .release = count_release), HAUL_STATE, "fails now");
    assert_int_equal(s.released, 1);

    haul_random_state random = haul_random_state_get();
    s.fails_at = 3;
    haul_tensor *y = haul_checkpoint(compute, &leaves[2], 1, &s);
    assert_true(haul_random_state_get().offset > random.offset);
    random = haul_random_state_get();
    assert_int_equal(haul_backward(haul_sum(y), .keep = true), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "fails now"));
    haul_error_clear();
    for (int i = 0; i < LEAVES; i++)
        assert_true(haul_tensor_grad(leaves[i]) == HAUL_NONE);
    assert_int_equal(haul_random_state_get().offset, random.offset);
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK); /* it succeeds the next time */

    s.ends_at = s.calls + 2;
    y = haul_checkpoint(compute, &leaves[2], 1, &s);
    assert_refused(haul_backward(haul_sum(y)) ? NULL : &s, HAUL_GRAPH, "the same both times");
}

static haul_tensor *differentiating(haul_tensor *const *inputs, int count, void *context)
{
    haul_tensor *result;
    (void)count;
    (void)context;
    haul_grad(haul_sum(haul_exp(inputs[0])), inputs, 1, &result);
    return result;
}

static void check_changes(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(SIDE, SIDE), 9, NULL), *y, *late;
    leaves_of(device, HAUL_F32, &s, leaves);
    y = haul_checkpoint(compute, &x, 1, &s);
    haul_add_scalar_into(x, x, 1);
    assert_refused(haul_backward(haul_sum(y)) ? NULL : &s, HAUL_GRAPH, "an input of the function");

    y = haul_checkpoint(compute, &x, 1, &s);
    haul_set_grad_enabled(false);
    haul_add_scalar_into(s.v, s.v, 1);
    haul_set_grad_enabled(true);
    assert_refused(haul_backward(haul_sum(y)) ? NULL : &s, HAUL_GRAPH, "a parameter of the function");

    assert_refused(haul_checkpoint(differentiating, &leaves[2], 1, NULL), HAUL_GRAPH, "haul_checkpoint");

    y = haul_checkpoint(compute, &x, 1, &s);
    s.made = late = haul_exp(s.v); /* not what the first run used, and visited before it */
    assert_refused(haul_backward(haul_add(haul_sum(y), haul_sum(late))) ? NULL : &s, HAUL_GRAPH,
                   "computed after its first run");
}

static void test_recompute__failures(void **state)
{
    (void)state;
    on_devices(check_failures);
    on_devices(check_changes);
}

static void test_recompute__wrong_arguments(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2)), *none[] = {NULL};
    shared       s = {NULL};
    assert_refused(haul_checkpoint(NULL, &x, 1, &s, .release = count_release), HAUL_INVALID_ARGUMENT, "f is NULL");
    assert_int_equal(s.released, 1);
    assert_refused(haul_checkpoint(compute, NULL, 1, NULL), HAUL_INVALID_ARGUMENT, "inputs is NULL");
    assert_refused(haul_checkpoint(compute, &x, -1, NULL), HAUL_INVALID_ARGUMENT, "count is -1");
    assert_refused(haul_checkpoint(compute, none, 1, NULL), HAUL_INVALID_ARGUMENT, "inputs is NULL");
    assert_refused(haul_checkpoint_with(compute, &x, 1, NULL), HAUL_INVALID_ARGUMENT, "options is NULL");
    assert_false(haul_recomputing());
    haul_scope_pop(scope);
    assert_refused(haul_checkpoint(compute, NULL, 0, &s), HAUL_STATE, "no scope is open");
}

/* ---- graphs that are freed ---- */

/* The same gradients, whether the function and the graph are used twice or the graph is freed. */
static void check_freed(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *want[LEAVES];
    leaves_of(device, HAUL_F32, &s, leaves);
    for (int i = 0; i < 3; i++) {
        const bool keep = i == 0;
        haul_manual_seed(5);
        haul_tensor *y = around(&s, leaves[2], leaves[3], i > 0);
        assert_int_equal(haul_backward(y, .keep = keep, .once = i == 2), HAUL_OK);
        for (int k = 0; k < LEAVES; k++) {
            haul_tensor *got = haul_clone(haul_tensor_grad(leaves[k]));
            if (i)
                assert_same_bits(want[k], got, "a gradient of a graph that is freed");
            want[k] = got;
            haul_set_grad(leaves[k], HAUL_NONE);
        }
        assert_int_equal(haul_backward(y), keep ? HAUL_OK : HAUL_GRAPH);
        haul_error_clear();
        for (int k = 0; k < LEAVES; k++)
            haul_set_grad(leaves[k], HAUL_NONE);
    }
}

static int64_t peak_of_chain(haul_device *device, bool keep)
{
    haul_memory_stats stats;
    haul_scope       *scope = haul_scope_push();
    haul_tensor      *y = leaf(device, HAUL_F32, HAUL_SHAPE(1 << 16), 1);
    haul_module      *chain = HAUL_SEQUENTIAL(haul_nn_tanh(), haul_nn_tanh(), haul_nn_tanh(), haul_nn_tanh());
    y = haul_call(chain, haul_mul_scalar(y, 2));
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    int64_t before = stats.allocated;
    assert_int_equal(haul_backward(haul_sum(y), .keep = keep), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    haul_scope_pop(scope);
    return stats.peak_allocated + stats.allocated - 2 * before;
}

/* What the graph held is free while it is still held, and at the end. */
static void check_freed_memory(haul_device *device)
{
    haul_set_device(device);
    assert_true(peak_of_chain(device, false) + (3 << 18) <= peak_of_chain(device, true));
}

static void test_recompute__graphs_that_are_freed(void **state)
{
    (void)state;
    on_devices(check_freed);
    on_devices(check_freed_memory);
}

/* ---- memory that runs out ---- */

/* True if a step failed when the nth allocation did. */
static bool fails_at(shared *s, haul_tensor **leaves, int64_t nth)
{
    haul_scope *scope = haul_scope_push();
    haul__fault_plan(HAUL__FAULT_HOST, nth);
    haul_status status = haul_backward(around(s, leaves[2], leaves[3], true));
    bool        reached = haul__fault_count() >= nth;
    haul__fault_plan(0, 0);
    haul_scope_pop(scope);
    for (int i = 0; i < LEAVES && status; i++)
        assert_true(haul_tensor_grad(leaves[i]) == HAUL_NONE);
    for (int i = 0; i < LEAVES; i++)
        haul_set_grad(leaves[i], HAUL_NONE);
    return reached;
}

static void test_recompute__allocations_that_fail(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    shared       s;
    haul_tensor *leaves[LEAVES];
    leaves_of(haul_cpu(), HAUL_F32, &s, leaves);
    int64_t nth = 1;
    for (bool reached = true; reached; nth++) {
        haul_scope *attempts = haul_scope_push();
        for (int i = 0; i < 2; i++) /* caches may grow */
            fails_at(&s, leaves, nth);
        int64_t before = haul__host_blocks();
        reached = fails_at(&s, leaves, nth);
        if (haul__host_blocks() > before)
            fail_msg("after allocation %lld failed, %lld blocks more are alive", (long long)nth,
                     (long long)(haul__host_blocks() - before));
        haul_scope_pop(attempts);
        haul_error_clear();
    }
    assert_in_range(nth, 100, 5000);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recompute__gradients_of_functions),
        cmocka_unit_test(test_recompute__results_without_a_second_run),
        cmocka_unit_test(test_recompute__failures),
        cmocka_unit_test(test_recompute__wrong_arguments),
        cmocka_unit_test(test_recompute__graphs_that_are_freed),
        cmocka_unit_test(test_recompute__allocations_that_fail),
    };
    return cmocka_run_group_tests_name("recompute_functions", tests, NULL, NULL);
}
