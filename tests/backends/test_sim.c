/* Simulated devices: names, values, memory, and times on the virtual clock, which are exact. */
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h"
#include "machine/machine.h"
#include "plan/calibrate.h"
#include "plan/here.h"
#include "plan/place/step.h"
#include "record/work.h"
#include "support/scope.h"

static haul_device   *gpu;
static haul__machine *machine;

/* ---- names ---- */

static void test_sim__is_opened_by_name_only(void **state)
{
    (void)state;
    haul_device_report all[32];
    const int          count = haul_device_list(all, 32);
    bool               seen = false;
    for (int i = 0; i < count && i < 32; i++) {
        if (strcmp(all[i].name, "sim") != 0)
            continue;
        seen = true;
        assert_false(all[i].usable);
        assert_non_null(strstr(all[i].reason, "sim:h200"));
    }
    assert_true(seen);
    assert_false(strncmp(haul_device_name(haul_device_get("auto")), "sim", 3) == 0);
}

static void test_sim__names(void **state)
{
    (void)state;
    assert_string_equal(haul_device_name(haul_device_get("sim:h200")), "sim:h200:0");
    assert_ptr_equal(haul_device_get("SIM:H200:0"), haul_device_get("sim:h200"));
    assert_string_equal(haul_device_name(haul_device_get("sim:h200:1")), "sim:h200:1");
    assert_string_equal(haul_device_name(haul_device_get("sim:laptop-4g")), "sim:laptop-4g:0");
    static const char *const wrong[] = {"sim:h300", "sim:h200:2", "sim:", "sim:h200:", "sim:h", "sim:h200:00"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        haul_device *device = haul_device_get(wrong[i]);
        assert_false(haul_device_is_valid(device));
        assert_int_equal(haul_set_device(device), HAUL_DEVICE);
        assert_non_null(strstr(haul_error_message(), "a100-40g"));
    }
    assert_false(haul_device_is_valid(haul_device_get("sim")));
    haul_device_properties p;
    assert_int_equal(haul_device_describe(haul_device_get("sim:laptop-4g"), &p), HAUL_OK);
    assert_int_equal(p.memory_bytes, INT64_C(4) << 30);
    assert_int_equal(p.kind, HAUL_KIND_GPU);
    assert_false(p.shares_host_memory);
    assert_int_equal(haul_device_describe(haul_device_get("sim:jetson"), &p), HAUL_OK);
    assert_true(p.shares_host_memory);
}

/* ---- times; each test waits for the device first ---- */

static int64_t now(void)
{
    assert_int_equal(haul_device_sync(gpu), HAUL_OK);
    return haul__clock_ps();
}

static int64_t time_of(int device, const char *name, double flops, int64_t bytes, int64_t commands)
{
    return haul__machine_time(machine, device,
                              &(haul__machine_work){.work_class = haul__work_class_of(name),
                                                    .dtype = HAUL_F32,
                                                    .flops = flops,
                                                    .bytes = bytes,
                                                    .commands = commands});
}

static haul_tensor *ones(haul_device *device, int64_t n)
{
    haul_scope *inner = haul_scope_push();
    haul_set_device(device);
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(n, n), 1);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    return haul_scope_return(inner, x);
}

static void test_sim__clock_stands_still_without_work(void **state)
{
    (void)state;
    const int64_t before = now();
    for (int i = 0; i < 1000; i++)
        haul_scope_pop(haul_scope_push());
    assert_int_equal(now(), before);
    assert_int_equal(haul__now_ns(), haul__now_ns());
}

/* The processor's library computes large spectra for it, so they are copied there. */
static void test_sim__large_spectra_move_to_the_processor(void **state)
{
    haul_transfer_stats before, after;
    haul_tensor        *x = ones(gpu, 70), *w, *v, *u, *s, *vt;
    (void)state;
    assert_int_equal(haul_transfer_stats_get(&before), HAUL_OK);
    assert_int_equal(haul_eigh(x, &w, &v), HAUL_OK);
    assert_int_equal(haul_svd(x, &u, &s, &vt), HAUL_OK);
    assert_int_equal(haul_transfer_stats_get(&after), HAUL_OK);
    assert_int_equal(after.d2h_count - before.d2h_count, 2);
    assert_int_equal(after.h2d_count - before.h2d_count, 5);
    assert_ptr_equal(haul_tensor_device(vt), gpu);
}

