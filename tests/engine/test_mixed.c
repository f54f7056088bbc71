/* Errors of operands on several devices name the cheapest moves, with bytes and times. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/system/clock.h"
#include "device/speeds.h"
#include "support/conformance/conformance.h"
#include "transfer/move_price.h"

static char         folder[] = "mixed-XXXXXX";
static haul_device *other; /* of this computer; NULL: there is none */

static haul_tensor *zeros(haul_device *device, int64_t n)
{
    return haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(n)), device);
}

/* The message has these words, in this order. */
static void expect(haul_tensor *failed, const char *const *words, int count)
{
    assert_false(haul_tensor_is_valid(failed));
    assert_int_equal(haul_error_status(), HAUL_PLACEMENT);
    const char *at = haul_error_message();
    for (int i = 0; i < count; i++) {
        const char *found = strstr(at, words[i]);
        if (!found)
            fail_msg("'%s' is not in the rest of: %s", words[i], haul_error_message());
        at = found + strlen(words[i]);
    }
    haul_error_clear();
}

#define EXPECT(failed, ...)                                                                                            \
    expect(failed, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- devices of this computer; these tests come before those of simulated ones ---- */

static const char *with(const char *format, char buffer[160])
{
    snprintf(buffer, 160, format, haul_device_name(other));
    return buffer;
}

static void test_mixed__assumes_speeds_without_a_measurement(void **state)
{
    (void)state;
    char        fix[160];
    haul_scope *scope = haul_scope_push();
    if (!other)
        skip();
    EXPECT(haul_add(zeros(haul_cpu(), 1000), haul_reshape(zeros(other, 1), HAUL_SHAPE(1))), "(3.9 KiB)", "(4 bytes)",
           "moving b to cpu takes about", "us, a to ", "about ", "assumed; haul calibrate measures links",
           "b = haul_to(b, haul_device_get(\"cpu\"))", "HAUL_PLACE_MOVE");
    EXPECT(haul_add(zeros(haul_cpu(), 1), zeros(other, 1000)), with("moving a to %s takes about", fix),
           "b to cpu about");
    haul_scope_pop(scope);
}

/* A measurement counts as soon as there is one. */
static void test_mixed__takes_what_was_measured(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    char        fix[160];
    if (!other)
        skip();
    haul__machine *m = haul__calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (haul__machine){.name = "here", .device_count = 2, .link_count = 2};
    m->devices[0] = (haul__machine_device){.name = "cpu", .memory_bytes = 1, .bytes_per_second = 1};
    m->devices[1] = (haul__machine_device){.memory_bytes = 1, .bytes_per_second = 1};
    snprintf(m->devices[1].name, sizeof m->devices[1].name, "%s", haul_device_name(other));
    m->links[0] = (haul__machine_link){.from = 0, .to = 1, .latency_ns = 3000, .pinned = 1000000, .pageable = 1000000};
    m->links[1] = (haul__machine_link){.from = 1, .to = 0, .latency_ns = 7e6, .pinned = 1000000, .pageable = 1000000};
    haul__speeds_store(other, m);
    haul__free(m);
    EXPECT(haul_add(zeros(haul_cpu(), 1000), zeros(other, 1)),
           with("moving a to %s takes about 4.00 ms, b to cpu about 7.00 ms: a = haul_to(a, ", fix));
    haul_scope_pop(scope);
}

/* ---- simulated devices ---- */

static int64_t now(haul_device *device)
{
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    return haul__clock_ps();
}

/* What a move takes in virtual time is its price. */
static void test_mixed__prices_are_what_moves_take(void **state)
{
    (void)state;
    static const char *const names[] = {"sim:h200", "sim:laptop-4g", "sim:jetson"};
    haul_scope              *scope = haul_scope_push();
    for (int i = 0; i < 3; i++)
        for (int64_t n = 1; n <= 1 << 20; n *= 1024) {
            haul_device *gpu = haul_device_get(names[i]);
            haul_tensor *x = zeros(haul_cpu(), n);
            for (int k = 0; k < 4; k++) { /* up and down, from plain and from pinned memory */
                haul_device  *to = k % 2 ? haul_cpu() : gpu;
                const int64_t price = haul__move_ps(x, to), began = now(gpu);
                x = haul_to(x, to);
                assert_int_equal(haul_tensor_check(x), HAUL_OK);
                assert_int_equal(now(gpu) - began, price);
                assert_int_equal(haul__move_ps(x, to), 0);
            }
        }
    haul_scope_pop(scope);
}

/* Between devices of one machine over its links, and between those of two machines through the host. */
static void test_mixed__prices_moves_between_accelerators(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    const char *pairs[][2] = {
        {"sim:h200", "sim:h200:1"}, {"sim:h200:1", "sim:laptop-4g"}, {"sim:jetson", "sim:h200:1"}};
    for (int i = 0; i < 3; i++)
        for (int64_t n = 1; n <= 1 << 20; n *= 1024) {
            haul_device  *from = haul_device_get(pairs[i][0]), *to = haul_device_get(pairs[i][1]);
            haul_tensor  *x = zeros(from, n);
            const int64_t price = haul__move_ps(x, to);
            assert_int_equal(haul_device_sync(to), HAUL_OK);
            const int64_t began = now(from);
            assert_int_equal(haul_tensor_check(haul_to(x, to)), HAUL_OK);
            if (i == 0 || n <= 1024)
                assert_int_equal(now(to) - began, price);
            else
                assert_in_range(now(to) - began, price / 2, price); /* a part arrives while the next one leaves */
        }
    haul_scope_pop(scope);
}

static void test_mixed__names_the_cheapest_move(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_device *gpu = haul_device_get("sim:h200");
    EXPECT(
        haul_add(zeros(haul_cpu(), 1 << 20), zeros(gpu, 1)),
        "haul_add: a is f32[1048576] on cpu (4.0 MiB), b is f32[1] on sim:h200:0 (4 bytes); moving b to cpu takes "
        "about 10.0 us, a to sim:h200:0 about 359.5 us: b = haul_to(b, haul_device_get(\"cpu\")), or allow moves with "
        "haul_set_placement_policy(HAUL_PLACE_MOVE)");
    EXPECT(haul_add(zeros(haul_cpu(), 1), zeros(gpu, 1 << 20)),
           "moving a to sim:h200:0 takes about 10.0 us, b to cpu about 88.3 us: a = haul_to(a, ");
    haul_scope_pop(scope);
}

/* All operands that are elsewhere move, and the sum of their times decides. */
static void test_mixed__counts_all_operands(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_device *gpu = haul_device_get("sim:h200");
    haul_tensor *x = haul_reshape(zeros(haul_cpu(), 1 << 12), HAUL_SHAPE(64, 64));
    haul_tensor *w = haul_reshape(zeros(gpu, 1 << 12), HAUL_SHAPE(64, 64)), *b = zeros(gpu, 64);
    EXPECT(haul_linear(x, w, .bias = b),
           "moving x to sim:h200:0 takes about 11.4 us, weight and bias to cpu about 20.3 us: x = ");
    EXPECT(haul_linear(haul_to(x, gpu), haul_to(w, haul_cpu()), .bias = haul_to(b, haul_cpu())),
           "moving x to cpu takes about 10.3 us, weight and bias to sim:h200:0 about 20.3 us: x = ");
    EXPECT(haul_cat(((haul_tensor *[]){x, w, w, w}), 4, 0), "takes about 11.4 us", "and 2 others to cpu about 30.9 us");
    haul_scope_pop(scope);
}

static haul_tensor *normalised(haul_tensor *x, haul_tensor *weight, haul_tensor *mean, haul_tensor *var)
{
    return haul_batch_norm(x, .weight = weight, .training = true, .running_mean = mean, .running_var = var);
}

/* A target elsewhere: the fix costs nothing, and the way around it has a price. */
static void test_mixed__prices_a_target_elsewhere(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_device *gpu = haul_device_get("sim:h200");
    haul_tensor *x = zeros(gpu, 1 << 20);
    assert_int_equal(haul_add_into(zeros(haul_cpu(), 1 << 20), x, x), HAUL_PLACEMENT);
    assert_non_null(strstr(haul_error_message(), "out is on cpu, the result is on sim:h200:0; make out there: "
                                                 "haul_copy_into(out, result) moves 4.0 MiB in about 88.3 us"));
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_mixed__prices_a_gradient_elsewhere(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = zeros(haul_device_get("sim:h200"), 1 << 20);
    assert_int_equal(haul_tensor_check(haul_set_requires_grad(t, true)), HAUL_OK);
    assert_int_equal(haul_set_grad(t, zeros(haul_cpu(), 1 << 20)), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(),
                           "on sim:h200:0, but grad is f32[1048576] on cpu; moving it takes about "
                           "359.5 us: haul_to(grad, haul_device_get(\"sim:h200:0\"))"));
    haul_error_clear();
    haul_scope_pop(scope);
}

/* An operand that is written in place does not move. */
static void test_mixed__leaves_what_is_written(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_device *gpu = haul_device_get("sim:h200");
    haul_tensor *small = zeros(gpu, 64);
    haul_tensor *x = haul_reshape(zeros(haul_cpu(), 1 << 20), HAUL_SHAPE(64, 64, 16, 16));
    haul_tensor *mean = zeros(gpu, 64), *var = zeros(gpu, 64);
    EXPECT(normalised(x, HAUL_NONE, mean, var), "moving x to sim:h200:0 takes about");
    EXPECT(normalised(x, small, mean, haul_to(var, haul_cpu())),
           "written in place cannot move: make them on one device");
    haul_set_placement_policy(HAUL_PLACE_MOVE);
    EXPECT(normalised(x, HAUL_NONE, mean, var),
           "running_mean is written in place and stays on sim:h200:0, the others are on cpu; moving x to sim:h200:0 "
           "takes about ",
           "x = haul_to(x, haul_device_get(\"sim:h200:0\"))");
    haul_scope_pop(scope);
}

/* The operation goes to a scalar with more bytes than the others have, although the scalar itself need not move. */
static void test_mixed__leaves_what_is_written_with_a_larger_scalar(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *mean = zeros(haul_device_get("sim:h200"), 1), *x = haul_zeros(HAUL_F64, HAUL_SCALAR_SHAPE);
    haul_set_placement_policy(HAUL_PLACE_MOVE);
    EXPECT(normalised(x, HAUL_NONE, mean, mean),
           "running_mean is written in place and stays on sim:h200:0, another one on cpu; make them on one device");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed__assumes_speeds_without_a_measurement),
        cmocka_unit_test(test_mixed__takes_what_was_measured),
        cmocka_unit_test(test_mixed__prices_are_what_moves_take),
        cmocka_unit_test(test_mixed__prices_moves_between_accelerators),
        cmocka_unit_test(test_mixed__names_the_cheapest_move),
        cmocka_unit_test(test_mixed__counts_all_operands),
        cmocka_unit_test(test_mixed__prices_a_target_elsewhere),
        cmocka_unit_test(test_mixed__prices_a_gradient_elsewhere),
        cmocka_unit_test(test_mixed__leaves_what_is_written),
        cmocka_unit_test(test_mixed__leaves_what_is_written_with_a_larger_scalar),
    };
    if (!mkdtemp(folder) || setenv("HAUL_CACHE_DIR", folder, 1))
        return 1;
    other = test_second_device();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
