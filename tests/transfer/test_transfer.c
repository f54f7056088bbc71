/* Moving: arrays in and out, between devices and dtypes, the ledger.
 * ctest: cuda; sim; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <math.h>

#include "memory/allocator.h"
#include "support/failure.h"
#include "support/moves.h"

/* ---- arrays ---- */

static void test_transfer__arrays_come_back(void **state)
{
    unsigned char data[64], truths[64], back[64];
    (void)state;
    for (int i = 0; i < 64; i++) {
        data[i] = (unsigned char)(i < 32 ? i & 1 : i * 37);
        truths[i] = data[i] != 0;
    }
    for (int d = 0; d < device_count; d++) {
        haul_set_device(devices[d]);
        for (int k = 0; k < test_dtype_count; k++) {
            haul_dtype   dtype = test_dtypes[k];
            int64_t      count = 64 / (int64_t)haul__dtype_size(dtype);
            haul_tensor *t = haul_from_host(dtype, HAUL_SHAPE(2, count / 2), data);
            assert_valid(t);
            assert_ptr_equal(haul_tensor_device(t), devices[d]);
            memset(back, 0, sizeof back);
            assert_int_equal(haul_read(t, back, sizeof back), HAUL_OK);
            assert_memory_equal(back, dtype == HAUL_BOOL ? truths : data, sizeof data);
        }
    }
}

static void test_transfer__wrong_arguments(void **state)
{
    float        data[4] = {0};
    haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SHAPE(4), data);
    (void)state;
    assert_failed(haul_from_host(HAUL_F32, HAUL_SHAPE(4), NULL));
    assert_error(HAUL_INVALID_ARGUMENT, "data");
    assert_failed(haul_from_host((haul_dtype)99, HAUL_SHAPE(4), data));
    assert_error(HAUL_DTYPE, "dtype");
    assert_failed(haul_from_host(HAUL_F32, HAUL_SHAPE(-1), data));
    assert_error(HAUL_SHAPE, "");
    assert_failed(haul_from_host(HAUL_F32, HAUL_SHAPE(INT64_MAX, 2), data));
    assert_error(HAUL_SHAPE, "");
    assert_int_equal(haul_read(t, data, 15), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "size is 15; t has 16 bytes");
    assert_int_equal(haul_read(t, NULL, 16), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_read(NULL, data, 16), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_read(HAUL_NONE, data, 16), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_write(t, data, 17), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_write(t, data, 15), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_failed(haul_to(NULL, haul_cpu()));
    assert_error(HAUL_INVALID_ARGUMENT, "x");
    assert_failed(haul_to(t, NULL));
    assert_error(HAUL_INVALID_ARGUMENT, "device");
    assert_failed(haul_to_with(t, NULL));
    assert_error(HAUL_INVALID_ARGUMENT, "options");
    assert_failed(haul_to(t, haul_cpu(), .dtype = (haul_dtype)77));
    assert_error(HAUL_DTYPE, "bf16");
    assert_failed(haul_cast(t, (haul_dtype)77));
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
        haul_tensor *column = view_of(x, &HAUL_SHAPE(3), (int64_t[]){4}, 2);
        uint64_t     version = haul_tensor_version(x);
        assert_int_equal(haul_write(column, (float[]){-1, -2, -3}, 12), HAUL_OK);
        assert_int_equal(haul_tensor_version(x), version + 1);
        assert_int_equal(haul_read(x, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 12; i++)
            assert_true(back[i] == (float)(i % 4 == 2 ? -1 - i / 4 : i));
        haul_tensor *expanded = view_of(x, &HAUL_SHAPE(2, 2), (int64_t[]){0, 1}, 1);
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
        assert_true(haul_item(view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, 7)) == 7);
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
        assert_false(haul_tensor_is_contiguous(clone)); /* its dimensions have the order of its source */
        assert_true(haul__tensor_same_layout(clone, transposed(x)));
        assert_int_equal(haul_write(x, (float[12]){0}, 48), HAUL_OK);
        assert_true(haul_item(view_of(same, &HAUL_SHAPE(1), (int64_t[]){1}, 7)) == 0);
        assert_true(haul_item(view_of(copy, &HAUL_SHAPE(1), (int64_t[]){1}, 7)) == 7);
        assert_true(haul_item(view_of(clone, &HAUL_SHAPE(1), (int64_t[]){1}, 1)) == 1);
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
    haul_item(view_of(y, &HAUL_SHAPE(1), (int64_t[]){1}, 7));
    s = ledger();
    assert_int_equal(s.d2h_bytes, 404);
    assert_int_equal(s.d2h_count, 2);
    haul_to(x, device, .dtype = HAUL_U8); /* converted first: a byte an element crosses */
    s = ledger();
    assert_int_equal(s.h2d_bytes, 500);
    haul_to(transposed(view_of(x, &HAUL_SHAPE(2, 10), (int64_t[]){10, 1}, 0)), device); /* packed first */
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
    assert_failed(haul_to(x, device));
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
    assert_true(haul_item(view_of(y, &HAUL_SHAPE(1), (int64_t[]){1}, 42)) == 42);
    haul_transfer_stats_reset();
    haul_to(y, haul_cpu(), .dtype = HAUL_I8);
    assert_int_equal(ledger().d2h_bytes, 100);
}

