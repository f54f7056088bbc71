/* Tensors and storages as objects, and what tensors answer about themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <string.h>

#include "base/alloc.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "support/failure.h"

static haul_scope *scope;
static int64_t     blocks_before;

static int setup(void **state)
{
    (void)state;
    haul_cpu(); /* what opening it allocates stays */
    haul_error_clear();
    blocks_before = haul__host_blocks();
    scope = haul_scope_push();
    return scope ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    return haul__host_blocks() == blocks_before ? 0 : -1;
}

static haul_tensor *make(haul_shape shape, const int64_t *strides)
{
    haul__storage *storage = haul__storage_new(haul_cpu());
    haul_tensor   *t = haul__tensor_wrap(storage, HAUL_F32, &shape, strides, 0);
    haul__object_release(storage);
    t = haul__own(t, "make");
    assert_valid(t);
    return t;
}

static void test_tensor__answers(void **state)
{
    (void)state;
    haul_tensor *t = make(HAUL_SHAPE(2, 3, 4), NULL);
    assert_int_equal(haul_tensor_ndim(t), 3);
    assert_int_equal(haul_tensor_dim(t, 0), 2);
    assert_int_equal(haul_tensor_dim(t, -1), 4);
    assert_int_equal(haul_tensor_stride(t, 0), 12);
    assert_int_equal(haul_tensor_stride(t, -1), 1);
    assert_int_equal(haul_tensor_count(t), 24);
    assert_int_equal(haul_tensor_bytes(t), 96);
    assert_int_equal(haul_tensor_dtype(t), HAUL_F32);
    assert_ptr_equal(haul_tensor_device(t), haul_cpu());
    assert_true(haul_tensor_is_contiguous(t));
    assert_int_equal(haul_tensor_version(t), 0);
    haul_shape shape = haul_tensor_shape(t);
    assert_true(haul__shape_equal(&shape, &HAUL_SHAPE(2, 3, 4)));
    assert_int_equal(haul_error_status(), HAUL_OK);
}

static void check_refused(const haul_tensor *t)
{
#define REFUSED(call, wanted)                                                                                          \
    do {                                                                                                               \
        haul_error_clear();                                                                                            \
        assert_true((call) == (wanted));                                                                               \
        assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);                                                  \
        assert_string_equal(haul_error_argument(), "t");                                                               \
    } while (0)
    REFUSED(haul_tensor_ndim(t), -1);
    REFUSED(haul_tensor_dim(t, 0), -1);
    REFUSED(haul_tensor_stride(t, 0), -1);
    REFUSED(haul_tensor_shape(t).ndim, -1);
    REFUSED(haul_tensor_count(t), -1);
    REFUSED(haul_tensor_bytes(t), 0);
    REFUSED(haul_tensor_dtype(t), HAUL_DTYPE_NONE);
    REFUSED(haul_device_is_valid(haul_tensor_device(t)), false);
    REFUSED(haul_tensor_is_contiguous(t), false);
    REFUSED(haul_tensor_version(t), 0);
#undef REFUSED
}

static void test_tensor__null_and_none_have_no_answers(void **state)
{
    (void)state;
    check_refused(NULL);
    check_refused(HAUL_NONE);
    haul_error_clear();
    haul__fail(HAUL_SHAPE, "haul_matmul", "b", "first");
    assert_int_equal(haul_tensor_ndim(NULL), -1);
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
}

static void test_tensor__none_is_told_from_null(void **state)
{
    haul_tensor *t = make(HAUL_SHAPE(1), NULL);
    (void)state;
#define REFUSED(call, name)                                                                                            \
    do {                                                                                                               \
        haul_error_clear();                                                                                            \
        assert_true(call);                                                                                             \
        assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);                                                  \
        assert_string_equal(haul_error_argument(), name);                                                              \
        assert_non_null(strstr(haul_error_message(), ": " name " is HAUL_NONE, but a tensor is needed here"));         \
    } while (0)
    REFUSED(is_failed(haul_set_requires_grad(HAUL_NONE, true)), "t");
    REFUSED(!haul_requires_grad(HAUL_NONE), "t");
    REFUSED(is_failed(haul_tensor_grad(HAUL_NONE)), "t");
    REFUSED(haul_set_grad(HAUL_NONE, t) != HAUL_OK, "t");
    REFUSED(is_failed(haul_detach(HAUL_NONE)), "x");
    REFUSED(haul_backward(HAUL_NONE) != HAUL_OK, "y");
    REFUSED(haul_init_uniform(HAUL_NONE, 0, 1) != HAUL_OK, "t");
    REFUSED(!haul_tensor_is_pinned(HAUL_NONE), "t");
#undef REFUSED
    haul_error_clear();
    assert_failed(haul_detach(NULL));
    assert_non_null(strstr(haul_error_message(), "x is NULL; pass the result of a call that succeeded"));
}

static void test_tensor__axis_out_of_range(void **state)
{
    (void)state;
    haul_tensor *t = make(HAUL_SHAPE(2, 3), NULL);
    assert_int_equal(haul_tensor_dim(t, 2), -1);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_tensor_stride(t, -3), -1);
    assert_int_equal(haul_tensor_dim(make(HAUL_SCALAR_SHAPE, NULL), 0), -1);
}

