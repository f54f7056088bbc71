/* f16 and bf16: conversions by every device against the definition of the formats, the host's own against both, and
 * what tensors of them do that the conformance programs do not ask for. */
#include "base/half.h"
#include "core/tensor.h"

#include "support/linalg.h"

static haul_device     *devices[8];
static int              device_count;
static const haul_dtype halves[] = {HAUL_F16, HAUL_BF16};

static bool is_nan(haul_dtype dtype, uint16_t bits)
{
    return (bits & 0x7fff) > (dtype == HAUL_F16 ? 0x7c00 : 0x7f80);
}

/* ---- the definition ---- */

static void test_half__decoding_follows_the_formats(void **state)
{
    (void)state;
    static const struct {
        haul_dtype dtype;
        uint16_t   bits;
        double     value;
    } known[] = {
        {HAUL_F16, 0x0000, 0},           {HAUL_F16, 0x0001, 0x1p-24},    {HAUL_F16, 0x03ff, 0x3ffp-24},
        {HAUL_F16, 0x0400, 0x1p-14},     {HAUL_F16, 0x3c00, 1},          {HAUL_F16, 0x3555, 0x1.554p-2},
        {HAUL_F16, 0x7bff, 65504},       {HAUL_F16, 0xfbff, -65504},     {HAUL_F16, 0x7c00, INFINITY},
        {HAUL_F16, 0xc000, -2},          {HAUL_BF16, 0x3f80, 1},         {HAUL_BF16, 0x0001, 0x1p-133},
        {HAUL_BF16, 0x7f7f, 0x1.fep127}, {HAUL_BF16, 0xff80, -INFINITY}, {HAUL_BF16, 0x4049, 3.140625},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(haul__half_decode(known[i].dtype, known[i].bits) == known[i].value);
        assert_int_equal(haul__half_encode(known[i].dtype, known[i].value), known[i].bits);
    }
    for (int h = 0; h < 2; h++)
        for (int bits = 0; bits < 65536; bits++) {
            double v = haul__half_decode(halves[h], (uint16_t)bits);
            if (is_nan(halves[h], (uint16_t)bits))
                assert_true(isnan(v) && is_nan(halves[h], haul__half_encode(halves[h], v)));
            else
                assert_int_equal(haul__half_encode(halves[h], v), bits);
        }
}

/* Halfway between neighbours the even one is nearest; just off it the nearer one. */
static void test_half__encoding_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int h = 0; h < 2; h++) {
        int infinity = halves[h] == HAUL_F16 ? 0x7c00 : 0x7f80;
        for (int bits = 0; bits + 1 < infinity; bits++) {
            double low = haul__half_decode(halves[h], (uint16_t)bits);
            double high = haul__half_decode(halves[h], (uint16_t)(bits + 1)), middle = (low + high) / 2;
            assert_int_equal(haul__half_encode(halves[h], middle), bits + (bits & 1));
            assert_int_equal(haul__half_encode(halves[h], nextafter(middle, 0)), bits);
            assert_int_equal(haul__half_encode(halves[h], nextafter(middle, INFINITY)), bits + 1);
            assert_int_equal(haul__half_encode(halves[h], -middle), 0x8000 | (bits + (bits & 1)));
        }
    }
    assert_int_equal(haul__half_encode(HAUL_F16, 65519.999), 0x7bff);
    assert_int_equal(haul__half_encode(HAUL_F16, 65520), 0x7c00);
    assert_int_equal(haul__half_encode(HAUL_F16, 1e300), 0x7c00);
    assert_int_equal(haul__half_encode(HAUL_F16, -1e-300), 0x8000);
    assert_int_equal(haul__half_encode(HAUL_BF16, 0x1.feffffp127), 0x7f7f);
    assert_int_equal(haul__half_encode(HAUL_BF16, 0x1.ffp127), 0x7f80);
}

