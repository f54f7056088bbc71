/* Parameters of which each rank keeps only its own (.shard = 3): where their memory is, uses outside of a step, layers
 * that share a parameter or are called twice, and what the program changes. By itself the program is a group of one
 * rank; tests/parallel/parallel_launchers.sh starts it with MPI launchers.
 *
 * ctest: */
#include <haul/dlpack.h>
#include <string.h>

#include "core/tensor.h"
#include "group/group.h"
#include "host_access/dlpack.h"
#include "memory/spill/elsewhere.h"
#include "parallel/ahead.h"
#include "parallel/parts.h"
#include "support/ranks/ranks.h"

enum { WIDTH = 16, LAYERS = 5, PIECES = 8, ROWS = 3, STEPS = 3, NUMBERS = LAYERS * WIDTH * WIDTH };

static int small_setup(void **state)
{
    haul__parts_whole = 64;                   /* biases stay whole */
    haul__parts_room = 3 * 4 * WIDTH * WIDTH; /* three weights */
    return group_setup(state);
}

typedef struct training {
    haul_module    *net, *layers[LAYERS];
    haul_optimizer *adamw;
    haul_parallel  *parallel;
    haul_tensor    *x;
} training;

/* The same each time. */
static training make(haul_group *g, int shard)
{
    training t;
    haul_manual_seed(5);
    for (int i = 0; i < LAYERS; i++)
        t.layers[i] = haul_nn_linear(WIDTH, WIDTH);
    t.net = haul_nn_sequential(t.layers, LAYERS);
    t.adamw = haul_adamw(t.net, 0.01);
    t.parallel = haul_parallel_new(t.net, .group = g, .pieces = PIECES, .shard = shard);
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(PIECES * ROWS, WIDTH), 0, 1);
    check(haul_error_status());
    return t;
}

/* The first layer runs twice, and its weight is also a factor of the loss. */
static haul_tensor *forward(const training *t, haul_tensor *x)
{
    haul_tensor *first = haul_module_parameter(t->layers[0], "weight");
    for (int i = 0; i < LAYERS; i++)
        x = haul_tanh(haul_call(t->layers[i], x));
    x = haul_dropout(haul_call(t->layers[0], x), 0.3, true);
    return haul_sum(haul_square(haul_matmul(x, haul_transpose(first, 0, 1))));
}

static void step(const training *t, int64_t number)
{
    const int first = haul_parallel_first(t->parallel), end = first + haul_parallel_count(t->parallel);
    for (int i = first; i < end; i++) {
        haul_scope *inner = haul_scope_push();
        check(haul_parallel_begin(t->parallel, number));
        /* The last piece has no examples. */
        haul_tensor *loss = i == PIECES - 1 ? HAUL_NONE : forward(t, haul_slice(t->x, 0, i * ROWS, i * ROWS + ROWS, 1));
        check(haul_parallel_backward(t->parallel, loss, i == PIECES - 1 ? 0 : ROWS));
        haul_scope_pop(inner);
    }
    check(haul_tensor_check(haul_clip_grad_norm(t->net, 1)));
    check(haul_parallel_step(t->parallel, t->adamw));
}

static haul_tensor *weight(const training *t, int i)
{
    return haul_module_parameter(t->layers[i], "weight");
}

static void read_weights(const training *t, float *out)
{
    for (int i = 0; i < LAYERS; i++)
        check(haul_read(weight(t, i), out + (ptrdiff_t)i * WIDTH * WIDTH, WIDTH * WIDTH * sizeof *out));
}

static void compare(const training *one, const training *t)
{
    float want[NUMBERS], got[NUMBERS];
    read_weights(one, want);
    read_weights(t, got);
    assert_memory_equal(got, want, sizeof want);
}

static int count_given_up(const training *t)
{
    int count = 0;
    for (int i = 0; i < LAYERS; i++)
        count += haul__is_given_up(weight(t, i)->storage);
    return count;
}