static void test_transfer__f64_where_there_is_none(void **state)
{
    haul_tensor *x = haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){1, 2});
    float        back[2];
    (void)state;
    assert_failed(haul_to(x, late_device(0)));
    assert_error(HAUL_DTYPE, "late:0 does not support f64");
    haul_tensor *y = haul_to(x, late_device(0), .dtype = HAUL_F32);
    assert_valid(y);
    assert_int_equal(haul_read(y, back, sizeof back), HAUL_OK);
    assert_true(back[1] == 2);
    haul_tensor *z = haul_to(x, late_device(0), .dtype = HAUL_I64); /* same size: converted where f64 is known */
    assert_valid(z);
    int64_t integers[2];
    assert_int_equal(haul_read(z, integers, sizeof integers), HAUL_OK);
    assert_int_equal(integers[1], 2);
    haul_set_device(late_device(0));
    assert_failed(haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){1, 2}));
    assert_error(HAUL_DTYPE, "late:0 does not support f64");
}

static void test_transfer__meta_has_no_data(void **state)
{
    haul_device *meta = haul_device_get("meta");
    haul_tensor *t = haul_to(iota(2, 2), meta, .dtype = HAUL_I64);
    float        back[4];
    (void)state;
    assert_valid(t);
    assert_int_equal(haul_tensor_dtype(t), HAUL_I64);
    assert_failed(haul_to(t, haul_cpu()));
    assert_error(HAUL_DEVICE, "meta");
    assert_int_equal(haul_read(haul_cast(t, HAUL_F32), back, sizeof back), HAUL_DEVICE);
    assert_error(HAUL_DEVICE, "meta");
    assert_true(isnan(haul_item(haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(1), back), meta))));
    assert_error(HAUL_DEVICE, "meta");
    assert_null(haul_map(t, HAUL_READ));
    assert_error(HAUL_DEVICE, "meta");
    assert_valid(haul_clone(transposed(t)));
}

static void test_transfer__gradients_of_moves_come_home(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_tensor *x = haul_set_requires_grad(iota(2, 3), true);
        haul_tensor *y = haul_identity(haul_to(haul_clone(x), devices[d], .dtype = HAUL_F64), devices[0]);
        haul_tensor *seed = haul_from_host(HAUL_F64, HAUL_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
        float        back[6];
        assert_int_equal(haul_backward(y, .seed = seed), HAUL_OK);
        haul_tensor *grad = haul_tensor_grad(x);
        assert_ptr_equal(haul_tensor_device(grad), haul_cpu());
        assert_int_equal(haul_tensor_dtype(grad), HAUL_F32);
        assert_int_equal(haul_read(grad, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 6; i++)
            assert_true(back[i] == (float)(i + 1));
        assert_false(haul_requires_grad(haul_to(x, devices[d], .dtype = HAUL_I32)));
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
    };
    return run_moves("transfer", tests, sizeof tests / sizeof tests[0]);
}
