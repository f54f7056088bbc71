/* u16, u32 and u64: every pointwise row, casts, order, moves, promotion, and refused calls.
 *
 * ctest: cuda; cuda-labels=none */
#include <math.h>
#include <string.h>

#include "ops/pointwise/pointwise.h"
#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

enum { N = 12 };

static const haul_dtype dtypes[] = {HAUL_U16, HAUL_U32, HAUL_U64};

static uint64_t most_of(haul_dtype dtype)
{
    return UINT64_MAX >> (64 - haul_dtype_bits(dtype));
}

/* Small numbers, both sides of the sign bit, and the largest. */
static uint64_t number(haul_dtype dtype, int i)
{
    const uint64_t most = most_of(dtype), half = most / 2;
    const uint64_t all[N] = {0, 1, 2, 7, half - 1, half, half + 1, half + 2, most - 1, most, 300, 16};
    return all[i % N];
}

static haul_tensor *tensor_of(haul_device *device, haul_dtype dtype, const uint64_t *values, int64_t count)
{
    uint64_t wide[N * N];
    uint32_t words[N * N];
    uint16_t halves[N * N];
    for (int64_t i = 0; i < count; i++) {
        wide[i] = values[i];
        words[i] = (uint32_t)values[i];
        halves[i] = (uint16_t)values[i];
    }
    const void *data = dtype == HAUL_U64 ? (void *)wide : dtype == HAUL_U32 ? (void *)words : (void *)halves;
    return haul_to(haul_from_host(dtype, HAUL_SHAPE(count), data), device);
}

/* The elements, through haul_read of their own dtype. */
static void read_all(haul_tensor *t, uint64_t *out)
{
    const int64_t count = haul_tensor_count(t);
    const size_t  size = (size_t)haul_dtype_bits(haul_tensor_dtype(t)) / 8;
    unsigned char bytes[8 * N * N];
    assert_succeeded(haul_read(t, bytes, (size_t)count * size), "read");
    for (int64_t i = 0; i < count; i++) {
        out[i] = 0;
        for (size_t k = size; k-- > 0;)
            out[i] = out[i] << 8 | bytes[(size_t)i * size + k];
    }
}

static void assert_elements(haul_tensor *t, haul_dtype dtype, const uint64_t *want, int64_t count, const char *name)
{
    uint64_t have[N * N];
    if (has_failed(t))
        fail_msg("%s of %s: %s", name, haul_dtype_name(dtype), haul_error_message());
    assert_int_equal(haul_tensor_dtype(t), dtype);
    assert_int_equal(haul_tensor_count(t), count);
    read_all(t, have);
    for (int64_t i = 0; i < count; i++)
        if (have[i] != want[i])
            fail_msg("%s of %s: element %lld is %llu, not %llu", name, haul_dtype_name(dtype), (long long)i,
                     (unsigned long long)have[i], (unsigned long long)want[i]);
}

static uint64_t raised(uint64_t a, uint64_t b)
{
    uint64_t y = 1;
    for (; b; b >>= 1, a *= a)
        y *= b & 1 ? a : 1;
    return y;
}

/* The row's result, before it is cut to the dtype. False: another row. */
static bool combine(const char *name, int bits, uint64_t a, uint64_t b, uint64_t *y)
{
    const struct {
        const char *name;
        uint64_t    y;
    } known[] = {
        {"haul_add", a + b},
        {"haul_sub", a - b},
        {"haul_mul", a * b},
        {"haul_pow", raised(a, b)},
        {"haul_maximum", a > b ? a : b},
        {"haul_minimum", a < b ? a : b},
        {"haul_remainder", b ? a % b : 0},
        {"haul_fmod", b ? a % b : 0},
        {"haul_floor_div", b ? a / b : 0},
        {"haul_trunc_div", b ? a / b : 0},
        {"haul_bitwise_and", a & b},
        {"haul_bitwise_or", a | b},
        {"haul_bitwise_xor", a ^ b},
        {"haul_left_shift", b < (uint64_t)bits ? a << b : 0},
        {"haul_right_shift", b < (uint64_t)bits ? a >> b : 0},
        {"haul_eq", a == b},
        {"haul_ne", a != b},
        {"haul_lt", a < b},
        {"haul_le", a <= b},
        {"haul_gt", a > b},
        {"haul_ge", a >= b},
        {"haul_logical_and", a && b},
        {"haul_logical_or", a || b},
        {"haul_logical_xor", !a != !b},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) {
            *y = known[i].y;
            return true;
        }
    return false;
}