static void test_half__elements_as_bits(void **state)
{
    (void)state;
    assert_int_equal(haul__element_bits(HAUL_F16, 1), 0x3c00);
    assert_int_equal(haul__element_bits(HAUL_BF16, -1), 0xbf80);
    assert_int_equal(haul__element_bits(HAUL_F32, 1), 0x3f800000);
    assert_true(haul__element_bits(HAUL_F64, 1) == 0x3ff0000000000000);
    assert_int_equal(haul__element_bits(HAUL_BOOL, 0.5), 1);
    assert_int_equal(haul__element_bits(HAUL_I8, -1) & 0xff, 0xff);
    /* rounded once: by way of an f32 it would be a tie, and 1 */
    assert_int_equal(haul__element_bits(HAUL_F16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
}

/* ---- conversions on devices ---- */

static haul_tensor *upload(haul_device *device, haul_dtype dtype, int64_t count, const void *data)
{
    return haul_to(haul_from_host(dtype, HAUL_SHAPE(count), data), device);
}

static void download(haul_tensor *t, void *out, size_t size)
{
    if (!haul_tensor_is_valid(t) || haul_read(t, out, size))
        fail_msg("%s", haul_error_message());
}

static void test_half__every_pattern_survives_f32(void **state)
{
    (void)state;
    static uint16_t patterns[65536], back[65536];
    static float    values[65536];
    for (int i = 0; i < 65536; i++)
        patterns[i] = (uint16_t)i;
    for (int d = 0; d < device_count; d++)
        for (int h = 0; h < 2; h++) {
            haul_tensor *t = upload(devices[d], halves[h], 65536, patterns), *wide = haul_cast(t, HAUL_F32);
            download(wide, values, sizeof values);
            download(haul_cast(wide, halves[h]), back, sizeof back);
            for (int i = 0; i < 65536; i++)
                if (is_nan(halves[h], patterns[i]))
                    assert_true(isnan(values[i]) && is_nan(halves[h], back[i]));
                else if ((double)values[i] != haul__half_decode(halves[h], patterns[i]) || back[i] != patterns[i])
                    fail_msg("%s %04x on %s is %g and comes back as %04x", haul_dtype_name(halves[h]), i,
                             haul_device_name(devices[d]), (double)values[i], back[i]);
            /* a copy between layouts changes no bit, not even of NaN */
            download(haul_contiguous(haul_transpose(haul_view(t, HAUL_SHAPE(256, 256)), 0, 1)), back, sizeof back);
            for (int i = 0; i < 65536; i++)
                assert_int_equal(back[i % 256 * 256 + i / 256], patterns[i]);
        }
}

enum { MANY = 1 << 17 };

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state ^ *state >> 15;
}

/* Compare a conversion to half with the host's, which rounds the exact value once. */
static void check_narrowed(haul_device *device, haul_dtype from, haul_dtype to, const void *data, const double *exact,
                           int64_t count)
{
    static uint16_t got[MANY];
    download(haul_cast(upload(device, from, count, data), to), got, (size_t)count * sizeof *got);
    for (int64_t i = 0; i < count; i++) {
        uint16_t want = haul__half_encode(to, exact[i]);
        if (isnan(exact[i]) ? !is_nan(to, got[i]) : got[i] != want)
            fail_msg("%s to %s on %s: %.17g becomes %04x, not %04x", haul_dtype_name(from), haul_dtype_name(to),
                     haul_device_name(device), exact[i], got[i], want);
    }
}

static void test_half__f32_is_rounded_once(void **state)
{
    (void)state;
    static float  values[MANY];
    static double exact[MANY];
    uint32_t      seed = 1;
    for (int i = 0; i < MANY; i++) {
        uint32_t bits = next(&seed);
        if (i % 4 == 1) /* of sizes that f16 holds */
            bits = (bits & 0x80ffffff) | (100 + bits % 45) << 23;
        else if (i % 4 == 2) /* halfway in f16, a little off it, and so in bf16 */
            bits = (bits & 0xffffe000) | (0x1000 + (next(&seed) % 3) - 1);
        else if (i % 4 == 3)
            bits = (bits & 0xffff0000) | (0x8000 + (next(&seed) % 3) - 1);
        memcpy(&values[i], &bits, 4);
        exact[i] = (double)values[i];
    }
    for (int d = 0; d < device_count; d++)
        for (int h = 0; h < 2; h++)
            check_narrowed(devices[d], HAUL_F32, halves[h], values, exact, MANY);
}

/* What f32 in between would round twice. */
static void test_half__f64_and_integers_are_rounded_once(void **state)
{
    (void)state;
    static double  values[MANY], exact[MANY];
    static int64_t wholes[MANY];
    uint32_t       seed = 2;
    for (int i = 0; i < MANY; i++) {
        uint16_t half = (uint16_t)(next(&seed) & (i % 2 ? 0x7bfe : 0x7f7e));
        double   low = haul__half_decode(halves[i % 2 ? 0 : 1], half);
        double   middle = (low + haul__half_decode(halves[i % 2 ? 0 : 1], (uint16_t)(half + 1))) / 2;
        values[i] = i % 3 == 0 ? middle : i % 3 == 1 ? nextafter(middle, 0) : nextafter(middle, INFINITY);
        int64_t whole = ((int64_t)next(&seed) << 31 ^ next(&seed)) >> next(&seed) % 60;
        if (i % 3 == 0)
            whole = ((int64_t)(128 + next(&seed) % 128) * 2 + 1) * ((int64_t)1 << (10 + next(&seed) % 40)) + i % 5 - 2;
        wholes[i] = i % 2 ? -whole : whole;
        /* what a double cannot hold keeps, as its last bit, that there was more */
        uint64_t u = (uint64_t)llabs(wholes[i]), last = (u & 2047) != 0;
        exact[i] = u < (uint64_t)1 << 53 ? (double)u : ldexp((double)(u >> 11 | last), 11);
        exact[i] = wholes[i] < 0 ? -exact[i] : exact[i];
    }
    values[0] = NAN;
    values[1] = -INFINITY;
    for (int d = 0; d < device_count; d++)
        for (int h = 0; h < 2; h++) {
            check_narrowed(devices[d], HAUL_F64, halves[h], values, values, MANY);
            check_narrowed(devices[d], HAUL_I64, halves[h], wholes, exact, MANY);
        }
}

static void test_half__halves_to_integers_and_bool(void **state)
{
    (void)state;
    static const double values[] = {0, -0.0, 0.5, -1.75, 200, 65504, INFINITY, -INFINITY, NAN};
    for (int d = 0; d < device_count; d++) {
        haul_tensor *t = haul_to(haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(9), values), HAUL_F16), devices[d]);
        int32_t      whole[9];
        uint8_t      truth[9];
        int8_t       small[9];
        download(haul_cast(t, HAUL_I32), whole, sizeof whole);
        download(haul_cast(t, HAUL_BOOL), truth, sizeof truth);
        download(haul_cast(t, HAUL_I8), small, sizeof small);
        assert_memory_equal(whole, ((int32_t[]){0, 0, 0, -1, 200, 65504, INT32_MAX, INT32_MIN, 0}), sizeof whole);
        assert_memory_equal(truth, ((uint8_t[]){0, 0, 1, 1, 1, 1, 1, 1, 1}), sizeof truth);
        assert_memory_equal(small, ((int8_t[]){0, 0, 0, -1, 127, 127, 127, -128, 0}), sizeof small);
        assert_int_equal(haul_tensor_dtype(haul_cast(t, HAUL_BF16)), HAUL_BF16);
    }
}

