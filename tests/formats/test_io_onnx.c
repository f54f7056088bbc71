/* The reader of ONNX models: what it gives, and how it refuses damaged files. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/onnx/model.h"
#include "support/onnx/file.h"

static const float weights[] = {1, 2, 3, 4, 5, 6};

static haul_status read_model(haul__onnx_model *m, const message *file)
{
    return haul__onnx_read(m, (haul__bytes){file->bytes, file->size}, NULL, "t.onnx", "test");
}

static message small_graph(void)
{
    message graph = {0}, node = node_of("Gemm", "x w -", "y");
    put_int(&node, "transB", 1);
    put_message(&graph, 1, &node);
    put_text(&graph, 2, "g");
    put_tensor(&graph, "w", 1, SIZES(2, 3), weights, sizeof weights);
    put_value(&graph, 11, "x", 1, SIZES(-1, 3));
    put_value(&graph, 12, "y", 1, SIZES(-1, 2));
    return graph;
}

static void test_onnx__values_of_a_model(void **state)
{
    (void)state;
    haul__onnx_model m;
    message          graph = small_graph(), file = model_of(&graph, 17);
    float            back[6];
    assert_true(haul__onnx_recognise(file.bytes, file.size));
    assert_int_equal(read_model(&m, &file), HAUL_OK);
    assert_int_equal(m.opset, 17);
    assert_string_equal(m.producer, "haul");
    assert_int_equal(m.graph.node_count, 1);
    const haul__onnx_node *n = m.graph.nodes;
    assert_string_equal(n->type, "Gemm");
    assert_int_equal(n->input_count, 3);
    assert_string_equal(n->inputs[1], "w");
    assert_string_equal(n->inputs[2], "");
    assert_string_equal(n->outputs[0], "y");
    assert_string_equal(n->attributes[0].name, "transB");
    assert_int_equal(n->attributes[0].i, 1);
    assert_int_equal(m.graph.inputs[0].ndim, 2);
    assert_int_equal(m.graph.inputs[0].dims[0], -1);
    assert_string_equal(m.graph.inputs[0].names[0], "n");
    assert_int_equal(m.graph.inputs[0].dims[1], 3);
    assert_int_equal(m.graph.tensors[0].dtype, HAUL_F32);
    assert_int_equal(haul__onnx_elements(m.graph.tensors, "t.onnx", "test", back, sizeof back), HAUL_OK);
    assert_memory_equal(back, weights, sizeof back);
    haul__onnx_free(&m);
}

/* Every prefix is refused, and no changed byte does harm. */
static void test_onnx__damage(void **state)
{
    (void)state;
    haul__onnx_model m;
    message          graph = small_graph(), file = model_of(&graph, 17);
    for (size_t size = 0; size < file.size; size++) {
        uint8_t *copy = malloc(size + 1); /* of this size, for AddressSanitizer */
        memcpy(copy, file.bytes, size);
        assert_int_equal(haul__onnx_read(&m, (haul__bytes){copy, size}, NULL, "t.onnx", "test"), HAUL_FORMAT);
        free(copy);
    }
    for (size_t i = 0; i < file.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            message changed = file;
            changed.bytes[i] ^= (uint8_t)(1 << bit);
            if (!read_model(&m, &changed))
                haul__onnx_free(&m);
        }
    haul_error_clear();
}