static bool change(const char *name, uint64_t x, uint64_t *y)
{
    static const char *const same[] = {"haul_abs", "haul_relu", "haul_floor", "haul_ceil", "haul_round", "haul_trunc"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(name, same[i])) {
            *y = x;
            return true;
        }
    *y = !strcmp(name, "haul_neg")           ? 0 - x
         : !strcmp(name, "haul_square")      ? x * x
         : !strcmp(name, "haul_bitwise_not") ? ~x
         : !strcmp(name, "haul_sign")        ? x != 0
                                             : x == 0; /* haul_logical_not */
    return !strcmp(name, "haul_neg") || !strcmp(name, "haul_square") || !strcmp(name, "haul_bitwise_not") ||
           !strcmp(name, "haul_sign") || !strcmp(name, "haul_logical_not");
}

typedef haul_tensor *unary(haul_tensor *);
typedef haul_tensor *binary(haul_tensor *, haul_tensor *);
typedef haul_tensor *scalar_form(haul_tensor *, double);

static void two_operands(haul_device *device, const haul__row *row, haul_dtype dtype)
{
    const uint64_t most = most_of(dtype);
    uint64_t       a[N * N], b[N * N], want[N * N];
    for (int i = 0; i < N * N; i++) {
        a[i] = number(dtype, i / N);
        b[i] = number(dtype, i % N);
        if (!combine(row->name, haul_dtype_bits(dtype), a[i], b[i], &want[i]))
            fail_msg("%s takes %s, but this test does not know its results", row->name, haul_dtype_name(dtype));
        want[i] &= most;
    }
    const haul_dtype result = row->form == HAUL__COMPARE ? HAUL_BOOL : dtype;
    haul_tensor     *x = tensor_of(device, dtype, a, N * N), *y = tensor_of(device, dtype, b, N * N);
    assert_elements(((binary *)row->call)(x, y), result, want, N * N, row->name);
    haul_tensor *column = haul_reshape(tensor_of(device, dtype, a, N * N), HAUL_SHAPE(N, N));
    assert_elements(((binary *)row->call)(haul_slice(column, 1, 0, 1, 1),
                                          haul_slice(haul_reshape(y, HAUL_SHAPE(N, N)), 0, 0, 1, 1)),
                    result, want, N * N, row->name); /* broadcast */
    for (int i = 0; i < N && row->call_scalar; i++) {
        const double s = (double)number(dtype, i);
        if (s >= 0x1p53 || (uint64_t)s != number(dtype, i))
            continue;
        for (int j = 0; j < N; j++)
            combine(row->name, haul_dtype_bits(dtype), number(dtype, j), number(dtype, i), &want[j]);
        for (int j = 0; j < N; j++)
            want[j] &= most, a[j] = number(dtype, j);
        assert_elements(((scalar_form *)row->call_scalar)(tensor_of(device, dtype, a, N), s), result, want, N,
                        row->name);
    }
}

static void rows(haul_device *device)
{
    int seen = 0;
    for (int r = 0; r < haul__row_count; r++) {
        const haul__row *row = &haul__rows[r];
        const bool       floats = row->dtypes == HAUL__ROW_FLOAT || row->dtypes == HAUL__ROW_WIDE;
        /* Devices that compile at run time take one of the three for each row. */
        const bool compiles = device != haul_cpu();
        for (int d = compiles ? r % 3 : 0; d < 3 && !floats; d += compiles ? 3 : 1) {
            uint64_t x[N], want[N];
            bool     known = true;
            if (row->form == HAUL__BINARY || row->form == HAUL__COMPARE)
                two_operands(device, row, dtypes[d]);
            if (row->form != HAUL__UNARY && row->form != HAUL__UNARY_TO_BOOL)
                continue;
            for (int i = 0; i < N; i++) {
                x[i] = number(dtypes[d], i);
                known = change(row->name, x[i], &want[i]) && known;
                want[i] &= most_of(dtypes[d]);
            }
            if (!known)
                fail_msg("%s takes %s, but this test does not know its results", row->name, haul_dtype_name(dtypes[d]));
            assert_elements(((unary *)row->call)(tensor_of(device, dtypes[d], x, N)),
                            row->form == HAUL__UNARY ? dtypes[d] : HAUL_BOOL, want, N, row->name);
            seen++;
        }
    }
    assert_true(seen > 5);
}