static void test_sim__operations_take_the_machines_time(void **state)
{
    (void)state;
    haul_tensor  *x = ones(gpu, 64), *y = ones(gpu, 64);
    const int64_t bytes = 64 * 64 * 4;
    int64_t       before = now();
    haul_tensor  *z = haul_add(x, y);
    assert_int_equal(haul__clock_ps(), before); /* the host has not waited yet */
    assert_int_equal(now() - before, time_of(1, "haul_add", 64 * 64, 3 * bytes, 1));
    before = now();
    haul_matmul(x, z);
    assert_int_equal(now() - before, time_of(1, "haul_matmul", 2.0 * 64 * 64 * 64, 3 * bytes, 1));
    assert_true(haul_item(haul_max(z)) == 2);
}

/* A launch each: a chain takes the sum. */
static void test_sim__commands_of_a_stream_follow_each_other(void **state)
{
    (void)state;
    enum { COUNT = 10 };
    haul_tensor  *x = ones(gpu, 8);
    const int64_t before = now();
    for (int i = 0; i < COUNT; i++)
        x = haul_relu(x);
    assert_int_equal(now() - before, COUNT * time_of(1, "haul_relu", 64, 2 * 64 * 4, 1));
}

static void test_sim__the_cpu_takes_times_from_the_machine(void **state)
{
    (void)state;
    haul_tensor  *x = ones(haul_cpu(), 64);
    const int64_t before = now(), bytes = 64 * 64 * 4;
    haul_tensor  *y = haul_add(x, x);
    assert_int_equal(haul__clock_ps() - before, time_of(0, "haul_add", 64 * 64, 3 * bytes, 1));
    haul_matmul(x, y);
    assert_int_equal(haul__clock_ps() - before, time_of(0, "haul_add", 64 * 64, 3 * bytes, 1) +
                                                    time_of(0, "haul_matmul", 2.0 * 64 * 64 * 64, 3 * bytes, 1));
}

static void test_sim__copies_take_the_links_time(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 100, 1000, 3000}; /* several chunks */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t bytes = sizes[i] * sizes[i] * 4;
        haul_tensor  *x = ones(haul_cpu(), sizes[i]), *pinned = haul_pin(x, gpu);
        int64_t       before = now();
        haul_tensor  *there = haul_to(x, gpu);
        assert_int_equal(now() - before, haul__machine_copy_time(machine, 0, 1, bytes, false));
        before = now();
        haul_to(pinned, gpu);
        assert_int_equal(now() - before, haul__machine_copy_time(machine, 0, 1, bytes, true));
        before = now();
        haul_tensor *back = haul_to(there, haul_cpu());
        assert_int_equal(now() - before, haul__machine_copy_time(machine, 1, 0, bytes, true));
        assert_true(haul_item(haul_min(back)) == 1);
    }
}

/* A copy runs while the device computes: the later of the two ends the wait. */
static void test_sim__copies_overlap_computation(void **state)
{
    (void)state;
    haul_tensor  *x = ones(gpu, 512), *up = haul_pin(ones(haul_cpu(), 64), gpu);
    const int64_t before = now();
    haul_matmul(x, x);
    haul_to(up, gpu);
    const int64_t product = time_of(1, "haul_matmul", 2.0 * 512 * 512 * 512, 3 * 512 * 512 * 4, 1);
    const int64_t copy = haul__machine_copy_time(machine, 0, 1, 64 * 64 * 4, true);
    assert_true(product > copy);
    assert_int_equal(now() - before, product);
}

/* An operation on a tensor that is copied begins when the copy has ended. */
static void test_sim__operations_wait_for_copies(void **state)
{
    (void)state;
    haul_tensor  *up = haul_pin(ones(haul_cpu(), 64), gpu);
    const int64_t before = now(), bytes = 64 * 64 * 4;
    haul_relu(haul_to(up, gpu));
    assert_int_equal(now() - before, haul__machine_copy_time(machine, 0, 1, bytes, true) +
                                         time_of(1, "haul_relu", 64 * 64, 2 * bytes, 1));
}

static void test_sim__devices_copy_over_their_link(void **state)
{
    (void)state;
    haul_device  *other = haul_device_get("sim:h200:1");
    haul_tensor  *x = ones(gpu, 64);
    const int64_t before = now(), bytes = 64 * 64 * 4;
    haul_tensor  *y = haul_to(x, other);
    assert_int_equal(haul_device_sync(other), HAUL_OK);
    assert_int_equal(haul__clock_ps() - before, haul__machine_copy_time(machine, 1, 2, bytes, true));
    assert_true(haul_item(haul_min(y)) == 1);
}

/* ---- a training ---- */

