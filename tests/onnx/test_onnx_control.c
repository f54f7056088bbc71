/* If, Loop and Scan of ONNX models: nested graphs, what they use of the graphs around them, and what they give back. */
#include <haul/onnx.h>
#include <string.h>

#include "support/linalg.h"
#include "support/onnx/file.h"

enum { FLOAT = 1, INT64 = 7, BOOL = 9 };

static message graph; /* of the model that is being made: its inputs are x, f32 [n], and if asked c, bool */

static void begin(bool with_condition)
{
    graph = (message){0};
    put_text(&graph, 2, "g");
    put_value(&graph, 11, "x", FLOAT, SIZES(-1));
    if (with_condition)
        put_value(&graph, 11, "c", BOOL, NO_SIZES);
}

static void add(message *g, message node)
{
    put_message(g, 1, &node);
}

static void add_f32(message *g, const char *name, float value)
{
    put_tensor(g, name, FLOAT, NO_SIZES, &value, 4);
}

static void add_i64(message *g, const char *name, int64_t value)
{
    put_tensor(g, name, INT64, NO_SIZES, &value, 8);
}

static void add_bool(message *g, const char *name, uint8_t value)
{
    put_tensor(g, name, BOOL, NO_SIZES, &value, 1);
}

/* A graph of one node whose result is `result`. */
static message branch_of(const char *type, const char *inputs, const char *result)
{
    message g = {0};
    add(&g, node_of(type, inputs, result));
    put_value(&g, 12, result, FLOAT, NO_SIZES);
    return g;
}

static message if_of(const char *condition, const message *then, const message *otherwise)
{
    message node = node_of("If", condition, "y");
    put_graph(&node, "then_branch", then);
    put_graph(&node, "else_branch", otherwise);
    return node;
}

static haul_module *load_of(int opset)
{
    put_value(&graph, 12, "y", FLOAT, NO_SIZES);
    message model = model_of(&graph, opset);
    write_message("c.onnx", &model);
    return haul_load_onnx("c.onnx");
}

static haul_module *load(void)
{
    return load_of(17);
}

static haul_tensor *input(void)
{
    return haul_from_host(HAUL_F32, HAUL_SHAPE(3), (const float[]){1, 2, 3});
}

static void expect_values(haul_tensor *y, int count, const float *values)
{
    float got[16];
    if (!haul_tensor_is_valid(y))
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_tensor_count(y), count);
    if (count)
        assert_int_equal(haul_read(y, got, (size_t)count * 4), HAUL_OK);
    for (int i = 0; i < count; i++)
        assert_true(got[i] == values[i]);
}

static void expect_error(const void *result, const char *part, const char *second)
{
    (void)result;
    if (!strstr(haul_error_message(), part) || !strstr(haul_error_message(), second))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
}

/* Both branches use x of the graph around them, and have a value of the same name. */
static void test_onnx_control__if_by_an_input(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    const message twice = branch_of("Add", "x x", "r"), square = branch_of("Mul", "x x", "r");
    begin(true);
    add(&graph, if_of("c", &twice, &square));
    haul_module *net = load();
    expect_values(haul_call(net, input(), haul_full(HAUL_BOOL, HAUL_SCALAR_SHAPE, 1)), 3, (const float[]){2, 4, 6});
    expect_values(haul_call(net, input(), haul_full(HAUL_BOOL, HAUL_SCALAR_SHAPE, 0)), 3, (const float[]){1, 4, 9});
    expect_error(haul_call(net, input(), haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, 0)), "of the dtype bool", "'If' (If)");
    haul_scope_pop(scope);
}

/* A condition that follows from sizes does not wait: the call works in a dry run, which has no values. */
static haul_status call_dry(void *net)
{
    return haul_tensor_is_valid(haul_call(net, input())) ? HAUL_OK : haul_error_status();
}

static void test_onnx_control__if_by_a_size(void **state)
{
    (void)state;
    haul_scope          *scope = haul_scope_push();
    haul_estimate_result cost;
    const message        twice = branch_of("Add", "x x", "r"), same = branch_of("Identity", "x", "q");
    begin(false);
    add_i64(&graph, "three", 3);
    add(&graph, node_of("Size", "x", "n"));
    add(&graph, node_of("Equal", "n three", "is_three"));
    add(&graph, if_of("is_three", &twice, &same));
    haul_module *net = load();
    expect_values(haul_call(net, input()), 3, (const float[]){2, 4, 6});
    expect_values(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(2))), 2, (const float[]){1, 1});
    assert_int_equal(haul_estimate(call_dry, net, &cost), HAUL_OK);
    haul_estimate_free(&cost);
    haul_scope_pop(scope);
}

