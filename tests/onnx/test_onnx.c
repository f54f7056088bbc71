/* Loaded ONNX models: results as onnxruntime's, or for lists of nodes as those of onnx's reference evaluator, on all
 * devices (tools/golden/onnx_models.py, onnx_saved.py), and what modules can do: training, copies, files, places. And
 * models that are refused.
 *
 * ctest: cuda; sim */
#include <haul/onnx.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "support/failure.h"
#include "support/linalg.h"
#include "support/onnx/file.h"

#define GOLDEN HAUL_SOURCE "/tests/golden/onnx/"

static void expect_error(haul_status status, const char *text)
{
    if (haul_error_status() != status || !strstr(haul_error_message(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, haul_error_message());
    haul_error_clear();
}

/* ---- golden models ---- */

static haul_tensor *array(haul_safetensors *file, const char *kind, int number)
{
    char name[16];
    snprintf(name, sizeof name, "%s.%d", kind, number);
    for (int i = 0; i < haul_safetensors_count(file); i++) {
        haul_file_tensor t;
        assert_int_equal(haul_safetensors_entry(file, i, &t), HAUL_OK);
        if (!strcmp(t.name, name))
            return haul_safetensors_load(file, name);
    }
    return NULL;
}

static haul_safetensors *open_arrays(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, GOLDEN "%s.npz", name);
    haul_safetensors *file = haul_open_safetensors(path);
    assert_non_null(file);
    return file;
}

static haul_module *load_golden(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, GOLDEN "%s.onnx", name);
    haul_module *net = haul_load_onnx(path);
    if (!net)
        fail_msg("%s", haul_error_message());
    return net;
}

static void compare(haul_tensor *y, haul_tensor *want, const char *what)
{
    if (!haul_tensor_is_valid(y))
        fail_msg("%s: %s", what, haul_error_message());
    const haul_shape a = haul_tensor_shape(y), b = haul_tensor_shape(want);
    assert_int_equal(haul_tensor_dtype(y), haul_tensor_dtype(want));
    assert_int_equal(a.ndim, b.ndim);
    assert_memory_equal(a.dims, b.dims, (size_t)a.ndim * sizeof *a.dims);
    const int64_t count = haul_tensor_count(want);
    double       *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    assert_int_equal(haul_read(haul_cast(want, HAUL_F64), values, (size_t)count * sizeof *values), HAUL_OK);
    assert_close(y, values, count, 1e-5, what);
    free(values);
}

static const char *const golden[] = {"pictures",  "text",      "text_traced", "upscale", "two",
                                     "recurrent", "encoder",   "windows",     "samples", "sequences",
                                     "indices",   "detection", "bits",        "saved"};

static void results(haul_device *device)
{
    assert_int_equal(haul_set_device(device), HAUL_OK);
    for (size_t k = 0; k < sizeof golden / sizeof *golden; k++) {
        haul_scope       *inner = haul_scope_push();
        haul_module      *net = load_golden(golden[k]);
        haul_safetensors *file = open_arrays(golden[k]);
        haul_tensor      *more[2] = {NULL};
        haul_call_options call = {.more = {&more[0], &more[1]}};
        for (int i = 0; i < 2; i++) {
            call.x[i] = array(file, "in", i);
            call.more[i] = array(file, "out", i + 1) ? &more[i] : NULL;
        }
        haul_tensor *y = haul_call_with(net, &call);
        compare(y, array(file, "out", 0), golden[k]);
        for (int i = 0; i < 2 && call.more[i]; i++)
            compare(more[i], array(file, "out", i + 1), golden[k]);
        haul_scope_pop(inner);
    }
}

static void test_onnx__results(void **state)
{
    (void)state;
    on_devices(results);
}