static double train(haul_device *device, int64_t *ps)
{
    haul_scope *inner = haul_scope_push();
    haul_set_device(device);
    haul_manual_seed(3);
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_linear(16, 32, .relu = true), haul_nn_linear(32, 4));
    haul_optimizer *adam = haul_adam(net, 0.01);
    haul_tensor    *x = haul_normal(HAUL_F32, HAUL_SHAPE(8, 16), 0, 1), *loss = HAUL_NONE;
    haul_tensor    *y = haul_remainder_scalar(haul_arange_i64(0, 8, 1), 4);
    const int64_t   before = now();
    for (int i = 0; i < 5; i++) {
        haul_optimizer_zero_grad(adam);
        loss = haul_cross_entropy(haul_call(net, x), y);
        assert_int_equal(haul_backward(loss), HAUL_OK);
        assert_int_equal(haul_optimizer_step(adam), HAUL_OK);
    }
    const double value = haul_item(loss);
    *ps = now() - before;
    haul_scope_pop(inner);
    return value;
}

static void test_sim__trains_with_the_cpus_values_in_the_same_time(void **state)
{
    (void)state;
    int64_t      first, second, here;
    const double cpu = train(haul_cpu(), &here);
    train(gpu, &first); /* the first use of indices makes a record for faults */
    const double a = train(gpu, &first), b = train(gpu, &second);
    assert_true(cpu == a && a == b);
    assert_true(here > 0 && first > 0);
    assert_int_equal(first, second);
}

/* Workers would submit copies at moments that differ from run to run. */
static void test_sim__loaders_with_workers_take_the_same_time(void **state)
{
    (void)state;
    enum { RUNS = 6 };
    int64_t times[RUNS];
    for (int run = 0; run < RUNS; run++) {
        haul_scope   *inner = haul_scope_push();
        haul_loader  *loader = haul_loader_new(haul_blobs(256, .seed = 1), .batch = 16, .workers = 3, .device = gpu);
        const int64_t before = now();
        haul_set_device(gpu);
        assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
        int count = 0;
        for (const haul_batch *b; (b = haul_loader_next(loader)); count++)
            assert_int_equal(haul_tensor_check(haul_matmul(b->x, haul_transpose(b->x, 0, 1))), HAUL_OK);
        assert_int_equal(count, 16);
        times[run] = now() - before;
        haul_scope_pop(inner);
    }
    for (int run = 2; run < RUNS; run++)
        assert_int_equal(times[run], times[1]);
}

/* ---- predictions ---- */

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
    haul_tensor    *x, *y;
} training;

static haul_status step(void *context)
{
    training *t = context;
    haul_optimizer_zero_grad(t->sgd);
    haul_status status = haul_backward(haul_cross_entropy(haul_call(t->net, t->x), t->y));
    return status ? status : haul_optimizer_step(t->sgd);
}

static int64_t predict(const haul_program *p)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < p->operation_count; i++) {
        const haul__machine_work work = haul__program_work_of(p, &p->operations[i]);
        sum += work.commands ? haul__machine_time(machine, 1, &work) : 0;
    }
    return sum;
}

/* A step of a program takes exactly what its operations are predicted to take. */
static void test_sim__a_step_takes_what_is_predicted(void **state)
{
    (void)state;
    static const char *const models[] = {"simplecnn", "mlp", "resnet18"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        haul_program p;
        haul_scope  *inner = haul_scope_push();
        haul_set_device(gpu);
        training t = {.net = haul_model_new(models[i])};
        t.sgd = haul_sgd(t.net, 0.01, .momentum = 0.9);
        t.x = strcmp(models[i], "mlp") ? haul_normal(HAUL_F32, HAUL_SHAPE(2, 3, 32, 32), 0, 1)
                                       : haul_normal(HAUL_F32, HAUL_SHAPE(2, 3072), 0, 1);
        t.y = haul_zeros(HAUL_I64, HAUL_SHAPE(2));
        for (int k = 0; k < 2; k++)
            assert_int_equal(step(&t), HAUL_OK);
        assert_int_equal(haul_program_record(step, &t, &p), HAUL_OK);
        const int64_t before = now();
        assert_int_equal(step(&t), HAUL_OK);
        assert_int_equal(now() - before, predict(&p));
        haul_program_free(&p);
        haul_scope_pop(inner);
    }
}

