/* Fourier transforms of all kinds of lengths against the sums that define them, the same bits for any number of
 * threads, inverses, empty tensors and errors. The samples compare values and gradients with PyTorch's.
 *
 * ctest: cuda; labels=threads */
#include "support/into.h"
#include "support/linalg.h"

enum { NO_BATCH = 0 };

/* Term k of the transform of column q, which is one of `inner`, of the n numbers x. */
static void term(const double *x, int64_t n, int64_t inner, int64_t q, int64_t k, int sign, double out[2])
{
    out[0] = out[1] = 0;
    for (int64_t j = 0; j < n; j++) {
        const double  angle = sign * 2 * acos(-1.0) * (double)(j * k % n) / (double)n, c = cos(angle), s = sin(angle);
        const double *v = x + 2 * (j * inner + q);
        out[0] += v[0] * c - v[1] * s;
        out[1] += v[0] * s + v[1] * c;
    }
}

/* The transforms of [2, n, inner] are near the sums, within some units of the dtype's precision times the largest. */
static void check_length(haul_device *device, haul_dtype dtype, int64_t n, int64_t inner, bool inverse)
{
    haul_scope   *scope = haul_scope_push();
    const int64_t count = 4 * n * inner;
    double       *x, *want = calloc((size_t)count, sizeof *want), most = 0;
    assert_non_null(want);
    haul_tensor *t = sample_tensor(device, dtype, HAUL_SHAPE(2, n, inner, 2), (unsigned)n, &x);
    for (int64_t i = 0; i < count / 2; i++) {
        const int64_t first = i / (n * inner), k = i / inner % n, q = i % inner;
        term(x + 2 * first * n * inner, n, inner, q, k, inverse ? 1 : -1, want + 2 * i);
        most = fmax(most, fmax(fabs(want[2 * i]), fabs(want[2 * i + 1])));
    }
    const double precision = dtype == HAUL_F32 ? 0x1p-23 : 0x1p-52;
    haul_tensor *y = inverse ? haul_ifft(t, 1, .norm = HAUL_FFT_FORWARD) : haul_fft(t, 1);
    assert_close(y, want, count, 16 * most * precision, inverse ? "an inverse" : "a transform");
    free(x);
    free(want);
    haul_scope_pop(scope);
}

static void lengths(haul_device *device)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 49, 64, 97, 105, 144, 211};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_length(device, HAUL_F32, sizes[i], 1, i % 2);
        check_length(device, HAUL_F64, sizes[i], 1, !(i % 2));
        check_length(device, HAUL_F32, sizes[i], 3, !(i % 2));
        check_length(device, HAUL_F64, sizes[i], 17, i % 2);
    }
}

static void test_fft__terms_are_sums(void **state)
{
    (void)state;
    on_devices(lengths);
}

/* The largest difference, in units of the dtype's precision. */
static void assert_near(haul_tensor *a, haul_tensor *b, double units, const char *what)
{
    if (!haul_tensor_is_valid(a) || !haul_tensor_is_valid(b))
        fail_msg("%s: %s", what, haul_error_message());
    const double precision = haul_tensor_dtype(a) == HAUL_F32 ? 0x1p-23 : 0x1p-52;
    const double off = haul_item(haul_max(haul_abs(haul_sub(a, b))));
    if (!(off <= units * precision))
        fail_msg("%s: off by %g, which is %g units", what, off, off / precision);
}

/* Real numbers have the terms of complex ones whose imaginary parts are 0, and inverses give back what there was. */
static void real_numbers(haul_device *device)
{
    for (int64_t n = 1; n <= 40; n++)
        for (int axis = 0; axis < 2; axis++) {
            haul_scope  *scope = haul_scope_push();
            haul_shape   shape = axis ? HAUL_SHAPE(3, n) : HAUL_SHAPE(n, 3);
            haul_tensor *x = sample_tensor(device, HAUL_F64, shape, (unsigned)n, NULL);
            haul_tensor *zero = haul_zeros_like(x), *pair[] = {x, zero}, *terms = haul_rfft(x, axis);
            haul_tensor *all = haul_fft(haul_stack(pair, 2, -1), axis);
            assert_near(terms, haul_slice(all, axis, 0, n / 2 + 1, 1), 400, "half of the terms");
            assert_near(haul_irfft(terms, axis, .n = n), x, 100, "an inverse of real numbers");
            assert_near(haul_ifft(all, axis), haul_stack(pair, 2, -1), 100, "an inverse");
            assert_near(haul_irfftn(haul_rfftn(x), .n = shape.dims[1]), x, 100, "an inverse of both axes");
            assert_equal_bits(haul_ifftshift(haul_fftshift(x)), x, "shifts");
            haul_scope_pop(scope);
        }
}