static void test_unsigned__every_pointwise_row(void **state)
{
    (void)state;
    on_devices(rows);
}

static void numbers(haul_device *device)
{
    for (int d = 0; d < 3; d++) {
        const uint64_t most = most_of(dtypes[d]), half = most / 2;
        uint64_t       x[N], clamped[N], above[N], turned[N], quotient[N], rest[N], power[N];
        for (int i = 0; i < N; i++) {
            x[i] = number(dtypes[d], i);
            clamped[i] = x[i] < 2 ? 2 : x[i] > 300 ? 300 : x[i];
            above[i] = x[i] > 7 ? x[i] : 1;
            turned[i] = (9 - x[i]) & most;
            quotient[i] = x[i] ? 1000 / x[i] : 0;
            rest[i] = x[i] ? 1000 % x[i] : 0;
            power[i] = raised(3, x[i]) & most;
        }
        haul_tensor *t = tensor_of(device, dtypes[d], x, N);
        assert_elements(haul_clamp(t, 2, 300), dtypes[d], clamped, N, "clamp");
        assert_elements(haul_clamp(t, -INFINITY, INFINITY), dtypes[d], x, N, "clamp to everything");
        assert_elements(haul_threshold(t, 7, 1), dtypes[d], above, N, "threshold");
        assert_elements(haul_rsub(t, 9), dtypes[d], turned, N, "rsub");
        assert_elements(haul_rfloor_div(t, 1000), dtypes[d], quotient, N, "rfloor_div");
        assert_elements(haul_rremainder(t, 1000), dtypes[d], rest, N, "rremainder");
        assert_elements(haul_rpow(t, 3), dtypes[d], power, N, "rpow");
        assert_elements(haul_nan_to_num(t, 1, 1), dtypes[d], x, N, "nan_to_num");
        /* Comparisons follow the real numbers. */
        for (int i = 0; i < N; i++)
            above[i] = x[i] >= half + 1;
        assert_elements(haul_ge_scalar(t, (double)half + 0.5), HAUL_BOOL, above, N, "a fraction");
        assert_true(haul_item(haul_all(haul_gt_scalar(t, -1))) == 1);
        assert_true(haul_item(haul_all(haul_lt_scalar(t, 1e30))) == 1);
        assert_refused(haul_add_scalar(t, -1), HAUL_INVALID_ARGUMENT, "is not a value of u");
        haul_error_clear();
    }
    assert_true(haul_item(tensor_of(device, HAUL_U64, (uint64_t[]){UINT64_C(1) << 63}, 1)) == 0x1p63);
    assert_true((uint64_t)haul_item_i64(tensor_of(device, HAUL_U64, (uint64_t[]){UINT64_MAX}, 1)) == UINT64_MAX);
    assert_true(haul_item(haul_full(HAUL_U64, HAUL_SHAPE(1), 0x1p63)) == 0x1p63);
    assert_refused(haul_full(HAUL_U64, HAUL_SHAPE(1), 0x1p64), HAUL_INVALID_ARGUMENT, "0 to 18446744073709551615");
    haul_error_clear();
}

static void test_unsigned__numbers(void **state)
{
    (void)state;
    on_devices(numbers);
}