/* On meta there are no values: shapes are computed without them, and nothing waits. */
static void test_onnx__shapes_without_values(void **state)
{
    (void)state;
    haul_scope  *outer = haul_scope_push();
    haul_device *meta = haul_device_get("meta");
    for (size_t k = 0; k < sizeof golden / sizeof *golden; k++) {
        if (!strcmp(golden[k], "indices") || !strcmp(golden[k], "detection")) /* sizes that follow from values */
            continue;
        haul_scope       *inner = haul_scope_push();
        haul_module      *net = load_golden(golden[k]);
        haul_safetensors *file = open_arrays(golden[k]);
        haul_tensor      *more = NULL;
        haul_call_options call = {.more = {array(file, "out", 1) ? &more : NULL}};
        assert_int_equal(haul_module_to(net, meta), HAUL_OK);
        for (int i = 0; i < 2; i++) {
            haul_tensor *x = array(file, "in", i);
            call.x[i] = x ? haul_to(x, meta) : NULL;
        }
        haul_tensor *y = haul_call_with(net, &call);
        if (!haul_tensor_is_valid(y))
            fail_msg("%s: %s", golden[k], haul_error_message());
        const haul_shape a = haul_tensor_shape(y), b = haul_tensor_shape(array(file, "out", 0));
        assert_int_equal(a.ndim, b.ndim);
        assert_memory_equal(a.dims, b.dims, (size_t)a.ndim * sizeof *a.dims);
        haul_scope_pop(inner);
    }
    haul_scope_pop(outer);
}

/* ---- as a module ---- */

static void test_onnx__names_and_training(void **state)
{
    (void)state;
    haul_scope       *outer = haul_scope_push();
    haul_module      *net = load_golden("pictures");
    haul_safetensors *file = open_arrays("pictures");
    haul_tensor      *x = array(file, "in", 0), *labels = haul_from_host(HAUL_I64, HAUL_SHAPE(3), (int64_t[]){0, 3, 4});
    assert_string_equal(haul_module_kind(net), "onnx");
    assert_false(haul_module_is_training(net));
    assert_valid(haul_module_parameter(net, "conv1.weight"));
    assert_valid(haul_module_parameter(net, "fc.bias"));
    assert_valid(haul_module_buffer(net, "bn.running_mean"));
    assert_failed(haul_module_parameter(net, "bn.running_mean"));
    haul_error_clear();
    assert_failed(haul_call_child(net, "fc", x));
    expect_error(HAUL_UNSUPPORTED, "holds parameters of a loaded model");

    haul_optimizer *optimizer = haul_sgd(net, 0.1);
    double          first = 0, last = 0, mean = haul_item(haul_sum(haul_module_buffer(net, "bn.running_mean")));
    for (int step = 0; step < 40; step++) {
        haul_scope  *inner = haul_scope_push();
        haul_tensor *loss = haul_nll_loss(haul_call(net, x), labels);
        last = haul_item(loss);
        first = step ? first : last;
        haul_optimizer_zero_grad(optimizer);
        assert_int_equal(haul_backward(loss), HAUL_OK);
        assert_int_equal(haul_optimizer_step(optimizer), HAUL_OK);
        haul_scope_pop(inner);
    }
    if (!(last < 0.7 * first))
        fail_msg("the loss went from %g to %g", first, last);
    assert_true(haul_item(haul_sum(haul_module_buffer(net, "bn.running_mean"))) == mean);
    haul_module_train(net, true); /* now statistics are those of the batch, and the running ones follow */
    assert_valid(haul_call(net, x));
    assert_true(haul_item(haul_sum(haul_module_buffer(net, "bn.running_mean"))) != mean);
    haul_scope_pop(outer);
}

static void expect_same(haul_module *a, haul_module *b, haul_tensor *x)
{
    haul_tensor *y = haul_call(a, x), *z = haul_call(b, x);
    assert_valid(y);
    assert_valid(z);
    assert_true(haul_item(haul_max(haul_abs(haul_sub(y, z)))) == 0);
}

static void test_onnx__copies_files_and_places(void **state)
{
    (void)state;
    haul_scope       *outer = haul_scope_push();
    haul_module      *net = load_golden("pictures"), *other = load_golden("pictures");
    haul_safetensors *file = open_arrays("pictures");
    haul_tensor      *x = array(file, "in", 0);
    const bool        grad = haul_set_grad_enabled(false);
    haul_mul_scalar_into(haul_module_parameter(net, "fc.weight"), haul_module_parameter(net, "fc.weight"), 2);
    haul_set_grad_enabled(grad);
    haul_module *copy = haul_module_clone(net);
    haul_drop(net); /* the clone holds what it needs */
    assert_int_equal(haul_save_weights("w.safetensors", copy), HAUL_OK);
    assert_int_equal(haul_load_weights("w.safetensors", other), HAUL_OK);
    expect_same(copy, other, x);
    assert_int_equal(haul_module_place(other, haul_cpu()), HAUL_OK);
    expect_same(copy, other, x);

    haul_module *frozen = haul_load_onnx(GOLDEN "pictures.onnx", .frozen = true);
    assert_int_equal(haul_module_parameter_count(frozen), 0);
    assert_valid(haul_module_buffer(frozen, "conv1.weight"));
    haul_scope_pop(outer);
}

