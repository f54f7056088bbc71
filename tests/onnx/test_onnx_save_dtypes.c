/* haul_save_onnx where a dtype decides on the nodes: haul_load_onnx gives the module's results. */
#include <haul/onnx.h>

#include "base/alloc.h"
#include "files/file.h"
#include "support/linalg.h"

#define FILE_NAME "saved.onnx"

/* Saves, loads and compares; true if the file has a node of this type. */
static bool saved_with(haul_module *m, const haul_call_options *o, int opset, const char *type)
{
    double                 got[8], want[8];
    uint8_t               *bytes = NULL;
    size_t                 size = 0;
    haul_save_onnx_options save = {.opset = opset};
    for (int i = 0; i < HAUL_MAX_ARGUMENTS; i++)
        save.x[i] = o->x[i];
    if (haul_save_onnx_with(FILE_NAME, m, &save))
        fail_msg("%s", haul_error_message());
    haul_module *again = haul_load_onnx(FILE_NAME);
    haul_tensor *y = again ? haul_call_with(again, o) : NULL, *known = haul_call_with(m, o);
    if (!haul_tensor_is_valid(y) || !haul_tensor_is_valid(known))
        fail_msg("%s", haul_error_message());
    const int64_t count = haul_tensor_count(known);
    assert_int_equal(haul_tensor_dtype(y), haul_tensor_dtype(known));
    assert_int_equal(haul_tensor_count(y), count);
    assert_true(count <= 8 && !read_values(y, got, count) && !read_values(known, want, count));
    for (int64_t i = 0; i < count; i++)
        assert_true(got[i] == want[i]);
    assert_int_equal(haul__file_read_all(FILE_NAME, "test", 1 << 20, 0, &bytes, &size), HAUL_OK);
    const bool found = memmem(bytes, size, type, strlen(type)) != NULL;
    haul__free(bytes);
    return found;
}

/* NegativeLogLikelihoodLoss has no bf16 before opset 22: the node computes in f32 then. */
static haul_tensor *likelihood(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_nll_loss(args->x[0], args->x[1], .weight = args->x[2]);
}

static void test_onnx_save_dtypes__loss_of_an_old_set(void **state)
{
    (void)state;
    static const float   log_p[] = {-1, -2, -3, -4, -0.5f, -1}, weight[] = {0.5f, 1, 2};
    static const int64_t labels[] = {2, 0};
    haul_scope          *scope = haul_scope_push();
    haul_module         *m = haul_module_new("likelihood", likelihood, .inputs = "x, y, weight");
    haul_call_options    o = {.mode = HAUL_EVALUATE};
    o.x[0] = haul_cast(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), log_p), HAUL_BF16);
    o.x[1] = haul_from_host(HAUL_I64, HAUL_SHAPE(2), labels);
    o.x[2] = haul_cast(haul_from_host(HAUL_F32, HAUL_SHAPE(3), weight), HAUL_BF16);
    for (int opset = 18; opset <= 22; opset++)
        assert_int_equal(saved_with(m, &o, opset, "Cast"), opset < 22);
    haul_scope_pop(scope);
}

static haul_tensor *index_add(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_index_add(args->x[0], 0, args->x[1], args->x[2]);
}

/* Sums of f16 and bf16 are rounded once. */
static void test_onnx_save_dtypes__index_add(void **state)
{
    (void)state;
    static const int64_t    index[] = {1, 1, 0, 1, 1, 1, 1};
    static const haul_dtype dtypes[] = {HAUL_F16, HAUL_BF16, HAUL_F32, HAUL_F64, HAUL_I32};
    haul_scope             *scope = haul_scope_push();
    haul_module            *m = haul_module_new("index_add", index_add, .inputs = "x, index, rows");
    haul_call_options       o = {.mode = HAUL_EVALUATE};
    o.x[1] = haul_from_host(HAUL_I64, HAUL_SHAPE(7), index);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        o.x[0] = haul_zeros(dtypes[i], HAUL_SHAPE(2, 2));
        o.x[2] = haul_cast(haul_reshape(haul_arange(HAUL_F64, 1, 2.4, 0.1), HAUL_SHAPE(7, 2)), dtypes[i]);
        assert_true(saved_with(m, &o, 22, "ScatterElements"));
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_save_dtypes__loss_of_an_old_set),
        cmocka_unit_test(test_onnx_save_dtypes__index_add),
    };
    return cmocka_run_group_tests_name("onnx_save_dtypes", tests, NULL, NULL);
}
