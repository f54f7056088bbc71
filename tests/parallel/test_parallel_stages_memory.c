/* Memory of ranks that are stages: each gives up the parameters of other stages before its first step, and what it
 * loads then has its own parameters and their state alone.
 *
 * ctest: labels=threads */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/spill/elsewhere.h"
#include "parallel/piece.h"
#include "support/scope.h"

enum {
    MOST_TENSORS = 128,
    WIDTH = 64,
    LAYERS = 4,
    RANKS = 2,
    PIECES = 2,
    SIZE = 4,
    LARGE = 1024,
    DEEP = 32,
    MOST_VALUES = 2 * DEEP * WIDTH * (WIDTH + 1)
};

#define CHECKPOINT "stages.checkpoint"

static void check(haul_status status)
{
    if (status)
        fail_msg("%s", haul_error_message());
}

/* What each rank has in memory: with the whole network, with its stage, and with the loaded state. */
typedef struct rank_memory {
    int64_t whole, divided, loaded, peak;
    int64_t own, others; /* bytes of parameters */
    int64_t step_peak;
} rank_memory;

typedef struct training {
    int         stages;
    bool        again;    /* parts run again in the backward pass */
    bool        offloads; /* the optimizer's state is in host memory */
    rank_memory memory[RANKS];
    int64_t     count;
    float       values[MOST_VALUES]; /* of parameters and state at the end, on rank 0 */
} training;

static haul_module *network(void)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(WIDTH, WIDTH), haul_nn_relu(), haul_nn_linear(WIDTH, WIDTH),
                           haul_nn_linear(WIDTH, WIDTH), haul_nn_relu(), haul_nn_linear(WIDTH, WIDTH));
}

/* Layers and activations, of which eight each run again as a part. */
static haul_module *deep(bool again)
{
    haul_module *layers[DEEP];
    for (int i = 0; i < DEEP; i++)
        layers[i] = i % 2 ? haul_nn_tanh() : haul_nn_linear(WIDTH, WIDTH);
    haul_module *net = haul_nn_sequential(layers, DEEP);
    for (int i = 0; i < DEEP && again; i += 8) {
        char first[8], last[8];
        snprintf(first, sizeof first, "%d", i);
        snprintf(last, sizeof last, "%d", i + 7);
        haul_module_recompute_children(net, first, last, true);
    }
    return net;
}

static haul_memory_stats memory_now(void)
{
    haul_memory_stats stats = {0};
    haul_memory_stats_get(haul_current_device(), &stats);
    return stats;
}

static haul_status step(haul_parallel *p, haul_optimizer *adamw, int64_t number, int64_t size)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < PIECES && !status; i++) {
        haul_scope *inner = haul_scope_push();
        status = haul_parallel_begin(p, number);
        haul_tensor *y = haul_parallel_call(p, haul_full(HAUL_F32, HAUL_SHAPE(size, WIDTH), 0.5 + i));
        if (!status)
            status = haul_parallel_backward(p, y == HAUL_NONE ? y : haul_sum(haul_square(y)), (double)size);
        haul_scope_pop(inner);
    }
    return status ? status : haul_parallel_step(p, adamw);
}

static int64_t read_some(const haul_named_tensor *all, int n, float *out, int64_t at)
{
    for (int i = 0; i < n; i++) {
        const int64_t count = haul_tensor_count(all[i].tensor);
        if (at + count <= MOST_VALUES)
            haul_read(haul_cast(haul_detach(all[i].tensor), HAUL_F32), out + at, (size_t)count * sizeof *out);
        at += count;
    }
    return at;
}

static haul_status read_values(haul_module *net, haul_optimizer *adamw, training *t)
{
    haul_named_tensor all[MOST_TENSORS];
    t->count = read_some(all, haul_module_tensors(net, all, MOST_TENSORS), t->values, 0);
    t->count = read_some(all, haul_optimizer_state(adamw, all, MOST_TENSORS), t->values, t->count);
    return haul_error_status();
}

static void count_parameters(haul_module *net, rank_memory *out)
{
    haul_named_tensor all[MOST_TENSORS];
    const int         n = haul_module_tensors(net, all, MOST_TENSORS);
    for (int i = 0; i < n; i++)
        *(haul__is_out_of_reach(all[i].tensor->storage) ? &out->others : &out->own) +=
            (int64_t)haul_tensor_bytes(all[i].tensor);
}

