/* Times that profiles teach: the operations, their devices, and calls that are left out. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "device/speeds.h"
#include "support/conformance/conformance.h"

enum { N = 256 };

static char folder[] = "learn-XXXXXX";

static const int64_t product_flops = INT64_C(2) * N * N * N, product_bytes = INT64_C(3) * N * N * 4;

/* The learnt times of a device as a machine; the caller must haul__free it. */
static haul__machine *learnt_of(const haul_device *device)
{
    haul__machine *m = haul__calloc(1, sizeof *m);
    assert_non_null(m);
    m->device_count = 1;
    snprintf(m->devices[0].name, sizeof m->devices[0].name, "%s", haul_device_name(device));
    haul__speeds_add_learnt(device, m);
    return m;
}

static int count_of(const haul__machine *m, const char *operation)
{
    int count = 0;
    for (int i = 0; i < m->devices[0].learnt_count; i++)
        count += strcmp(m->devices[0].learnt[i].operation, operation) == 0;
    return count;
}

static void profile_work(haul_device *device)
{
    haul_scope   *scope = haul_scope_push();
    haul_tensor  *x = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(N, N), 0.5), device);
    haul_profile *p = haul_profile_begin(.no_places = true);
    haul_tensor  *small = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(N), 0.5), device);
    for (int i = 0; i < 3; i++) {
        haul_sqrt(small);
        haul_tensor *y = haul_matmul(x, x);
        haul_tensor *half = haul_cast(y, HAUL_F16);
        haul_to(haul_transpose(haul_add(half, half), 0, 1), haul_cpu());
        haul_profile_step(p);
    }
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    assert_int_equal(haul_profile_save(p, "profile"), HAUL_OK);
    haul_scope_pop(scope);
}

static void test_learn__takes_operations_by_dtype_and_work(void **state)
{
    (void)state;
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    for (int i = 0; i < count; i++) {
        haul_device *device = devices[i];
        profile_work(device);
        haul__machine                    *m = learnt_of(device);
        const haul__machine_work          work = {.operation = "haul_matmul",
                                                  .work_class = HAUL__WORK_MATMUL,
                                                  .dtype = HAUL_F32,
                                                  .flops = (double)product_flops,
                                                  .bytes = product_bytes,
                                                  .commands = 1};
        const haul__machine_learnt *const l = haul__machine_learnt_of(m, 0, &work);
        assert_non_null(l);
        assert_int_equal(l->flops, product_flops);
        assert_int_equal(l->bytes, product_bytes);
        assert_true(l->ps > 0);
        assert_int_equal(haul__machine_time(m, 0, &work), l->ps);
        assert_int_equal(count_of(m, "haul_matmul"), 1);
        assert_int_equal(count_of(m, "haul_add"), 1);
        assert_int_equal(count_of(m, "haul_sqrt"), 0); /* of little work */
        assert_int_equal(count_of(m, "haul_to"), 0);
        assert_int_equal(count_of(m, "haul_cast"), 0); /* its dtypes differ */
        assert_int_equal(count_of(m, "haul_transpose"), 0);
        haul__free(m);
    }
}

/* Operands that autocast converts are not those of the operation. */
static void test_learn__leaves_conversions_out(void **state)
{
    (void)state;
    haul_scope               *scope = haul_scope_push();
    haul_tensor              *x = haul_full(HAUL_F32, HAUL_SHAPE(N, 2 * N), 0.5);
    const haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
    haul_profile             *p = haul_profile_begin(.no_places = true);
    haul_matmul(x, haul_transpose(x, 0, 1));
    haul_autocast_end(before);
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    assert_int_equal(haul_profile_save(p, "profile"), HAUL_OK);
    haul__machine           *m = learnt_of(haul_cpu());
    const haul__machine_work work = {.operation = "haul_matmul",
                                     .work_class = HAUL__WORK_MATMUL,
                                     .dtype = HAUL_F32,
                                     .flops = 2.0 * (double)product_flops,
                                     .bytes = 5 * product_bytes / 3,
                                     .commands = 1};
    assert_null(haul__machine_learnt_of(m, 0, &work));
    haul__free(m);
    haul_scope_pop(scope);
}

/* Virtual times are not those of this computer. */
static void test_learn__ignores_virtual_times(void **state)
{
    (void)state;
    haul_device *gpu = haul_device_get("sim:h200");
    profile_work(gpu);
    haul__machine *m = learnt_of(gpu);
    assert_int_equal(m->devices[0].learnt_count, 0);
    haul__free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learn__takes_operations_by_dtype_and_work),
        cmocka_unit_test(test_learn__leaves_conversions_out),
        cmocka_unit_test(test_learn__ignores_virtual_times),
    };
    if (!mkdtemp(folder) || setenv("HAUL_CACHE_DIR", folder, 1))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
