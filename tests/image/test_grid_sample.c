/* haul_grid_sample and haul_affine_grid: the same bits for any number of threads and on every device, odd
 * positions, and errors. Results and gradients are compared with PyTorch's by the samples of conformance.
 *
 * ctest: cuda */
#include <math.h>

#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

enum { IMAGES = 2, CHANNELS = 3, LAYERS = 5, ROWS = 9, COLUMNS = 11, CASES = 90 };

/* A case: how to sample pictures or volumes, and which result: y, the gradient of x, or that of the grid. */
typedef struct way {
    haul_device       *device;
    haul_interpolation mode;
    haul_grid_padding  padding;
    bool               align_corners, volume;
    int                which;
} way;

static haul_tensor *sampled(void *context)
{
    const way *w = context;
    haul_shape of_x = HAUL_SHAPE(IMAGES, CHANNELS, ROWS, COLUMNS), of_grid = HAUL_SHAPE(IMAGES, 13, 17, 2);
    haul_shape of_y = HAUL_SHAPE(IMAGES, CHANNELS, 13, 17);
    if (w->volume) {
        of_x = HAUL_SHAPE(IMAGES, CHANNELS, LAYERS, ROWS, COLUMNS);
        of_grid = HAUL_SHAPE(IMAGES, 6, 7, 5, 3);
        of_y = HAUL_SHAPE(IMAGES, CHANNELS, 6, 7, 5);
    }
    haul_tensor *x = sample_tensor(w->device, HAUL_F32, of_x, 1, NULL);
    haul_tensor *grid = sample_tensor(w->device, HAUL_F32, of_grid, 2, NULL);
    haul_tensor *seed = sample_tensor(w->device, HAUL_F32, of_y, 3, NULL);
    haul_tensor *leaves[] = {haul_set_requires_grad(haul_detach(x), true),
                             haul_set_requires_grad(haul_mul_scalar(grid, 1.5), true)};
    haul_tensor *gradients[2];
    haul_tensor *y =
        haul_grid_sample(leaves[0], leaves[1], w->mode, .padding = w->padding, .align_corners = w->align_corners);
    if (!w->which)
        return y;
    assert_succeeded(haul_grad(y, leaves, 2, gradients, .seed = seed), "gradients");
    return gradients[w->which - 1];
}

/* The first 54 are of pictures, in three modes, the others of volumes, in two. */
static way way_of(int i)
{
    static const haul_interpolation modes[] = {HAUL_NEAREST, HAUL_BILINEAR, HAUL_BICUBIC};
    const bool                      volume = i >= 54;
    const int                       count = volume ? 2 : 3, at = volume ? i - 54 : i;
    return (way){.device = haul_cpu(),
                 .mode = modes[at % count],
                 .padding = (haul_grid_padding)(at / count % 3),
                 .align_corners = at / count / 3 % 2,
                 .volume = volume,
                 .which = at / count / 6};
}

static void test_grid_sample__threads_do_not_change_bits(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        way w = way_of(i);
        assert_same_for_threads(sampled, &w);
    }
}

/* GPUs sort what the CPU adds up in order. */
static void compare_bits(haul_device *device)
{
    for (int i = 0; i < CASES; i++) {
        way          w = way_of(i);
        char         what[80];
        haul_scope  *scope = haul_scope_push();
        haul_tensor *want = sampled(&w);
        w.device = device;
        snprintf(what, sizeof what, "case %d on %s", i, haul_device_name(device));
        assert_equal_bits(haul_to(sampled(&w), haul_cpu()), want, what);
        haul_scope_pop(scope);
    }
}

static void test_grid_sample__devices_agree(void **state)
{
    (void)state;
    on_devices(compare_bits);
}

static void odd_positions(haul_device *device)
{
    static const float at[] = {NAN, 0, 0, NAN, INFINITY, 0, 0, -INFINITY, 1e30f, 0, 0, 0};
    haul_set_device(device);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 3, 3));
    haul_tensor *grid = haul_from_host(HAUL_F32, HAUL_SHAPE(1, 1, 6, 2), at);
    for (int mode = 0; mode < 3; mode++) {
        const haul_interpolation modes[] = {HAUL_NEAREST, HAUL_BILINEAR, HAUL_BICUBIC};
        float                    y[6];
        assert_succeeded(haul_read(haul_grid_sample(x, grid, modes[mode]), y, sizeof y), "zeros");
        for (int i = 0; i < 6; i++)
            assert_true(y[i] == (i == 5));
        assert_succeeded(haul_read(haul_grid_sample(x, grid, modes[mode], .padding = HAUL_GRID_BORDER), y, sizeof y),
                         "border");
        for (int i = 0; i < 6; i++)
            assert_true(y[i] == 1);
        assert_succeeded(
            haul_read(haul_grid_sample(x, grid, modes[mode], .padding = HAUL_GRID_REFLECTION), y, sizeof y),
            "reflection");
        for (int i = 0; i < 6; i++)
            assert_true(y[i] == 1);
    }
    haul_tensor *none = haul_grid_sample(haul_ones(HAUL_F32, HAUL_SHAPE(0, 2, 3, 3)),
                                         haul_zeros(HAUL_F32, HAUL_SHAPE(0, 4, 5, 2)), HAUL_BILINEAR);
    assert_int_equal(haul_tensor_dim(none, 3), 5);
    none = haul_grid_sample(x, haul_zeros(HAUL_F32, HAUL_SHAPE(1, 0, 5, 2)), HAUL_BILINEAR);
    assert_int_equal(haul_tensor_count(none), 0);
}

