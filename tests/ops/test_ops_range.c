/* Squares, powers and sums that leave the range of their dtype where the result does not: norms, variances, means and
 * normalisations of very large and very small numbers, with their gradients.
 *
 * ctest: cuda; cuda-labels=once */
#include <float.h>

#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

/* Value i of every test: numbers of both signs with a mean. */
static double value(int64_t i)
{
    return (double)(i * 37 % 11) - 3;
}

/* value(i) times scale in this shape, on a device; in memory, axis 0 moves fastest if it is `turned`. */
static haul_tensor *values_times(haul_device *device, haul_dtype dtype, int rows, int columns, double scale,
                                 bool turned)
{
    double *v = calloc((size_t)rows * (size_t)columns, sizeof *v);
    assert_non_null(v);
    for (int i = 0; i < rows * columns; i++)
        v[turned ? i % columns * rows + i / columns : i] = value(i) * scale;
    haul_shape   shape = turned ? HAUL_SHAPE(columns, rows) : HAUL_SHAPE(rows, columns);
    haul_tensor *t = haul_to(haul_cast(haul_from_host(HAUL_F64, shape, v), dtype), device);
    free(v);
    return turned ? haul_transpose(t, 0, 1) : t;
}

/* Every element times `unit` is within a relative error, and an absolute one, of the reference, whose largest element
 * is about 1. */
static void assert_near(haul_tensor *t, double unit, const double *want, int64_t count, double error, const char *what)
{
    assert_valid(t);
    haul_tensor *wide = haul_mul_scalar(haul_cast(haul_to(haul_detach(t), haul_cpu()), HAUL_F64), unit);
    assert_close(wide, want, count, error, what);
}

typedef struct scale {
    haul_dtype  dtype;
    double      large, small, error;
    const char *name;
} scale;

static const scale scales[] = {{HAUL_F32, 1e30, 1e-30, 2e-6, "f32"},
                               {HAUL_F32, 3e37, 1e-37, 2e-6, "f32 at its limits"},
                               {HAUL_F64, 1e300, 1e-300, 1e-13, "f64"},
                               {HAUL_BF16, 1e30, 1e-30, 2e-2, "bf16"}};

/* How the kernels of reductions cut them: few elements, rows side by side, long rows, chunks; in both directions. */
static const struct {
    int rows, columns;
} cuts[] = {{40, 3}, {35, 30}, {20, 100}, {5, 3000}, {3, 100000}, {2, 1}};

enum { NORM, NORM_1, NORM_3, NORM_MINUS_2, STD, MEAN, KINDS };
static const char *const kind_names[] = {"norm", "1-norm", "3-norm", "-2-norm", "std", "mean"};

static haul_tensor *reduce(int kind, haul_tensor *x)
{
    switch (kind) {
    case NORM: return haul_norm(x, HAUL_AXES(1));
    case NORM_1: return haul_norm(x, HAUL_AXES(1), .p = 1);
    case NORM_3: return haul_norm(x, HAUL_AXES(1), .p = 3);
    case NORM_MINUS_2: return haul_norm(haul_add_scalar(haul_abs(x), 0), HAUL_AXES(1), .p = -2);
    case STD: return haul_std(x, HAUL_AXES(1), .correction = HAUL_ZERO);
    default: return haul_mean(x, HAUL_AXES(1));
    }
}

/* The reductions of rows in f64, without scale. */
static void reference(int kind, int rows, int columns, double *want)
{
    for (int r = 0; r < rows; r++) {
        double sum = 0, squares = 0, ones = 0, cubes = 0, least = 0;
        for (int64_t c = 0; c < columns; c++) {
            double v = value(r * (int64_t)columns + c);
            sum += v;
            ones += fabs(v);
            cubes += fabs(v * v * v);
            least += 1 / (v * v);
        }
        for (int64_t c = 0; c < columns; c++) {
            double v = value(r * (int64_t)columns + c) - (kind == STD ? sum / columns : 0);
            squares += v * v;
        }
        want[r] = kind == NORM     ? sqrt(squares)
                  : kind == NORM_1 ? ones
                  : kind == NORM_3 ? cbrt(cubes)
                  : kind == STD    ? sqrt(squares / columns)
                  : kind == MEAN   ? sum / columns
                                   : 1 / sqrt(least);
    }
}