static void casts(haul_device *device)
{
    static const haul_dtype whole[] = {HAUL_U8, HAUL_I8, HAUL_I16, HAUL_I32, HAUL_I64, HAUL_U16, HAUL_U32, HAUL_U64};
    for (int d = 0; d < 3; d++) {
        uint64_t x[N], want[N];
        for (int i = 0; i < N; i++)
            x[i] = number(dtypes[d], i);
        haul_tensor *t = tensor_of(device, dtypes[d], x, N);
        for (size_t w = 0; w < sizeof whole / sizeof *whole; w++) {
            for (int i = 0; i < N; i++)
                want[i] = x[i] & most_of(whole[w]);
            assert_elements(haul_cast(t, whole[w]), whole[w], want, N, "to integers");
            /* From signed integers the sign is extended, as in C. */
            for (int i = 0; i < N; i++)
                want[i] = (whole[w] == HAUL_I8    ? (uint64_t)(int8_t)x[i]
                           : whole[w] == HAUL_I16 ? (uint64_t)(int16_t)x[i]
                           : whole[w] == HAUL_I32 ? (uint64_t)(int32_t)x[i]
                                                  : want[i]) &
                          most_of(dtypes[d]);
            assert_elements(haul_cast(haul_cast(t, whole[w]), dtypes[d]), dtypes[d], want, N, "from integers");
        }
        for (int i = 0; i < N; i++)
            want[i] = x[i] != 0;
        assert_elements(haul_cast(t, HAUL_BOOL), HAUL_BOOL, want, N, "to bool");
        haul_tensor *near = haul_to(haul_cast(t, HAUL_F32), haul_cpu());
        float        floats[N];
        assert_succeeded(haul_read(near, floats, sizeof floats), "to f32");
        for (int i = 0; i < N; i++)
            assert_true(floats[i] == (float)x[i]);
        const float    out[] = {-1, NAN, 0.9f, 3.7f, 1e30f, INFINITY, -INFINITY, 65535.0f};
        const uint64_t most = most_of(dtypes[d]), from_floats[] = {0, 0, 0, 3, most, most, 0, 65535};
        assert_elements(haul_cast(haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(8), out), device), dtypes[d]), dtypes[d],
                        from_floats, 8, "from f32");
        haul_tensor *half = haul_to(haul_cast(haul_from_host(HAUL_F32, HAUL_SHAPE(8), out), HAUL_BF16), device);
        assert_true(haul_item(haul_select(haul_cast(half, dtypes[d]), 0, 3)) == 3);
        assert_true(haul_item(haul_select(haul_cast(half, dtypes[d]), 0, 6)) == 0);
    }
    /* Rounded once: f16 of 2^63 + 1 is infinite, bf16 of the largest is 2^64. */
    haul_tensor *large = tensor_of(device, HAUL_U64, (uint64_t[]){UINT64_MAX, UINT64_C(0x8080000000000001)}, 2);
    assert_close(haul_cast(haul_cast(large, HAUL_BF16), HAUL_F32), (double[]){0x1p64, 0x1.02p63}, 2, 0, "bf16");
}