static void test_fft__real_numbers(void **state)
{
    (void)state;
    on_devices(real_numbers);
}

/* Imaginary parts that real numbers do not have are not read. */
static void test_fft__ignores_impossible_parts(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_from_host(HAUL_F64, HAUL_SHAPE(3, 2), (double[]){1, 0, 2, 3, 4, 0});
    haul_tensor *y = haul_from_host(HAUL_F64, HAUL_SHAPE(3, 2), (double[]){1, 9, 2, 3, 4, 9});
    assert_equal_bits(haul_irfft(x, 0), haul_irfft(y, 0), "an even number of results");
    haul_scope_pop(scope);
}

/* Signals come back from their frames, but for elements that no frame covers. */
static void short_time(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F64, HAUL_SHAPE(2, 3, 100), 3, NULL);
    haul_tensor *w = haul_add_scalar(haul_abs(sample_tensor(device, HAUL_F64, HAUL_SHAPE(16), 4, NULL)), 0.5);
    assert_near(haul_istft(haul_stft(x, 16, .window = w), 16, .window = w), x, 100, "centred frames");
    assert_near(haul_istft(haul_stft(x, 9, .hop = 5), 9, .hop = 5, .length = 90), haul_slice(x, -1, 0, 90, 1), 100,
                "an odd length");
    assert_near(haul_istft(haul_stft(x, 10, .uncentred = true), 10, .uncentred = true), x, 100, "uncentred frames");
    haul_tensor *f = haul_stft(x, 16);
    assert_refused(haul_stft(x, 0), HAUL_INVALID_ARGUMENT, "n is 0");
    assert_refused(haul_stft(x, 8, .hop = -1), HAUL_INVALID_ARGUMENT, "hop is -1");
    assert_refused(haul_stft(x, 8, .window = w), HAUL_SHAPE, "of n elements");
    assert_refused(haul_stft(x, 101, .uncentred = true), HAUL_SHAPE, "at least 101 are expected");
    assert_refused(haul_stft(x, 300), HAUL_SHAPE, "at least 151 are expected");
    assert_refused(haul_istft(f, 20), HAUL_SHAPE, "[..., n / 2 + 1, frames, 2] is expected");
    assert_refused(haul_istft(f, 16, .length = -1), HAUL_INVALID_ARGUMENT, "length is -1");
    assert_refused(haul_stft_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_istft_with(f, NULL), HAUL_INVALID_ARGUMENT, "options");
}

static void test_fft__short_time(void **state)
{
    (void)state;
    on_devices(short_time);
}

/* ---- bits ---- */

typedef struct subject {
    haul_dtype dtype;
    int64_t    batch, n, inner;
    bool       real;
} subject;

static haul_tensor *compute(void *context)
{
    const subject *s = context;
    const int64_t  pair = s->real ? 1 : 2;
    haul_tensor   *x = sample_tensor(haul_cpu(), s->dtype, HAUL_SHAPE(s->batch, s->n, s->inner, pair), 5, NULL);
    return s->real ? haul_rfft(x, 1) : haul_fft(x, 1);
}

static void test_fft__threads_change_no_bit(void **state)
{
    (void)state;
    static const int64_t sizes[] = {16384, 9450, 4099};
    for (int i = 0; i < 3; i++)
        for (int real = 0; real < 2; real++) {
            subject one = {HAUL_F32, 1, sizes[i], 1, real}, many = {HAUL_F64, 3, sizes[i], 2, real};
            assert_same_for_threads(compute, &one);
            assert_same_for_threads(compute, &many);
        }
}

/* A transform has the same bits on every device, and alone or with others, with which vectors end elsewhere. */
static void check_bits(haul_device *device, haul_dtype dtype, int64_t n, int64_t inner)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample_tensor(device, dtype, HAUL_SHAPE(3, n, inner, 2), (unsigned)n, NULL);
    haul_tensor *y = haul_fft(x, 1);
    assert_equal_bits(haul_to(y, haul_cpu()), haul_fft(haul_to(x, haul_cpu()), 1), haul_device_name(device));
    for (int64_t i = 0; i < 3; i++)
        assert_equal_bits(haul_fft(haul_slice(x, 0, i, i + 1, 1), 1), haul_slice(y, 0, i, i + 1, 1), "one of three");
    for (int64_t i = 0; i < inner; i += 7)
        assert_equal_bits(haul_fft(haul_slice(x, 2, i, i + 1, 1), 1), haul_slice(y, 2, i, i + 1, 1), "a column");
    haul_scope_pop(scope);
}