static int count_others(const training *t)
{
    int count = 0;
    for (int i = 0; i < LAYERS; i++)
        count += haul__is_elsewhere(weight(t, i)->storage);
    return count;
}

static void test_parallel_parts__the_memory_of_other_ranks_parameters_is_given_up(void **state)
{
    (void)state;
    haul_memory_stats before, after;
    const training    one = make(haul_group_get("none"), 0), t = make(group, 3);
    check(haul_memory_stats_get(haul_current_device(), &before));
    for (int k = 0; k < STEPS; k++) {
        step(&one, k);
        step(&t, k);
        const int others = count_others(&t);
        assert_int_equal(count_given_up(&t), others);
        assert_true(size == 1 ? others == 0 : others >= LAYERS - (LAYERS + size - 1) / size);
        compare(&one, &t);
        assert_true(count_given_up(&t) >= others - 3);
    }
    check(haul_memory_stats_get(haul_current_device(), &after));
    assert_int_equal(after.spilled, before.spilled);
}

static int64_t count_sent(void)
{
    int64_t bytes;
    check(haul_stat_get("groups.sent_bytes", &bytes));
    return bytes;
}

/* From the second step on, without fetching anything in vain. */
static void test_parallel_parts__what_comes_next_is_fetched_ahead(void **state)
{
    (void)state;
    enum { WARM = 2, MORE = 3 };
    int64_t        sent[WARM + MORE];
    const training t = make(group, 3);
    for (int k = 0; k < WARM + MORE; k++) {
        const int64_t before = count_sent();
        const int64_t taken = haul__ahead_taken, dropped = haul__ahead_dropped;
        step(&t, k);
        check(haul_group_barrier(group));
        sent[k] = count_sent() - before;
        if (k < WARM)
            continue;
        assert_true(sent[k] == sent[1]);
        assert_int_equal(haul__ahead_dropped, dropped);
        assert_true(haul__ahead_taken - taken >= count_others(&t) - 1); /* all but the first */
    }
}

/* Ranks evaluate differently often, without each other. */
static void test_parallel_parts__uses_outside_of_a_step_get_the_parameters(void **state)
{
    (void)state;
    const training one = make(haul_group_get("none"), 0), t = make(group, 3);
    for (int k = 0; k < 2; k++) {
        step(&one, k);
        step(&t, k);
        for (int i = 0; i <= rank; i++) {
            haul_scope *inner = haul_scope_push();
            haul_set_grad_enabled(false);
            haul_tensor *y = haul_call(t.net, t.x), *want = haul_call(one.net, one.x);
            assert_true(haul_item(haul_max(haul_abs(haul_sub(y, want)))) == 0);
            haul_scope_pop(inner);
        }
    }
    haul_module *copy = haul_module_clone(t.net);
    assert_non_null(copy);
    assert_true(haul_item(haul_max(haul_abs(
                    haul_sub(haul_module_parameter(haul_module_child(copy, "4"), "weight"), weight(&one, 4))))) == 0);
    check(haul_group_barrier(group));
}

static bool is_host(void)
{
    return haul__device_is_host(haul_current_device());
}