/* ---- tensors ---- */

static void test_half__scalars_items_and_text(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_set_device(devices[d]);
        haul_tensor *x = haul_full(HAUL_F16, HAUL_SHAPE(2), 0.1), *y = haul_mul_scalar(x, 3);
        assert_int_equal(haul_tensor_dtype(y), HAUL_F16); /* a number does not change the dtype */
        assert_true(haul_item(haul_select(x, 0, 1)) == 0x1.998p-4);
        assert_true(haul_item(haul_full(HAUL_BF16, HAUL_SCALAR_SHAPE, 3.14159)) == 3.140625);
        assert_int_equal(haul_item_i64(haul_full(HAUL_F16, HAUL_SCALAR_SHAPE, -7.5)), -7);
        char text[128];
        assert_true(haul_tensor_format(haul_full(HAUL_BF16, HAUL_SHAPE(2), 1.5), text, sizeof text) > 0);
        assert_non_null(strstr(text, "1.5000"));
        assert_non_null(strstr(text, "bf16"));
        haul_set_device(haul_cpu());
    }
}

static void test_half__promotion(void **state)
{
    (void)state;
    haul_tensor *f16 = haul_ones(HAUL_F16, HAUL_SHAPE(3)), *bf16 = haul_ones(HAUL_BF16, HAUL_SHAPE(3));
    haul_tensor *i64 = haul_ones(HAUL_I64, HAUL_SHAPE(3)), *f32 = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    assert_int_equal(haul_tensor_dtype(haul_add(f16, bf16)), HAUL_F32);
    assert_int_equal(haul_tensor_dtype(haul_add(f16, i64)), HAUL_F16);
    assert_int_equal(haul_tensor_dtype(haul_add(bf16, i64)), HAUL_BF16);
    assert_int_equal(haul_tensor_dtype(haul_add(bf16, f32)), HAUL_F32);
    assert_int_equal(haul_tensor_dtype(haul_add_scalar(f16, 0.25)), HAUL_F16);
    assert_int_equal(haul_tensor_dtype(haul_mean(bf16)), HAUL_BF16);
    assert_int_equal(haul_tensor_dtype(haul_lt(f16, bf16)), HAUL_BOOL);
}