/* s = x; three times: s = s * w, and w is outside. The joined result has all states. */
static message loop_body(bool joined)
{
    message body = {0};
    put_value(&body, 11, "i", INT64, NO_SIZES);
    put_value(&body, 11, "go", BOOL, NO_SIZES);
    put_value(&body, 11, "s", FLOAT, SIZES(-1));
    add(&body, node_of("Mul", "s w", "next"));
    put_value(&body, 12, "go", BOOL, NO_SIZES);
    put_value(&body, 12, "next", FLOAT, SIZES(3));
    if (joined)
        put_value(&body, 12, "next", FLOAT, SIZES(3));
    return body;
}

static void test_onnx_control__loop_by_a_number(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    const message body = loop_body(false);
    float         slope[3];
    begin(false);
    add_f32(&graph, "w", 2);
    add_i64(&graph, "trips", 3);
    message node = node_of("Loop", "trips - x", "y");
    put_graph(&node, "body", &body);
    add(&graph, node);
    haul_module *net = load();
    haul_tensor *x = haul_set_requires_grad(input(), true), *y = haul_call(net, x);
    expect_values(y, 3, (const float[]){8, 16, 24});
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    assert_int_equal(haul_read(haul_tensor_grad(x), slope, sizeof slope), HAUL_OK);
    assert_true(slope[0] == 8 && slope[2] == 8);
    haul_scope_pop(scope);
}

static void test_onnx_control__loop_joins_results(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    const message body = loop_body(true);
    for (int64_t trips = 0; trips < 3; trips++) {
        begin(false);
        add_f32(&graph, "w", 2);
        add_i64(&graph, "trips", trips);
        message node = node_of("Loop", "trips - x", "last y");
        put_graph(&node, "body", &body);
        add(&graph, node);
        haul_tensor *y = haul_call(load(), input());
        expect_values(y, 3 * (int)trips, (const float[]){2, 4, 6, 4, 8, 12});
        assert_int_equal(haul_tensor_shape(y).ndim, 2);
    }
    haul_scope_pop(scope);
}

/* Ends when the state, a value of the device, is above 20; the number of repetitions is a state on the host. */
static void test_onnx_control__loop_by_a_condition(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    message     body = {0};
    put_value(&body, 11, "i", INT64, NO_SIZES);
    put_value(&body, 11, "go", BOOL, NO_SIZES);
    put_value(&body, 11, "s", FLOAT, NO_SIZES);
    put_value(&body, 11, "n", INT64, NO_SIZES);
    add_i64(&body, "one", 1);
    add(&body, node_of("Add", "s s", "next"));
    add(&body, node_of("Add", "n one", "more"));
    add(&body, node_of("Less", "next limit", "below"));
    put_value(&body, 12, "below", BOOL, NO_SIZES);
    put_value(&body, 12, "next", FLOAT, NO_SIZES);
    put_value(&body, 12, "more", INT64, NO_SIZES);
    begin(false);
    add_f32(&graph, "limit", 20);
    add_f32(&graph, "first", 1);
    add_i64(&graph, "zero", 0);
    add_bool(&graph, "yes", 1);
    message node = node_of("Loop", "- yes first zero", "end times");
    put_graph(&node, "body", &body);
    add(&graph, node);
    message cast = node_of("Cast", "times", "t");
    put_int(&cast, "to", FLOAT);
    add(&graph, cast);
    add(&graph, node_of("Add", "end t", "y"));
    expect_values(haul_call(load(), input()), 1, (const float[]){37}); /* 32 after five times */
    haul_scope_pop(scope);
}

/* An If in the body of a Loop uses values of both graphs around it. */
static void test_onnx_control__if_in_a_loop(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    const message up = branch_of("Add", "s x", "r"), down = branch_of("Sub", "s w", "r");
    message       body = {0};
    put_value(&body, 11, "i", INT64, NO_SIZES);
    put_value(&body, 11, "go", BOOL, NO_SIZES);
    put_value(&body, 11, "s", FLOAT, SIZES(-1));
    add(&body, node_of("Less", "i two", "early"));
    add(&body, if_of("early", &up, &down));
    put_value(&body, 12, "go", BOOL, NO_SIZES);
    put_value(&body, 12, "y", FLOAT, NO_SIZES);
    begin(false);
    add_f32(&graph, "w", 1);
    add_i64(&graph, "two", 2);
    add_i64(&graph, "trips", 1000);
    message node = node_of("Loop", "trips - x", "y");
    put_graph(&node, "body", &body);
    add(&graph, node);
    haul_module *net = load();
    expect_values(haul_call(net, input()), 3, (const float[]){3 - 998, 6 - 998, 9 - 998});
    haul_memory_stats before, after;
    haul_device      *cpu = haul_device_get("cpu");
    assert_int_equal(haul_memory_stats_get(cpu, &before), HAUL_OK);
    haul_memory_reset_peak(cpu);
    expect_values(haul_call(net, input()), 3, (const float[]){3 - 998, 6 - 998, 9 - 998});
    assert_int_equal(haul_memory_stats_get(cpu, &after), HAUL_OK);
    assert_true(after.peak_allocated < before.allocated + 1000 * 12); /* states do not pile up */
    haul_scope_pop(scope);
}

