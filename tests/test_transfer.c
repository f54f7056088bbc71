/* Moving: arrays in and out, between devices and dtypes, mapped memory, the ledger, failures, and races.
 * ctest: env=POCL_DEVICES=pthread pthread */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "memory/allocator.h"
#include "ops/dispatch.h"
#include "support/conformance.h"
#include "support/late.h"
#include "transfer/transfer.h"

static haul_device *devices[16]; /* real ones: the CPU first */
static int          device_count;
static haul_scope  *scope;

static int begin(void **state)
{
    (void)state;
    haul_error_clear();
    haul__fault_plan(0, 0);
    haul_transfer_stats_reset();
    scope = haul_scope_push();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    haul__fault_plan(0, 0);
    return haul_scope_pop(scope);
}

static haul_tensor *iota(int64_t rows, int64_t columns)
{
    float *data = malloc((size_t)(rows * columns) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = (float)i;
    haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SHAPE(rows, columns), data);
    free(data);
    assert_non_null(t);
    return t;
}

/* x [r, c] as a view of its transpose. */
static haul_tensor *transposed(haul_tensor *x)
{
    return haul__view_of(x, &HAUL_SHAPE(x->shape.dims[1], x->shape.dims[0]), (int64_t[]){x->strides[1], x->strides[0]},
                         x->offset);
}

static haul_transfer_stats ledger(void)
{
    haul_transfer_stats stats;
    assert_int_equal(haul_transfer_stats_get(&stats), HAUL_OK);
    return stats;
}

static void assert_error(haul_status status, const char *text)
{
    assert_int_equal(haul_error_status(), status);
    if (!strstr(haul_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), text);
    haul_error_clear();
}

/* ---- arrays ---- */

static void test_transfer__arrays_come_back(void **state)
{
    unsigned char data[64], back[64];
    (void)state;
    for (int i = 0; i < 64; i++)
        data[i] = (unsigned char)(i < 32 ? i & 1 : i * 37);
    for (int d = 0; d < device_count; d++) {
        haul_set_device(devices[d]);
        for (int k = 0; k < test_dtype_count; k++) {
            haul_dtype   dtype = test_dtypes[k];
            int64_t      count = 64 / (int64_t)haul__dtype_size(dtype);
            haul_tensor *t = haul_from_host(dtype, HAUL_SHAPE(2, count / 2), data);
            assert_non_null(t);
            assert_ptr_equal(haul_tensor_device(t), devices[d]);
            memset(back, 0, sizeof back);
            assert_int_equal(haul_read(t, back, sizeof back), HAUL_OK);
            assert_memory_equal(back, data, sizeof data);
        }
    }
}

static void test_transfer__wrong_arguments(void **state)
{
    float        data[4] = {0};
    haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SHAPE(4), data);
    (void)state;
    assert_null(haul_from_host(HAUL_F32, HAUL_SHAPE(4), NULL));
    assert_error(HAUL_INVALID_ARGUMENT, "data");
    assert_null(haul_from_host(HAUL_F16, HAUL_SHAPE(4), data));
    assert_error(HAUL_DTYPE, "f16");
    assert_null(haul_from_host((haul_dtype)99, HAUL_SHAPE(4), data));
    assert_error(HAUL_DTYPE, "dtype");
    assert_null(haul_from_host(HAUL_F32, HAUL_SHAPE(-1), data));
    assert_error(HAUL_SHAPE, "");
    assert_null(haul_from_host(HAUL_F32, HAUL_SHAPE(INT64_MAX, 2), data));
    assert_error(HAUL_SHAPE, "");
    assert_int_equal(haul_read(t, data, 15), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "size is 15; t has 16 bytes");
    assert_int_equal(haul_read(t, NULL, 16), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_read(NULL, data, 16), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_read(HAUL_NONE, data, 16), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_write(t, data, 17), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_write(t, data, 15), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_null(haul_to(NULL, haul_cpu()));
    assert_error(HAUL_INVALID_ARGUMENT, "x");
    assert_null(haul_to(t, NULL));
    assert_error(HAUL_INVALID_ARGUMENT, "device");
    assert_null(haul_to_with(t, NULL));
    assert_error(HAUL_INVALID_ARGUMENT, "options");
    assert_null(haul_to(t, haul_cpu(), .dtype = HAUL_BF16));
    assert_error(HAUL_DTYPE, "bf16");
    assert_null(haul_cast(t, (haul_dtype)77));
    assert_error(HAUL_DTYPE, "");
}