/* Sums are kept in f32: 4096 ones are not 2048, where f16's next number is 2050, and a mean's sum may pass 65504. */
static void test_half__sums_are_kept_in_f32(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_set_device(devices[d]);
        haul_tensor *ones = haul_ones(HAUL_F16, HAUL_SHAPE(40, 1001)),
                    *big = haul_full(HAUL_F16, HAUL_SHAPE(65536), 100);
        assert_true(haul_item(haul_sum(ones)) == 40032); /* of f16's numbers, the one nearest to 40040, even */
        assert_true(haul_item(haul_select(haul_sum(ones, HAUL_AXES(0)), 0, 7)) == 40);
        assert_true(haul_item(haul_mean(big)) == 100);
        assert_true(isinf(haul_item(haul_sum(big))));
        assert_true(haul_item(haul_matmul(haul_ones(HAUL_BF16, HAUL_SHAPE(1, 1024)),
                                          haul_ones(HAUL_BF16, HAUL_SHAPE(1024, 1)))) == 1024);
        haul_set_device(haul_cpu());
    }
}

static void test_half__uniforms_stay_below_the_end(void **state)
{
    (void)state;
    static double values[20000];
    for (int d = 0; d < device_count; d++)
        for (int h = 0; h < 2; h++) {
            haul_set_device(devices[d]);
            haul_manual_seed(3);
            haul_tensor *u = haul_uniform(halves[h], HAUL_SHAPE(20000), 0, 1);
            haul_tensor *v = haul_uniform(halves[h], HAUL_SHAPE(20000), 1000, 1001);
            haul_set_device(haul_cpu());
            assert_int_equal(read_values(u, values, 20000), HAUL_OK);
            double sum = 0;
            for (int i = 0; i < 20000; i++) {
                assert_true(values[i] >= 0 && values[i] < 1);
                sum += values[i];
            }
            assert_true(fabs(sum / 20000 - 0.5) < 0.01);
            assert_int_equal(read_values(v, values, 20000), HAUL_OK);
            for (int i = 0; i < 20000; i++)
                assert_true(values[i] >= 1000 && values[i] < 1001);
        }
}

