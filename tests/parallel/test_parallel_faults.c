/* A rank that fails before a collective of tensors, or before the exchange of a step, passes its error on: the others
 * end with it, without waiting for the group's limit. HAUL_TEST_FAULT says where the last rank fails;
 * tests/parallel/parallel_launchers.sh starts the program with MPI launchers, and reads what the ranks print. By itself
 * it is one rank, whose errors are its own.
 *
 * ctest: */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parallel/parts.h"
#include "support/ranks/ranks.h"

enum { SIZE = 4, STEPS = 3, MOST_PARAMETERS = 4 };

static const char *fault = "";

/* True on the last rank if this is its fault. */
static bool fails(const char *name)
{
    return rank == size - 1 && !strcmp(fault, name);
}

/* More than there is. */
static haul_tensor *too_large(void)
{
    return haul_sum(haul_zeros(HAUL_F32, HAUL_SHAPE((int64_t)1 << 44)));
}

static haul_tensor *refuse(haul_tensor *gradient, void *context)
{
    (void)gradient;
    (void)context;
    return haul_tensor_fail(HAUL_STATE, "test", NULL, "this gradient is refused");
}

/* An operand that has failed, and a result for which there is no memory. */
static haul_status reduce(void)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(64, 64));
    haul_scope  *inner = haul_scope_push();
    if (fails("result"))
        check(haul_scope_set_memory_limit(inner, haul_cpu(), 64));
    haul_tensor *sum = haul_all_reduce(fails("operand") ? too_large() : x, group);
    haul_status  status = haul_tensor_check(sum);
    haul_scope_pop(inner);
    return status;
}

/* A pass that fails before the collective in it. */
static haul_status differentiate(void)
{
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(SIZE)), true);
    haul_tensor *y = haul_square(haul_all_reduce(x, group));
    if (fails("gradient"))
        haul_tensor_add_hook(y, .gradient = refuse);
    return haul_backward(haul_sum(y));
}

static haul_status train(int shard)
{
    haul_module      *net = HAUL_SEQUENTIAL(haul_nn_linear(SIZE, SIZE), haul_nn_tanh(), haul_nn_linear(SIZE, 1));
    haul_optimizer   *adamw = haul_adamw(net, 0.01);
    haul_parallel    *p = haul_parallel_new(net, .group = group, .shard = shard);
    haul_status       status = haul_error_status();
    haul_named_tensor all[MOST_PARAMETERS];
    const int         parameters = haul_module_tensors(net, all, MOST_PARAMETERS);
    for (int64_t k = 0; k < STEPS && !status; k++) {
        do {
            status = haul_parallel_begin(p, k == 1 && fails("begin") ? -1 : k);
            haul_tensor *loss = haul_sum(haul_square(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(2, SIZE)))));
            if (k == 1 && fails("forward"))
                loss = haul_add(loss, too_large());
            if (!status)
                status = haul_parallel_backward(p, loss, 2);
        } while (!status && !haul_parallel_ready(p));
        if (!status)
            status = haul_tensor_check(haul_clip_grad_norm(net, 1));
        if (k == 1 && ((shard == 3 && fails("update")) || (shard == 0 && fails("step"))))
            haul__fault_plan(HAUL__FAULT_LAUNCH, 1);
        if (!status)
            status = haul_parallel_step(p, adamw);
        for (int i = 0; i < parameters && !status; i++)
            status = haul_tensor_check(haul_sum(all[i].tensor));
    }
    return status;
}

static haul_status all(void)
{
    haul_status status = reduce();
    if (!status)
        status = differentiate();
    for (int shard = 0; shard <= 3 && !status; shard++)
        status = train(shard);
    return status;
}

static int all_setup(void **state)
{
    haul__parts_whole = 0; /* all parameters are divided */
    return group_setup(state);
}

static int misbehave(void)
{
    if (all_setup(NULL))
        return 3;
    fprintf(stderr, "rank %d is process %d\n", rank, (int)getpid());
    haul_scope       *whole = haul_scope_push();
    const haul_status status = all();
    if (status)
        fprintf(stderr, "rank %d ends: %s\n", rank, haul_error_message());
    haul_scope_pop(whole);
    return status ? 3 : 0;
}

/* All ranks make the same mistake, and go on. */
static void test_parallel_faults__the_same_mistake_on_all_ranks_leaves_the_group_usable(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(haul_tensor_check(haul_all_reduce(too_large(), group)) == HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        check(all());
    }
}

int main(void)
{
    const char *given = getenv("HAUL_TEST_FAULT");
    if (given) {
        fault = given;
        return misbehave();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parallel_faults__the_same_mistake_on_all_ranks_leaves_the_group_usable,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, all_setup, NULL);
}
