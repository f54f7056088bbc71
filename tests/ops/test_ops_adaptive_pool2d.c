/* Adaptive pooling against plain loops in double; 1-d pooling against that of pictures with one row.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

enum { N = 2, C = 70 };

typedef struct settings {
    int64_t h, w, oh, ow;
} settings;

static const settings all[] = {{7, 9, 3, 4}, {8, 6, 4, 2}, {7, 9, 1, 1}, {3, 4, 5, 7},
                               {6, 5, 6, 5}, {9, 1, 2, 3}, {4, 9, 4, 2}};

static int64_t begin_of(int64_t i, int64_t in, int64_t out)
{
    return i * in / out;
}

static int64_t end_of(int64_t i, int64_t in, int64_t out)
{
    return ((i + 1) * in + out - 1) / out;
}

/* Element i of the mean or the maximum, and what its gradient g adds to dx. */
static double element(const settings *s, const double *x, int64_t i, bool is_max, double g, double *dx)
{
    int64_t row = i / s->ow % s->oh, column = i % s->ow, plane = i / (s->oh * s->ow) * s->h * s->w, best = -1;
    int64_t r0 = begin_of(row, s->h, s->oh), r1 = end_of(row, s->h, s->oh);
    int64_t c0 = begin_of(column, s->w, s->ow), c1 = end_of(column, s->w, s->ow);
    double  sum = 0, count = (double)((r1 - r0) * (c1 - c0));
    for (int64_t r = r0; r < r1; r++)
        for (int64_t c = c0; c < c1; c++) {
            int64_t at = plane + r * s->w + c;
            sum += x[at] / count;
            best = best < 0 || x[at] > x[best] ? at : best;
            dx[at] += is_max ? 0 : g / count;
        }
    if (is_max)
        dx[best] += g;
    return is_max ? x[best] : sum;
}

static void compare(haul_device *device, haul_dtype dtype, const settings *s, bool is_max, bool channels_last)
{
    haul_scope  *scope = haul_scope_push();
    int64_t      nx = N * C * s->h * s->w, ny = N * C * s->oh * s->ow;
    double      *vx, *vg, *y = calloc((size_t)ny, sizeof *y), *dx = calloc((size_t)nx, sizeof *dx);
    haul_tensor *x = sample_tensor(device, dtype, HAUL_SHAPE(N, C, s->h, s->w), 1, &vx);
    haul_tensor *g = sample_tensor(device, dtype, HAUL_SHAPE(N, C, s->oh, s->ow), 2, &vg), *gradient;
    assert_true(y && dx);
    for (int64_t i = 0; i < ny; i++)
        y[i] = element(s, vx, i, is_max, vg[i], dx);
    if (channels_last)
        x = haul_to_memory_format(x, HAUL_CHANNELS_LAST);
    haul_tensor *leaf = haul_set_requires_grad(haul_detach(x), true);
    haul_tensor *result =
        is_max ? haul_adaptive_max_pool2d(leaf, s->oh, s->ow) : haul_adaptive_avg_pool2d(leaf, s->oh, s->ow);
    char what[100];
    snprintf(what, sizeof what, "%s of %dx%d to %dx%d, %s on %s%s", is_max ? "max" : "mean", (int)s->h, (int)s->w,
             (int)s->oh, (int)s->ow, haul_dtype_name(dtype), haul_device_name(device),
             channels_last ? ", channels-last" : "");
    double unit = dtype == HAUL_F32 ? 1e-5 : 1e-13;
    assert_close(result, y, ny, unit, what);
    assert_int_equal(haul_grad(result, &leaf, 1, &gradient, .seed = g), HAUL_OK);
    assert_close(gradient, dx, nx, unit, what);
    double *memory[] = {vx, vg, y, dx};
    for (int i = 0; i < 4; i++)
        free(memory[i]);
    haul_scope_pop(scope);
}

static void compare_all(haul_device *device)
{
    for (int i = 0; i < (int)(sizeof all / sizeof all[0]); i++)
        for (int k = 0; k < 4; k++) {
            compare(device, HAUL_F32, &all[i], k % 2, k / 2);
            compare(device, HAUL_F64, &all[i], k % 2, k / 2);
        }
}

static void test_adaptive_pool2d__by_definition(void **state)
{
    (void)state;
    on_devices(compare_all);
}

static void test_adaptive_pool2d__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 4, 4));
    assert_refused(haul_adaptive_avg_pool2d(haul_flatten(x, 1), 2, 2), HAUL_SHAPE, "[N, C, H, W]");
    assert_refused(haul_adaptive_avg_pool2d(x, 0, 2), HAUL_INVALID_ARGUMENT, "height is 0");
    assert_refused(haul_adaptive_max_pool2d(x, 2, INT64_MAX), HAUL_INVALID_ARGUMENT, "width is");
    assert_refused(haul_adaptive_max_pool2d(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 0, 4)), 2, 2), HAUL_SHAPE, "empty");
    assert_refused(haul_adaptive_avg_pool2d(haul_cast(x, HAUL_I32), 2, 2), HAUL_DTYPE, "i32");
    haul_scope_pop(scope);
}

/* ---- one dimension ---- */

static void one_row(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 11), 1, NULL), *row = haul_unsqueeze(x, 2);
    haul_tensor *want = haul_max_pool2d(row, 1, .size_w = 3, .stride = {1, 2}, .padding = {HAUL_ZERO, 1});
    assert_equal_bits(haul_max_pool1d(x, 3, .stride = 2, .padding = 1), haul_squeeze(want, 2), "max_pool1d");
    want = haul_avg_pool2d(row, 1, .size_w = 3);
    assert_equal_bits(haul_avg_pool1d(x, 3), haul_squeeze(want, 2), "avg_pool1d");
}

static void test_pool1d__is_that_of_one_row(void **state)
{
    (void)state;
    on_devices(one_row);
}

static void test_pool1d__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 8));
    assert_refused(haul_max_pool1d(haul_flatten(x, 1), 2), HAUL_SHAPE, "[N, C, L]");
    assert_refused(haul_max_pool1d(x, 0), HAUL_INVALID_ARGUMENT, "a window of 0");
    assert_refused(haul_max_pool1d(x, 2, .stride = HAUL_ZERO), HAUL_INVALID_ARGUMENT, "with stride 0");
    assert_refused(haul_avg_pool1d(x, 2, .padding = 2), HAUL_INVALID_ARGUMENT, "padding 2");
    assert_refused(haul_avg_pool1d(x, 9), HAUL_SHAPE, "the window is 9, but x has 8");
    assert_refused(haul_avg_pool1d_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_max_pool1d_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adaptive_pool2d__by_definition),
        cmocka_unit_test(test_adaptive_pool2d__errors),
        cmocka_unit_test(test_pool1d__is_that_of_one_row),
        cmocka_unit_test(test_pool1d__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
