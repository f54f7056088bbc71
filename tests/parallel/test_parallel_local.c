/* Data parallel training by threads as ranks: the weights, buffers and the optimizer's state are those of one rank, bit
 * for bit, and a rank that fails in a step ends the others.
 *
 * ctest: labels=threads */
#include <stdlib.h>
#include <string.h>

#include "support/scope.h"

enum { FEATURES = 6, CLASSES = 3, PIECES = 4, SIZE = 4, STEPS = 3, MOST_RANKS = 4, MOST_VALUES = 2048 };

static void check(haul_status status)
{
    if (status)
        fail_msg("%s", haul_error_message());
}

/* What all ranks train, and what each has afterwards. */
typedef struct training {
    int     shard;
    bool    scales;
    int     failing; /* the rank that fails in the second step; -1: none */
    int64_t counts[MOST_RANKS];
    float   values[MOST_RANKS][MOST_VALUES];
} training;

static haul_module *network(void)
{
    haul_module *layers[] = {haul_nn_linear(FEATURES, 16), haul_nn_batch_norm(16), haul_nn_relu(), haul_nn_dropout(0.2),
                             haul_nn_linear(16, CLASSES)};
    return haul_nn_sequential(layers, (int)(sizeof layers / sizeof *layers));
}

static int64_t read_all(haul_named_tensor *all, int n, float *out, int64_t at)
{
    for (int i = 0; i < n; i++) {
        const int64_t count = haul_tensor_count(all[i].tensor);
        assert_true(at + count <= MOST_VALUES);
        check(haul_read(haul_cast(haul_detach(all[i].tensor), HAUL_F32), out + at, (size_t)count * sizeof *out));
        at += count;
    }
    return at;
}

static int64_t read_state(haul_module *net, haul_optimizer *adamw, float *out)
{
    haul_named_tensor all[64];
    int               n = haul_module_tensors(net, all, 64);
    assert_in_range(n, 1, 64);
    int64_t at = read_all(all, n, out, 0);
    n = haul_optimizer_state(adamw, all, 64);
    assert_in_range(n, 1, 64);
    return read_all(all, n, out, at);
}

static haul_status piece(haul_parallel *p, haul_module *net, haul_tensor *x, haul_tensor *y, int64_t step, int number)
{
    /* The last piece of the last step is empty, and the one before has fewer examples. */
    const bool   last = step == STEPS - 1;
    const int    size = !last || number < PIECES - 2 ? SIZE : number == PIECES - 2 ? 2 : 0, from = number * SIZE;
    haul_scope  *inner = haul_scope_push();
    haul_status  status = haul_parallel_begin(p, step);
    haul_tensor *sum = HAUL_NONE;
    if (size)
        sum = haul_cross_entropy(haul_call(net, haul_slice(x, 0, from, from + size, 1)),
                                 haul_slice(y, 0, from, from + size, 1), .reduction = HAUL_REDUCE_SUM);
    if (!status)
        status = haul_parallel_backward(p, sum, size);
    haul_scope_pop(inner);
    return status;
}

static haul_status train(haul_group *group, void *context)
{
    training         *t = context;
    const int         rank = haul_group_rank(group);
    haul_module      *net = network();
    haul_optimizer   *adamw = haul_adamw(net, 0.01);
    haul_grad_scaler *scaler = t->scales ? haul_grad_scaler_new(adamw, .init_scale = 256) : NULL;
    haul_parallel    *p =
        haul_parallel_new(net, .group = group, .pieces = PIECES, .seed = 5, .shard = t->shard, .scaler = scaler);
    haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(PIECES * SIZE, FEATURES), 0, 1);
    haul_tensor *y = haul_randint(HAUL_I64, HAUL_SHAPE(PIECES * SIZE), 0, CLASSES);
    haul_status  status = haul_error_status();
    for (int k = 0; k < STEPS && !status; k++) {
        if (rank == t->failing && k == 1)
            x = haul_zeros(HAUL_F32, HAUL_SHAPE(PIECES * SIZE, FEATURES + 1));
        for (int i = 0; i < haul_parallel_count(p) && !status; i++)
            status = piece(p, net, x, y, k, haul_parallel_first(p) + i);
        if (!status && scaler)
            status = haul_grad_scaler_unscale(scaler, adamw);
        if (!status) {
            haul_clip_grad_norm(net, 1);
            status = haul_parallel_step(p, adamw);
        }
        if (!status && scaler)
            status = haul_grad_scaler_update(scaler);
    }
    if (!status)
        status = haul_parallel_gather(p, adamw);
    if (!status)
        t->counts[rank] = read_state(net, adamw, t->values[rank]);
    return status;
}