/* Positions outside along one axis of a volume, and in its middle. */
static void odd_positions_of_volumes(haul_device *device)
{
    static const float at[] = {NAN, 0, 0, 0, NAN, 0, 0, 0, NAN, INFINITY, 0, 0, 0, 0, -1e30f, 0, 0, 0};
    haul_set_device(device);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 3, 3, 3));
    haul_tensor *grid = haul_from_host(HAUL_F32, HAUL_SHAPE(1, 1, 1, 6, 3), at);
    for (int mode = 0; mode < 2; mode++)
        for (int padding = 0; padding < 3; padding++) {
            const haul_interpolation how = mode ? HAUL_BILINEAR : HAUL_NEAREST;
            float                    y[6];
            haul_tensor             *got = haul_grid_sample(x, grid, how, .padding = (haul_grid_padding)padding);
            assert_succeeded(haul_read(got, y, sizeof y), "volumes");
            for (int i = 0; i < 6; i++)
                assert_true(y[i] == (padding || i == 5));
        }
    haul_tensor *none = haul_grid_sample(haul_ones(HAUL_F32, HAUL_SHAPE(0, 2, 3, 3, 3)),
                                         haul_zeros(HAUL_F32, HAUL_SHAPE(0, 4, 5, 6, 3)), HAUL_BILINEAR);
    assert_int_equal(haul_tensor_dim(none, 4), 6);
}

static void test_grid_sample__positions_outside(void **state)
{
    (void)state;
    on_devices(odd_positions);
    on_devices(odd_positions_of_volumes);
}

static void errors(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 4, 4)), *grid = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 5, 6, 2));
    assert_refused(haul_grid_sample(haul_flatten(x, 2), grid, HAUL_BILINEAR), HAUL_SHAPE, "[N, C, H, W]");
    assert_refused(haul_grid_sample(x, x, HAUL_BILINEAR), HAUL_SHAPE, "[N, rows, columns, 2]");
    assert_refused(haul_grid_sample(x, haul_slice(grid, 0, 0, 1, 1), HAUL_BILINEAR), HAUL_SHAPE, "the N of x");
    assert_refused(haul_grid_sample(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 0, 4)), grid, HAUL_BILINEAR), HAUL_SHAPE,
                   "a plane");
    assert_refused(haul_grid_sample(x, grid, HAUL_AREA), HAUL_INVALID_ARGUMENT, "mode is 4");
    assert_refused(haul_grid_sample(x, grid, HAUL_BILINEAR, .padding = (haul_grid_padding)3), HAUL_INVALID_ARGUMENT,
                   "padding is 3");
    assert_refused(haul_grid_sample(haul_cast(x, HAUL_I32), haul_cast(grid, HAUL_I32), HAUL_BILINEAR), HAUL_DTYPE,
                   "i32");
    assert_refused(haul_grid_sample_with(NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_affine_grid(x, 2, 2, false), HAUL_SHAPE, "[N, 2, 3]");
    haul_tensor *theta = haul_ones(HAUL_F32, HAUL_SHAPE(2, 2, 3));
    assert_refused(haul_affine_grid(theta, 0, 2, false), HAUL_INVALID_ARGUMENT, "0 rows");
    assert_refused(haul_affine_grid(theta, INT64_MAX, 2, false), HAUL_INVALID_ARGUMENT, "2^30");
    assert_refused(haul_affine_grid(haul_cast(theta, HAUL_I32), 2, 2, false), HAUL_DTYPE, "i32");
    x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 4, 4, 4));
    assert_refused(haul_grid_sample(x, grid, HAUL_BILINEAR), HAUL_SHAPE, "[N, layers, rows, columns, 3]");
    grid = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 5, 6, 7, 3));
    assert_refused(haul_grid_sample(x, grid, HAUL_BICUBIC), HAUL_UNSUPPORTED, "HAUL_BILINEAR");
    assert_refused(haul_grid_sample(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 0, 4, 4)), grid, HAUL_BILINEAR), HAUL_SHAPE,
                   "a volume");
    assert_refused(haul_affine_grid3d(theta, 2, 2, 2, false), HAUL_SHAPE, "[N, 3, 4]");
    theta = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 4));
    assert_refused(haul_affine_grid3d(theta, 0, 2, 2, false), HAUL_INVALID_ARGUMENT, "0 layers");
    assert_refused(haul_affine_grid3d(theta, 1 << 20, 1 << 20, INT64_MAX, false), HAUL_INVALID_ARGUMENT, "2^30");
}

static void test_grid_sample__errors(void **state)
{
    (void)state;
    on_devices(errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid_sample__threads_do_not_change_bits),
        cmocka_unit_test(test_grid_sample__devices_agree),
        cmocka_unit_test(test_grid_sample__positions_outside),
        cmocka_unit_test(test_grid_sample__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