static void reductions_of(haul_device *device, const scale *s, double unit, int rows, int columns, bool turned)
{
    double want[64];
    char   what[128];
    for (int kind = 0; kind < KINDS; kind++) {
        haul_scope *scope = haul_scope_push();
        reference(kind, rows, columns, want);
        double top = fmax(fabs(want[0]), 1), limit = s->dtype == HAUL_F64 ? DBL_MAX : FLT_MAX;
        if (top * unit < limit / 2) {
            haul_tensor *x = values_times(device, s->dtype, rows, columns, unit, turned);
            snprintf(what, sizeof what, "%s of %d %s of %d, %s, times %g", kind_names[kind], rows,
                     turned ? "columns" : "rows", columns, s->name, unit);
            assert_near(reduce(kind, x), 1 / unit, want, rows, s->error * top, what);
        }
        haul_scope_pop(scope);
    }
}

static void reductions(haul_device *device)
{
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++)
            for (int turned = 0; turned < 2; turned++) {
                reductions_of(device, &scales[i], scales[i].large, cuts[k].rows, cuts[k].columns, turned);
                reductions_of(device, &scales[i], scales[i].small, cuts[k].rows, cuts[k].columns, turned);
                reductions_of(device, &scales[i], 1, cuts[k].rows, cuts[k].columns, turned);
            }
}

static void test_range__reductions_of_large_and_small_numbers(void **state)
{
    (void)state;
    on_devices(reductions);
}

static haul_tensor *floats(haul_device *device, haul_dtype dtype, int count, const double *v)
{
    return haul_to(haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(count), v), dtype), device);
}
#define FLOATS(device, dtype, ...)                                                                                     \
    floats(device, dtype, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static double item(haul_tensor *t)
{
    assert_valid(t);
    return haul_item(t);
}

/* A large number among ordinary ones, the largest numbers, and results that do overflow or are NaN. */
static void extremes(haul_device *device)
{
    haul_tensor *many = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(100000)), device);
    assert_succeeded(haul_copy_into(haul_slice(many, 0, 60000, 60001, 1), FLOATS(device, HAUL_F32, 1e30)), "copy");
    assert_float_equal(item(haul_norm(many)) / 1e30, 1, 1e-6);
    assert_float_equal(item(haul_std(many)) / 1e30, sqrt(1e-5), 1e-8);
    haul_tensor *x = FLOATS(device, HAUL_F32, 3e38, -3e38, 3e38, -3e38);
    assert_float_equal(item(haul_std(x, .correction = HAUL_ZERO)) / 3e38, 1, 1e-6);
    assert_true(isinf(item(haul_var(x))));
    assert_true(isinf(item(haul_norm(x))));
    assert_float_equal(item(haul_mean(haul_abs(x))) / 3e38, 1, 1e-6);
    assert_true(isinf(item(haul_sum(haul_abs(x)))));
    assert_true(isinf(item(haul_norm(FLOATS(device, HAUL_F32, 1, INFINITY, 2)))));
    assert_true(isinf(item(haul_norm(FLOATS(device, HAUL_F32, 1, -INFINITY, 2), .p = 3))));
    assert_true(isinf(item(haul_norm(FLOATS(device, HAUL_F32, INFINITY, INFINITY), .p = -2))));
    assert_true(isnan(item(haul_norm(FLOATS(device, HAUL_F32, 1, NAN, INFINITY)))));
    assert_true(isnan(item(haul_norm(FLOATS(device, HAUL_F32, 1, NAN, 1e30), .p = 3))));
    assert_true(isnan(item(haul_std(FLOATS(device, HAUL_F32, 1, INFINITY)))));
    assert_true(isnan(item(haul_mean(FLOATS(device, HAUL_F32, INFINITY, -INFINITY)))));
    assert_true(isinf(item(haul_mean(FLOATS(device, HAUL_F32, INFINITY, 3e38)))));
    assert_float_equal(item(haul_norm(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(100000)), device))), 0, 0);
    assert_float_equal(item(haul_norm(FLOATS(device, HAUL_F32, 0, 0), .p = 3)), 0, 0);
    assert_float_equal(item(haul_norm(FLOATS(device, HAUL_F32, 0, 2), .p = -2)), 0, 0);
    assert_float_equal(item(haul_std(FLOATS(device, HAUL_F32, 7, 7, 7))), 0, 0);
    assert_float_equal(item(haul_norm(FLOATS(device, HAUL_F16, 3000, 4000))), 5000, 4);
}