static void test_tensor__scalars_and_empty_ones_are_ordinary(void **state)
{
    (void)state;
    haul_tensor *scalar = make(HAUL_SCALAR_SHAPE, NULL), *empty = make(HAUL_SHAPE(4, 0, 3), NULL);
    assert_int_equal(haul_tensor_ndim(scalar), 0);
    assert_int_equal(haul_tensor_count(scalar), 1);
    assert_true(haul_tensor_is_contiguous(scalar));
    assert_int_equal(haul_tensor_count(empty), 0);
    assert_int_equal(haul_tensor_bytes(empty), 0);
    assert_true(haul_tensor_is_contiguous(empty));
    assert_true(haul_tensor_is_contiguous(make(HAUL_SHAPE(4, 0, 3), (int64_t[]){1, 7, 9})));
}

static void test_tensor__knows_whether_it_is_contiguous(void **state)
{
    (void)state;
    assert_true(make(HAUL_SHAPE(2, 3), (int64_t[]){3, 1})->contiguous);
    assert_false(make(HAUL_SHAPE(2, 3), (int64_t[]){1, 2})->contiguous); /* transposed */
    assert_false(make(HAUL_SHAPE(2, 3), (int64_t[]){6, 2})->contiguous); /* every second element */
    assert_false(make(HAUL_SHAPE(2, 3), (int64_t[]){0, 1})->contiguous); /* expanded */
    assert_false(make(HAUL_SHAPE(2, 3), (int64_t[]){4, 1})->contiguous); /* a slice */
    assert_true(make(HAUL_SHAPE(1, 3), (int64_t[]){99, 1})->contiguous); /* a size-1 dimension's does not count */
    assert_true(make(HAUL_SHAPE(2, 1, 3), (int64_t[]){3, 0, 1})->contiguous);
    assert_false(make(HAUL_SHAPE(2, 1, 3), (int64_t[]){4, 0, 1})->contiguous);
}

static void test_tensor__strides_of_size_1_dimensions_are_canonical(void **state)
{
    (void)state;
    static const int64_t given[] = {77, 4, 88, 1, 99};
    haul_tensor         *t = make(HAUL_SHAPE(1, 2, 1, 3, 1), given);
    assert_memory_equal(t->strides, ((int64_t[]){8, 4, 3, 1, 1}), 5 * sizeof(int64_t));
}

static void test_tensor__views_share_the_storage(void **state)
{
    (void)state;
    haul_tensor *t = make(HAUL_SHAPE(2, 3), NULL);
    t->requires_grad = true;
    haul_tensor *alias = haul__own(haul__tensor_alias(t), "alias");
    assert_ptr_equal(alias->storage, t->storage);
    assert_false(haul__tracks(alias));
    assert_true(haul__tracks(t));
    atomic_fetch_add(&t->storage->version, 1);
    assert_int_equal(haul_tensor_version(alias), 1);
    assert_int_equal(haul_drop(t), HAUL_OK);
    assert_int_equal(atomic_load(&alias->storage->object.refs), 1);
}

static char order[8];

static void note_release(haul__storage *storage)
{
    (void)storage;
    strcat(order, "r");
}

static void note_delete(void *context)
{
    strcat(order, context);
}

static void test_storage__released_then_deleted_with_the_last_view(void **state)
{
    (void)state;
    order[0] = 0;
    haul_tensor *t = make(HAUL_SHAPE(1), NULL), *alias = haul__own(haul__tensor_alias(t), "alias");
    t->storage->release = note_release;
    t->storage->deleter = note_delete;
    t->storage->deleter_context = "d";
    haul_drop(t);
    assert_string_equal(order, "");
    haul_drop(alias);
    assert_string_equal(order, "rd");
}

static void test_tensor__is_described(void **state)
{
    (void)state;
    char text[64];
    assert_string_equal(haul__tensor_text(make(HAUL_SHAPE(64, 10), NULL), text, sizeof text), "f32[64,10] on cpu");
    assert_string_equal(haul__tensor_text(make(HAUL_SCALAR_SHAPE, NULL), text, sizeof text), "f32[] on cpu");
    assert_string_equal(haul__tensor_text(NULL, text, sizeof text), "NULL");
    assert_string_equal(haul__tensor_text(HAUL_NONE, text, sizeof text), "HAUL_NONE");
    assert_string_equal(haul__tensor_text(make(HAUL_SHAPE(64, 10), NULL), text, 6), "f32[6");
}

static void test_tensor__without_memory(void **state)
{
    (void)state;
    haul_shape     shape = HAUL_SHAPE(2);
    haul__storage *storage = haul__storage_new(haul_cpu());
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    haul_tensor *t = haul__tensor_wrap(storage, HAUL_F32, &shape, NULL, 0);
    haul__fault_plan(0, 0);
    assert_null(t);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_int_equal(atomic_load(&storage->object.refs), 1);
    haul__object_release(storage);
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    storage = haul__storage_new(haul_cpu());
    haul__fault_plan(0, 0);
    assert_null(storage);
    assert_null(haul__tensor_wrap(NULL, HAUL_F32, &shape, NULL, 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tensor__answers),
        TEST(test_tensor__null_and_none_have_no_answers),
        TEST(test_tensor__none_is_told_from_null),
        TEST(test_tensor__axis_out_of_range),
        TEST(test_tensor__scalars_and_empty_ones_are_ordinary),
        TEST(test_tensor__knows_whether_it_is_contiguous),
        TEST(test_tensor__strides_of_size_1_dimensions_are_canonical),
        TEST(test_tensor__views_share_the_storage),
        TEST(test_storage__released_then_deleted_with_the_last_view),
        TEST(test_tensor__is_described),
        TEST(test_tensor__without_memory),
    };
    return cmocka_run_group_tests_name("core_tensor", tests, NULL, NULL);
}