/* The sums of the columns of [[1, 2], [3, 4], [5, 6]], from the last to the first. */
static void test_onnx_control__scan(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    const float m[] = {1, 3, 5, 2, 4, 6}; /* the axis to go along is the second */
    message     body = {0};
    put_value(&body, 11, "s", FLOAT, SIZES(2));
    put_value(&body, 11, "part", FLOAT, SIZES(2));
    add(&body, node_of("Add", "s part", "next"));
    put_value(&body, 12, "next", FLOAT, SIZES(2));
    put_value(&body, 12, "next", FLOAT, SIZES(2));
    begin(false);
    put_tensor(&graph, "m", FLOAT, SIZES(2, 3), m, sizeof m);
    put_tensor(&graph, "s0", FLOAT, SIZES(2), (const float[]){0, 10}, 8);
    message node = node_of("Scan", "s0 m", "- y");
    put_graph(&node, "body", &body);
    put_int(&node, "num_scan_inputs", 1);
    put_ints(&node, "scan_input_axes", 1, (const int64_t[]){-1});
    put_ints(&node, "scan_input_directions", 1, (const int64_t[]){1});
    put_ints(&node, "scan_output_axes", 1, (const int64_t[]){1});
    put_ints(&node, "scan_output_directions", 1, (const int64_t[]){1});
    add(&graph, node);
    expect_values(haul_call(load(), input()), 6, (const float[]){9, 8, 5, 22, 20, 16});
    haul_scope_pop(scope);
}

/* In opset 8 each example is scanned by itself, for as many steps as it has. */
static haul_module *scan_8(const char *inputs, const char *outputs, bool backwards, int64_t second_length)
{
    const int64_t lengths[] = {3, second_length};
    message       body = {0}, node = node_of("Scan", inputs, outputs);
    put_value(&body, 11, "s", FLOAT, NO_SIZES);
    put_value(&body, 11, "part", FLOAT, NO_SIZES);
    add(&body, node_of("Add", "s part", "next"));
    put_value(&body, 12, "next", FLOAT, NO_SIZES);
    put_value(&body, 12, "next", FLOAT, NO_SIZES);
    begin(false);
    put_tensor(&graph, "m", FLOAT, SIZES(2, 3), (const float[]){1, 2, 3, 10, 20, 30}, 24);
    put_tensor(&graph, "s0", FLOAT, SIZES(2), (const float[]){0, 100}, 8);
    put_tensor(&graph, "n", INT64, SIZES(2), lengths, sizeof lengths);
    put_graph(&node, "body", &body);
    put_int(&node, "num_scan_inputs", 1);
    if (backwards)
        put_ints(&node, "directions", 1, (const int64_t[]){1});
    add(&graph, node);
    return load_of(8);
}

static void test_onnx_control__scan_of_examples(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    expect_values(haul_call(scan_8("- s0 m", "- y", false, 0), input()), 6, (const float[]){1, 3, 6, 110, 130, 160});
    expect_values(haul_call(scan_8("- s0 m", "- y", true, 0), input()), 6, (const float[]){3, 5, 6, 130, 150, 160});
    expect_values(haul_call(scan_8("n s0 m", "- y", false, 2), input()), 6, (const float[]){1, 3, 6, 110, 130, 0});
    expect_values(haul_call(scan_8("n s0 m", "y", false, 2), input()), 2, (const float[]){6, 130});
    expect_values(haul_call(scan_8("n s0 m", "y", false, 0), input()), 2, (const float[]){6, 100});
    expect_error(haul_call(scan_8("n s0 m", "- y", false, 4), input()), "Scan", "a length is out of range");
    expect_error(haul_call(scan_8("x s0 m", "- y", false, 2), input()), "Scan", "lengths");
    expect_error(scan_8("s0 m", "- y", false, 2), "Scan", "number of inputs");
    haul_scope_pop(scope);
}