static void test_range__extremes(void **state)
{
    (void)state;
    on_devices(extremes);
}

/* ---- gradients of norms ---- */

static void gradient_of_norm(haul_device *device, haul_dtype dtype, double p, double a, double b, double ga, double gb)
{
    char         what[96];
    haul_tensor *x = haul_set_requires_grad(FLOATS(device, dtype, a, b), true);
    snprintf(what, sizeof what, "gradient of the %g-norm of {%g, %g}, %s", p, a, b, haul_dtype_name(dtype));
    assert_succeeded(haul_backward(haul_norm(x, .p = p)), what);
    assert_near(haul_tensor_grad(x), 1, (double[]){ga, gb}, 2, dtype == HAUL_F16 ? 1e-3 : 1e-6, what);
}

static void gradients(haul_device *device)
{
    const double cube = pow(2, -2 / 3.0), c = pow(91, -2 / 3.0);
    gradient_of_norm(device, HAUL_F32, 2, 3e30, 4e30, 0.6, 0.8);
    gradient_of_norm(device, HAUL_F32, 2, 3e-30, -4e-30, 0.6, -0.8);
    gradient_of_norm(device, HAUL_F32, 3, 1e20, 1e20, cube, cube);
    gradient_of_norm(device, HAUL_F32, 3, 1e-20, -1e-20, cube, -cube);
    gradient_of_norm(device, HAUL_F32, 3, 1e-30, 2, 0, 1);
    gradient_of_norm(device, HAUL_F32, 3, 0, 1e-30, 0, 1);
    gradient_of_norm(device, HAUL_F32, 1.5, 0, 1e30, 0, 1);
    gradient_of_norm(device, HAUL_F32, 1.5, 0, 0, 0, 0);
    gradient_of_norm(device, HAUL_F64, 3, 1e200, 1e200, cube, cube);
    gradient_of_norm(device, HAUL_F16, 3, 300, 400, 9 * c, 16 * c);
    gradient_of_norm(device, HAUL_F16, 2, 60000, 60000, sqrt(0.5), sqrt(0.5));
    gradient_of_norm(device, HAUL_F16, 2, 3 / 262144.0, 4 / 262144.0, 0.6, 0.8);
    gradient_of_norm(device, HAUL_F16, -2, 0.01, 2, 1, 1.25e-7);
}

static void test_range__gradients_of_norms(void **state)
{
    (void)state;
    on_devices(gradients);
}

/* More elements share an extremum than f16 counts. */
static void ties(haul_device *device)
{
    enum { COUNT = 100000 };
    haul_tensor *x = haul_set_requires_grad(haul_to(haul_ones(HAUL_F16, HAUL_SHAPE(COUNT)), device), true);
    for (int norm = 0; norm < 2; norm++) {
        haul_tensor *y = norm ? haul_norm(x, .p = INFINITY) : haul_max(x), *g;
        assert_succeeded(haul_grad(haul_mul_scalar(y, 1000), &x, 1, &g), "gradient");
        assert_float_equal(item(haul_slice(g, 0, 5, 6, 1)), 0.01, 1e-5);
    }
}