static void test_transfer__strided_reads_and_writes(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        float        back[12] = {0};
        haul_tensor *x = haul_to(iota(3, 4), devices[d]), *t = transposed(x);
        assert_int_equal(haul_read(t, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 12; i++)
            assert_true(back[i] == (float)(i % 3 * 4 + i / 3));
        haul_tensor *column = haul__view_of(x, &HAUL_SHAPE(3), (int64_t[]){4}, 2);
        uint64_t     version = haul_tensor_version(x);
        assert_int_equal(haul_write(column, (float[]){-1, -2, -3}, 12), HAUL_OK);
        assert_int_equal(haul_tensor_version(x), version + 1);
        assert_int_equal(haul_read(x, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 12; i++)
            assert_true(back[i] == (float)(i % 4 == 2 ? -1 - i / 4 : i));
        haul_tensor *expanded = haul__view_of(x, &HAUL_SHAPE(2, 2), (int64_t[]){0, 1}, 1);
        assert_int_equal(haul_read(expanded, back, 16), HAUL_OK);
        assert_true(back[0] == 1 && back[1] == -1 && back[2] == 1 && back[3] == -1);
        assert_int_equal(haul_write(expanded, back, 16), HAUL_INVALID_ARGUMENT);
        haul_error_clear();
    }
}

static void test_transfer__items(void **state)
{
    static const struct {
        double  value, as_double;
        int64_t as_integer;
    } floats[] = {{1.5, 1.5, 1}, {-1.5, -1.5, -1}, {1e30, 1e30, INT64_MAX}, {-INFINITY, -INFINITY, INT64_MIN}};
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_set_device(devices[d]);
        for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
            haul_tensor *t = haul_from_host(HAUL_F64, HAUL_SCALAR_SHAPE, &floats[i].value);
            assert_true(haul_item(t) == floats[i].as_double);
            assert_true(haul_item_i64(t) == floats[i].as_integer);
        }
        assert_true(isnan(haul_item(haul_from_host(HAUL_F32, HAUL_SHAPE(1), &(float){NAN}))));
        assert_int_equal(haul_item_i64(haul_from_host(HAUL_F32, HAUL_SHAPE(1), &(float){NAN})), 0);
        assert_true(haul_item_i64(haul_from_host(HAUL_I64, HAUL_SHAPE(1, 1), &(int64_t){INT64_MIN})) == INT64_MIN);
        assert_true(haul_item(haul_from_host(HAUL_U8, HAUL_SHAPE(1), &(uint8_t){200})) == 200);
        assert_true(haul_item(haul_from_host(HAUL_I8, HAUL_SHAPE(1), &(int8_t){-100})) == -100);
        assert_true(haul_item(haul_from_host(HAUL_I16, HAUL_SHAPE(1), &(int16_t){-30000})) == -30000);
        assert_true(haul_item(haul_from_host(HAUL_I32, HAUL_SHAPE(1), &(int32_t){1 << 30})) == 1 << 30);
        assert_true(haul_item(haul_from_host(HAUL_BOOL, HAUL_SHAPE(1), &(uint8_t){1})) == 1);
        assert_int_equal(haul_error_status(), HAUL_OK);
        assert_true(isnan(haul_item(haul_from_host(HAUL_F32, HAUL_SHAPE(2), (float[]){1, 2}))));
        assert_error(HAUL_SHAPE, "2 elements");
        assert_int_equal(haul_item_i64(NULL), 0);
        assert_error(HAUL_INVALID_ARGUMENT, "t");
        haul_tensor *x = haul_to(iota(3, 4), devices[d]);
        assert_true(haul_item(haul__view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, 7)) == 7);
    }
}

/* ---- moves ---- */

static void test_transfer__moves_share_when_nothing_changes(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_tensor *x = haul_to(iota(3, 4), devices[d]), *same = haul_to(x, devices[d]);
        assert_ptr_not_equal(same, x);
        assert_ptr_equal(same->storage, x->storage);
        assert_ptr_equal(haul_cast(x, HAUL_F32)->storage, x->storage);
        haul_tensor *copy = haul_identity(x, devices[d]), *clone = haul_clone(transposed(x));
        assert_ptr_not_equal(copy->storage, x->storage);
        assert_true(haul_tensor_is_contiguous(clone));
        assert_int_equal(haul_write(x, (float[12]){0}, 48), HAUL_OK);
        assert_true(haul_item(haul__view_of(same, &HAUL_SHAPE(1), (int64_t[]){1}, 7)) == 0);
        assert_true(haul_item(haul__view_of(copy, &HAUL_SHAPE(1), (int64_t[]){1}, 7)) == 7);
        assert_true(haul_item(haul__view_of(clone, &HAUL_SHAPE(1), (int64_t[]){1}, 1)) == 4);
    }
}

static void test_transfer__every_pair_of_devices(void **state)
{
    float back[12];
    (void)state;
    for (int from = 0; from < device_count; from++) {
        for (int to = 0; to < device_count; to++) {
            haul_tensor *x = haul_to(iota(3, 4), devices[from]), *y = haul_to(transposed(x), devices[to]);
            haul_tensor *z = haul_identity(x, devices[to]);
            assert_ptr_equal(haul_tensor_device(y), devices[to]);
            assert_ptr_equal(haul_tensor_device(z), devices[to]);
            assert_int_equal(haul_read(y, back, sizeof back), HAUL_OK);
            for (int i = 0; i < 12; i++)
                assert_true(back[i] == (float)(i % 3 * 4 + i / 3));
            assert_int_equal(haul_read(z, back, sizeof back), HAUL_OK);
            for (int i = 0; i < 12; i++)
                assert_true(back[i] == (float)i);
        }
    }
}