/* A run that goes on: divided, loaded and trained for another step. */
static haul_status go_on(haul_group *group, void *context)
{
    training       *t = context;
    rank_memory    *m = &t->memory[haul_group_rank(group)];
    haul_module    *net = network();
    haul_optimizer *adamw = haul_adamw(net, 0.01);
    haul_parallel  *p = haul_parallel_new(net, .group = group, .pieces = PIECES, .stages = t->stages);
    haul_optimizer_set_offload(adamw, t->offloads);
    m->whole = memory_now().allocated;
    haul_status status = haul__parallel_divide(p, "test");
    m->divided = memory_now().allocated;
    count_parameters(net, m);
    haul_memory_reset_peak(haul_current_device());
    if (!status)
        status = haul_load_checkpoint(CHECKPOINT, net, adamw);
    m->loaded = memory_now().allocated;
    m->peak = memory_now().peak_allocated;
    if (!status)
        status = step(p, adamw, 1, SIZE);
    if (!status)
        status = haul_parallel_gather(p, adamw);
    return status || haul_group_rank(group) ? status : read_values(net, adamw, t);
}

static void save_checkpoint(void)
{
    haul_module    *net = network();
    haul_optimizer *adamw = haul_adamw(net, 0.01);
    haul_parallel  *p = haul_parallel_new(net, .group = haul_group_get("none"), .pieces = PIECES);
    check(step(p, adamw, 0, SIZE));
    check(haul_save_checkpoint(CHECKPOINT, net, adamw));
}

static void check_memory(const training *t, const training *one)
{
    for (int r = 0; r < RANKS; r++) {
        const rank_memory *m = &t->memory[r];
        const int64_t      state = t->offloads ? 0 : 2 * m->own; /* both moments */
        assert_true(m->own > 0 && m->others > 0);
        assert_int_equal(m->own + m->others, one->memory[0].own);
        assert_true(m->divided <= m->whole - m->others);
        assert_in_range(m->loaded, m->divided + state, m->divided + state + m->own - 1);
        assert_true(m->peak < m->whole + 2 * m->own);
    }
}

static void test_parallel_stages_memory__a_rank_loads_its_own_stage(void **state)
{
    (void)state;
    training *one = calloc(1, sizeof *one), *two = calloc(1, sizeof *two);
    assert_true(one && two);
    check(haul_set_device(haul_device_get("sim:h200:0")));
    haul_manual_seed(7);
    save_checkpoint();
    check(go_on(haul_group_get("none"), one));
    assert_in_range(one->count, 1, MOST_VALUES);
    for (int offloads = 0; offloads < 2; offloads++) {
        *two = (training){.stages = RANKS, .offloads = offloads};
        check(haul_group_run("local:sim:h200:0,sim:h200:1", go_on, two));
        check_memory(two, one);
        assert_int_equal(two->count, one->count);
        assert_memory_equal(two->values, one->values, (size_t)one->count * sizeof(float));
    }
    free(one);
    free(two);
}

/* A step in which activations take most of the memory. */
static haul_status make_large_step(haul_group *group, void *context)
{
    training       *t = context;
    haul_module    *net = deep(t->again);
    haul_optimizer *adamw = haul_adamw(net, 0.01);
    haul_parallel  *p = haul_parallel_new(net, .group = group, .pieces = PIECES, .stages = t->stages, .cuts = "16");
    haul_status     status = step(p, adamw, 0, LARGE);
    t->memory[haul_group_rank(group)].step_peak = memory_now().peak_allocated;
    if (!status)
        status = haul_parallel_gather(p, adamw);
    return status || haul_group_rank(group) ? status : read_values(net, adamw, t);
}

static void test_parallel_stages_memory__parts_that_run_again_take_less(void **state)
{
    (void)state;
    training *runs[] = {calloc(1, sizeof(training)), calloc(1, sizeof(training))};
    assert_true(runs[0] && runs[1]);
    check(haul_set_device(haul_device_get("sim:h200:0")));
    for (int again = 0; again < 2; again++) {
        runs[again]->stages = RANKS;
        runs[again]->again = again;
        for (int r = 0; r < RANKS; r++)
            check(haul_memory_reset_peak(haul_device_get(r ? "sim:h200:1" : "sim:h200:0")));
        haul_manual_seed(9);
        check(haul_group_run("local:sim:h200:0,sim:h200:1", make_large_step, runs[again]));
    }
    for (int r = 0; r < RANKS; r++)
        assert_true(runs[1]->memory[r].step_peak < runs[0]->memory[r].step_peak);
    assert_int_equal(runs[0]->count, runs[1]->count);
    assert_memory_equal(runs[0]->values, runs[1]->values, (size_t)runs[0]->count * sizeof(float));
    free(runs[0]);
    free(runs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parallel_stages_memory__a_rank_loads_its_own_stage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parallel_stages_memory__parts_that_run_again_take_less, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
