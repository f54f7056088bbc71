/* The calls that tests/tree/instructions.py counts: it runs this program under callgrind, which writes a file for each
 * case. Each case makes its call a few times uncounted, so that kernels, free lists and caches exist. */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>

enum { UNCOUNTED = 20, COUNTED = 100 };

static haul_tensor    *one, *two, *tracked, *row, *weight, *bias, *inputs, *targets;
static haul_module    *net;
static haul_optimizer *optimizer;

static void add(void)
{
    haul_drop(haul_add(one, two));
}

static void add_recorded(void)
{
    haul_drop(haul_add(tracked, two));
}

static void add_into(void)
{
    haul_add_into(one, one, two);
}

static void add_in_scope(void)
{
    haul_scope *scope = haul_scope_push();
    haul_add(one, two);
    haul_scope_pop(scope);
}

static void reshape(void)
{
    haul_drop(haul_reshape(row, HAUL_SHAPE(2, 5)));
}

static void transpose(void)
{
    haul_drop(haul_transpose(row, 0, 1));
}

static void slice(void)
{
    haul_drop(haul_slice(row, 1, 2, 6, 1));
}

static void softmax(void)
{
    haul_drop(haul_softmax(row, -1));
}

static void linear(void)
{
    haul_drop(haul_linear(row, weight, .bias = bias));
}

static void step(void)
{
    haul_scope *scope = haul_scope_push();
    haul_optimizer_zero_grad(optimizer);
    haul_backward(haul_mse_loss(haul_call(net, inputs), targets));
    haul_optimizer_step(optimizer);
    haul_scope_pop(scope);
}

/* Only the backward pass counts. */
static void backward(void)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *y = tracked;
    for (int i = 0; i < 5; i++)
        y = haul_mul(haul_add(y, two), two);
    CALLGRIND_TOGGLE_COLLECT;
    haul_backward(y);
    CALLGRIND_TOGGLE_COLLECT;
    haul_set_grad(tracked, HAUL_NONE);
    haul_scope_pop(scope);
}

static const struct {
    const char *name;
    void (*call)(void);
    int counts_itself;
} cases[] = {
    {"add", add, 0},
    {"add_into", add_into, 0},
    {"add_in_scope", add_in_scope, 0},
    {"add_recorded", add_recorded, 0},
    {"reshape", reshape, 0},
    {"transpose", transpose, 0},
    {"slice", slice, 0},
    {"softmax", softmax, 0},
    {"linear", linear, 0},
    {"backward_of_10", backward, 1},
    {"dense_step", step, 0},
};

static void open_tensors(void)
{
    haul_manual_seed(0);
    one = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 1);
    two = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 2);
    tracked = haul_set_requires_grad(haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 1), true);
    row = haul_uniform(HAUL_F32, HAUL_SHAPE(1, 10), -1, 1);
    weight = haul_uniform(HAUL_F32, HAUL_SHAPE(16, 10), -1, 1);
    bias = haul_uniform(HAUL_F32, HAUL_SHAPE(16), -1, 1);
    net = haul_model_new("dense");
    optimizer = haul_sgd(net, 0.01, .momentum = 0.9);
    inputs = haul_uniform(HAUL_F32, HAUL_SHAPE(32, 10), -1, 1);
    targets = haul_uniform(HAUL_F32, HAUL_SHAPE(32, 1), -1, 1);
}

int main(void)
{
    haul_set_num_threads(1);
    haul_scope *scope = haul_scope_push();
    open_tensors();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int k = 0; k < UNCOUNTED; k++)
            cases[i].call();
        CALLGRIND_ZERO_STATS;
        if (!cases[i].counts_itself)
            CALLGRIND_TOGGLE_COLLECT;
        for (int k = 0; k < COUNTED; k++)
            cases[i].call();
        if (!cases[i].counts_itself)
            CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_DUMP_STATS_AT(cases[i].name);
    }
    haul_status status = haul_error_status();
    if (status)
        fprintf(stderr, "%s\n", haul_error_message());
    haul_scope_pop(scope);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
