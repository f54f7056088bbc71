/* What memory is used for: parameters, gradients, optimizer state, activations, workspace, data; in sums, snapshots,
 * messages, reports, estimates, programs and profiles.
 *
 * ctest: cuda; labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "support/devices/each.h"
#include "support/failure.h"

enum { FILE_ROOM = 1 << 22, IN = 1000, OUT = 500, ROWS = 64, MOST = 512 };

static haul_device *device;

static int64_t bytes_of(const haul_memory_origin *rows, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].bytes;
    return 0;
}

/* Live bytes of the role now. */
static int64_t live(const char *role)
{
    haul_memory_origin rows[16];
    const int          count = haul_memory_by_role(device, rows, 16);
    assert_true(count >= 0 && count <= 16);
    return bytes_of(rows, count, role);
}

static void succeeded(haul_status status, int line)
{
    if (status)
        fail_msg("line %d: %s", line, haul_error_message());
}
#define OK(call) succeeded(call, __LINE__)

/* A block has at most a quarter more than was asked for. */
static void assert_about(int64_t bytes, int64_t elements)
{
    assert_true(bytes >= elements * 4 && bytes <= elements * 5 + 4096);
}

typedef struct training {
    haul_module    *net;
    haul_optimizer *adam;
} training;

static haul_status make(training *t)
{
    t->net = HAUL_SEQUENTIAL(haul_nn_linear(IN, OUT), haul_nn_relu());
    OK(haul_module_add_buffer(t->net, "mean", haul_zeros(HAUL_F32, HAUL_SHAPE(2, OUT))));
    haul_status status = haul_module_to(t->net, device);
    t->adam = haul_adam(t->net, 0.001);
    return status;
}

static haul_status step(void *context)
{
    const training *t = context;
    haul_status     status = haul_set_device(device);
    haul_tensor    *y = haul_call(t->net, haul_ones(HAUL_F32, HAUL_SHAPE(ROWS, IN)));
    status = status ? status : haul_backward(haul_mean(haul_square(y)));
    return status ? status : haul_optimizer_step(t->adam);
}

static const int64_t PARAMETERS = (int64_t)IN * OUT + OUT;

/* ---- sums and snapshots ---- */

static void test_memory_role__of_a_training(void **state)
{
    training                 t;
    haul_scope              *scope = haul_scope_push(), *inner;
    static haul_memory_block rows[MOST];
    haul_memory_stats        s;
    (void)state;
    const int64_t parameters = live("parameters"), others = live("other");
    OK(make(&t)); /* the move keeps the role */
    assert_about(live("parameters") - parameters, PARAMETERS);
    assert_about(live("other") - others, 2 * OUT); /* the buffer */
    assert_int_equal(live("gradients"), 0);
    inner = haul_scope_push();
    OK(step(&t));
    haul_scope_pop(inner);
    OK(haul_device_sync(device));
    assert_about(live("gradients"), PARAMETERS);
    assert_about(live("optimizer state"), 2 * PARAMETERS);
    OK(haul_set_device(device));
    haul_tensor *y = haul_exp(haul_ones(HAUL_F32, HAUL_SHAPE(ROWS, IN)));
    assert_valid(y);
    assert_true(live("activations") >= 2 * ROWS * IN * 4);

    haul_memory_origin by[16];
    int64_t            sum = 0;
    const int          count = haul_memory_by_role(device, by, 16);
    for (int i = 0; i < count; i++)
        sum += by[i].bytes;
    haul_memory_stats_get(device, &s);
    assert_int_equal(sum, s.allocated);
    const int blocks = haul_memory_snapshot(device, rows, MOST);
    assert_true(blocks > 0 && blocks <= MOST);
    int64_t states = 0;
    for (int i = 0; i < blocks; i++)
        states += rows[i].live && !strcmp(rows[i].role, "optimizer state") ? rows[i].bytes : 0;
    assert_int_equal(states, live("optimizer state"));

    OK(haul_optimizer_zero_grad(t.adam));
    assert_int_equal(live("gradients"), 0);
    haul_scope_pop(scope);
    assert_int_equal(live("optimizer state"), 0);
}

/* Memory that is used again has no role from before. */
static void test_memory_role__ends_with_the_storage(void **state)
{
    haul_scope *scope = haul_scope_push(), *inner = haul_scope_push();
    (void)state;
    haul_set_device(device);
    const int64_t before = live("parameters");
    haul_tensor  *t = haul_ones(HAUL_F32, HAUL_SHAPE(777, 77));
    haul_module  *net = haul_nn_relu();
    OK(haul_module_add_parameter(net, "weight", t));
    assert_true(live("parameters") > before);
    haul_scope_pop(inner);
    OK(haul_device_sync(device));
    assert_int_equal(live("parameters"), before);
    assert_valid(haul_ones(HAUL_F32, HAUL_SHAPE(777, 77)));
    assert_int_equal(live("parameters"), before);
    haul_scope_pop(scope);
}

/* ---- messages ---- */