/* Larger than a piece of what goes through the host, and not a multiple of it. */
static void test_transfer__large_moves_between_devices(void **state)
{
    enum { COUNT = 2500007 };
    haul_device *there[] = {late_device(0), device_count > 1 ? devices[1] : late_device(0)};
    haul_device *here[] = {late_device(1), device_count > 2 ? devices[2] : late_device(1)};
    float       *data = malloc(COUNT * sizeof *data), *back = malloc(COUNT * sizeof *back);
    (void)state;
    assert_true(data && back);
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i;
    for (int k = 0; k < 2; k++) {
        haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), data);
        haul_tensor *y = haul_to(haul_to(x, there[k]), here[k]);
        assert_int_equal(haul_read(y, back, COUNT * sizeof *back), HAUL_OK);
        assert_memory_equal(back, data, COUNT * sizeof *back);
    }
    free(data);
    free(back);
}

static void test_transfer__ledger_counts_exactly(void **state)
{
    haul_device *device = late_device(0);
    haul_tensor *x = iota(10, 10);
    (void)state;
    haul_clone(x);
    haul_transfer_stats s = ledger();
    assert_int_equal(s.h2d_bytes + s.d2h_bytes + s.d2d_bytes, 0); /* nothing crossed a link */
    haul_tensor *y = haul_to(x, device);
    s = ledger();
    assert_int_equal(s.h2d_bytes, 400);
    assert_int_equal(s.h2d_count, 1);
    haul_to(y, haul_cpu());
    haul_item(haul__view_of(y, &HAUL_SHAPE(1), (int64_t[]){1}, 7));
    s = ledger();
    assert_int_equal(s.d2h_bytes, 404);
    assert_int_equal(s.d2h_count, 2);
    haul_to(x, device, .dtype = HAUL_U8); /* converted first: a byte an element crosses */
    s = ledger();
    assert_int_equal(s.h2d_bytes, 500);
    haul_to(transposed(haul__view_of(x, &HAUL_SHAPE(2, 10), (int64_t[]){10, 1}, 0)), device); /* packed first */
    s = ledger();
    assert_int_equal(s.h2d_bytes, 580);
    assert_int_equal(s.h2d_count, 3);
    haul_to(y, late_device(1)); /* by way of the host */
    s = ledger();
    assert_int_equal(s.d2h_bytes, 804);
    assert_int_equal(s.h2d_bytes, 980);
    haul_transfer_stats_reset();
    s = ledger();
    assert_int_equal(s.h2d_bytes + s.d2h_bytes + s.d2d_bytes + s.h2d_count + s.d2h_count + s.d2d_count, 0);
    haul__fault_plan(HAUL__FAULT_COPY, 1);
    assert_null(haul_to(x, device));
    haul__fault_plan(0, 0);
    assert_int_equal(ledger().h2d_count, 0);
    haul_error_clear();
    assert_int_equal(haul_transfer_stats_get(NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

/* Widening happens after the move, where the device has kernels. */
static void test_transfer__widening_moves_the_small_side(void **state)
{
    (void)state;
    if (device_count < 2)
        skip();
    haul_tensor *x = haul_cast(iota(10, 10), HAUL_U8);
    haul_tensor *y = haul_to(x, devices[1], .dtype = HAUL_F32);
    assert_int_equal(ledger().h2d_bytes, 100);
    assert_true(haul_item(haul__view_of(y, &HAUL_SHAPE(1), (int64_t[]){1}, 42)) == 42);
    haul_transfer_stats_reset();
    haul_to(y, haul_cpu(), .dtype = HAUL_I8);
    assert_int_equal(ledger().d2h_bytes, 100);
}

static void test_transfer__f64_where_there_is_none(void **state)
{
    haul_tensor *x = haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){1, 2});
    float        back[2];
    (void)state;
    assert_null(haul_to(x, late_device(0)));
    assert_error(HAUL_DTYPE, "late:0 has no f64");
    haul_tensor *y = haul_to(x, late_device(0), .dtype = HAUL_F32);
    assert_non_null(y);
    assert_int_equal(haul_read(y, back, sizeof back), HAUL_OK);
    assert_true(back[1] == 2);
    haul_tensor *z = haul_to(x, late_device(0), .dtype = HAUL_I64); /* same size: converted where f64 is known */
    assert_non_null(z);
    int64_t integers[2];
    assert_int_equal(haul_read(z, integers, sizeof integers), HAUL_OK);
    assert_int_equal(integers[1], 2);
    haul_set_device(late_device(0));
    assert_null(haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){1, 2}));
    assert_error(HAUL_DTYPE, "late:0 has no f64");
}

static void test_transfer__meta_has_no_data(void **state)
{
    haul_device *meta = haul_device_get("meta");
    haul_tensor *t = haul_to(iota(2, 2), meta, .dtype = HAUL_I64);
    float        back[4];
    (void)state;
    assert_non_null(t);
    assert_int_equal(haul_tensor_dtype(t), HAUL_I64);
    assert_null(haul_to(t, haul_cpu()));
    assert_error(HAUL_DEVICE, "meta");
    assert_int_equal(haul_read(haul_cast(t, HAUL_F32), back, sizeof back), HAUL_DEVICE);
    assert_error(HAUL_DEVICE, "meta");
    assert_true(isnan(haul_item(haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(1), back), meta))));
    assert_error(HAUL_DEVICE, "meta");
    assert_null(haul_map(t, HAUL_READ));
    assert_error(HAUL_DEVICE, "meta");
    assert_non_null(haul_clone(transposed(t)));
}