static void expect_fault(const message *file, const char *text)
{
    haul__onnx_model m;
    assert_int_equal(read_model(&m, file), HAUL_FORMAT);
    if (!strstr(haul_error_message(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, haul_error_message());
}

/* The file with a tensor of these fields, which is written as field 5 of the graph. */
static void expect_tensor_fault(const message *tensor, const char *text)
{
    message graph = {0};
    put_message(&graph, 5, tensor);
    message file = model_of(&graph, 17);
    expect_fault(&file, text);
}

static void test_onnx__tensors_that_claim_too_much(void **state)
{
    (void)state;
    message t = {0};
    put_number(&t, 1, INT64_MAX / 17);
    put_number(&t, 1, INT64_MAX / 17);
    put_number(&t, 2, 1);
    expect_tensor_fault(&t, "more elements than can be counted");
    t = (message){0};
    put_number(&t, 1, (uint64_t)-1);
    put_number(&t, 2, 1);
    expect_tensor_fault(&t, "negative or too large");
    t = (message){0};
    put_number(&t, 1, 1000000000);
    put_number(&t, 2, 1);
    put_bytes(&t, 9, weights, 4);
    expect_tensor_fault(&t, "other elements than its shape says");
    put_bytes(&t, 9, weights, 4);
    expect_tensor_fault(&t, "its elements twice");
    t = (message){0};
    put_number(&t, 1, 2);
    put_number(&t, 2, 1);
    put_bytes(&t, 4, weights, 6);
    expect_tensor_fault(&t, "a list of numbers is cut off");
    t = (message){0};
    put_number(&t, 2, 1);
    put_bytes(&t, 3, "", 0);
    expect_tensor_fault(&t, "in segments");
    t = (message){0};
    put_text(&t, 8, "\xff");
    expect_tensor_fault(&t, "not UTF-8");
}

/* Tensors that Haul cannot represent are listed with the reason, and do not keep the model from being read. */
static void test_onnx__tensors_with_a_fault(void **state)
{
    (void)state;
    haul__onnx_model m;
    message          graph = {0}, text = {0}, deep = {0};
    put_number(&text, 2, 8);
    put_message(&graph, 5, &text);
    for (int i = 0; i < 9; i++)
        put_number(&deep, 1, 1);
    put_number(&deep, 2, 1);
    put_message(&graph, 5, &deep);
    message file = model_of(&graph, 17);
    assert_int_equal(read_model(&m, &file), HAUL_OK);
    assert_string_equal(m.graph.tensors[0].fault, "Haul does not have its dtype");
    assert_string_equal(m.graph.tensors[1].fault, "it has more than 8 dimensions");
    haul__onnx_free(&m);
}

/* All forms in which elements are stored. */
static void test_onnx__elements(void **state)
{
    (void)state;
    static const struct {
        int        type;
        uint32_t   field;
        haul_dtype dtype;
    } rows[] = {{2, 5, HAUL_U8},  {3, 5, HAUL_I8},    {5, 5, HAUL_I16},   {6, 5, HAUL_I32},
                {7, 7, HAUL_I64}, {10, 5, HAUL_F16},  {16, 5, HAUL_BF16}, {9, 5, HAUL_BOOL},
                {4, 5, HAUL_U16}, {12, 11, HAUL_U32}, {13, 11, HAUL_U64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int packed = 0; packed < 2; packed++) {
            haul__onnx_model m;
            message          graph = {0}, tensor = {0}, list = {0};
            put_number(&tensor, 1, 3);
            put_number(&tensor, 2, (uint64_t)rows[i].type);
            for (int k = 0; k < 3; k++) {
                put_varint(&list, k == 2 ? (uint64_t)-1 : (uint64_t)k);
                if (!packed)
                    put_number(&tensor, rows[i].field, k == 2 ? (uint64_t)-1 : (uint64_t)k);
            }
            if (packed)
                put_message(&tensor, rows[i].field, &list);
            put_message(&graph, 5, &tensor);
            message file = model_of(&graph, 17);
            assert_int_equal(read_model(&m, &file), HAUL_OK);
            const haul__onnx_tensor *t = m.graph.tensors;
            assert_int_equal(t->dtype, rows[i].dtype);
            const size_t width = (size_t)haul_dtype_bits(t->dtype) / 8;
            uint8_t      out[24];
            memset(out, 0x55, sizeof out);
            assert_int_equal(haul__onnx_elements(t, "t.onnx", "test", out, 3 * width), HAUL_OK);
            for (size_t b = 0; b < 3 * width; b++)
                assert_int_equal(out[b], rows[i].dtype == HAUL_BOOL ? b > 0 : b >= 2 * width ? 0xff : b == width);
            assert_int_equal(haul__onnx_elements(t, "t.onnx", "test", out, 3 * width + 1), HAUL_INVALID_ARGUMENT);
            haul__onnx_free(&m);
        }
    haul_error_clear();
}

static void test_onnx__graphs_are_nested_eight_deep(void **state)
{
    (void)state;
    for (int depth = 7; depth <= 8; depth++) {
        message          graph = {0};
        haul__onnx_model m;
        for (int i = 0; i < depth; i++) {
            message attribute = {0}, node = node_of("If", "c", "y");
            put_text(&attribute, 1, "then_branch");
            put_message(&attribute, 6, &graph);
            put_message(&node, 5, &attribute);
            graph = (message){0};
            put_message(&graph, 1, &node);
        }
        message file = model_of(&graph, 17);
        if (depth == 8) {
            expect_fault(&file, "nested more than 8 deep");
        } else {
            assert_int_equal(read_model(&m, &file), HAUL_OK);
            haul__onnx_free(&m);
        }
    }
}

static void test_onnx__wrong_fields(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t      size;
        const char *text;
    } rows[] = {
        {"", 0, "ends without a graph"},
        {"\x08", 1, "a number is cut off"},
        {"\x0b\x00", 2, "a wire type that proto3 does not have"},
        {"\x00\x00", 2, "a number that protobuf does not have"},
        {"\x0a\x01"
         "a",
         3, "another wire type than expected"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, "more than 64 bits"},
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "longer than the message"},
        {"\x3a\x00\x3a\x00", 4, "a second graph"},
        {"\x0d\x00\x00", 3, "a number is cut off"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        message file = {.size = rows[i].size};
        memcpy(file.bytes, rows[i].bytes, rows[i].size);
        expect_fault(&file, rows[i].text);
    }
}

/* ---- external data ---- */

static void write_floats(const char *path)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(weights, sizeof weights, 1, file), 1);
    fclose(file);
}