static void test_unsigned__casts(void **state)
{
    (void)state;
    on_devices(casts);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void order(haul_device *device)
{
    for (int d = 0; d < 3; d++) {
        uint64_t     x[N], sorted[N], first[3];
        haul_tensor *t, *values, *indices;
        for (int i = 0; i < N; i++)
            x[i] = sorted[i] = number(dtypes[d], i);
        qsort(sorted, N, sizeof *sorted, by_number);
        t = tensor_of(device, dtypes[d], x, N);
        assert_succeeded(haul_sort(t, 0, false, &values, &indices), "sort");
        assert_elements(values, dtypes[d], sorted, N, "sort");
        assert_elements(haul_gather(t, 0, indices), dtypes[d], sorted, N, "the indices of sort");
        assert_elements(haul_gather(t, 0, haul_argsort(t, 0, false)), dtypes[d], sorted, N, "argsort");
        for (int i = 0; i < 3; i++)
            first[i] = sorted[N - 1 - i];
        assert_succeeded(haul_topk(t, 3, 0, true, &values, &indices), "topk");
        assert_elements(values, dtypes[d], first, 3, "topk");
        assert_elements(haul_max(t), dtypes[d], first, 1, "max");
        assert_elements(haul_min(t), dtypes[d], sorted, 1, "min");
        assert_elements(haul_max(haul_reshape(t, HAUL_SHAPE(3, N / 3)), HAUL_AXES(1)), dtypes[d],
                        (uint64_t[]){x[3], x[7], x[9]}, 3, "max of rows");
        assert_true(haul_item_i64(haul_argmax(t, 0, false)) == 9);
        assert_true(haul_item_i64(haul_argmin(t, 0, false)) == 0);
        assert_elements(haul_unique(haul_cat((haul_tensor *[]){t, t}, 2, 0)), dtypes[d], sorted, N, "unique");
        haul_tensor *at = haul_searchsorted(tensor_of(device, dtypes[d], sorted, N), t, false);
        for (int i = 0; i < N; i++)
            assert_true(sorted[haul_item_i64(haul_select(at, 0, i))] == x[i]);
        assert_true(haul_item(haul_all(haul_isin(t, t))) == 1);
        assert_true(haul_item(haul_any(haul_isin(t, tensor_of(device, dtypes[d], (uint64_t[]){5, 6}, 2)))) == 0);
    }
}

static void test_unsigned__order(void **state)
{
    (void)state;
    on_devices(order);
}

static void moves(haul_device *device)
{
    for (int d = 0; d < 3; d++) {
        uint64_t x[N], want[N];
        for (int i = 0; i < N; i++)
            x[i] = number(dtypes[d], i);
        haul_tensor *t = haul_reshape(tensor_of(device, dtypes[d], x, N), HAUL_SHAPE(3, 4));
        for (int i = 0; i < N; i++)
            want[i] = x[i % 3 * 4 + i / 3];
        assert_elements(haul_contiguous(haul_permute(t, (int[]){1, 0}, 2)), dtypes[d], want, N, "permute");
        for (int i = 0; i < N; i++)
            want[i] = x[N - 1 - i];
        assert_elements(haul_flip(haul_flatten(t, 0), HAUL_AXES(0)), dtypes[d], want, N, "flip");
        haul_tensor *index = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(2), (int64_t[]){2, 0}), device);
        assert_elements(haul_index_select(haul_flatten(t, 0), 0, index), dtypes[d], (uint64_t[]){x[2], x[0]}, 2,
                        "pick");
        haul_tensor *mask = haul_gt_scalar(t, 20);
        int64_t      count = 0;
        for (int i = 0; i < N; i++)
            if (x[i] > 20)
                want[count++] = x[i];
        assert_elements(haul_masked_select(t, mask), dtypes[d], want, count, "masked_select");
        for (int i = 0; i < N; i++)
            want[i] = x[i] > 20 ? x[i] : 4;
        assert_elements(haul_where(mask, t, haul_full_like(t, 4)), dtypes[d], want, N, "where");
        assert_elements(haul_where_scalar(mask, t, 4), dtypes[d], want, N, "where_scalar");
        assert_elements(haul_masked_fill(t, haul_logical_not(mask), 4), dtypes[d], want, N, "masked_fill");
        assert_elements(haul_arange(dtypes[d], 3, 9, 2), dtypes[d], (uint64_t[]){3, 5, 7}, 3, "arange");
    }
}

static void test_unsigned__moves(void **state)
{
    (void)state;
    on_devices(moves);
}