static void test_transfer__gradients_of_moves_come_home(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_tensor *x = haul_set_requires_grad(iota(2, 3), true);
        haul_tensor *y = haul_identity(haul_to(haul_clone(x), devices[d], .dtype = HAUL_F64), devices[0]);
        haul_tensor *seed = haul_from_host(HAUL_F64, HAUL_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
        float        back[6];
        assert_int_equal(haul_backward(y, seed), HAUL_OK);
        haul_tensor *grad = haul_tensor_grad(x);
        assert_ptr_equal(haul_tensor_device(grad), haul_cpu());
        assert_int_equal(haul_tensor_dtype(grad), HAUL_F32);
        assert_int_equal(haul_read(grad, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 6; i++)
            assert_true(back[i] == (float)(i + 1));
        assert_false(haul_requires_grad(haul_to(x, devices[d], .dtype = HAUL_I32)));
    }
}

/* ---- casts ---- */

static const double cast_values[] = {
    0,       -0.0,   0.5,    -0.5,         0.99,         -0.99,         1.5,           -1.5,  127,    127.9,
    128,     -128,   -128.9, -129,         255,          255.9,         256,           300,   32767,  32767.9,
    32768,   -32768, -32769, 2147483647.0, 2147483648.0, -2147483648.0, -2147483649.0, 1e10,  -1e10,  9.3e18,
    -9.3e18, 1e30,   -1e30,  INFINITY,     -INFINITY,    NAN,           16777217.0,    1e-40, 3.4e38, 1e39};
enum { CAST_VALUES = sizeof cast_values / sizeof cast_values[0] };

static void put(haul_dtype dtype, void *array, int i, double value)
{
    int64_t integer = value >= 9e18 ? INT64_MAX : value <= -9e18 ? INT64_MIN : isnan(value) ? 0 : (int64_t)value;
    switch (dtype) {
    case HAUL_BOOL: ((uint8_t *)array)[i] = value != 0; break;
    case HAUL_U8: ((uint8_t *)array)[i] = (uint8_t)integer; break;
    case HAUL_I8: ((int8_t *)array)[i] = (int8_t)integer; break;
    case HAUL_I16: ((int16_t *)array)[i] = (int16_t)integer; break;
    case HAUL_I32: ((int32_t *)array)[i] = (int32_t)integer; break;
    case HAUL_I64: ((int64_t *)array)[i] = integer; break;
    case HAUL_F32: ((float *)array)[i] = (float)value; break;
    default: ((double *)array)[i] = value; break;
    }
}

static double float_of(haul_dtype dtype, const void *array, int i)
{
    return dtype == HAUL_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static int64_t integer_of(haul_dtype dtype, const void *array, int i)
{
    switch (dtype) {
    case HAUL_BOOL: return ((const uint8_t *)array)[i] != 0;
    case HAUL_U8: return ((const uint8_t *)array)[i];
    case HAUL_I8: return ((const int8_t *)array)[i];
    case HAUL_I16: return ((const int16_t *)array)[i];
    case HAUL_I32: return ((const int32_t *)array)[i];
    default: return ((const int64_t *)array)[i];
    }
}

static double clamp(double value, double low, double high)
{
    return isnan(value) ? 0 : value < low ? low : value > high ? high : trunc(value);
}

/* What element i of `in` must become. */
static void cast_reference(haul_dtype from, const void *in, haul_dtype to, void *out, int i)
{
    if (!haul_dtype_is_float(from)) {
        int64_t v = integer_of(from, in, i);
        switch (to) { /* integers wrap around */
        case HAUL_BOOL: ((uint8_t *)out)[i] = v != 0; break;
        case HAUL_F32: ((float *)out)[i] = (float)v; break;
        case HAUL_F64: ((double *)out)[i] = (double)v; break;
        case HAUL_U8: ((uint8_t *)out)[i] = (uint8_t)v; break;
        case HAUL_I8: ((int8_t *)out)[i] = (int8_t)v; break;
        case HAUL_I16: ((int16_t *)out)[i] = (int16_t)v; break;
        case HAUL_I32: ((int32_t *)out)[i] = (int32_t)v; break;
        default: ((int64_t *)out)[i] = v; break;
        }
        return;
    }
    double v = float_of(from, in, i);
    switch (to) {
    case HAUL_U8: v = clamp(v, 0, 255); break;
    case HAUL_I8: v = clamp(v, -128, 127); break;
    case HAUL_I16: v = clamp(v, -32768, 32767); break;
    case HAUL_I32: v = clamp(v, -2147483648.0, 2147483647.0); break;
    case HAUL_I64:
        ((int64_t *)out)[i] = isnan(v) ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
        return;
    default: break;
    }
    put(to, out, i, v);
}

static void check_cast(haul_device *device, haul_dtype from, haul_dtype to)
{
    unsigned char in[CAST_VALUES * 8], want[CAST_VALUES * 8], got[CAST_VALUES * 8];
    size_t        bytes = CAST_VALUES * haul__dtype_size(to);
    for (int i = 0; i < CAST_VALUES; i++)
        put(from, in, i, cast_values[i]);
    for (int i = 0; i < CAST_VALUES; i++)
        cast_reference(from, in, to, want, i);
    haul_tensor *x = haul_to(haul_from_host(from, HAUL_SHAPE(CAST_VALUES), in), device);
    haul_tensor *y = haul_cast(x, to);
    assert_non_null(y);
    assert_int_equal(haul_tensor_dtype(y), to);
    assert_int_equal(haul_read(y, got, sizeof got), HAUL_OK);
    for (int i = 0; i < CAST_VALUES; i++) {
        size_t size = bytes / CAST_VALUES, at = (size_t)i * size;
        bool   nan = haul_dtype_is_float(to) && isnan(float_of(to, want, i)) && isnan(float_of(to, got, i));
        if (!nan && memcmp(got + at, want + at, size) != 0)
            fail_msg("%s: %g from %s to %s gives the wrong value", haul_device_name(device), cast_values[i],
                     haul_dtype_name(from), haul_dtype_name(to));
    }
}

static void test_cast__every_pair_of_dtypes(void **state)
{
    haul_device_properties p;
    (void)state;
    for (int d = 0; d < device_count && d < 2; d++) { /* a second one like the first would compile as long again */
        assert_int_equal(haul_device_describe(devices[d], &p), HAUL_OK);
        for (int from = 0; from < test_dtype_count; from++)
            for (int to = 0; to < test_dtype_count; to++)
                if (p.has_f64 || (test_dtypes[from] != HAUL_F64 && test_dtypes[to] != HAUL_F64))
                    check_cast(devices[d], test_dtypes[from], test_dtypes[to]);
    }
}

static void test_cast__bools_that_are_not_one(void **state)
{
    uint8_t data[3] = {0, 2, 255};
    float   back[3];
    (void)state;
    haul_tensor *x = haul_wrap_host(HAUL_BOOL, HAUL_SHAPE(3), data, NULL, NULL);
    assert_int_equal(haul_read(haul_cast(x, HAUL_F32), back, sizeof back), HAUL_OK);
    assert_true(back[0] == 0 && back[1] == 1 && back[2] == 1);
}

/* ---- copy_into ---- */

static void test_copy_into__converts_broadcasts_and_moves(void **state)
{
    (void)state;
    for (int from = 0; from < device_count; from++) {
        for (int to = 0; to < device_count; to++) {
            int32_t      back[12];
            haul_tensor *out = haul_to(iota(3, 4), devices[to], .dtype = HAUL_I32);
            haul_tensor *row =
                haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){9.9f, 8, 7, 6}), devices[from]);
            uint64_t version = haul_tensor_version(out);
            assert_int_equal(haul_copy_into(out, row), HAUL_OK);
            assert_int_equal(haul_tensor_version(out), version + 1);
            assert_int_equal(haul_read(out, back, sizeof back), HAUL_OK);
            for (int i = 0; i < 12; i++)
                assert_int_equal(back[i], 9 - i % 4);
            haul_tensor *part = transposed(out), *values = haul_to(iota(4, 3), devices[from]);
            assert_int_equal(haul_copy_into(part, values), HAUL_OK);
            assert_int_equal(haul_read(out, back, sizeof back), HAUL_OK);
            for (int i = 0; i < 12; i++)
                assert_int_equal(back[i], i % 4 * 3 + i / 4);
        }
    }
}