/* Fewer bytes cross where the conversion is done before them. */
static void test_half__moves_convert_on_the_side_of_fewer_bytes(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        if (devices[d] == haul_cpu())
            continue;
        haul_transfer_stats stats;
        haul_tensor        *x = haul_ones(HAUL_F32, HAUL_SHAPE(1000));
        haul_transfer_stats_reset();
        haul_tensor *y = haul_to(x, devices[d], .dtype = HAUL_BF16), *z = haul_to(y, haul_cpu(), .dtype = HAUL_F32);
        assert_int_equal(haul_transfer_stats_get(&stats), HAUL_OK);
        assert_int_equal(stats.h2d_bytes, 2000);
        assert_int_equal(stats.d2h_bytes, 2000);
        assert_true(haul_item(haul_sum(z)) == 1000);
    }
}

/* ---- dense rows on the CPU ---- */

enum { LONGEST = 3000, ROUNDS = 60 };

static haul_tensor *greater(haul_tensor *x)
{
    return haul_gt_scalar(x, 0.5);
}

static haul_tensor *plus_itself(haul_tensor *x)
{
    return haul_add(x, x);
}

static haul_tensor *times_first(haul_tensor *x)
{
    return haul_mul(x, haul_slice(x, 0, 0, 1, 1));
}

static haul_tensor *narrowed(haul_tensor *x)
{
    return haul_cast(haul_cast(x, HAUL_F32), HAUL_F16);
}

/* `function` of the patterns as every second element of a row, whose elements are converted one by one, and as a dense
 * row: the same bits, also of NaN. */
static void check_dense(haul_tensor *(*function)(haul_tensor *), const uint16_t *patterns, int64_t count)
{
    static uint16_t wide[2 * LONGEST], want[LONGEST], got[LONGEST];
    for (int64_t i = 0; i < count; i++)
        wide[2 * i] = patterns[i];
    haul_tensor *x = haul_from_host(HAUL_F16, HAUL_SHAPE(2 * count), wide);
    haul_tensor *y = function(haul_slice(x, 0, 0, 2 * count, 2));
    haul_tensor *z = function(haul_from_host(HAUL_F16, HAUL_SHAPE(count), patterns));
    const size_t size = (size_t)haul_tensor_bytes(z);
    download(haul_contiguous(y), want, size);
    download(z, got, size);
    assert_memory_equal(got, want, size);
}

static void test_half__dense_rows_have_the_bits_of_single_elements(void **state)
{
    static haul_tensor *(*const functions[])(haul_tensor *) = {haul_relu, haul_neg,    haul_exp,    haul_sin,
                                                               greater,   plus_itself, times_first, narrowed};
    static uint16_t patterns[LONGEST];
    uint32_t        random = 5;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t count = 1 + next(&random) % LONGEST;
        haul_scope   *scope = haul_scope_push();
        for (int64_t i = 0; i < count; i++)
            patterns[i] = (uint16_t)(next(&random) >> 8);
        patterns[0] = 0x3e00;
        for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
            check_dense(functions[f], patterns, count);
        haul_scope_pop(scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half__elements_as_bits),
        cmocka_unit_test(test_half__decoding_follows_the_formats),
        cmocka_unit_test(test_half__encoding_rounds_to_nearest_even),
        cmocka_unit_test(test_half__every_pattern_survives_f32),
        cmocka_unit_test(test_half__f32_is_rounded_once),
        cmocka_unit_test(test_half__f64_and_integers_are_rounded_once),
        cmocka_unit_test(test_half__halves_to_integers_and_bool),
        cmocka_unit_test(test_half__scalars_items_and_text),
        cmocka_unit_test(test_half__promotion),
        cmocka_unit_test(test_half__sums_are_kept_in_f32),
        cmocka_unit_test(test_half__uniforms_stay_below_the_end),
        cmocka_unit_test(test_half__dense_rows_have_the_bits_of_single_elements),
        cmocka_unit_test(test_half__moves_convert_on_the_side_of_fewer_bytes),
    };
    haul_scope *scope = haul_scope_push();
    device_count = test_devices(devices, 8);
    int failed = cmocka_run_group_tests_name("half", tests, NULL, NULL);
    haul_scope_pop(scope);
    return failed;
}
