/* Operators of ONNX models at the edges of what their specification allows: whole numbers that wrap around, values that
 * are not finite, and indices, axes and sizes out of range. */
#include <haul/onnx.h>
#include <math.h>

#include "support/linalg.h"
#include "support/onnx/file.h"

enum { FLOAT = 1, UINT8 = 2, INT32 = 6, INT64 = 7 };

static message graph; /* of the model that is being made: its input is x, f32 [2,3] */

static void begin(void)
{
    graph = (message){0};
    put_text(&graph, 2, "g");
    put_value(&graph, 11, "x", FLOAT, SIZES(2, 3));
}

static void add(message node)
{
    put_message(&graph, 1, &node);
}

static void add_i64(const char *name, int count, const int64_t *values)
{
    put_tensor(&graph, name, INT64, count ? SIZES(count) : NO_SIZES, values, (size_t)(count ? count : 1) * 8);
}

static void add_f32(const char *name, int count, const float *values)
{
    put_tensor(&graph, name, FLOAT, count ? SIZES(count) : NO_SIZES, values, (size_t)(count ? count : 1) * 4);
}

/* Loads the model, whose result is y, and calls it with x = 0 1 2 3 4 5. */
static haul_tensor *call(int opset, int dtype)
{
    put_value(&graph, 12, "y", dtype, NO_SIZES);
    message model = model_of(&graph, opset);
    write_message("e.onnx", &model);
    haul_module *net = haul_load_onnx("e.onnx");
    return net ? haul_call(net, haul_reshape(haul_arange(HAUL_F32, 0, 6, 1), HAUL_SHAPE(2, 3))) : NULL;
}

static void expect_values(haul_tensor *y, int count, const int64_t *values)
{
    int64_t got[16];
    if (!haul_tensor_is_valid(y))
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_tensor_count(y), count);
    if (count)
        assert_int_equal(haul_read(haul_cast(y, HAUL_I64), got, (size_t)count * 8), HAUL_OK);
    for (int i = 0; i < count; i++)
        assert_true(got[i] == values[i]);
}

static void expect_failure(haul_tensor *y, const char *what)
{
    uint8_t bytes[256];
    if (haul_tensor_is_valid(y) && haul_tensor_bytes(y) <= sizeof bytes)
        haul_read(y, bytes, haul_tensor_bytes(y));
    if (!haul_error_status())
        fail_msg("%s is accepted", what);
    if (strstr(haul_error_message(), "recorded no error"))
        fail_msg("%s fails without a reason", what);
    haul_error_clear();
}

static message with_ints(message node, const char *name, int count, const int64_t *values)
{
    put_ints(&node, name, count, values);
    return node;
}

static message with_int(message node, const char *name, int64_t value)
{
    put_int(&node, name, value);
    return node;
}

static void test_onnx_edges__parts_of_nothing(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    begin();
    add_f32("s", 0, (const float[]){1});
    add_i64("start", 1, (const int64_t[]){-1});
    add_i64("end", 1, (const int64_t[]){INT64_MIN});
    add_i64("axis", 1, (const int64_t[]){0});
    add(node_of("Shape", "s", "e"));
    add(node_of("Slice", "e start end axis start", "y"));
    expect_values(call(17, INT64), 0, NULL);
    haul_scope_pop(scope);
}

static void test_onnx_edges__whole_numbers(void **state)
{
    (void)state;
    const int64_t large = (INT64_C(1) << 53) + 1;
    haul_scope   *scope = haul_scope_push();
    begin();
    put_tensor(&graph, "a", UINT8, SIZES(1), (const uint8_t[]){1}, 1);
    put_tensor(&graph, "b", UINT8, SIZES(1), (const uint8_t[]){2}, 1);
    add(node_of("Sub", "a b", "d"));
    add(with_int(node_of("Cast", "d", "y"), "to", INT64));
    expect_values(call(17, INT64), 1, (const int64_t[]){255});
    begin();
    add_f32("a", 2, (const float[]){3e9f, -3e9f});
    add(with_int(node_of("Cast", "a", "y"), "to", INT32));
    expect_values(call(17, INT32), 2, (const int64_t[]){INT32_MAX, INT32_MIN});
    begin();
    add_i64("n", 2, (const int64_t[]){1, 2});
    message fill = node_of("ConstantOfShape", "n", "y"), attribute = {0}, value = {0};
    put_number(&value, 1, 1);
    put_number(&value, 2, INT64);
    put_bytes(&value, 9, &large, sizeof large);
    put_text(&attribute, 1, "value");
    put_message(&attribute, 5, &value);
    put_number(&attribute, 20, 4);
    put_message(&fill, 5, &attribute);
    add(fill);
    expect_values(call(17, INT64), 2, (const int64_t[]){large, large});
    begin();
    add_i64("v", 2, (const int64_t[]){INT64_MAX, 1});
    add_i64("high", 0, &large);
    add(node_of("Clip", "v - high", "y"));
    expect_values(call(17, INT64), 2, (const int64_t[]){large, 1});
    haul_scope_pop(scope);
}