/* ---- models that are refused ---- */

static const float weights[] = {1, 2, 3, 4, 5, 6};

static message graph_of(int count, const message *nodes)
{
    message graph = {0};
    for (int i = 0; i < count; i++)
        put_message(&graph, 1, &nodes[i]);
    put_tensor(&graph, "w", 1, SIZES(3, 2), weights, sizeof weights);
    put_value(&graph, 11, "x", 1, SIZES(-1, 3));
    put_value(&graph, 12, "y", 1, SIZES(-1, 2));
    return graph;
}

static haul_module *load_nodes(int count, const message *nodes, int opset)
{
    message graph = graph_of(count, nodes), model = model_of(&graph, opset);
    write_message("t.onnx", &model);
    return haul_load_onnx("t.onnx");
}

#define LOAD(opset, ...)                                                                                               \
    load_nodes((int)(sizeof((message[]){__VA_ARGS__}) / sizeof(message)), (message[]){__VA_ARGS__}, opset)

static void test_onnx__missing_operators(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    assert_null(LOAD(17, node_of("Foo", "x", "a"), node_of("MatMul", "x w", "b"), node_of("Bar", "b", "c"),
                     node_of("Foo", "c", "y")));
    expect_error(HAUL_UNSUPPORTED,
                 "t.onnx has 2 operators (opset 17) that Haul does not have: Bar (1, at 'Bar'), Foo (2, at 'Foo')");
    assert_null(LOAD(17, node_of("Gelu", "x", "y")));
    expect_error(HAUL_UNSUPPORTED, "Gelu (1");
    assert_null(LOAD(99, node_of("Relu", "x", "y")));
    expect_error(HAUL_UNSUPPORTED, "opset 99");
    assert_null(LOAD(0, node_of("Relu", "x", "y")));
    expect_error(HAUL_FORMAT, "imports no set of operators");
    haul_scope_pop(outer);
}

static void test_onnx__wrong_graphs(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    assert_null(LOAD(17, node_of("Relu", "z", "y")));
    expect_error(HAUL_FORMAT, "the value 'z' is used, but not made");
    assert_null(LOAD(17, node_of("Relu", "x", "z")));
    expect_error(HAUL_FORMAT, "the value 'y' is a result, but not made");
    assert_null(LOAD(17, node_of("Relu", "x", "y"), node_of("Relu", "x", "y")));
    expect_error(HAUL_FORMAT, "the value 'y' is made twice");
    assert_null(LOAD(17, node_of("Relu", "x", "w"), node_of("Relu", "w", "y")));
    expect_error(HAUL_FORMAT, "the value 'w' is made twice");
    assert_null(LOAD(17, node_of("Relu", "b", "a"), node_of("Relu", "a", "b"), node_of("Relu", "b", "y")));
    expect_error(HAUL_FORMAT, "the value 'b' is used before it is made");
    assert_null(LOAD(17, node_of("Relu", "y", "y")));
    expect_error(HAUL_FORMAT, "the value 'y' is used before it is made");
    assert_null(haul_load_onnx("none.onnx"));
    expect_error(HAUL_IO, "none.onnx");
    assert_null(haul_load_onnx(NULL));
    haul_error_clear();
    assert_null(haul_load_onnx(GOLDEN "two.npz"));
    expect_error(HAUL_FORMAT, "is not an ONNX model, but an npz file");
    haul_scope_pop(outer);
}