static void test_copy_into__overlapping_views(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        float        back[9];
        haul_tensor *x = haul_to(iota(3, 3), devices[d]);
        assert_int_equal(haul_copy_into(x, transposed(x)), HAUL_OK);
        assert_int_equal(haul_read(x, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 9; i++)
            assert_true(back[i] == (float)(i % 3 * 3 + i / 3));
    }
}

static void test_copy_into__refuses(void **state)
{
    haul_tensor *x = iota(3, 4);
    (void)state;
    assert_int_equal(haul_copy_into(NULL, x), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_copy_into(x, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_copy_into(x, iota(4, 3)), HAUL_SHAPE);
    assert_int_equal(haul_copy_into(iota(1, 4), x), HAUL_SHAPE); /* out is not broadcast */
    assert_int_equal(haul_copy_into(haul_set_requires_grad(iota(3, 4), true), x), HAUL_GRAPH);
    haul_error_clear();
}

/* ---- wrapped memory ---- */

static int deleted;

static void count_deletion(void *context)
{
    assert_ptr_equal(context, &deleted);
    deleted++;
}

static void test_wrap_host__shares_and_deletes_once(void **state)
{
    float data[4] = {1, 2, 3, 4};
    (void)state;
    deleted = 0;
    haul_scope  *inner = haul_scope_push();
    haul_tensor *t = haul_wrap_host(HAUL_F32, HAUL_SHAPE(4), data, count_deletion, &deleted);
    haul_tensor *view = haul_to(t, haul_cpu());
    assert_non_null(view);
    data[2] = 30;
    assert_true(haul_item(haul__view_of(t, &HAUL_SHAPE(1), (int64_t[]){1}, 2)) == 30);
    assert_int_equal(haul_write(t, (float[]){5, 6, 7, 8}, 16), HAUL_OK);
    assert_true(data[0] == 5);
    assert_int_equal(haul_drop(t), HAUL_OK);
    assert_int_equal(deleted, 0); /* the view holds it */
    haul_scope_pop(inner);
    assert_int_equal(deleted, 1);
}

static void test_wrap_host__deletes_when_refused(void **state)
{
    float data[4] = {0};
    (void)state;
    deleted = 0;
    assert_null(haul_wrap_host(HAUL_F32, HAUL_SHAPE(4), NULL, count_deletion, &deleted));
    assert_error(HAUL_INVALID_ARGUMENT, "data");
    assert_null(haul_wrap_host(HAUL_F32, HAUL_SHAPE(1), (char *)data + 1, count_deletion, &deleted));
    assert_error(HAUL_INVALID_ARGUMENT, "aligned");
    assert_null(haul_wrap_host(HAUL_F16, HAUL_SHAPE(4), data, count_deletion, &deleted));
    assert_error(HAUL_DTYPE, "f16");
    assert_null(haul_wrap_host(HAUL_F32, HAUL_SHAPE(-4), data, count_deletion, &deleted));
    assert_int_equal(deleted, 4);
    for (int nth = 1; nth <= 3; nth++) {
        deleted = 0;
        haul_scope *inner = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_wrap_host(HAUL_F32, HAUL_SHAPE(4), data, count_deletion, &deleted);
        haul__fault_plan(0, 0);
        haul_scope_pop(inner);
        assert_int_equal(deleted, 1);
    }
    haul_error_clear();
}

static float *watched;

static void check_then_count(void *context)
{
    watched[0] = -1; /* what is still to be read would see it */
    count_deletion(context);
}

static void test_wrap_host__deleter_waits_for_readers(void **state)
{
    float data[4] = {1, 2, 3, 4}, back[4];
    (void)state;
    deleted = 0;
    watched = data;
    haul_tensor *t = haul_wrap_host(HAUL_F32, HAUL_SHAPE(4), data, check_then_count, &deleted);
    haul_tensor *y = haul_to(t, late_device(0));
    assert_true(late_pending() > 0);
    assert_int_equal(haul_drop(t), HAUL_OK);
    assert_int_equal(deleted, 1);
    assert_int_equal(haul_read(y, back, sizeof back), HAUL_OK);
    assert_true(back[0] == 1 && back[3] == 4);
}

/* ---- mapped memory ---- */

static void test_map__reads_and_writes(void **state)
{
    haul_device *all[18] = {late_device(0)};
    (void)state;
    for (int d = 0; d < device_count; d++)
        all[d + 1] = devices[d];
    for (int d = 0; d <= device_count; d++) {
        haul_tensor *x = haul_to(iota(3, 4), all[d]);
        haul_tensor *rows = haul__view_of(x, &HAUL_SHAPE(2, 4), NULL, 4);
        uint64_t     version = haul_tensor_version(x);
        float       *memory = haul_map(rows, HAUL_READ), back[12];
        assert_non_null(memory);
        assert_true(memory[0] == 4 && memory[7] == 11);
        assert_null(haul_map(x, HAUL_READ));
        assert_error(HAUL_STATE, "haul_unmap");
        assert_int_equal(haul_unmap(rows), HAUL_OK);
        assert_int_equal(haul_tensor_version(x), version);
        memory = haul_map(rows, HAUL_READ | HAUL_WRITE);
        memory[1] = 50;
        assert_int_equal(haul_unmap(rows), HAUL_OK);
        assert_int_equal(haul_tensor_version(x), version + 1);
        memory = haul_map(rows, HAUL_WRITE); /* what is not written stays */
        memory[2] = 60;
        assert_int_equal(haul_unmap(rows), HAUL_OK);
        assert_int_equal(haul_read(x, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 12; i++)
            assert_true(back[i] == (float)(i == 5 ? 50 : i == 6 ? 60 : i));
        assert_int_equal(haul_unmap(rows), HAUL_STATE);
        haul_error_clear();
    }
}

static void test_map__refuses(void **state)
{
    haul_tensor *x = iota(3, 4);
    (void)state;
    assert_null(haul_map(x, 0));
    assert_error(HAUL_INVALID_ARGUMENT, "mode is 0");
    assert_null(haul_map(x, 4));
    assert_error(HAUL_INVALID_ARGUMENT, "mode is 4");
    assert_null(haul_map(transposed(x), HAUL_READ));
    assert_error(HAUL_STATE, "haul_contiguous");
    assert_null(haul_map(NULL, HAUL_READ));
    assert_error(HAUL_INVALID_ARGUMENT, "t");
    haul_tensor *empty = haul_from_host(HAUL_F32, HAUL_SHAPE(0), NULL);
    assert_non_null(haul_map(empty, HAUL_READ | HAUL_WRITE));
    assert_int_equal(haul_unmap(empty), HAUL_OK);
}

static void test_map__a_failed_write_back_can_be_tried_again(void **state)
{
    haul_tensor *x = haul_to(iota(1, 4), late_device(0));
    (void)state;
    float *memory = haul_map(x, HAUL_WRITE);
    memory[3] = 33;
    haul__fault_plan(HAUL__FAULT_COPY, 1);
    assert_int_equal(haul_unmap(x), HAUL_BACKEND);
    haul__fault_plan(0, 0);
    assert_int_equal(haul_tensor_version(x), 0);
    haul_error_clear();
    assert_int_equal(haul_unmap(x), HAUL_OK);
    assert_true(haul_item(haul__view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, 3)) == 33);
}

static void test_map__forgotten_maps_do_not_leak(void **state)
{
    int64_t     blocks = haul__host_blocks();
    haul_scope *inner = haul_scope_push();
    (void)state;
    haul_tensor *x = haul_to(iota(100, 100), late_device(1));
    assert_non_null(haul_map(x, HAUL_READ));
    haul_scope_pop(inner);
    haul_memory_release_cached(late_device(1));
    haul_memory_release_cached(haul_cpu());
    assert_in_range(haul__host_blocks(), 0, blocks + 16); /* scopes and small objects are kept for reuse */
}

/* ---- failures ---- */

/* A chain of moves in which every kind of failure is provoked at every place. */
static bool chain(void)
{
    float       back[12] = {0};
    haul_scope *inner = haul_scope_push();
    if (!inner)
        return false;
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(3, 4), (float[12]){1, 2, 3});
    haul_tensor *y = x ? haul_to(transposed(x), device_count > 1 ? devices[1] : late_device(0)) : NULL;
    haul_tensor *z = y ? haul_identity(y, late_device(1)) : NULL;
    haul_tensor *w = z ? haul_to(z, haul_cpu()) : NULL;
    bool         good = w && haul_read(w, back, sizeof back) == HAUL_OK && back[3] == 2;
    haul_scope_pop(inner);
    return good;
}