/* A pointer of the host stays valid until the next step. */
static void test_parallel_parts__what_the_host_uses_stays_until_the_next_step(void **state)
{
    (void)state;
    float          want[NUMBERS];
    const training t = make(group, 3);
    step(&t, 0);
    read_weights(&t, want);
    const float *all[LAYERS];
    haul_tensor *mapped[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        assert_non_null(all[i] = haul_map(mapped[i] = haul_detach(weight(&t, i)), HAUL_READ));
    assert_true(count_given_up(&t) == 0 || !is_host()); /* elsewhere the pointer is that of a copy */
    for (int i = 0; i < LAYERS; i++)
        assert_memory_equal(all[i], want + (ptrdiff_t)i * WIDTH * WIDTH, WIDTH * WIDTH * sizeof *want);
    for (int i = 0; i < LAYERS; i++)
        check(haul_unmap(mapped[i]));
    step(&t, 1);
    assert_int_equal(count_given_up(&t), count_others(&t));
}

/* Memory that another library has stays where it is, and gets the new values. DLPack is for memory of the CPU. */
static void test_parallel_parts__memory_of_dlpack_is_renewed_by_each_step(void **state)
{
    (void)state;
    float               want[WIDTH * WIDTH];
    haul__dl_versioned *held[LAYERS];
    if (!is_host())
        return;
    const training one = make(haul_group_get("none"), 0), t = make(group, 3);
    step(&one, 0);
    step(&t, 0);
    for (int i = 0; i < LAYERS; i++)
        assert_non_null(held[i] = haul_to_dlpack(haul_detach(weight(&t, i))));
    for (int k = 1; k < STEPS; k++) {
        step(&one, k);
        step(&t, k);
        for (int i = 0; i < LAYERS; i++) {
            check(haul_read(weight(&one, i), want, sizeof want));
            assert_memory_equal(held[i]->tensor.data, want, sizeof want);
        }
    }
    assert_int_equal(count_given_up(&t), 0);
    for (int i = 0; i < LAYERS; i++)
        held[i]->deleter(held[i]);
    step(&t, STEPS);
    assert_int_equal(count_given_up(&t), count_others(&t));
}

/* Pinned memory of divided parameters stays on its device, too. */
static void test_parallel_parts__pinned_memory_is_renewed_by_each_step(void **state)
{
    (void)state;
    const training one = make(haul_group_get("none"), 0), t = make(group, 3);
    for (int k = 0; k < STEPS; k++) {
        step(&one, k);
        step(&t, k);
        for (int i = 0; k == 0 && i < LAYERS; i++)
            check(haul_memory_pin(weight(&t, i)));
        compare(&one, &t);
        assert_int_equal(count_given_up(&t), 0);
    }
    for (int i = 0; i < LAYERS; i++)
        check(haul_memory_unpin(weight(&t, i)));
    for (int k = STEPS; k < 2 * STEPS; k++) {
        step(&one, k);
        step(&t, k);
    }
    assert_int_equal(count_given_up(&t), count_others(&t));
    compare(&one, &t);
}

static void double_weights(const training *t)
{
    haul_scope *inner = haul_scope_push();
    haul_set_grad_enabled(false);
    for (int i = 0; i < LAYERS; i++) {
        haul_tensor *w = haul_detach(weight(t, i));
        check(haul_mul_scalar_into(w, w, 2));
    }
    haul_scope_pop(inner);
}

static void test_parallel_parts__changes_by_the_program_count_on_all_ranks(void **state)
{
    (void)state;
    const training one = make(haul_group_get("none"), 0), t = make(group, 3);
    for (int k = 0; k < STEPS; k++) {
        step(&one, k);
        step(&t, k);
        double_weights(&one);
        double_weights(&t);
        if (k == 1) {
            check(haul_parallel_gather(t.parallel, NULL));
            assert_true(rank > 0 || count_given_up(&t) == 0);
            compare(&one, &t);
        }
    }
    step(&one, STEPS);
    step(&t, STEPS);
    compare(&one, &t);
    check(haul_group_barrier(group));
}

static haul_tensor *identity(haul_module *self, haul_args *args)
{
    (void)self;
    return args->x[0];
}

/* Two names of one tensor, and a parameter that is a part of another's memory, which stays whole. */
static void test_parallel_parts__shared_parameters_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    float want[2][WIDTH * WIDTH], got[2][WIDTH * WIDTH];
    for (int k = 0; k < 2; k++) {
        training    t = {.net = haul_module_new("tied", identity)};
        haul_group *g = k ? group : haul_group_get("none");
        haul_manual_seed(7);
        haul_tensor *a = haul_set_requires_grad(haul_normal(HAUL_F32, HAUL_SHAPE(WIDTH, WIDTH), 0, 1), true);
        haul_tensor *both = haul_normal(HAUL_F32, HAUL_SHAPE(2 * WIDTH, WIDTH), 0, 1);
        haul_tensor *b = haul_set_requires_grad(haul_slice(both, 0, 0, WIDTH, 1), true);
        haul_tensor *c = haul_set_requires_grad(haul_slice(both, 0, WIDTH, 2 * WIDTH, 1), true);
        check(haul_module_add_parameter(t.net, "a", a));
        check(haul_module_add_parameter(t.net, "again", a));
        check(haul_module_add_parameter(t.net, "b", b));
        check(haul_module_add_parameter(t.net, "c", c));
        t.adamw = haul_adamw(t.net, 0.01);
        t.parallel = haul_parallel_new(t.net, .group = g, .pieces = PIECES, .shard = 3);
        for (int s = 0; s < STEPS; s++) {
            do {
                haul_scope *inner = haul_scope_push();
                check(haul_parallel_begin(t.parallel, s));
                haul_tensor *y = haul_matmul(haul_matmul(a, b), haul_matmul(c, a));
                check(haul_parallel_backward(t.parallel, haul_sum(haul_tanh(y)), 1));
                haul_scope_pop(inner);
            } while (!haul_parallel_ready(t.parallel));
            check(haul_parallel_step(t.parallel, t.adamw));
        }
        assert_false(haul__is_elsewhere(b->storage));
        check(haul_read(a, k ? got[0] : want[0], sizeof *got));
        check(haul_read(c, k ? got[1] : want[1], sizeof *got));
    }
    assert_memory_equal(got, want, sizeof want);
}