/* Results of shorter examples are freed when they have their zeros. */
static void test_onnx_control__scan_keeps_one_result_of_an_example(void **state)
{
    (void)state;
    enum { EXAMPLES = 64, STEPS = 3, PART = 256 };
    haul_scope       *scope = haul_scope_push();
    haul_device      *cpu = haul_device_get("cpu");
    haul_memory_stats before, after;
    int64_t           lengths[EXAMPLES];
    message           body = {0}, node = node_of("Scan", "n s0 m", "- y");
    for (int i = 0; i < EXAMPLES; i++)
        lengths[i] = 2;
    put_value(&body, 11, "s", FLOAT, SIZES(PART));
    put_value(&body, 11, "part", FLOAT, SIZES(PART));
    add(&body, node_of("Add", "s part", "next"));
    put_value(&body, 12, "next", FLOAT, SIZES(PART));
    put_value(&body, 12, "next", FLOAT, SIZES(PART));
    begin(false);
    put_tensor(&graph, "m_shape", INT64, SIZES(3), (const int64_t[]){EXAMPLES, STEPS, PART}, 24);
    put_tensor(&graph, "s_shape", INT64, SIZES(2), (const int64_t[]){EXAMPLES, PART}, 16);
    put_tensor(&graph, "n", INT64, SIZES(EXAMPLES), lengths, sizeof lengths);
    add_f32(&graph, "zero", 0);
    add(&graph, node_of("Expand", "zero m_shape", "m"));
    add(&graph, node_of("Expand", "zero s_shape", "s0"));
    put_graph(&node, "body", &body);
    put_int(&node, "num_scan_inputs", 1);
    add(&graph, node);
    haul_module *net = load_of(8);
    assert_true(haul_tensor_is_valid(haul_call(net, input())));
    assert_int_equal(haul_memory_stats_get(cpu, &before), HAUL_OK);
    haul_memory_reset_peak(cpu);
    assert_true(haul_tensor_is_valid(haul_call(net, input())));
    assert_int_equal(haul_memory_stats_get(cpu, &after), HAUL_OK);
    const int64_t part = PART * 4, kept = EXAMPLES * STEPS * part;
    assert_in_range(after.peak_allocated - before.allocated, kept, 2 * kept + EXAMPLES * part);
    haul_scope_pop(scope);
}

static void test_onnx_control__wrong_graphs(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    const message good = branch_of("Add", "x x", "r"), unknown = branch_of("Add", "x nothing", "r");
    const message missing = branch_of("TfIdfVectorizer", "x", "r"), later = branch_of("Add", "x late", "r");
    begin(true);
    add(&graph, if_of("c", &good, &unknown));
    expect_error(load(), "'nothing'", "is used, but not made");
    begin(true);
    add(&graph, if_of("c", &missing, &good));
    expect_error(load(), "TfIdfVectorizer", "does not have");
    begin(true);
    add(&graph, if_of("c", &good, &later));
    add(&graph, node_of("Add", "x x", "late"));
    expect_error(load(), "'late'", "before it is made");
    begin(true);
    message alone = node_of("If", "c", "y");
    put_graph(&alone, "then_branch", &good);
    add(&graph, alone);
    expect_error(load(), "'If' (If)", "lacks a graph");
    begin(true);
    message two = good;
    put_value(&two, 12, "r", FLOAT, NO_SIZES);
    add(&graph, if_of("c", &good, &two));
    expect_error(load(), "'If' (If)", "number of results");
    begin(false);
    message node = node_of("Loop", "x", "y");
    put_graph(&node, "body", &good);
    add(&graph, node);
    expect_error(load(), "'Loop' (Loop)", "number of inputs");
    begin(false);
    node = node_of("Scan", "x", "y");
    put_graph(&node, "body", &good);
    put_int(&node, "num_scan_inputs", 2);
    add(&graph, node);
    expect_error(load(), "'Scan' (Scan)", "num_scan_inputs");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_control__if_by_an_input),
        cmocka_unit_test(test_onnx_control__if_by_a_size),
        cmocka_unit_test(test_onnx_control__loop_by_a_number),
        cmocka_unit_test(test_onnx_control__loop_joins_results),
        cmocka_unit_test(test_onnx_control__loop_by_a_condition),
        cmocka_unit_test(test_onnx_control__if_in_a_loop),
        cmocka_unit_test(test_onnx_control__scan),
        cmocka_unit_test(test_onnx_control__scan_of_examples),
        cmocka_unit_test(test_onnx_control__scan_keeps_one_result_of_an_example),
        cmocka_unit_test(test_onnx_control__wrong_graphs),
    };
    return cmocka_run_group_tests_name("onnx_control", tests, NULL, NULL);
}