/* Inputs and attributes that do not fit are errors of the call, which name the node. */
static void test_onnx__wrong_calls(void **state)
{
    (void)state;
    haul_scope  *outer = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3));
    haul_module *net = LOAD(17, node_of("MatMul", "x w", "y"));
    assert_valid(haul_call(net, x));
    assert_failed(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(4, 5))));
    expect_error(HAUL_SHAPE, "in the node 'MatMul' (MatMul)");
    message softmax = node_of("Softmax", "x", "y");
    put_int(&softmax, "axis", 7);
    assert_failed(haul_call(LOAD(17, softmax), x));
    expect_error(HAUL_INVALID_ARGUMENT, "an axis is out of range");
    static const char *const types[] = {"Conv",
                                        "MaxPool",
                                        "LayerNormalization",
                                        "Gather",
                                        "Reshape",
                                        "Slice",
                                        "Pad",
                                        "Resize",
                                        "Transpose",
                                        "Concat",
                                        "Expand",
                                        "Split",
                                        "Gemm",
                                        "TopK",
                                        "Where",
                                        "Clip",
                                        "Range",
                                        "ScatterND",
                                        "OneHot",
                                        "CumSum",
                                        "Einsum",
                                        "Cast",
                                        "Unsqueeze",
                                        "BatchNormalization",
                                        "ConvTranspose",
                                        "AveragePool",
                                        "LpPool",
                                        "MaxUnpool",
                                        "GridSample",
                                        "AffineGrid",
                                        "CenterCropPad",
                                        "Col2Im",
                                        "RNN",
                                        "LSTM",
                                        "DFT",
                                        "STFT",
                                        "GatherND",
                                        "Compress",
                                        "Unique",
                                        "CumProd",
                                        "LRN",
                                        "Det",
                                        "RotaryEmbedding",
                                        "LinearAttention",
                                        "CausalConvWithState",
                                        "TensorScatter",
                                        "ReverseSequence",
                                        "NegativeLogLikelihoodLoss",
                                        "SoftmaxCrossEntropyLoss",
                                        "QuantizeLinear",
                                        "DequantizeLinear",
                                        "QLinearMatMul",
                                        "MatMulInteger",
                                        "ConvInteger",
                                        "QLinearConv",
                                        "NonMaxSuppression"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) { /* without the inputs that they need */
        const int    opset = i < 25 ? 17 : 28;
        haul_module *m = LOAD(opset, node_of(types[i], "", "y"));
        haul_tensor *y = m ? haul_call(m, x) : NULL;
        if (haul_tensor_is_valid(y))
            fail_msg("%s without inputs has a result", types[i]);
        assert_non_null(strstr(haul_error_message(), types[i]));
        haul_error_clear();
        m = LOAD(opset, node_of(types[i], "w w w w w", "y"));
        if (m)
            haul_call(m, x); /* any result, or an error */
        haul_error_clear();
    }
    haul_scope_pop(outer);
}

static void refused(haul_tensor *x, message node, const char *name, const char *text, haul_status status,
                    const char *expected)
{
    if (text)
        put_string(&node, name, text);
    else if (name)
        put_int(&node, name, 5);
    assert_failed(haul_call(LOAD(28, node), x));
    expect_error(status, expected);
}

/* Attributes and inputs that do not fit; the message names the operator and the node. */
static void test_onnx__wrong_attributes(void **state)
{
    (void)state;
    haul_scope  *outer = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3)), *z = haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 4, 3));
    refused(x, node_of("LpNormalization", "x", "y"), "p", NULL, HAUL_UNSUPPORTED,
            "a p other than 1 and 2 of the operator LpNormalization, in the node 'LpNormalization'");
    refused(z, node_of("GridSample", "x w", "y"), "mode", "wild", HAUL_UNSUPPORTED,
            "this mode or padding_mode of the operator GridSample, in the node 'GridSample'");
    refused(x, node_of("GridSample", "x w", "y"), NULL, NULL, HAUL_UNSUPPORTED, "this number of dimensions");
    refused(x, node_of("DFT", "x", "y"), NULL, NULL, HAUL_INVALID_ARGUMENT, "the input is not real or complex");
    refused(x, node_of("NegativeLogLikelihoodLoss", "x w", "y"), "reduction", "most", HAUL_UNSUPPORTED,
            "this reduction");
    refused(x, node_of("LinearAttention", "x x x", "y"), "update_rule", "wild", HAUL_UNSUPPORTED, "this update_rule");
    refused(x, node_of("LinearAttention", "x x x", "y"), "q_num_heads", NULL, HAUL_INVALID_ARGUMENT,
            "the heads or the update_rule do not go together");
    refused(x, node_of("RNN", "x w w", "y"), "clip", NULL, HAUL_UNSUPPORTED, "clip of the operator RNN");
    refused(x, node_of("TensorScatter", "x w", "y"), "axis", NULL, HAUL_INVALID_ARGUMENT, "an axis is out of range");
    refused(x, node_of("SwiGLU", "x w", "y"), NULL, NULL, HAUL_INVALID_ARGUMENT, "the inputs have different shapes");
    refused(z, node_of("Resize", "x - w", "y"), "mode", "wild", HAUL_UNSUPPORTED, "this mode of the operator Resize");
    refused(x, node_of("Unique", "x", "y"), "axis", NULL, HAUL_UNSUPPORTED, "axis of the operator Unique");
    refused(x, node_of("QuantizeLinear", "x w", "y"), "block_size", NULL, HAUL_SHAPE, "in the node 'QuantizeLinear'");
    refused(x, node_of("RotaryEmbedding", "x w w", "y"), NULL, NULL, HAUL_INVALID_ARGUMENT, "have a wrong shape");
    haul_scope_pop(outer);
}