static void test_onnx_edges__values_that_are_not_finite(void **state)
{
    (void)state;
    float       y[6];
    haul_scope *scope = haul_scope_push();
    begin();
    add_f32("v", 3, (const float[]){1, INFINITY, 2});
    add_i64("axis", 0, (const int64_t[]){0});
    add(with_int(node_of("CumSum", "v axis", "y"), "exclusive", 1));
    assert_int_equal(haul_read(call(17, FLOAT), y, 12), HAUL_OK);
    assert_true(y[0] == 0 && y[1] == 1 && y[2] == INFINITY);
    begin();
    add_i64("index", 2, (const int64_t[]){1, -1});
    add_i64("depth", 0, (const int64_t[]){3});
    add_f32("values", 2, (const float[]){-INFINITY, 0});
    add(node_of("OneHot", "index depth values", "y"));
    assert_int_equal(haul_read(call(17, FLOAT), y, 24), HAUL_OK);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == (i == 1 || i == 5 ? 0 : -INFINITY));
    haul_scope_pop(scope);
}

static void test_onnx_edges__out_of_range(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    const int64_t far = INT64_C(1) << 32;
    begin();
    put_tensor(&graph, "at", INT64, SIZES(1, 2), (const int64_t[]){0, 5}, 16);
    add_f32("u", 1, (const float[]){9});
    add(node_of("ScatterND", "x at u", "y"));
    expect_failure(call(17, FLOAT), "an index of ScatterND beyond its axis");
    begin();
    put_tensor(&graph, "at", INT64, SIZES(1, 2), (const int64_t[]){0, 5}, 16);
    add(node_of("GatherND", "x at", "y"));
    expect_failure(call(17, FLOAT), "an index of GatherND beyond its axis");
    begin();
    add(with_ints(node_of("MeanVarianceNormalization", "x", "y"), "axes", 1, &far));
    expect_failure(call(17, FLOAT), "axis 2^32 of MeanVarianceNormalization");
    begin();
    put_tensor(&graph, "p", FLOAT, SIZES(1, 1, 2), (const float[]){1, 2}, 8);
    put_tensor(&graph, "w", FLOAT, SIZES(1, 1, 2), (const float[]){1, 2}, 8);
    add(with_ints(node_of("ConvTranspose", "p w", "y"), "output_shape", 1, &far));
    expect_failure(call(17, FLOAT), "an output_shape of 2^32");
    begin();
    add_i64("axes", 1, &far);
    add(node_of("ReduceSum", "x axes", "y"));
    expect_failure(call(17, FLOAT), "axis 2^32 of ReduceSum");
    begin();
    add(with_int(node_of("Concat", "x x", "y"), "axis", far));
    expect_failure(call(17, FLOAT), "axis 2^32 of Concat");
    begin();
    add(with_ints(node_of("Transpose", "x", "y"), "perm", 2, (const int64_t[]){far + 1, 0}));
    expect_failure(call(17, FLOAT), "axis 2^32 + 1 of Transpose");
    begin();
    add_i64("pads", 4, (const int64_t[]){INT64_MIN, 0, 0, 0});
    add(node_of("Pad", "x pads", "y"));
    expect_failure(call(17, FLOAT), "a pad of -2^63");
    begin();
    add_i64("axes", 2, (const int64_t[]){0, 0});
    add(node_of("Unsqueeze", "x axes", "y"));
    expect_failure(call(17, FLOAT), "an axis of Unsqueeze given twice");
    begin();
    put_tensor(&graph, "w", FLOAT, SIZES(3, 1), (const float[]){1, 1, 1}, 12);
    put_tensor(&graph, "c", FLOAT, SIZES(4, 2, 1), (const float[8]){0}, 32);
    add(node_of("Gemm", "x w c", "y"));
    expect_failure(call(17, FLOAT), "a C of Gemm that is larger than the product");
    begin();
    put_tensor(&graph, "p", FLOAT, SIZES(1, 1, 1), (const float[]){1}, 4);
    add_f32("scales", 3, (const float[]){1, 1, 1e11f});
    message resize = node_of("Resize", "p - scales", "y");
    add(resize);
    expect_failure(call(17, FLOAT), "a scale of 10^11");
    haul_scope_pop(scope);
}