static void test_unsigned__promotion(void **state)
{
    (void)state;
    static const struct {
        haul_dtype a, b, y;
    } rows[] = {
        {HAUL_U8, HAUL_U16, HAUL_U16},         {HAUL_U16, HAUL_U64, HAUL_U64}, {HAUL_U16, HAUL_I8, HAUL_I32},
        {HAUL_U16, HAUL_I16, HAUL_I32},        {HAUL_U16, HAUL_I64, HAUL_I64}, {HAUL_U32, HAUL_I32, HAUL_I64},
        {HAUL_U32, HAUL_I8, HAUL_I64},         {HAUL_U8, HAUL_I8, HAUL_I16},   {HAUL_U8, HAUL_I32, HAUL_I32},
        {HAUL_U64, HAUL_BOOL, HAUL_U64},       {HAUL_U64, HAUL_F16, HAUL_F16}, {HAUL_U64, HAUL_I8, HAUL_DTYPE_NONE},
        {HAUL_U64, HAUL_I64, HAUL_DTYPE_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(haul_dtype_promote(rows[i].a, rows[i].b), rows[i].y);
        assert_int_equal(haul_dtype_promote(rows[i].b, rows[i].a), rows[i].y);
    }
    assert_int_equal(haul_dtype_parse("uint16"), HAUL_U16);
    assert_int_equal(haul_dtype_parse("u64"), HAUL_U64);
}

/* Sums and their relatives refuse the three dtypes, and name one that takes them. */
static void sums(haul_device *device)
{
    for (int d = 0; d < 3; d++) {
        haul_tensor *x = haul_reshape(tensor_of(device, dtypes[d], (uint64_t[]){1, 2, 3, 4}, 4), HAUL_SHAPE(2, 2));
        haul_tensor *v, *at;
#define REFUSES(call)                                                                                                  \
    assert_refused(call, HAUL_DTYPE, dtypes[d] == HAUL_U16 ? "with haul_cast to i32" : "with haul_cast to i64");       \
    haul_error_clear()
        REFUSES(haul_sum(x));
        REFUSES(haul_sum(x, HAUL_AXES(0)));
        REFUSES(haul_mean(x));
        REFUSES(haul_prod(x));
        REFUSES(haul_var(x));
        REFUSES(haul_std(x));
        REFUSES(haul_nansum(x));
        REFUSES(haul_nanmean(x));
        REFUSES(haul_trace(x));
        REFUSES(haul_cumsum(x, 0));
        REFUSES(haul_cumprod(x, 0));
        REFUSES((haul_cummax(x, 0, &v, &at), v));
        REFUSES((haul_median(x, 0, false, &v, &at), v));
        REFUSES((haul_most_common(x, 0, false, &v, &at), v));
        REFUSES(haul_matmul(x, x));
        REFUSES(haul_bincount(haul_flatten(x, 0)));
#undef REFUSES
        assert_close(haul_sum(haul_cast(x, HAUL_I64)), (double[]){10}, 1, 0, "sum of i64");
        assert_close(haul_norm(x, .p = 1), (double[]){10}, 1, 0, "norm");
        assert_close(haul_quantile(x, 0.5), (double[]){2.5}, 1, 0, "quantile");
        assert_true(haul_item(haul_any(x)) == 1 && haul_item(haul_all(x)) == 1);
    }
}

static void test_unsigned__sums_are_refused(void **state)
{
    (void)state;
    on_devices(sums);
}

static void refused(haul_device *device)
{
    haul_tensor *t = tensor_of(device, HAUL_U32, (uint64_t[]){1, 2, 3}, 3);
    haul_tensor *wide = tensor_of(device, HAUL_U64, (uint64_t[]){1, 2, 3}, 3);
    assert_refused(haul_add(wide, haul_cast(t, HAUL_I32)), HAUL_DTYPE, "no dtype has the values of u64 and i32");
    haul_error_clear();
    assert_refused(haul_cat((haul_tensor *[]){wide, haul_cast(t, HAUL_I8)}, 2, 0), HAUL_DTYPE, "u64 and i8");
    haul_error_clear();
    assert_refused(haul_index_select(t, 0, haul_cast(t, HAUL_U16)), HAUL_DTYPE, "index");
    haul_error_clear();
    /* What converts integers to f32 converts these. */
    assert_close(haul_div(t, haul_cast(t, HAUL_I32)), (double[]){1, 1, 1}, 3, 0, "div");
    assert_close(haul_sqrt(haul_square(wide)), (double[]){1, 2, 3}, 3, 0, "sqrt");
    assert_close(haul_div(wide, haul_cast(t, HAUL_I64)), (double[]){1, 1, 1}, 3, 0, "div of u64 and i64");
    assert_close(haul_mul_scalar(t, 0.5), (double[]){0.5, 1, 1.5}, 3, 0, "a fraction");
}

static void test_unsigned__refused(void **state)
{
    (void)state;
    on_devices(refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unsigned__every_pointwise_row),
        cmocka_unit_test(test_unsigned__numbers),
        cmocka_unit_test(test_unsigned__casts),
        cmocka_unit_test(test_unsigned__order),
        cmocka_unit_test(test_unsigned__moves),
        cmocka_unit_test(test_unsigned__promotion),
        cmocka_unit_test(test_unsigned__sums_are_refused),
        cmocka_unit_test(test_unsigned__refused),
    };
    return cmocka_run_group_tests_name("unsigned", tests, NULL, NULL);
}