/* Followed steps, too. */
static void test_sim__a_followed_step_takes_what_is_predicted(void **state)
{
    (void)state;
    haul_program          p;
    haul_recording_report report;
    int64_t               ps = 0;
    haul_set_device(gpu);
    training t = {.net = haul_model_new("simplecnn")};
    t.sgd = haul_sgd(t.net, 0.01, .momentum = 0.9);
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(64, 3, 32, 32), 0, 1);
    t.y = haul_zeros(HAUL_I64, HAUL_SHAPE(64));
    haul_recording *r = haul_recording_new(step, &t);
    assert_non_null(r);
    for (int i = 0; i < 5; i++) {
        const int64_t before = now();
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        ps = now() - before;
    }
    haul_recording_report_get(r, &report);
    assert_true(report.followed >= 2);
    assert_int_equal(haul_program_record(step, &t, &p), HAUL_OK);
    assert_int_equal(ps, predict(&p));
    haul_program_free(&p);
}

static void test_sim__nothing_is_measured_in_virtual_time(void **state)
{
    (void)state;
    haul__machine     *m = NULL;
    haul__peaks        peaks;
    haul_device_speeds speeds;
    haul_device       *cpu = haul_cpu();
    assert_int_equal(haul__machine_here("test", &cpu, 1, HAUL__HERE_MISSING, &m), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "simulated device"));
    assert_int_equal(haul_device_speed(gpu, HAUL_F32, &speeds), HAUL_STATE);
    const int64_t before = now();
    assert_true(haul__measure_peaks(gpu, &peaks));
    assert_true(peaks.bytes == (double)machine->devices[1].bytes_per_second && peaks.flops > 1e13);
    assert_true(haul__measure_peaks(cpu, &peaks));
    assert_true(peaks.bytes == (double)machine->devices[0].bytes_per_second);
    assert_true(haul__measure_link(gpu) == (double)haul__machine_link_of(machine, 0, 1)->pinned);
    assert_int_equal(now(), before);
}

/* ---- memory ---- */

static void test_sim__has_the_machines_memory(void **state)
{
    (void)state;
    haul_device *laptop = haul_device_get("sim:laptop-4g");
    haul_set_device(laptop);
    haul_tensor *x = haul_empty(HAUL_U8, HAUL_SHAPE(INT64_C(5) << 30));
    assert_false(haul_tensor_is_valid(x));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_non_null(strstr(haul_error_message(), "sim:laptop-4g"));
    haul_tensor *y = haul_empty(HAUL_U8, HAUL_SHAPE(1 << 20));
    assert_true(haul_tensor_is_valid(y));
}

static void test_sim__reports_an_index_out_of_range(void **state)
{
    (void)state;
    haul_tensor  *x = ones(gpu, 4);
    const int64_t wrong[] = {1, 9};
    haul_set_device(gpu);
    haul_tensor *index = haul_from_host(HAUL_I64, HAUL_SHAPE(2), wrong);
    haul_index_select(x, 0, index);
    assert_int_equal(haul_device_sync(gpu), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "9"));
}

/* ---- events ---- */

typedef struct heard {
    int64_t began[4], duration[4];
    int     count;
} heard;

static void hear(const haul_event *e, void *context)
{
    heard *h = context;
    if (h->count == 4 || strcmp(e->operation, "haul_relu") != 0)
        return;
    h->began[h->count] = e->time - e->duration;
    h->duration[h->count++] = e->duration;
}

static void test_sim__events_have_virtual_times(void **state)
{
    (void)state;
    heard         h = {.count = 0};
    haul_tensor  *x = ones(gpu, 64);
    const int64_t each = time_of(1, "haul_relu", 64 * 64, 2 * 64 * 64 * 4, 1), start = now();
    const int     id = (int)haul_events_subscribe(hear, .kinds = HAUL_EVENT_COMMAND_DONE, .context = &h);
    haul_relu(haul_relu(x));
    now();
    haul_events_unsubscribe(id);
    assert_int_equal(h.count, 2);
    assert_int_equal(h.duration[0], (start + each) / 1000 - start / 1000);
    assert_int_equal(h.began[1] - h.began[0], h.duration[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sim__is_opened_by_name_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__clock_stands_still_without_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__operations_take_the_machines_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__commands_of_a_stream_follow_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__the_cpu_takes_times_from_the_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__copies_take_the_links_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__copies_overlap_computation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__operations_wait_for_copies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__devices_copy_over_their_link, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__trains_with_the_cpus_values_in_the_same_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__loaders_with_workers_take_the_same_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__a_step_takes_what_is_predicted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__a_followed_step_takes_what_is_predicted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__large_spectra_move_to_the_processor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__nothing_is_measured_in_virtual_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__has_the_machines_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__reports_an_index_out_of_range, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sim__events_have_virtual_times, setup, teardown),
    };
    gpu = haul_device_get("sim:h200");
    if (haul__machine_load("test", "h200", &machine))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
