/* Energy in a profile: a counter of the CPU that the test writes, and NVIDIA's as the stand-in has it. */
/* ctest: cuda; env=STANDIN_SENSORS=1 */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "observe/profile/energy.h"
#include "support/datasets.h"

enum { ROWS = 64 };

static char        root[] = "energy-XXXXXX", folder[256];
static haul_scope *scope;

/* Written under another name first, as a reader may come at any time. */
static void put(const char *name, const char *text)
{
    char path[512], other[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(other, sizeof other, "%s/new", folder);
    write_text(other, text);
    assert_int_equal(rename(other, path), 0);
}

static int setup(void **state)
{
    (void)state;
    const char *const parts[] = {"/sys", "/class", "/powercap", "/intel-rapl:0"};
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s", root);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        strcat(folder, parts[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    put("name", "package-0\n");
    scope = haul_scope_push();
    return !scope || setenv("HAUL_SENSORS_ROOT", root, 1);
}

static int teardown(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    return 0;
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-6 * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

/* ---- samples ---- */

static void test_energy__between_samples(void **state)
{
    (void)state;
    haul__energy_sample      samples[] = {{0, 0}, {10, 20}, {20, 25}};
    const haul__energy_curve c = {.samples = samples, .count = 3};
    assert_near(haul__joules_between(&c, 0, 20), 25);
    assert_near(haul__joules_between(&c, 0, 5), 10);
    assert_near(haul__joules_between(&c, 5, 15), 12.5);
    assert_near(haul__joules_between(&c, -5, 100), 25); /* nothing is known before and after */
    assert_true(haul__joules_between(&c, 30, 40) == 0 && haul__joules_between(NULL, 0, 20) == 0);
    assert_true(haul__joules_between(&(haul__energy_curve){.count = 0}, 0, 20) == 0);
}

/* A counter is read every 5 ms, or when it has to be. */
static void test_energy__readings(void **state)
{
    (void)state;
    haul__energy e = {.count = 0};
    put("energy_uj", "1000000\n");
    haul__energy_open(&e);
    const haul__energy_curve *c = haul__energy_of(&e, haul_cpu());
    assert_non_null(c);
    put("energy_uj", "4000000\n");
    haul__energy_read(&e, 1000000, false);
    assert_int_equal(c->count, 1);
    haul__energy_read(&e, 5000000, false);
    assert_int_equal(c->count, 2);
    put("energy_uj", "not now\n");
    haul__energy_read(&e, 9000000, true);
    assert_int_equal(c->count, 2);
    put("energy_uj", "5000000\n");
    haul__energy_read(&e, 10000000, true);
    assert_int_equal(c->count, 3);
    assert_near(haul__joules_between(c, 0, 5000000), 3);
    assert_near(haul__joules_between(c, 0, 10000000), 4);
    haul__energy_close(&e);
}

/* ---- profiles ---- */

static haul_profile *profile_on(haul_device *device)
{
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(256, 256)), device);
    haul_item(haul_sum(haul_matmul(x, x))); /* compiles */
    put("energy_uj", "1000000\n");
    haul_profile *p = haul_profile_begin(.everywhere = true);
    assert_non_null(p);
    put("energy_uj", "9000000\n");
    haul_item(haul_sum(haul_matmul(x, x)));
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    return p;
}

static double sum_of(const haul_profile_row *rows, int count)
{
    double joules = 0;
    assert_in_range(count, 1, ROWS);
    for (int i = 0; i < count; i++)
        joules += rows[i].joules;
    return joules;
}

static void test_energy__of_the_cpu_is_that_of_its_rows(void **state)
{
    (void)state;
    haul_profile        *p = profile_on(haul_cpu());
    haul_profile_summary s;
    haul_profile_row     rows[ROWS];
    assert_int_equal(haul_profile_summary_get(p, &s), HAUL_OK);
    /* 8 joules until the last reading, which comes right after the end of the stretch */
    if (!(s.step_joules > 0 && s.step_joules <= 8))
        fail_msg("%g joules", s.step_joules);
    assert_near(sum_of(rows, haul_profile_rows(p, rows, ROWS, .by = HAUL_PROFILE_OPERATION)), s.step_joules);
}

static void test_energy__of_a_gpu(void **state)
{
    (void)state;
    haul_device *gpu = haul_device_get("cuda:0");
    if (!haul_device_is_valid(gpu))
        skip();
    haul_profile        *p = profile_on(gpu);
    haul_profile_summary s;
    haul_profile_row     rows[ROWS];
    double               computed = 0;
    assert_int_equal(haul_profile_summary_get(p, &s), HAUL_OK);
    assert_true(s.step_joules > 0 && sum_of(rows, haul_profile_rows(p, rows, ROWS)) <= s.step_joules * (1 + 1e-6));
    for (int i = 0; i < haul_profile_rows(p, rows, ROWS); i++)
        if (rows[i].device == gpu && !strcmp(rows[i].name, "haul_matmul"))
            computed += rows[i].joules;
    assert_true(computed > 0);
}

static void read_file(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    out[fread(out, 1, size - 1, file)] = 0;
    fclose(file);
}

static void test_energy__without_a_counter(void **state)
{
    (void)state;
    static char          text[1 << 16];
    haul_profile_summary s;
    haul_profile_row     rows[ROWS];
    setenv("HAUL_SENSORS_ROOT", "/nowhere", 1);
    haul_profile *p = haul_profile_begin(.everywhere = true);
    haul_item(haul_sum(haul_ones(HAUL_F32, HAUL_SHAPE(10))));
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    setenv("HAUL_SENSORS_ROOT", root, 1);
    if (haul_device_is_valid(haul_device_get("cuda:0")))
        skip(); /* it has one */
    haul_error_clear();
    assert_int_equal(haul_profile_summary_get(p, &s), HAUL_OK);
    assert_true(isnan(s.step_joules) && isnan(sum_of(rows, haul_profile_rows(p, rows, ROWS))));
    assert_int_equal(haul_profile_save(p, "saved"), HAUL_OK);
    read_file("saved/profile.json", text, sizeof text);
    assert_non_null(strstr(text, "\"step_joules\":null"));
    assert_non_null(strstr(text, "\"joules\":null"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_energy__between_samples),
        cmocka_unit_test(test_energy__readings),
        cmocka_unit_test(test_energy__of_the_cpu_is_that_of_its_rows),
        cmocka_unit_test(test_energy__of_a_gpu),
        cmocka_unit_test(test_energy__without_a_counter),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
