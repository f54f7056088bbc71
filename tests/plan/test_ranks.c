/* Data parallel training over ranks: times of a small program by hand, what more ranks change, and bad requests. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/cluster/ranks.h"
#include "support/random.h"

#define MB INT64_C(1000000)
#define US INT64_C(1000000) /* picoseconds */

/* Hosts move 1000 bytes in a microsecond, the device 10000, the link between them 2000 after a microsecond. */
static const haul__machine machine = {
    .name = "test",
    .device_count = 2,
    .link_count = 2,
    .devices = {{.name = "cpu", .bytes_per_second = 1000 * MB}, {.name = "cuda:0", .bytes_per_second = 10000 * MB}},
    .links = {{0, 1, .latency_ns = 1000, .pinned = 2000 * MB, .pageable = MB},
              {1, 0, .latency_ns = 1000, .pinned = 2000 * MB, .pageable = MB}}};

/* A forward pass of 10 us on the device, a backward pass of 20 us after which one gradient is there and of 30 us after
 * which the other one is, and an update of 5 us. The operations have no class. */
static haul_program_operation operations[] = {
    {.name = "f", .section = "", .bytes = 100000, .value = 0, .result_count = 1, .view_of = -1, .command_count = 1},
    {.name = "f",
     .section = "backward pass",
     .bytes = 200000,
     .value = 1,
     .result_count = 1,
     .view_of = -1,
     .command_count = 1},
    {.name = "f",
     .section = "backward pass",
     .bytes = 300000,
     .value = 2,
     .result_count = 1,
     .view_of = -1,
     .command_count = 1},
    {.name = "f",
     .section = "optimizer step",
     .bytes = 50000,
     .value = 3,
     .result_count = 1,
     .view_of = -1,
     .command_count = 1}};
static haul_program_value values[] = {{.store = 0, .written = true, .dtype = HAUL_F32},
                                      {.store = 1, .written = true, .dtype = HAUL_F32},
                                      {.store = 2, .written = true, .dtype = HAUL_F32},
                                      {.store = 3, .written = true, .dtype = HAUL_F32}};
static haul_program_store stores[] = {{.role = "activations", .bytes = 77},
                                      {.role = "gradients", .bytes = 8000},
                                      {.role = "gradients", .bytes = 4000},
                                      {.role = "parameters", .bytes = 12000}};
static const haul_program program = {.operation_count = 4,
                                     .operations = operations,
                                     .value_count = 4,
                                     .values = values,
                                     .store_count = 4,
                                     .stores = stores};

/* The network moves 100 bytes in a microsecond. */
static haul__ranks_request request_of(int ranks)
{
    return (haul__ranks_request){.program = &program,
                                 .machine = &machine,
                                 .device = 1,
                                 .ranks = ranks,
                                 .pieces = 8,
                                 .per_host = 1,
                                 .rate = 100 * MB,
                                 .latency_ns = 2000,
                                 .bucket = 1,
                                 .overlaps = true};
}

static haul__ranks_step predict(const haul__ranks_request *r)
{
    haul__ranks_step step;
    if (haul__ranks_predict(r, &step))
        fail_msg("%s", haul_error_message());
    assert_true(step.step_ps == step.compute_ps + step.waited_ps + step.update_ps);
    return step;
}

static void test_one_rank(void **state)
{
    (void)state;
    const haul__ranks_request r = request_of(1);
    const haul__ranks_step    s = predict(&r);
    assert_int_equal(s.pieces_each, 8);
    /* Seven pieces are added: 3 * 12000 bytes each. */
    assert_int_equal(s.compute_ps, 8 * 60 * US + 7 * 36 * US / 10);
    assert_int_equal(s.update_ps, 5 * US);
    assert_int_equal(s.exchange_ps, 0);
    assert_int_equal(s.sent_bytes, 0);
    assert_int_equal(s.gradient_bytes, 12000);
    assert_int_equal(s.sum_bytes, 4 * 12000);
}

/* Of a bucket of n bytes between two hosts: 2 (1 us + n / 2000) to host memory and back, 2 us + n / 2 / 100 for each
 * phase, and 1.5 n / 1000 to add. */
static int64_t bucket_of_two(int64_t n)
{
    return 2 * (US + n * US / 2000) + 2 * (2 * US + n / 2 * US / 100) + 3 * n / 2 * US / 1000;
}

static void test_two_ranks(void **state)
{
    (void)state;
    haul__ranks_request    r = request_of(2);
    const haul__ranks_step s = predict(&r);
    const int64_t          first = bucket_of_two(8000), second = bucket_of_two(4000);
    assert_int_equal(s.exchange_ps, first + second);
    assert_int_equal(s.staging_ps, 2 * (US + 4 * US) + 2 * (US + 2 * US));
    assert_int_equal(s.sent_bytes, 12000);
    /* The first bucket begins 30 us before the end of the pass, the second one after it. */
    assert_int_equal(s.waited_ps, first + second - 30 * US);
    r.overlaps = false;
    assert_int_equal(predict(&r).waited_ps, first + second);
    r.overlaps = true;
    r.bucket = 12000;
    const haul__ranks_step whole = predict(&r);
    assert_int_equal(whole.exchange_ps, bucket_of_two(12000));
    assert_int_equal(whole.waited_ps, whole.exchange_ps);
}