/* The state after a training on the current device by one rank, on the calling thread. */
static void train_alone(training *t)
{
    haul_manual_seed(3);
    check(train(haul_group_get("none"), t));
}

/* With shards, rank 0 alone has the whole state of the optimizer. */
static void compare(const char *name, int ranks, int shard, bool scales)
{
    training *one = calloc(1, sizeof *one), *all = calloc(1, sizeof *all);
    assert_non_null(one);
    assert_non_null(all);
    one->failing = all->failing = -1;
    one->scales = all->scales = scales;
    all->shard = shard;
    train_alone(one);
    haul_manual_seed(3);
    check(haul_group_run(name, train, all));
    for (int r = 0; r < (shard ? 1 : ranks); r++) {
        assert_int_equal(all->counts[r], one->counts[0]);
        assert_memory_equal(all->values[r], one->values[0], (size_t)one->counts[0] * sizeof(float));
    }
    free(one);
    free(all);
}

static void compare_all(const char *device, const char *two, const char *three)
{
    haul_scope *inner = haul_scope_push();
    check(haul_set_device(haul_device_get(device)));
    for (int shard = 0; shard <= 2; shard++)
        for (int scales = 0; scales <= 1; scales++) {
            compare(two, 2, shard, scales);
            compare(three, 3, shard, scales);
        }
    haul_scope_pop(inner);
}

static void test_parallel_local__ranks_on_the_cpu_train_as_one(void **state)
{
    (void)state;
    compare_all("cpu", "local:cpu,cpu", "local:cpu,cpu,cpu");
    compare("local:cpu", 1, 0, false);
    compare("local:cpu,cpu,cpu,cpu", 4, 1, true);
}

static void test_parallel_local__ranks_on_simulated_devices_train_as_one(void **state)
{
    (void)state;
    compare_all("sim:h200", "local:sim:h200:0,sim:h200:1", "local:sim:h200:0,sim:h200:1,sim:h200:0");
}

static void test_parallel_local__ranks_on_an_opencl_device_train_as_one(void **state)
{
    (void)state;
    haul_device *device = haul_device_get("opencl:0");
    haul_error_clear();
    haul_device_properties p;
    if (haul_device_describe(device, &p)) {
        haul_error_clear();
        return;
    }
    haul_scope *inner = haul_scope_push();
    check(haul_set_device(device));
    compare("local:opencl:0,opencl:0", 2, 0, false);
    haul_scope_pop(inner);
}

static void test_parallel_local__a_rank_that_fails_in_a_step_ends_the_others(void **state)
{
    (void)state;
    training *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int failing = 0; failing < 3; failing++) {
        t->failing = failing;
        assert_int_not_equal(haul_group_run("local:cpu,cpu,cpu", train, t), HAUL_OK);
        assert_non_null(strstr(haul_error_message(), "haul_linear"));
    }
    free(t);
}

static void test_parallel_local__parameters_in_parts_are_refused(void **state)
{
    (void)state;
    training *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->shard = 3;
    t->failing = -1;
    assert_int_equal(haul_group_run("local:cpu,cpu", train, t), HAUL_UNSUPPORTED);
    assert_non_null(strstr(haul_error_message(), ".shard = 2"));
    free(t);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_parallel_local__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(ranks_on_the_cpu_train_as_one),          T(ranks_on_simulated_devices_train_as_one),
        T(ranks_on_an_opencl_device_train_as_one), T(a_rank_that_fails_in_a_step_ends_the_others),
        T(parameters_in_parts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