static void bits(haul_device *device)
{
    static const int64_t sizes[] = {9, 11, 20, 64, 512};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int inner = 1; inner <= 8; inner += 7) {
            check_bits(device, HAUL_F32, sizes[i], inner);
            check_bits(device, HAUL_F64, sizes[i], inner);
        }
}

static void test_fft__others_change_no_bit(void **state)
{
    (void)state;
    on_devices(bits);
}

/* ---- edges and errors ---- */

static void empty(haul_device *device)
{
    haul_tensor *none = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(NO_BATCH, 6, 2)), device);
    assert_int_equal(haul_tensor_count(haul_fft(none, -1)), 0);
    assert_int_equal(haul_tensor_dim(haul_rfft(none, 1), 1), 4);
    assert_int_equal(haul_tensor_dim(haul_irfft(none, 1), 1), 10);
    assert_int_equal(haul_tensor_count(haul_fftshift(none)), 0);
}

static void test_fft__empty_batches(void **state)
{
    (void)state;
    on_devices(empty);
}

static void errors(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 4, 2), 1, NULL), *half = haul_cast(x, HAUL_F16);
    haul_tensor *odd = haul_slice(x, -1, 0, 1, 1), *none = haul_slice(x, 1, 0, 0, 1);
    assert_refused(haul_fft(odd, -1), HAUL_SHAPE, "complex numbers [..., 2] are expected");
    assert_refused(haul_irfft(odd, -1), HAUL_SHAPE, "complex numbers");
    assert_refused(haul_hfft(odd, -1), HAUL_SHAPE, "complex numbers");
    assert_refused(haul_ihfft(odd, 9), HAUL_INVALID_ARGUMENT, "axis 9 is not possible");
    assert_refused(haul_fft2(odd), HAUL_SHAPE, "complex numbers");
    assert_refused(haul_fft(haul_ones(HAUL_F32, HAUL_SHAPE(2)), 0), HAUL_SHAPE, "at least one axis");
    assert_refused(haul_rfft(haul_scalar(1), 0), HAUL_SHAPE, "at least one axis");
    assert_refused(haul_rfft(haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1, 1, 1, 1, 1, 2)), 0), HAUL_SHAPE, "one more axis");
    assert_refused(haul_fft(x, 2), HAUL_INVALID_ARGUMENT, "axis 2 is not possible; each axis from -2 to 1");
    assert_refused(haul_rfft(x, 3), HAUL_INVALID_ARGUMENT, "axis 3 is not possible");
    assert_refused(haul_fftn(x, HAUL_AXES(0, -2)), HAUL_INVALID_ARGUMENT, "at most once");
    assert_refused(haul_fftshift(x, HAUL_AXES(2), .pairs = true), HAUL_INVALID_ARGUMENT, "axis 2");
    assert_refused(haul_fft2(haul_select(x, 0, 0)), HAUL_INVALID_ARGUMENT, "axis -2");
    assert_refused(haul_fft(x, -1, .n = -1), HAUL_INVALID_ARGUMENT, "n is -1");
    assert_refused(haul_fft(x, -1, .n = INT64_MAX), HAUL_INVALID_ARGUMENT, "n is");
    assert_refused(haul_fft(none, -1), HAUL_SHAPE, "a transform of 0 numbers");
    assert_refused(haul_irfft(haul_slice(x, 1, 0, 1, 1), -1), HAUL_SHAPE, "a transform of 0 numbers");
    assert_refused(haul_fft(x, -1, .norm = (haul_fft_norm)7), HAUL_INVALID_ARGUMENT, "7 is not a haul_fft_norm");
    assert_refused(haul_fft(half, -1), HAUL_DTYPE, "f16");
    assert_refused(haul_fft_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_fftn_with(NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_fftshift_with(NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_fftn_with(&(haul_fftn_options){.x = x, .haul__axes = {.count = 9}}), HAUL_INVALID_ARGUMENT,
                   "9 axes are named");
    assert_int_equal(haul_tensor_dtype(haul_fft(haul_cast(x, HAUL_I32), -1)), HAUL_F32);
}

static void test_fft__errors(void **state)
{
    (void)state;
    on_devices(errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fft__terms_are_sums),
        cmocka_unit_test(test_fft__real_numbers),
        cmocka_unit_test(test_fft__ignores_impossible_parts),
        cmocka_unit_test(test_fft__short_time),
        cmocka_unit_test(test_fft__threads_change_no_bit),
        cmocka_unit_test(test_fft__others_change_no_bit),
        cmocka_unit_test(test_fft__empty_batches),
        cmocka_unit_test(test_fft__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
