/* Steps whose calls are known, on a device that spills.
 * ctest: cuda; sim */
#include "support/devices/spilling.h"

enum { LAYERS = 8, WIDTH = 128, ROWS = 128, STEPS = 6 };

typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
    haul_tensor    *x, *y, *loss;
} training;

static haul_status step(void *context)
{
    training *t = context;
    haul_optimizer_zero_grad(t->optimizer);
    haul_tensor *loss = haul_mse_loss(haul_call(t->net, t->x), t->y);
    if (haul_backward(loss) || haul_optimizer_step(t->optimizer))
        return haul_error_status();
    haul_optimizer_zero_grad(t->optimizer);
    return haul_copy_into(t->loss, haul_detach(loss));
}

static training make_training(void)
{
    haul_module *layers[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        layers[2 * i] = haul_nn_linear(WIDTH, WIDTH);
        layers[2 * i + 1] = haul_nn_relu();
    }
    training t = {.net = haul_nn_sequential(layers, 2 * LAYERS)};
    t.optimizer = haul_sgd(t.net, 0.05, .momentum = 0.9);
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(ROWS, WIDTH), 0, 1);
    t.y = haul_normal(HAUL_F32, HAUL_SHAPE(ROWS, WIDTH), 0, 1);
    t.loss = haul_full(HAUL_F32, (haul_shape){0}, 0);
    return t;
}

typedef struct result {
    float   losses[STEPS], weights[WIDTH * WIDTH];
    int64_t peak, followed;
    int64_t spilled;      /* bytes, but for the first two steps */
    int64_t all, to_file; /* bytes of all steps */
} result;

/* Spills if there is a limit. */
static void train(haul_device *device, int64_t limit, bool records, result *out)
{
    haul_scope *part = haul_scope_push();
    train_begin(device, limit);
    training                t = make_training();
    haul_recording         *r = haul_recording_new(step, &t);
    haul_recording_report   report = {.followed = 0};
    int64_t                 before = 0;
    const haul_memory_stats start = stats_of(device);
    for (int i = 0; i < STEPS; i++) {
        haul_scope *inner = haul_scope_push();
        if (i == 2)
            before = stats_of(device).spilled_total;
        if (records ? haul_recording_run(r) : step(&t))
            fail_msg("%s", haul_error_message());
        out->losses[i] = (float)haul_item(t.loss);
        haul_scope_pop(inner);
    }
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    haul_read(haul_module_parameter(t.net, "0.weight"), out->weights, sizeof out->weights);
    out->peak = stats_of(device).peak_reserved;
    out->all = stats_of(device).spilled_total - start.spilled_total;
    out->to_file = stats_of(device).spilled_to_file_total - start.spilled_to_file_total;
    out->spilled = stats_of(device).spilled_total - before;
    out->followed = report.followed;
    haul_scope_pop(part);
    haul_memory_release_cached(device);
    end_limit(device);
}

/* True if it takes virtual time. On others, what returns ahead depends on when commands end, and so do the bytes. */
static bool is_repeatable(const haul_device *device)
{
    return strncmp(haul_device_name(device), "sim:", 4) == 0;
}

static void test_spill_planned__moves_less_with_the_same_bits(void **state)
{
    static result plain, eager, planned;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        train(devices[d], 0, false, &plain);
        for (int percent = 80; percent >= 50; percent -= 15) {
            const int64_t limit = plain.peak * percent / 100;
            train(devices[d], limit, false, &eager);
            train(devices[d], limit, true, &planned);
            assert_int_equal(planned.followed, STEPS - 1);
            assert_memory_equal(plain.losses, planned.losses, sizeof plain.losses);
            assert_memory_equal(plain.weights, planned.weights, sizeof plain.weights);
            assert_true(planned.peak <= limit && eager.spilled > 0);
            if (is_repeatable(devices[d]))
                assert_true(planned.spilled <= eager.spilled * 4 / 5);
        }
    }
}

/* ---- estimates ---- */

/* The training again, without values. */
static haul_status train_dry(void *context)
{
    const bool     *records = context;
    training        t = make_training();
    haul_recording *r = haul_recording_new(step, &t);
    haul_status     status = HAUL_OK;
    for (int i = 0; i < STEPS && !status; i++) {
        haul_scope *inner = haul_scope_push();
        status = *records ? haul_recording_run(r) : step(&t);
        haul_scope_pop(inner);
    }
    return status;
}

static haul_estimate_device estimate(haul_device *device, int64_t limit, bool records)
{
    haul_estimate_result r;
    haul_estimate_device d = {.device = NULL};
    train_begin(device, limit);
    if (haul_estimate(train_dry, &records, &r))
        fail_msg("%s", haul_error_message());
    for (int i = 0; i < r.device_count; i++)
        if (r.devices[i].device == device)
            d = r.devices[i];
    haul_estimate_free(&r);
    end_limit(device);
    return d;
}