static void test_range__extrema_shared_by_many(void **state)
{
    (void)state;
    on_devices(ties);
}

static haul_tensor *std_of(haul_tensor *x)
{
    return haul_std(x, HAUL_AXES(1), .correction = HAUL_ZERO);
}

/* ---- normalisations ---- */

static haul_tensor *layer(haul_tensor *x)
{
    return haul_layer_norm(x, .eps = HAUL_ZERO);
}

static haul_tensor *rms(haul_tensor *x)
{
    return haul_rms_norm(x, .eps = HAUL_ZERO);
}

static haul_tensor *batch(haul_tensor *x)
{
    return haul_batch_norm(x, .training = true, .eps = HAUL_ZERO);
}

static haul_tensor *batch_of_planes(haul_tensor *x)
{
    haul_shape planes = HAUL_SHAPE(haul_tensor_shape(x).dims[0], 1, haul_tensor_shape(x).dims[1]);
    return haul_batch_norm(haul_reshape(x, planes), .training = true, .eps = HAUL_ZERO);
}

static haul_tensor *(*const normalisations[])(haul_tensor *) = {layer, rms, batch, batch_of_planes, std_of};
static const char *const normalisation_names[] = {"layer_norm", "rms_norm", "batch_norm", "batch_norm of planes",
                                                  "std"};

/* y and the gradient for x, both multiplied by the units of x, do not depend on them. */
static void normalised(haul_device *device, int which, haul_dtype dtype, double unit, int rows, int columns,
                       haul_tensor **y, haul_tensor **g)
{
    haul_tensor *x = values_times(device, dtype, rows, columns, unit, false);
    haul_set_requires_grad(x, true);
    *y = normalisations[which](x);
    haul_tensor *weights = haul_reshape(haul_to(haul_arange(HAUL_F32, 0, (double)haul_tensor_count(*y), 1), device),
                                        haul_tensor_shape(*y));
    haul_tensor *loss = haul_sum(haul_mul(*y, haul_cast(haul_sin(weights), dtype)));
    assert_succeeded(haul_grad(loss, &x, 1, g), normalisation_names[which]);
    bool divided = which == 4; /* a deviation has the units of x, its gradient none */
    *y = haul_mul_scalar(haul_cast(haul_detach(*y), HAUL_F64), divided ? 1 / unit : 1);
    *g = haul_mul_scalar(haul_cast(*g, HAUL_F64), divided ? 1 : unit);
}

static void assert_same_values(haul_tensor *got, haul_tensor *want, double error, const char *what)
{
    double top = item(haul_max(haul_abs(want)));
    double difference = item(haul_max(haul_abs(haul_sub(got, want))));
    if (!(difference <= error * top))
        fail_msg("%s differs by %g, where the largest number is %g", what, difference, top);
}

static void normalisation(haul_device *device, int which, int rows, int columns)
{
    static const struct {
        haul_dtype dtype;
        double     unit, error;
    } tries[] = {{HAUL_F32, 1, 1e-5},     {HAUL_F32, 1e30, 1e-5},   {HAUL_F32, 1e-30, 1e-5},
                 {HAUL_F32, 2e37, 1e-5},  {HAUL_F64, 1e300, 1e-12}, {HAUL_F64, 1e-300, 1e-12},
                 {HAUL_BF16, 1e30, 3e-2}, {HAUL_BF16, 1e-30, 3e-2}, {HAUL_F16, 5000, 5e-3}};
    haul_tensor *y, *g, *want_y, *want_g;
    char         what[128];
    normalised(device, which, HAUL_F64, 1, rows, columns, &want_y, &want_g);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        snprintf(what, sizeof what, "%s of [%d, %d], %s, times %g", normalisation_names[which], rows, columns,
                 haul_dtype_name(tries[i].dtype), tries[i].unit);
        normalised(device, which, tries[i].dtype, tries[i].unit, rows, columns, &y, &g);
        assert_same_values(y, want_y, tries[i].error, what);
        if (tries[i].dtype != HAUL_F16) /* whose gradients are too small for it */
            assert_same_values(g, want_g, 10 * tries[i].error, what);
    }
}