/* Names of initialisers that cannot be paths have underscores. */
static void test_onnx__names_that_meet(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "a.b", "a.b.c", "..", "", "a_b", "p.q", "p", "x y,z?"};
    haul_scope              *outer = haul_scope_push();
    message                  graph = {0};
    char                     last[16] = "x";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char next[16];
        snprintf(next, sizeof next, i + 1 == sizeof names / sizeof *names ? "out.1" : "v%zu", i);
        message whole = {0};
        put_text(&whole, 1, last);
        put_text(&whole, 1, *names[i] ? names[i] : "w");
        put_text(&whole, 2, next);
        put_text(&whole, 4, "Add");
        put_message(&graph, 1, &whole);
        put_tensor(&graph, *names[i] ? names[i] : "w", 1, SIZES(2), weights, 8);
        memcpy(last, next, sizeof last);
    }
    put_value(&graph, 11, "x", 1, SIZES(2));
    put_value(&graph, 12, "out.1", 1, SIZES(2));
    message model = model_of(&graph, 17);
    write_message("n.onnx", &model);
    haul_module *net = haul_load_onnx("n.onnx");
    if (!net)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_module_tensors(net, NULL, 0), 9);
    assert_close(haul_call(net, haul_zeros(HAUL_F32, HAUL_SHAPE(2))), (double[]){9, 18}, 2, 0, "sums");
    assert_valid(haul_module_parameter(net, "p.q"));
    haul_scope_pop(outer);
}

/* Each allocation and each call on files fails in turn, in loading and in calling: an error, and nothing is lost. */
static void test_onnx__faults(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    for (int k = 0; k < 2; k++) {
        const unsigned kind = k ? HAUL__FAULT_FILE : HAUL__FAULT_HOST;
        bool           done = false;
        for (int64_t nth = 1; !done; nth++) {
            haul_scope *inner = haul_scope_push();
            assert_non_null(inner);
            haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3, 4)), *z = haul_ones(HAUL_F32, HAUL_SHAPE(3, 5));
            assert_valid(z);
            haul__fault_plan(kind, nth);
            haul_module *net = haul_load_onnx(GOLDEN "two.onnx");
            haul_tensor *y = net ? haul_call(net, x, z) : NULL;
            done = haul__fault_count() < nth;
            haul__fault_plan(0, 0);
            if (done || haul_tensor_is_valid(y))
                assert_valid(y); /* some failures are survived */
            else
                assert_true(haul_error_status() != HAUL_OK);
            haul_error_clear();
            haul_scope_pop(inner);
        }
    }
    haul_scope_pop(outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx__results),
        cmocka_unit_test(test_onnx__shapes_without_values),
        cmocka_unit_test(test_onnx__names_and_training),
        cmocka_unit_test(test_onnx__wrong_graphs),
        cmocka_unit_test(test_onnx__copies_files_and_places),
        cmocka_unit_test(test_onnx__missing_operators),
        cmocka_unit_test(test_onnx__wrong_calls),
        cmocka_unit_test(test_onnx__wrong_attributes),
        cmocka_unit_test(test_onnx__names_that_meet),
        cmocka_unit_test(test_onnx__faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