static void test_parallel_parts__after_the_end_other_ranks_parameters_are_refused(void **state)
{
    (void)state;
    float          numbers[WIDTH * WIDTH];
    training       t = make(group, 3);
    haul_scope    *inner = haul_scope_push();
    haul_parallel *p = haul_parallel_new(t.net, .group = group, .pieces = PIECES, .shard = 3);
    t.parallel = p;
    step(&t, 0);
    const int others = count_others(&t);
    haul_scope_pop(inner);
    int refused = 0;
    for (int i = 0; i < LAYERS; i++)
        if (haul_read(weight(&t, i), numbers, sizeof numbers)) {
            assert_int_equal(haul_error_status(), HAUL_STATE);
            assert_non_null(strstr(haul_error_message(), "call haul_parallel_gather on all ranks before"));
            haul_error_clear();
            refused++;
        }
    assert_int_equal(refused, others);
    assert_int_equal(count_others(&t), 0);
}

/* After haul_parallel_gather rank 0 has everything. */
static void test_parallel_parts__a_gathered_module_is_whole_on_rank_0(void **state)
{
    (void)state;
    float       want[NUMBERS], got[NUMBERS];
    training    t = make(group, 3);
    haul_scope *inner = haul_scope_push();
    t.parallel = haul_parallel_new(t.net, .group = group, .pieces = PIECES, .shard = 3);
    step(&t, 0);
    check(haul_parallel_gather(t.parallel, t.adamw));
    if (rank == 0)
        read_weights(&t, want);
    haul_scope_pop(inner);
    if (rank == 0) {
        read_weights(&t, got);
        assert_memory_equal(got, want, sizeof want);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_parallel_parts__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_memory_of_other_ranks_parameters_is_given_up),
        T(uses_outside_of_a_step_get_the_parameters),
        T(what_the_host_uses_stays_until_the_next_step),
        T(memory_of_dlpack_is_renewed_by_each_step),
        T(what_comes_next_is_fetched_ahead),
        T(pinned_memory_is_renewed_by_each_step),
        T(changes_by_the_program_count_on_all_ranks),
        T(shared_parameters_have_the_bits_of_one_rank),
        T(after_the_end_other_ranks_parameters_are_refused),
        T(a_gathered_module_is_whole_on_rank_0),
    };
    return cmocka_run_group_tests(tests, small_setup, NULL);
}