static message external(const char *location, const char *offset)
{
    message     tensor = {0}, graph = {0};
    const char *entries[] = {"location", location, "offset", offset};
    put_number(&tensor, 1, 4);
    put_number(&tensor, 2, 1);
    put_number(&tensor, 14, 1);
    for (int i = 0; i < 4; i += 2) {
        message entry = {0};
        put_text(&entry, 1, entries[i]);
        put_text(&entry, 2, entries[i + 1]);
        put_message(&tensor, 13, &entry);
    }
    put_message(&graph, 5, &tensor);
    return model_of(&graph, 17);
}

static void test_onnx__external_data(void **state)
{
    (void)state;
    static const struct {
        const char *location, *offset, *text; /* text: of the error; NULL: the elements are read */
    } rows[] = {{"w.data", "8", NULL},
                {"sub/w.data", "0", NULL},
                {"./w.data", "8", NULL},
                {"w.data", "12", "shorter than that"},
                {"none.data", "0", "cannot open"},
                {"../w.data", "0", "not a path below its folder"},
                {"sub/../w.data", "0", "not a path below its folder"},
                {"/etc/passwd", "0", "not a path below its folder"},
                {"sub//w.data", "0", "not a path below its folder"},
                {"sub/", "0", "not a path below its folder"},
                {"link.data", "0", "through a link"},
                {"away/w.data", "0", "through a link"},
                {"sub", "0", "not a regular file"}};
    assert_int_equal(mkdir("m", 0700) + mkdir("m/sub", 0700), 0);
    write_floats("w.data");
    write_floats("m/w.data");
    write_floats("m/sub/w.data");
    assert_int_equal(symlink("../w.data", "m/link.data"), 0);
    assert_int_equal(symlink("sub", "m/away"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        haul__onnx_model m;
        message          file = external(rows[i].location, rows[i].offset);
        float            out[4];
        assert_int_equal(read_model(&m, &file), HAUL_OK);
        const haul_status status = haul__onnx_elements(m.graph.tensors, "m/t.onnx", "test", out, sizeof out);
        if (!rows[i].text) {
            assert_int_equal(status, HAUL_OK);
            assert_memory_equal(out, weights + (*rows[i].offset == '8' ? 2 : 0), sizeof out);
        } else if (!status || !strstr(haul_error_message(), rows[i].text)) {
            fail_msg("%s: \"%s\" is not in \"%s\"", rows[i].location, rows[i].text, haul_error_message());
        }
        haul__onnx_free(&m);
    }
    haul_error_clear();
}

static void test_onnx__external_data_without_a_place(void **state)
{
    (void)state;
    message t = {0}, entry = {0};
    put_number(&t, 2, 1);
    put_number(&t, 14, 1);
    expect_tensor_fault(&t, "which is not named");
    put_text(&entry, 1, "offset");
    put_text(&entry, 2, "-1");
    put_message(&t, 13, &entry);
    expect_tensor_fault(&t, "is not a number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx__values_of_a_model),
        cmocka_unit_test(test_onnx__damage),
        cmocka_unit_test(test_onnx__tensors_that_claim_too_much),
        cmocka_unit_test(test_onnx__tensors_with_a_fault),
        cmocka_unit_test(test_onnx__elements),
        cmocka_unit_test(test_onnx__graphs_are_nested_eight_deep),
        cmocka_unit_test(test_onnx__wrong_fields),
        cmocka_unit_test(test_onnx__external_data),
        cmocka_unit_test(test_onnx__external_data_without_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
