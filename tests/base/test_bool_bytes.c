/* Bools from outside: any byte but 0 is true, wherever the bytes come in. Files: test_io_npy.c, test_io_safetensors.c.
 *
 * ctest: cuda */
#include "base/bools.h"
#include "support/datasets.h"
#include "support/failure.h"
#include "support/linalg.h"

/* behind the library's headers: its words are macros */
#include "support/custom_ops.h"

#define COUNT 6
static const uint8_t raw[COUNT] = {0, 1, 2, 255, 128, 0};

/* Operations that would show any byte but 0 and 1. */
static void assert_true_false(haul_tensor *b, const char *how)
{
    uint8_t back[COUNT];
    if (!haul_tensor_is_valid(b))
        fail_msg("%s: %s", how, haul_error_message());
    assert_int_equal(haul_tensor_dtype(b), HAUL_BOOL);
    haul_tensor *yes = haul_to(haul_ones(HAUL_BOOL, HAUL_SHAPE(COUNT)), haul_tensor_device(b)), *values, *at;
    assert_close(haul_sum(b), (double[]){4}, 1, 0, how);
    assert_close(haul_cast(b, HAUL_F32), (double[]){0, 1, 1, 1, 1, 0}, COUNT, 0, how);
    assert_close(haul_eq(b, yes), (double[]){0, 1, 1, 1, 1, 0}, COUNT, 0, how);
    assert_close(haul_logical_not(b), (double[]){1, 0, 0, 0, 0, 1}, COUNT, 0, how);
    assert_close(haul_masked_fill(haul_full_like(haul_cast(b, HAUL_F32), 3), b, 2), (double[]){3, 2, 2, 2, 2, 3}, COUNT,
                 0, how);
    assert_int_equal(haul_sort(b, 0, false, &values, &at), HAUL_OK);
    assert_close(at, (double[]){0, 5, 1, 2, 3, 4}, COUNT, 0, how);
    assert_int_equal(haul_read(b, back, sizeof back), HAUL_OK);
    assert_memory_equal(back, ((uint8_t[]){0, 1, 1, 1, 1, 0}), COUNT);
}

/* ---- arrays in, maps ---- */

static void arrays(haul_device *device)
{
    haul_scope *scope = haul_scope_push();
    uint8_t     bytes[COUNT];
    assert_int_equal(haul_set_device(device), HAUL_OK);
    memcpy(bytes, raw, sizeof raw);
    assert_true_false(haul_from_host(HAUL_BOOL, HAUL_SHAPE(COUNT), bytes), "haul_from_host");
    haul_tensor *t = haul_zeros(HAUL_BOOL, HAUL_SHAPE(COUNT));
    assert_int_equal(haul_write(t, bytes, COUNT), HAUL_OK);
    assert_true_false(t, "haul_write");
    t = haul_slice(haul_zeros(HAUL_BOOL, HAUL_SHAPE(2 * COUNT)), 0, 0, 2 * COUNT, 2);
    assert_int_equal(haul_write(t, bytes, COUNT), HAUL_OK);
    assert_true_false(t, "haul_write with gaps");
    assert_memory_equal(bytes, raw, COUNT); /* the caller's own array stays */

    t = haul_zeros(HAUL_BOOL, HAUL_SHAPE(COUNT + 2));
    haul_tensor *middle = haul_slice(t, 0, 1, COUNT + 1, 1);
    for (int mode = HAUL_WRITE; mode <= (HAUL_READ | HAUL_WRITE); mode++) {
        assert_int_equal(haul_zero_into(t), HAUL_OK);
        uint8_t *memory = haul_map(middle, mode);
        assert_non_null(memory);
        memcpy(memory, raw, COUNT);
        assert_int_equal(haul_unmap(middle), HAUL_OK);
        assert_true_false(middle, "haul_map");
    }

    t = haul_wrap_host(HAUL_BOOL, HAUL_SHAPE(COUNT), bytes, NULL, NULL);
    assert_true_false(haul_to(t, device), "haul_wrap_host");
    assert_memory_equal(bytes, ((uint8_t[]){0, 1, 1, 1, 1, 0}), COUNT);
    haul_scope_pop(scope);
}

static void test_bool_bytes__arrays_and_maps(void **state)
{
    (void)state;
    on_devices(arrays);
}

/* Constants of a program are in memory that must not be written. */
static void test_bool_bytes__wrapping_normal_bytes_writes_nothing(void **state)
{
    static const uint8_t constant[COUNT] = {0, 1, 1, 0, 1, 0};
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = haul_wrap_host(HAUL_BOOL, HAUL_SHAPE(COUNT), (void *)(uintptr_t)constant, NULL, NULL);
    assert_close(haul_sum(t), (double[]){3}, 1, 0, "constant");
    haul_scope_pop(scope);
}

static void test_bool_bytes__failing_allocations_are_errors(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 8; nth++) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *t = haul_zeros(HAUL_BOOL, HAUL_SHAPE(COUNT));
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_status status = haul_write(t, raw, COUNT);
        haul__fault_plan(0, 0);
        haul_error_clear();
        assert_close(haul_sum(t), (double[]){status ? 0 : 4}, 1, 0, "after a failed write");
        haul_scope_pop(scope);
    }
}