static void test_onnx_edges__results_that_nothing_makes(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    begin();
    message constant = node_of("Constant", "", "y"), attribute = {0};
    put_text(&attribute, 1, "value");
    put_float(&attribute, 2, 1);
    put_number(&attribute, 20, 1);
    put_message(&constant, 5, &attribute);
    add(constant);
    expect_failure(call(17, FLOAT), "a constant without a tensor");
    begin();
    add(node_of("Shape", "x", "a y"));
    expect_failure(call(17, INT64), "a second result of Shape");
    begin();
    add(node_of("Shape", "", "y"));
    expect_failure(call(17, INT64), "Shape without an input");
    haul_scope_pop(scope);
}

/* A depth of another dtype, windows, and a scale that follows from the elements. */
static void test_onnx_edges__operators_of_several_steps(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    begin();
    add_i64("index", 2, (const int64_t[]){1, -1});
    add_f32("depth", 0, (const float[]){3});
    add_f32("values", 2, (const float[]){2, 5});
    add(node_of("OneHot", "index depth values", "y"));
    expect_values(call(17, FLOAT), 6, (const int64_t[]){2, 5, 2, 2, 2, 5});
    static const struct {
        const char *type;
        double      middle, quarter; /* of 5 elements that are not periodic */
    } windows[] = {{"HannWindow", 1, 0.5}, {"HammingWindow", 1, 25. / 46}, {"BlackmanWindow", 1, 0.34}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        float y[5];
        begin();
        add_i64("n", 0, (const int64_t[]){5});
        add(with_int(node_of(windows[i].type, "n", "y"), "periodic", 0));
        assert_int_equal(haul_read(call(17, FLOAT), y, sizeof y), HAUL_OK);
        assert_true(fabs((double)y[2] - windows[i].middle) < 1e-6 && fabs((double)y[1] - windows[i].quarter) < 1e-6);
    }
    begin();
    add_f32("v", 3, (const float[]){-1, 0, 4.1f});
    add(node_of("DynamicQuantizeLinear", "v", "y scale zero"));
    expect_values(call(17, UINT8), 3, (const int64_t[]){0, 50, 255});
    begin();
    add_i64("n", 0, (const int64_t[]){0});
    add(node_of("HannWindow", "n", "y"));
    expect_failure(call(17, FLOAT), "a window without elements");
    haul_scope_pop(scope);
}

/* Boxes of x and y; the second one overlaps with the first one. */
static haul_tensor *choose(int count, const float *scores, int64_t most)
{
    begin();
    put_tensor(&graph, "boxes", FLOAT, SIZES(1, 3, 4), (const float[]){0, 0, 2, 2, 0, 0, 2, 1.5f, 5, 5, 6, 6}, 48);
    put_tensor(&graph, "scores", FLOAT, SIZES(1, 1, count), scores, (size_t)count * 4);
    add_i64("most", 1, &most);
    add_f32("overlap", 1, (const float[]){0.5f});
    add(node_of("NonMaxSuppression", "boxes scores most overlap", "y"));
    return call(17, INT64);
}

static void test_onnx_edges__boxes(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    expect_values(choose(3, (const float[]){0.5f, 0.6f, 0.1f}, 9), 6, (const int64_t[]){0, 0, 1, 0, 0, 2});
    expect_values(choose(3, (const float[]){0.5f, 0.5f, 0.5f}, 1), 3, (const int64_t[]){0, 0, 0});
    expect_values(choose(3, (const float[]){NAN, -1, NAN}, INT64_MAX), 3, (const int64_t[]){0, 0, 1});
    expect_values(choose(3, (const float[]){1, 2, 3}, 0), 0, NULL);
    expect_values(choose(3, (const float[]){1, 2, 3}, -1), 0, NULL);
    expect_failure(choose(2, (const float[]){1, 2}, 1), "a score for each of two of three boxes");
    begin();
    put_tensor(&graph, "w", UINT8, SIZES(1, 1), (const uint8_t[]){1}, 1);
    put_tensor(&graph, "u", UINT8, SIZES(1, 1), (const uint8_t[]){2}, 1);
    add(node_of("ConvInteger", "u w", "y"));
    expect_failure(call(17, INT32), "a convolution without axes");
    begin();
    add(node_of("ConvInteger", "x x", "y"));
    expect_failure(call(17, INT32), "a convolution of integers of numbers with fractions");
    haul_scope_pop(scope);
}