static void test_spill_planned__an_estimate_says_what_is_moved(void **state)
{
    static result plain, run;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        train(devices[d], 0, false, &plain);
        for (int percent = 80; percent >= 50; percent -= 15)
            for (int records = 0; records < 2; records++) {
                const int64_t              limit = plain.peak * percent / 100;
                const haul_estimate_device e = estimate(devices[d], limit, records);
                train(devices[d], limit, records, &run);
                assert_true(e.fits && e.spilled_bytes > 0);
                assert_true(e.spill_missing_bytes == 0 && e.over_bytes == 0 && !*e.over_operation);
                if (records || is_repeatable(devices[d]))
                    assert_int_equal(e.spilled_bytes, run.all);
            }
    }
}

/* Where a limit is too small for one operation, an estimate names it. */
static void test_spill_planned__an_estimate_names_what_does_not_fit(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++)
        for (int records = 0; records < 2; records++) {
            const haul_estimate_device e = estimate(devices[d], 4096, records);
            assert_true(!e.fits && e.over_bytes > 4096 && e.over_bytes <= e.peak_bytes);
            assert_string_equal(e.over_operation, "haul_linear");
        }
}

static void set_tiers(haul_device *device, int64_t host, const char *folder, int64_t file)
{
    assert_int_equal(haul_memory_set_spill_tiers(device, .host_limit = host, .folder = folder, .folder_limit = file),
                     HAUL_OK);
}

/* What exceeds a part of host memory goes to the file. Where nothing has room, an estimate says so. */
static void test_spill_planned__an_estimate_knows_the_tiers(void **state)
{
    static result plain, run;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        train(devices[d], 0, false, &plain);
        const int64_t              limit = plain.peak / 2;
        const haul_estimate_device all = estimate(devices[d], limit, true);
        assert_true(all.spilled_to_file_bytes == 0 && all.spill_host_peak_bytes > 0 && all.spill_file_peak_bytes == 0);
        const int64_t host = all.spill_host_peak_bytes / 2;
        set_tiers(devices[d], host, "/tmp", 0);
        const haul_estimate_device two = estimate(devices[d], limit, true);
        train(devices[d], limit, true, &run);
        assert_true(two.fits && two.spilled_to_file_bytes > 0);
        assert_int_equal(two.spilled_bytes, run.all);
        assert_int_equal(two.spilled_to_file_bytes, run.to_file);
        assert_true(two.spill_host_peak_bytes <= host);
        set_tiers(devices[d], host, "/tmp", two.spill_file_peak_bytes / 2);
        const haul_estimate_device full = estimate(devices[d], limit, true);
        assert_true(!full.fits && full.spill_missing_bytes > 0);
        set_tiers(devices[d], HAUL_ZERO, NULL, 0);
        const haul_estimate_device none = estimate(devices[d], limit, true);
        assert_true(!none.fits && none.spill_missing_bytes == all.spill_host_peak_bytes);
        set_tiers(devices[d], 0, NULL, 0);
    }
}

/* What a dry run would use stays where it is, with its elements. */
static void test_spill_planned__a_dry_run_moves_nothing(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_scope *part = haul_scope_push();
        train_begin(devices[d], 0);
        training t = make_training();
        assert_int_equal(step(&t), HAUL_OK);
        static float before[WIDTH * WIDTH], after[WIDTH * WIDTH];
        haul_tensor *weight = haul_module_parameter(t.net, "8.weight");
        assert_int_equal(haul_read(weight, before, sizeof before), HAUL_OK);
        begin_limit(devices[d], 0);
        haul_drop(haul_to(filled(1), devices[d])); /* something goes */
        while (!is_away(weight)) {
            haul_tensor *more = haul_full(HAUL_F32, HAUL_SHAPE(SIDE, SIDE), 1);
            assert_valid(more);
        }
        haul_estimate_result r;
        haul_drop(haul_full(HAUL_F32, HAUL_SHAPE(SIDE, SIDE), 1)); /* there is room for one */
        const haul_memory_stats s = stats_of(devices[d]);
        assert_int_equal(haul_estimate(step, &t, &r), HAUL_OK);
        haul_estimate_free(&r);
        assert_int_equal(stats_of(devices[d]).spilled, s.spilled);
        assert_int_equal(haul_read(weight, after, sizeof after), HAUL_OK);
        assert_memory_equal(before, after, sizeof before);
        haul_scope_pop(part);
        end_limit(devices[d]);
        haul_set_device(haul_cpu());
    }
}

#define PLANNED_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLANNED_TEST(test_spill_planned__moves_less_with_the_same_bits),
        PLANNED_TEST(test_spill_planned__an_estimate_says_what_is_moved),
        PLANNED_TEST(test_spill_planned__an_estimate_names_what_does_not_fit),
        PLANNED_TEST(test_spill_planned__an_estimate_knows_the_tiers),
        PLANNED_TEST(test_spill_planned__a_dry_run_moves_nothing),
    };
    return run_moves("spill_planned", tests, sizeof tests / sizeof tests[0]);
}