/* Odd bytes at the borders of blocks, and one byte among many. */
static void test_bool_bytes__large_memory(void **state)
{
    enum { SIZE = 3 * 4096 + 5 };
    static uint8_t bytes[SIZE];
    (void)state;
    assert_true(haul__bools_are_normal(bytes, SIZE));
    for (size_t i = 0; i < SIZE; i += i % 4096 == 4095 || i % 4096 == 0 ? 1 : 4094) {
        bytes[i] = 2;
        assert_false(haul__bools_are_normal(bytes, SIZE));
        assert_true(haul__bools_are_normal(bytes, i));
        haul__normalise_bools(bytes, SIZE);
        assert_true(haul__bools_are_normal(bytes, SIZE) && bytes[i] == 1);
        bytes[i] = 0;
    }
}

/* ---- datasets ---- */

static haul_status read_bools(void *context, haul_example *e)
{
    (void)context;
    memcpy(e->fields[0].data, raw, COUNT);
    void *varying = haul_example_resize(e, 1, HAUL_BOOL, HAUL_SHAPE(COUNT));
    if (!varying)
        return haul_error_status();
    memcpy(varying, raw, COUNT);
    return HAUL_OK;
}

static haul_status write_bools(void *context, haul_example *e)
{
    (void)context;
    for (int i = 0; i < COUNT; i++) {
        assert_true(((uint8_t *)e->fields[0].data)[i] <= 1);
        ((uint8_t *)e->fields[0].data)[i] = raw[i];
    }
    return HAUL_OK;
}

static void batches(haul_device *device)
{
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_dataset *d = haul_dataset_new(&(haul_dataset_source){
        .fields = {{"mask", HAUL_BOOL, HAUL_SHAPE(COUNT)}, {"varying", HAUL_BOOL, HAUL_SHAPE(-1)}},
        .count = 3,
        .name = "masks",
        .read = read_bools});
    assert_non_null(d);
    haul_dataset *mapped = haul_dataset_map(d, haul_transform_new(write_bools));
    assert_non_null(mapped);
    for (int k = 0; k < 2; k++) {
        haul_loader *l = haul_loader_new(k ? mapped : d);
        assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
        const haul_batch *b = haul_loader_next(l);
        assert_non_null(b);
        assert_true_false(haul_reshape(b->x, HAUL_SHAPE(COUNT)), k ? "a transform" : "a field");
        assert_true_false(haul_reshape(b->y, HAUL_SHAPE(COUNT)), "a field that varies");
    }
    haul_scope_pop(scope);
}

static void test_bool_bytes__datasets_and_transforms(void **state)
{
    (void)state;
    on_devices(batches);
}

/* ---- custom operations ---- */

static haul_status bytes_infer(haul_custom_call *c)
{
    c->results[0].dtype = HAUL_BOOL;
    c->results[0].shape = c->operands[0].shape;
    return HAUL_OK;
}

static haul_status bytes_host(const haul_custom_call *c)
{
    for (int64_t i = 0; i < c->results[0].count; i++)
        ((uint8_t *)c->results[0].data)[i] = (uint8_t)((const float *)c->operands[0].data)[i];
    return HAUL_OK;
}

// clang-format off
HAUL_KERNEL2(bytes_kernel, U8, y, const T, x, {
    FOR_ITEMS(i) y[i] = (U8)LOAD(x, i);
});
// clang-format on

static haul_custom_operation by_kernel = {
    .name = "test_bytes_kernel",
    .operands = {{"x"}},
    .results = {{"y"}},
    .infer = bytes_infer,
    .kernel = &bytes_kernel,
};

static haul_custom_operation by_host = {
    .name = "test_bytes_host",
    .operands = {{"x"}},
    .results = {{"y"}},
    .dtypes = HAUL_DTYPE_BIT(HAUL_F32),
    .infer = bytes_infer,
    .host = bytes_host,
};

static void custom(haul_device *device)
{
    haul_scope  *scope = haul_scope_push();
    const float  values[COUNT] = {0, 1, 2, 255, 128, 0};
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), values), device);
    assert_true_false(haul_apply(&by_kernel, NULL, x), "a kernel");
    haul_tensor *out = haul_to(haul_zeros(HAUL_BOOL, HAUL_SHAPE(COUNT)), device);
    assert_int_equal(haul_apply_into(out, &by_kernel, NULL, x), HAUL_OK);
    assert_true_false(out, "a kernel into a tensor");
    if (device == haul_cpu())
        assert_true_false(haul_apply(&by_host, NULL, x), "a host function");
    haul_scope_pop(scope);
}

static void test_bool_bytes__custom_operations(void **state)
{
    (void)state;
    on_devices(custom);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bool_bytes__arrays_and_maps),
        cmocka_unit_test(test_bool_bytes__wrapping_normal_bytes_writes_nothing),
        cmocka_unit_test(test_bool_bytes__failing_allocations_are_errors),
        cmocka_unit_test(test_bool_bytes__large_memory),
        cmocka_unit_test(test_bool_bytes__datasets_and_transforms),
        cmocka_unit_test(test_bool_bytes__custom_operations),
    };
    return cmocka_run_group_tests_name("bool_bytes", tests, NULL, NULL);
}