static void test_memory_role__in_messages_and_reports(void **state)
{
    training           t;
    haul_scope        *scope = haul_scope_push();
    haul_memory_report report;
    char               text[4096];
    (void)state;
    OK(make(&t));
    haul_set_device(device);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(ROWS, IN));
    assert_valid(x);
    haul_memory_release_cached(device);
    haul_memory_stats s;
    haul_memory_stats_get(device, &s);
    OK(haul_memory_set_limit(device, s.reserved + s.overhead + 1000));
    haul_ones(HAUL_F32, HAUL_SHAPE(4000, 4000));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    const char *message = haul_error_message();
    assert_non_null(strstr(message, "parameters "));
    assert_non_null(strstr(message, "activations "));
    OK(haul_memory_report_get(&report));
    assert_true(report.role_count >= 2 && report.role_count <= HAUL_MEMORY_REPORT_ROLES);
    assert_int_equal(bytes_of(report.roles, report.role_count, "parameters"), live("parameters"));
    assert_true(haul_memory_report_text(&report, text, sizeof text) < (int64_t)sizeof text);
    assert_non_null(strstr(text, "memory by role:\n"));
    assert_true(haul_memory_report_json(&report, text, sizeof text) < (int64_t)sizeof text);
    assert_non_null(strstr(text, "\"roles\":[{\"name\":\""));
    report.role_count = HAUL_MEMORY_REPORT_ROLES + 1;
    assert_int_equal(haul_memory_report_text(&report, text, sizeof text), -1);
    haul_error_clear();
    haul_memory_set_limit(device, 0);
    haul_scope_pop(scope);
}

/* ---- dry runs ---- */

static haul_status two_steps(void *context)
{
    training    t;
    haul_status status = make(&t);
    (void)context;
    for (int i = 0; i < 2 && !status; i++) {
        status = step(&t);
        if (!status && i == 0)
            status = haul_optimizer_zero_grad(t.adam);
    }
    return status;
}

static void test_memory_role__in_estimates(void **state)
{
    haul_estimate_result r;
    int64_t              parameters = 0, gradients = 0, states = 0, activations = 0;
    (void)state;
    OK(haul_estimate(two_steps, NULL, &r));
    for (int d = 0; d < r.device_count; d++)
        for (int i = 0; r.devices[d].device == device && i < r.devices[d].origin_count; i++) {
            const haul_estimate_origin *o = &r.devices[d].origins[i];
            parameters += !strcmp(o->role, "parameters") ? o->bytes : 0;
            gradients += !strcmp(o->role, "gradients") ? o->bytes : 0;
            states += !strcmp(o->role, "optimizer state") ? o->bytes : 0;
            activations += !strcmp(o->role, "activations") ? o->bytes : 0;
        }
    assert_about(parameters, PARAMETERS);
    assert_about(gradients, PARAMETERS);
    assert_about(states, 2 * PARAMETERS);
    assert_true(activations > 0);
    haul_estimate_free(&r);
}

static void test_memory_role__of_stores(void **state)
{
    training     t;
    haul_program p;
    haul_scope  *scope = haul_scope_push();
    int64_t      parameters = 0, gradients = 0;
    (void)state;
    OK(make(&t));
    OK(haul_program_record(step, &t, &p));
    for (int64_t i = 0; i < p.store_count; i++) {
        parameters += strcmp(p.stores[i].role, "parameters") ? 0 : p.stores[i].bytes;
        gradients += strcmp(p.stores[i].role, "gradients") ? 0 : p.stores[i].bytes;
        assert_true(p.stores[i].kind != HAUL_STORE_SCRATCH || !strcmp(p.stores[i].role, "workspace"));
    }
    assert_int_equal(parameters, PARAMETERS * 4);
    assert_int_equal(gradients, PARAMETERS * 4);
    haul_program_free(&p);
    haul_scope_pop(scope);
}

/* What a dry run will launch is known before it is compiled. */
static void test_memory_role__kernels_are_foreseen(void **state)
{
    training    t;
    haul_scope *scope = haul_scope_push();
    (void)state;
    OK(make(&t));
    haul_estimate_result r;
    OK(haul_estimate(step, &t, &r));
    haul_estimate_free(&r);
    const int64_t awaited = haul__kernels_awaited(device);
    assert_true(awaited >= 0);
    OK(step(&t));
    OK(haul_device_sync(device));
    assert_true(haul__kernels_awaited(device) <= awaited);
    assert_int_equal(haul__kernels_awaited(haul_cpu()), 0);
    haul_scope_pop(scope);
}

/* ---- profiles ---- */

static void test_memory_role__in_profiles(void **state)
{
    training    t;
    haul_scope *scope = haul_scope_push();
    (void)state;
    OK(make(&t));
    haul_profile *profile = haul_profile_begin(.most_events = 1 << 20);
    OK(step(&t));
    OK(haul_profile_end(profile));
    OK(haul_profile_save(profile, "roles"));
    FILE *file = fopen("roles/profile.json", "rb");
    assert_non_null(file);
    char        *text = calloc(1, FILE_ROOM);
    const size_t length = fread(text, 1, FILE_ROOM - 1, file);
    fclose(file);
    assert_true(length > 0 && length < FILE_ROOM - 1);
    assert_non_null(strstr(text, "\"role\":\"parameters\",\"before\":true"));
    assert_non_null(strstr(text, "\"role\":\"gradients\",\"before\":false"));
    assert_non_null(strstr(text, "\"role\":\"optimizer state\",\"before\":false"));
    assert_null(strstr(text, "\"role\":\"\""));
    free(text);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_role__kernels_are_foreseen),
        cmocka_unit_test(test_memory_role__of_a_training),
        cmocka_unit_test(test_memory_role__ends_with_the_storage),
        cmocka_unit_test(test_memory_role__in_messages_and_reports),
        cmocka_unit_test(test_memory_role__in_estimates),
        cmocka_unit_test(test_memory_role__of_stores),
        cmocka_unit_test(test_memory_role__in_profiles),
    };
    return run_on_devices(tests, &device);
}