/* The axis of Softmax as a number with a fraction, and the alpha of Elu as a whole number. */
static void test_onnx_edges__attributes_of_another_type(void **state)
{
    (void)state;
    static const struct {
        const char *type, *attribute, *expected;
        int         field, number;
    } wrong[] = {{"Softmax", "axis", "is not a whole number", 2, 1},
                 {"Elu", "alpha", "is not a number", 3, 2},
                 {"Transpose", "perm", "is not whole numbers", 3, 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        message attribute = {0}, node = node_of(wrong[i].type, "x", "y");
        begin();
        put_text(&attribute, 1, wrong[i].attribute);
        if (wrong[i].field == 2)
            put_float(&attribute, 2, 1);
        else
            put_number(&attribute, 3, 1);
        put_number(&attribute, 20, (uint64_t)wrong[i].number);
        put_message(&node, 5, &attribute);
        add(node);
        assert_null(call(13, FLOAT));
        if (!strstr(haul_error_message(), wrong[i].expected))
            fail_msg("%s", haul_error_message());
        haul_error_clear();
    }
}

/* Without gradients, Relu and Clip overwrite their input if nothing else uses its memory. */
static void test_onnx_edges__results_in_the_place_of_an_input(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    const bool  grad = haul_set_grad_enabled(false);
    begin();
    add(node_of("Neg", "x", "n"));
    add(node_of("Identity", "n", "same")); /* shares the memory of n */
    add(node_of("Relu", "n", "r"));
    add(node_of("Add", "same r", "y"));
    expect_values(call(17, FLOAT), 6, (const int64_t[]){0, -1, -2, -3, -4, -5});
    begin();
    add_f32("low", 0, (const float[]){-3});
    add_f32("high", 0, (const float[]){-1});
    add(node_of("Neg", "x", "n"));
    add(node_of("Relu", "n", "r"));
    add(node_of("Neg", "x", "m"));
    add(node_of("Clip", "m low high", "c"));
    add(node_of("Add", "c r", "y"));
    expect_values(call(17, FLOAT), 6, (const int64_t[]){-1, -1, -2, -3, -3, -3});
    begin();
    add_f32("low", 0, (const float[]){1});
    add_f32("high", 0, (const float[]){2});
    add(node_of("Identity", "x", "same")); /* shares the memory of the program's tensor */
    add(node_of("Clip", "same low high", "y"));
    put_value(&graph, 12, "y", FLOAT, NO_SIZES);
    message model = model_of(&graph, 17);
    write_message("e.onnx", &model);
    haul_tensor *x = haul_arange(HAUL_F32, 0, 6, 1);
    expect_values(haul_call(haul_load_onnx("e.onnx"), haul_reshape(x, HAUL_SHAPE(2, 3))), 6,
                  (const int64_t[]){1, 1, 2, 2, 2, 2});
    expect_values(x, 6, (const int64_t[]){0, 1, 2, 3, 4, 5});
    haul_set_grad_enabled(grad);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_edges__parts_of_nothing),
        cmocka_unit_test(test_onnx_edges__whole_numbers),
        cmocka_unit_test(test_onnx_edges__values_that_are_not_finite),
        cmocka_unit_test(test_onnx_edges__out_of_range),
        cmocka_unit_test(test_onnx_edges__results_that_nothing_makes),
        cmocka_unit_test(test_onnx_edges__operators_of_several_steps),
        cmocka_unit_test(test_onnx_edges__results_in_the_place_of_an_input),
        cmocka_unit_test(test_onnx_edges__boxes),
        cmocka_unit_test(test_onnx_edges__attributes_of_another_type),
    };
    return cmocka_run_group_tests_name("onnx_edges", tests, NULL, NULL);
}