static void test_transfer__every_failure_is_reported_and_leaves_nothing(void **state)
{
    static const unsigned kinds[] = {HAUL__FAULT_HOST, HAUL__FAULT_DEVICE, HAUL__FAULT_COPY, HAUL__FAULT_LAUNCH};
    haul_memory_stats     before[3], after;
    haul_device          *used[] = {haul_cpu(), late_device(1), device_count > 1 ? devices[1] : late_device(0)};
    (void)state;
    assert_true(chain());
    for (int i = 0; i < 3; i++)
        haul_memory_stats_get(used[i], &before[i]);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        haul__fault_plan(kinds[k], INT64_MAX);
        assert_true(chain());
        int64_t count = haul__fault_count();
        assert_true(count > 0 || kinds[k] == HAUL__FAULT_HOST);
        for (int64_t nth = 1; nth <= count; nth++) {
            haul_error_clear();
            haul__fault_plan(kinds[k], nth);
            bool good = chain();
            haul__fault_plan(0, 0);
            /* memory for an event may be missing without harm */
            assert_true(good ? kinds[k] == HAUL__FAULT_HOST : haul_error_status() != HAUL_OK);
        }
    }
    haul_error_clear();
    assert_true(chain());
    for (int i = 0; i < 3; i++) {
        haul_memory_stats_get(used[i], &after);
        assert_int_equal(after.live_blocks, before[i].live_blocks);
        assert_int_equal(after.allocated, before[i].allocated);
    }
}