static void normalisations_of(haul_device *device)
{
    static const int shapes[][2] = {{40, 7}, {35, 30}, {18, 100}, {3, 3000}, {700, 5}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int which = 0; which < (int)(sizeof normalisations / sizeof *normalisations); which++) {
            haul_scope *scope = haul_scope_push();
            normalisation(device, which, shapes[k][0], shapes[k][1]);
            haul_scope_pop(scope);
        }
}

static void test_range__normalisations(void **state)
{
    (void)state;
    on_devices(normalisations_of);
}

/* A row of equal numbers is normalised to 0 whatever they are. */
static void equal_numbers(haul_device *device)
{
    haul_tensor *x = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(20, 40), 3e37), device);
    double       zeros[800] = {0};
    assert_near(haul_layer_norm(x), 1, zeros, 800, 1e-2, "layer_norm");
    assert_near(haul_layer_norm(x, .eps = 1e-30), 1, zeros, 800, 1e-2, "layer_norm with a small eps");
    assert_near(haul_batch_norm(x, .training = true), 1, zeros, 800, 1e-2, "batch_norm");
    assert_near(haul_batch_norm(x, .training = true, .eps = 1e-30), 1, zeros, 800, 1e-2, "small eps");
}

static void test_range__equal_numbers(void **state)
{
    (void)state;
    on_devices(equal_numbers);
}

/* ---- bits ---- */

static haul_tensor *everything(void *context)
{
    haul_tensor *x = context;
    haul_tensor *all[] = {haul_norm(x), haul_std(x), haul_mean(x), haul_norm(x, .p = 3)};
    haul_tensor *rows[] = {haul_norm(x, HAUL_AXES(1)), haul_std(x, HAUL_AXES(1))};
    haul_tensor *y = haul_add(haul_layer_norm(x), haul_rms_norm(x));
    haul_tensor *parts[] = {haul_stack(all, 4, 0), haul_cat(rows, 2, 0), haul_norm(x, HAUL_AXES(0)),
                            haul_reshape(haul_add(y, haul_batch_norm(x, .training = true)), HAUL_SHAPE(-1))};
    return haul_cat(parts, 4, 0);
}

static void test_range__same_bits_for_threads_and_devices(void **state)
{
    (void)state;
    static float first[300000], other[300000];
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    const double units[] = {1e30, 1e-30};
    for (int k = 0; k < 2; k++) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *x = values_times(haul_cpu(), HAUL_F32, 70, 2000, units[k], false);
        assert_same_for_threads(everything, x);
        for (int i = 0; i < count; i++) {
            haul_tensor *y = everything(haul_to(x, devices[i]));
            assert_valid(y);
            assert_int_equal(haul_read(y, i ? other : first, haul_tensor_bytes(y)), HAUL_OK);
            if (i)
                assert_memory_equal(other, first, haul_tensor_bytes(y));
        }
        haul_scope_pop(scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range__reductions_of_large_and_small_numbers),
        cmocka_unit_test(test_range__extremes),
        cmocka_unit_test(test_range__gradients_of_norms),
        cmocka_unit_test(test_range__extrema_shared_by_many),
        cmocka_unit_test(test_range__normalisations),
        cmocka_unit_test(test_range__equal_numbers),
        cmocka_unit_test(test_range__same_bits_for_threads_and_devices),
    };
    return cmocka_run_group_tests_name("ops_range", tests, NULL, NULL);
}