/* Ranks on the CPU share it, and send through its memory. */
static void test_one_host(void **state)
{
    (void)state;
    haul__ranks_request r = request_of(2);
    r.device = 0;
    r.per_host = 2;
    const haul__ranks_step two = predict(&r);
    r.ranks = 1;
    const haul__ranks_step one = predict(&r);
    assert_int_equal(two.hosts, 1);
    assert_int_equal(two.staging_ps, 0);
    assert_int_equal(one.compute_ps - 7 * 36 * US, two.compute_ps - 2 * 3 * 36 * US);
    assert_int_equal(two.update_ps, 2 * one.update_ps);
}

/* Ranks of one thread have cores of their own until there are more of them than cores. */
static void test_cores_of_a_host(void **state)
{
    (void)state;
    static const struct {
        int ranks, threads, cores, times, of; /* a piece takes times / of as long as on one rank */
    } hosts[] = {{2, 1, 4, 1, 1}, {4, 1, 4, 1, 1}, {8, 1, 4, 2, 1}, {6, 1, 4, 3, 2},
                 {2, 3, 4, 3, 2}, {2, 4, 4, 2, 1}, {1, 9, 4, 1, 1}};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        haul__machine       host = machine;
        haul__ranks_request r = request_of(1);
        host.devices[0].threads = hosts[i].threads;
        host.devices[0].cores = hosts[i].cores;
        r.machine = &host;
        r.device = 0;
        const haul__ranks_step one = predict(&r);
        r.ranks = r.per_host = hosts[i].ranks;
        const haul__ranks_step s = predict(&r);
        assert_int_equal(hosts[i].of * s.update_ps, hosts[i].times * one.update_ps);
    }
}

/* In memory of 100 GB/s messages between processes take as long as a core needs for them, with 2.5 GB/s: 2.4 us for the
 * half of 12,000 bytes that is sent, and as long for the half that comes back. The sums move 18,000 bytes of memory. */
static void test_messages_within_a_host(void **state)
{
    (void)state;
    haul__machine       host = machine;
    haul__ranks_request r = request_of(2);
    host.devices[0].bytes_per_second = 100000 * MB;
    host.devices[0].threads = 1;
    host.devices[0].cores = 2;
    r.machine = &host;
    r.device = 0;
    r.per_host = 2;
    r.bucket = 12000;
    const haul__ranks_step two = predict(&r);
    assert_int_equal(two.exchange_ps, 2 * 1 * US + 2 * 24 * US / 10 + 18 * US / 100);
    host.devices[0].cores = 1;
    const haul__ranks_step shared = predict(&r);
    assert_int_equal(shared.exchange_ps, 2 * 1 * US + 4 * 24 * US / 10 + 2 * 18 * US / 100);
}

/* A free core moves the bytes while others compute. Without one, the exchange adds to the step. */
static void test_exchange_needs_a_core(void **state)
{
    (void)state;
    haul__machine       host = machine;
    haul__ranks_request r = request_of(2);
    host.devices[0].threads = 1;
    host.devices[0].cores = 3;
    r.machine = &host;
    r.device = 0;
    r.per_host = 2;
    const haul__ranks_step with = predict(&r);
    assert_true(with.waited_ps < with.exchange_ps);
    host.devices[0].cores = 2;
    const haul__ranks_step without = predict(&r);
    assert_true(without.exchange_ps == with.exchange_ps);
    assert_true(without.compute_ps == with.compute_ps);
    assert_true(without.waited_ps == without.exchange_ps);
    r.per_host = 1; /* the network moves them */
    const haul__ranks_step apart = predict(&r);
    assert_true(apart.waited_ps < apart.exchange_ps);
}

static void test_random_requests(void **state)
{
    (void)state;
    random_state = 7;
    for (int i = 0; i < 3000; i++) {
        haul__ranks_request r = request_of(1 + below(HAUL__MOST_RANKS));
        r.pieces = r.ranks + below(1000);
        r.per_host = 1 + below(16);
        r.device = below(2);
        r.bucket = 1 + below(20000);
        const haul__ranks_step with = predict(&r);
        r.overlaps = false;
        const haul__ranks_step without = predict(&r);
        assert_true(with.waited_ps <= without.waited_ps);
        assert_true(with.exchange_ps == without.exchange_ps);
        r.rate *= 2;
        assert_true(predict(&r).exchange_ps <= without.exchange_ps);
        assert_true(with.pieces_each * r.ranks >= r.pieces);
        assert_true(with.hosts * r.per_host >= r.ranks);
    }
}

static void assert_refused(const haul__ranks_request *r, const char *word)
{
    haul__ranks_step step;
    assert_int_equal(haul__ranks_predict(r, &step), HAUL_INVALID_ARGUMENT);
    if (!strstr(haul_error_message(), word))
        fail_msg("%s: %s is expected", haul_error_message(), word);
    haul_error_clear();
}

static void test_bad_requests(void **state)
{
    (void)state;
    haul__ranks_request r = request_of(9);
    assert_refused(&r, "9 ranks and 8 pieces");
    r.ranks = 0;
    assert_refused(&r, "from 1 to 1024");
    haul_program forward = program;
    forward.operation_count = 1;
    r = request_of(2);
    r.program = &forward;
    assert_refused(&r, "no gradients");
    stores[1].bytes = INT64_MAX;
    r.program = &program;
    assert_refused(&r, "4 TiB");
    stores[1].bytes = 8000;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_one_host),
        cmocka_unit_test(test_cores_of_a_host),
        cmocka_unit_test(test_messages_within_a_host),
        cmocka_unit_test(test_exchange_needs_a_core),
        cmocka_unit_test(test_random_requests),
        cmocka_unit_test(test_bad_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