/* ---- races ---- */

/* Tensors of a few sizes wander between devices under a random schedule of moves, writes, copies and drops; what each
 * must hold is kept beside it and compared whenever one is looked at. A wait that is missing anywhere shows as a wrong
 * value. */
enum { WANDERERS = 12, SIZES = 3 };
static const int64_t sizes[SIZES] = {100, 5000, 70000};

typedef struct wanderer {
    haul_tensor *t;
    int32_t      value; /* element i is value + i */
    int          size;
} wanderer;

typedef struct race {
    haul_device **places;
    int           place_count, steps;
    uint32_t      random;
    int32_t       next_value;
    int32_t      *buffer;
    bool          good;
    wanderer      w[WANDERERS];
} race;

static uint32_t draw(race *r, uint32_t below)
{
    r->random = r->random * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)r->random * below) >> 32);
}

static void fill_buffer(race *r, const wanderer *w)
{
    for (int64_t i = 0; i < sizes[w->size]; i++)
        r->buffer[i] = w->value + (int32_t)i;
}

static void renew(race *r, wanderer *w)
{
    if (w->t)
        haul_drop(w->t);
    w->size = (int)draw(r, SIZES);
    w->value = r->next_value += 100003;
    fill_buffer(r, w);
    haul_set_device(r->places[draw(r, (uint32_t)r->place_count)]);
    w->t = haul_from_host(HAUL_I32, HAUL_SHAPE(sizes[w->size]), r->buffer);
}

static void move_over(race *r, wanderer *to, const wanderer *from)
{
    haul_tensor *moved = haul_identity(from->t, r->places[draw(r, (uint32_t)r->place_count)]);
    if (to->t)
        haul_drop(to->t);
    *to = (wanderer){moved, from->value, from->size};
}

static void overwrite(race *r, wanderer *w)
{
    w->value = r->next_value += 100003;
    fill_buffer(r, w);
    haul_write(w->t, r->buffer, (size_t)sizes[w->size] * 4);
}

