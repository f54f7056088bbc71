/* Ranks that call different collectives, fail, stop, die, leave or are late. HAUL_TEST_FAULT says what the last rank
 * does; tests/group/group_launchers.sh starts the program with MPI launchers, and reads what the ranks print. By itself
 * it is one rank, and tests what happens without an MPI library. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "group/line.h"
#include "support/scope.h"

static void test_group_faults__a_missing_library_is_named(void **state)
{
    (void)state;
    setenv("HAUL_MPI", "/nowhere/libmpi.so.40", 1);
    assert_null(haul_group_get("mpi"));
    assert_int_equal(haul_error_status(), HAUL_UNSUPPORTED);
    assert_non_null(strstr(haul_error_message(), "/nowhere/libmpi.so.40"));
    /* A library without MPI's functions. */
    setenv("HAUL_MPI", "libm.so.6", 1);
    assert_null(haul_group_get("mpi"));
    assert_non_null(strstr(haul_error_message(), "MPI_Init"));
    unsetenv("HAUL_MPI");
}

static void test_group_faults__launchers_are_known_by_their_variables(void **state)
{
    (void)state;
    const char *variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};
    setenv("HAUL_MPI", "/nowhere/libmpi.so.40", 1);
    setenv("SLURM_PROCID", "0", 1);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        setenv(variables[i], "1", 1);
        assert_int_equal(haul_group_size(haul_group_get("auto")), 1);
        setenv(variables[i], "2", 1);
        assert_null(haul_group_get("auto"));
        setenv(variables[i], "two", 1);
        assert_non_null(haul_group_get("auto"));
        unsetenv(variables[i]);
    }
    unsetenv("SLURM_PROCID");
    unsetenv("HAUL_MPI");
}

static int report(void)
{
    fprintf(stderr, "%s\n", haul_error_message());
    return 3;
}

static void *stop_soon(void *unused)
{
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    raise(SIGSTOP);
    return unused;
}

/* Runs when the program exits: its group thread goes on while others compute. */
static void stop_while_it_waits(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, stop_soon, NULL);
}

static void stop_instead(haul__engine *e)
{
    (void)e;
    raise(SIGSTOP);
}

/* The last rank stops after its program has ended. */
static void stop_at_end(bool stops, bool closing)
{
    static haul__group_kind stopping;
    if (stops && closing) {
        stopping = *haul__group_line.engine->kind;
        stopping.close = stop_instead;
        haul__group_line.engine->kind = &stopping;
    } else if (stops) {
        atexit(stop_while_it_waits);
    } else {
        nanosleep(&(struct timespec){1, 0}, NULL);
    }
}

/* Rank 0 sends a tensor to the last rank, which expects another one; then it waits for one. */
static int send_another(haul_group *g, int rank, int last)
{
    haul_scope_push();
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(rank == last ? 2 : 4));
    if (rank == last)
        return haul_tensor_check(haul_receive(x, 0, g)) ? report() : 0;
    return haul_tensor_check(haul_send(x, last, g)) || haul_tensor_check(haul_receive(x, last, g)) ? report() : 0;
}

/* Rank 0 waits for a tensor of the last rank, which waits for the others in a barrier. */
static int receive_none(haul_group *g, int rank)
{
    if (rank)
        return haul_group_barrier(g) ? report() : 0;
    haul_scope_push();
    return haul_tensor_check(haul_receive(haul_zeros(HAUL_F32, HAUL_SHAPE(2)), 1, g)) ? report() : 0;
}

/* Rank 0 sends what no rank receives, and the last one waits for what no rank sends, or ends. */
static int send_none_receives(haul_group *g, int rank, bool receives)
{
    haul_scope_push();
    if (rank == 0)
        haul_send(haul_zeros(HAUL_F32, HAUL_SHAPE(1 << 20)), 1, g);
    if (rank == 2 && receives && haul_tensor_check(haul_receive(haul_zeros(HAUL_F32, HAUL_SHAPE(2)), 1, g)))
        return report();
    return 0;
}

/* The last rank takes part in a broadcast, which waits for rank 0, when its receive fails. Rank 1 hears of it. */
static int fail_during_broadcast(haul_group *g, int rank, int last)
{
    const haul__group_call call = {.name = "broadcast of 8 bytes"};
    double                 value = 0;
    haul_scope_push();
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(rank == last ? 2 : 4));
    if (rank == 0) {
        haul_send(x, last, g);
        for (;;)
            pause();
    }
    haul__work *w = haul__group_broadcast_begin(g, &call, &value, sizeof value, 0);
    if (rank == last && haul_tensor_check(haul_receive(x, 0, g)))
        haul_error_clear(); /* its message is the job's last */
    return haul__work_wait(w) ? report() : 0;
}

static int misbehave(const char *fault)
{
    const haul__group_call other = {.name = "other", .what = "f32[3]"};
    haul_group            *g = haul_group_get("auto");
    if (!g)
        return report();
    const int rank = haul_group_rank(g), last = haul_group_size(g) - 1;
    fprintf(stderr, "rank %d is process %d\n", rank, (int)getpid());
    for (int i = 0; i < 3; i++)
        if (haul_group_barrier(g))
            return report();
    if (!strcmp(fault, "sizes") &&
        haul__work_wait(haul__group_broadcast_begin(g, &other, (double[]){0, 0}, rank == last ? 16 : 8, 0)))
        return report();
    if (!strcmp(fault, "message"))
        return send_another(g, rank, last);
    if (!strcmp(fault, "message-in-broadcast"))
        return fail_during_broadcast(g, rank, last);
    if (!strcmp(fault, "no-message"))
        return receive_none(g, rank);
    if (!strcmp(fault, "unreceived") || !strcmp(fault, "unsent"))
        return send_none_receives(g, rank, !strcmp(fault, "unsent"));
    if (!strcmp(fault, "stop-leaving") || !strcmp(fault, "stop-closing")) {
        stop_at_end(rank == last, !strcmp(fault, "stop-closing"));
        return 0;
    }
    if (rank == last) {
        if (!strcmp(fault, "stop"))
            raise(SIGSTOP);
        else if (!strcmp(fault, "kill"))
            raise(SIGKILL);
        else if (!strcmp(fault, "leave"))
            return 0;
        else if (!strcmp(fault, "late"))
            for (;;)
                pause();
        else if (!strcmp(fault, "error"))
            haul_item(HAUL_NONE), haul__group_pass_error(g, "haul_item");
        else if (!strcmp(fault, "mismatch") &&
                 haul__work_wait(haul__group_broadcast_begin(g, &other, &(float){0}, 4, 0)))
            return report();
    }
    if (!strcmp(fault, "leave") && rank == 1)
        nanosleep(&(struct timespec){0, 300000000}, NULL); /* it computes, and is not the one that is blamed */
    return haul_group_barrier(g) ? report() : 0;
}

int main(void)
{
    const char *fault = getenv("HAUL_TEST_FAULT");
    if (fault)
        return misbehave(fault);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_group_faults__a_missing_library_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_faults__launchers_are_known_by_their_variables, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