static void overwrite_mapped(race *r, wanderer *w)
{
    int32_t *memory = haul_map(w->t, HAUL_READ | HAUL_WRITE);
    if (!memory)
        return;
    r->good = r->good && memory[7] == w->value + 7;
    w->value = r->next_value += 100003;
    for (int64_t i = 0; i < sizes[w->size]; i++)
        memory[i] = w->value + (int32_t)i;
    haul_unmap(w->t);
}

static void look(race *r, const wanderer *w)
{
    if (haul_read(w->t, r->buffer, (size_t)sizes[w->size] * 4))
        return;
    for (int64_t i = 0; i < sizes[w->size]; i++)
        r->good = r->good && r->buffer[i] == w->value + (int32_t)i;
}

static void *run_race(void *context)
{
    race       *r = context;
    haul_scope *inner = haul_scope_push();
    r->buffer = malloc((size_t)sizes[SIZES - 1] * 4);
    r->good = inner && r->buffer;
    for (int i = 0; i < WANDERERS && r->good; i++)
        renew(r, &r->w[i]);
    for (int i = 0; i < r->steps && r->good && haul_error_status() == HAUL_OK; i++) {
        wanderer *a = &r->w[draw(r, WANDERERS)], *b = &r->w[draw(r, WANDERERS)];
        switch (draw(r, 8)) {
        case 0: renew(r, a); break;
        case 1: overwrite(r, a); break;
        case 2: overwrite_mapped(r, a); break;
        case 3: look(r, a); break;
        case 4:
            if (a->size == b->size && a != b && haul_copy_into(a->t, b->t) == HAUL_OK)
                a->value = b->value;
            break;
        default:
            if (a != b)
                move_over(r, a, b);
        }
    }
    for (int i = 0; i < WANDERERS && r->good; i++)
        look(r, &r->w[i]);
    r->good = r->good && haul_error_status() == HAUL_OK;
    free(r->buffer);
    haul_scope_pop(inner);
    return NULL;
}

static void race_on(haul_device **places, int place_count, int steps, int rounds)
{
    for (int round = 1; round <= rounds; round++) {
        race r = {
            .places = places, .place_count = place_count, .steps = steps, .random = (uint32_t)round * 2654435761u};
        run_race(&r);
        if (!r.good)
            fail_msg("round %d: %s", round, haul_error_status() ? haul_error_message() : "a wrong value");
    }
}

static void test_race__late_devices(void **state)
{
    haul_device *places[] = {haul_cpu(), late_device(0), late_device(1)};
    (void)state;
    race_on(places, 3, 400, 20);
}

static void test_race__real_devices(void **state)
{
    (void)state;
    race_on(devices, device_count, 1500, 6);
}

static void test_race__both_kinds(void **state)
{
    haul_device *places[18] = {late_device(0), late_device(1)};
    (void)state;
    for (int i = 0; i < device_count; i++)
        places[i + 2] = devices[i];
    race_on(places, device_count + 2, 1000, 4);
}

static void test_race__threads_share_devices(void **state)
{
    haul_device *places[18] = {late_device(0), late_device(1)};
    pthread_t    threads[3];
    race         races[3];
    (void)state;
    for (int i = 0; i < device_count; i++)
        places[i + 2] = devices[i];
    for (int i = 0; i < 3; i++) {
        races[i] = (race){.places = places, .place_count = device_count + 2, .steps = 800, .random = 77u + (uint32_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_race, &races[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_true(races[i].good);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_transfer__arrays_come_back),
        TEST(test_transfer__wrong_arguments),
        TEST(test_transfer__strided_reads_and_writes),
        TEST(test_transfer__items),
        TEST(test_transfer__moves_share_when_nothing_changes),
        TEST(test_transfer__every_pair_of_devices),
        TEST(test_transfer__large_moves_between_devices),
        TEST(test_transfer__ledger_counts_exactly),
        TEST(test_transfer__widening_moves_the_small_side),
        TEST(test_transfer__f64_where_there_is_none),
        TEST(test_transfer__meta_has_no_data),
        TEST(test_transfer__gradients_of_moves_come_home),
        TEST(test_cast__every_pair_of_dtypes),
        TEST(test_cast__bools_that_are_not_one),
        TEST(test_copy_into__converts_broadcasts_and_moves),
        TEST(test_copy_into__overlapping_views),
        TEST(test_copy_into__refuses),
        TEST(test_wrap_host__shares_and_deletes_once),
        TEST(test_wrap_host__deletes_when_refused),
        TEST(test_wrap_host__deleter_waits_for_readers),
        TEST(test_map__reads_and_writes),
        TEST(test_map__refuses),
        TEST(test_map__a_failed_write_back_can_be_tried_again),
        TEST(test_map__forgotten_maps_do_not_leak),
        TEST(test_transfer__every_failure_is_reported_and_leaves_nothing),
        TEST(test_race__late_devices),
        TEST(test_race__real_devices),
        TEST(test_race__both_kinds),
        TEST(test_race__threads_share_devices),
    };
    device_count = test_devices(devices, 16);
    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
