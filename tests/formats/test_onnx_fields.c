/* The reader of ONNX models: fields that are missing, unknown or of the wrong kind, and how much memory a file
 * justifies. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "formats/onnx/model.h"
#include "support/onnx/file.h"

static haul_status read_file(haul__onnx_model *m, const message *file)
{
    return haul__onnx_read(m, (haul__bytes){file->bytes, file->size}, NULL, "t.onnx", "test");
}

/* Reads a model with this graph. After a failure there is nothing to free. */
static haul_status read_graph(haul__onnx_model *m, const message *graph)
{
    const message     file = model_of(graph, 17);
    const haul_status status = read_file(m, &file);
    if (status)
        assert_null(m->blocks);
    return status;
}

static void refused(const message *graph, const char *words)
{
    haul__onnx_model m;
    assert_int_equal(read_graph(&m, graph), HAUL_FORMAT);
    if (!strstr(haul_error_message(), words))
        fail_msg("%s (expected: %s)", haul_error_message(), words);
    haul_error_clear();
}

static void tensor_refused(const message *tensor, const char *words)
{
    message graph = {0};
    put_message(&graph, 5, tensor);
    refused(&graph, words);
}

/* A graph whose input has a shape of these bytes, in a field of this wire type. */
static message graph_of_shape(const message *shape, int wire)
{
    message tensor = {0}, type = {0}, value = {0}, graph = {0};
    put_number(&tensor, 1, 1001);
    if (wire == 2)
        put_message(&tensor, 2, shape);
    else
        put_number(&tensor, 2, 1);
    put_message(&type, 1, &tensor);
    put_text(&value, 1, "x");
    put_message(&value, 2, &type);
    put_message(&graph, 11, &value);
    return graph;
}

static void test_onnx_fields__first_bytes(void **state)
{
    static const struct {
        const char *bytes;
        size_t      size;
        bool        is;
    } rows[] = {{"\x08\x07\x12x", 4, true},  {"\x08\x07\x12", 3, false},   {"\x09\x07\x12x", 4, false},
                {"\x08\0\x12x", 4, false},   {"\x08\x01\x12x", 4, true},   {"\x08\x3f\x12x", 4, true},
                {"\x08\x40\x12x", 4, false}, {"\x08\x07\0\x12", 4, false}, {"\x08\x07\x13\x12", 4, false},
                {"\x07\x08\x12x", 4, false}, {"\x08\x07\x1ax", 4, true},   {"\x08\x07\x22x", 4, true},
                {"\x08\x07\x28x", 4, true},  {"\x08\x07\x32x", 4, true},   {"\x08\x07\x3ax", 4, true},
                {"\x08\x07\x42x", 4, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(haul__onnx_recognise(rows[i].bytes, rows[i].size), rows[i].is);
}

static void test_onnx_fields__defaults(void **state)
{
    haul__onnx_model m;
    message          graph = {0}, tensor = {0}, empty = {0}, import = {0}, file;
    (void)state;
    put_message(&graph, 1, &empty);
    put_message(&graph, 1, &empty);
    put_message(&graph, 5, &tensor);
    put_message(&graph, 11, &empty);
    put_message(&graph, 11, &empty);
    put_message(&graph, 12, &empty);
    assert_int_equal(read_graph(&m, &graph), HAUL_OK);
    assert_int_equal(m.ir_version, 8);
    assert_true(m.memory > 0);
    assert_string_equal(m.graph.name, "");
    assert_true(m.graph.node_count == 2 && m.graph.input_count == 2 && m.graph.output_count == 1);
    assert_string_equal(m.graph.nodes[1].type, "");
    assert_string_equal(m.graph.tensors[0].fault, "Haul does not have its dtype");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(m.graph.inputs[i].name, "");
        assert_int_equal(m.graph.inputs[i].ndim, -1);
    }
    haul__onnx_free(&m);
    for (int i = 0; i < 2; i++) { /* no version of the operators, and one that is too large */
        file = (message){0};
        import = (message){0};
        put_text(&import, 1, "ai.onnx");
        if (i)
            put_number(&import, 2, UINT64_MAX);
        put_message(&file, 8, &import);
        put_message(&file, 7, &graph);
        assert_int_equal(read_file(&m, &file), HAUL_OK);
        assert_int_equal(m.opset, 0);
        haul__onnx_free(&m);
    }
    assert_string_equal(haul__onnx_dtype_name(0), "undefined");
    graph = (message){0};
    put_number(&tensor, 2, 24); /* the first number behind the types */
    put_message(&graph, 5, &tensor);
    assert_int_equal(read_graph(&m, &graph), HAUL_OK);
    assert_string_equal(m.graph.tensors[0].fault, "Haul does not have its dtype");
    haul__onnx_free(&m);
}

static void test_onnx_fields__sizes_of_inputs(void **state)
{
    haul__onnx_model m;
    message          graph, shape = {0}, size = {0};
    (void)state;
    put_number(&size, 3, 5); /* an unknown field */
    put_number(&size, 1, (uint64_t)1 << 62);
    put_message(&shape, 1, &size);
    size = (message){0};
    put_number(&size, 1, 7);
    put_message(&shape, 1, &size);
    graph = graph_of_shape(&shape, 2);
    assert_int_equal(read_graph(&m, &graph), HAUL_OK);
    assert_string_equal(m.graph.inputs[0].name, "x");
    assert_int_equal(m.graph.inputs[0].element_type, 1000);
    assert_int_equal(m.graph.inputs[0].ndim, 2);
    assert_true(m.graph.inputs[0].dims[0] == -1 && m.graph.inputs[0].dims[1] == 7);
    assert_null(m.graph.inputs[0].names[0]);
    haul__onnx_free(&m);
    shape = size = (message){0};
    for (int i = 0; i < 1001; i++)
        put_message(&shape, 1, &size);
    graph = graph_of_shape(&shape, 2);
    assert_int_equal(read_graph(&m, &graph), HAUL_OK);
    assert_int_equal(m.graph.inputs[0].ndim, 1000);
    haul__onnx_free(&m);
    graph = graph_of_shape(&shape, 0);
    refused(&graph, "another wire type than expected");
    shape = size = (message){0}; /* a wrong size, and a sound one after it */
    put_text(&size, 1, "x");
    put_message(&shape, 1, &size);
    size = (message){0};
    put_number(&size, 1, 7);
    put_message(&shape, 1, &size);
    graph = graph_of_shape(&shape, 2);
    refused(&graph, "another wire type than expected");
    shape = (message){.size = 1, .bytes = {0x0a}};
    graph = graph_of_shape(&shape, 2);
    refused(&graph, "a number is cut off");
    message value = {0};
    put_message(&value, 2, &shape); /* the type is cut off */
    graph = (message){0};
    put_message(&graph, 11, &value);
    refused(&graph, "a number is cut off");
}

/* The first number that a field cannot have, and the last one that it can. */
static void test_onnx_fields__numbers_of_fields(void **state)
{
    haul__onnx_model m;
    message          graph = {0};
    (void)state;
    put_varint(&graph, (((uint64_t)1 << 29) - 1) << 3);
    put_varint(&graph, 1);
    assert_int_equal(read_graph(&m, &graph), HAUL_OK);
    haul__onnx_free(&m);
    graph = (message){0};
    put_varint(&graph, (uint64_t)1 << 32);
    put_varint(&graph, 1);
    refused(&graph, "a field has a number that protobuf does not have");
    graph = (message){0};
    put_text(&graph, 2, "g");
    put_varint(&graph, 1 << 3 | 3);
    refused(&graph, "at byte 18, a field has a wire type that proto3 does not have");
    graph = (message){0};
    put_text(&graph, 2, "g");
    put_number(&graph, 1, 1); /* a node that is a number */
    refused(&graph, "at byte 17, a field has another wire type than expected");
    graph = (message){0};
    message file = model_of(&graph, 17);
    put_float(&file, 99, 1);
    uint8_t *own = malloc(file.size); /* ends with a number of four bytes, so that a sanitizer sees a read behind it */
    assert_non_null(own);
    memcpy(own, file.bytes, file.size);
    assert_int_equal(haul__onnx_read(&m, (haul__bytes){own, file.size}, NULL, "t.onnx", "test"), HAUL_OK);
    haul__onnx_free(&m);
    free(own);
}

/* Elements in lists before and after elements in fields of their own. */
static void test_onnx_fields__mixed_elements(void **state)
{
    static const float values[] = {1.5f, -2, 0.1f, 4, 5};
    haul__onnx_model   m;
    message            graph = {0}, tensor = {0};
    float              out[5] = {0};
    uint8_t            flags[3] = {9, 9, 9};
    (void)state;
    put_number(&tensor, 1, 5);
    put_number(&tensor, 2, 1);
    put_bytes(&tensor, 4, values, 8);
    put_float(&tensor, 4, values[2]);
    put_bytes(&tensor, 4, values + 3, 8);
    put_message(&graph, 5, &tensor);
    message file = model_of(&graph, 17); /* the elements stay there */
    assert_int_equal(read_file(&m, &file), HAUL_OK);
    assert_int_equal(haul__onnx_elements(m.graph.tensors, "t.onnx", "test", out, sizeof out), HAUL_OK);
    assert_memory_equal(out, values, sizeof out);
    haul__onnx_free(&m);
    graph = tensor = (message){0};
    put_number(&tensor, 1, 2);
    put_number(&tensor, 2, 9);
    put_bytes(&tensor, 9, "\7", 2);
    put_message(&graph, 5, &tensor);
    file = model_of(&graph, 17);
    assert_int_equal(read_file(&m, &file), HAUL_OK);
    assert_int_equal(haul__onnx_elements(m.graph.tensors, "t.onnx", "test", flags, 2), HAUL_OK);
    assert_memory_equal(flags, "\1\0\11", 3);
    haul__onnx_free(&m);
}

static void put_entry(message *tensor, const char *key, const char *value)
{
    message entry = {0};
    put_text(&entry, 1, key);
    put_text(&entry, 2, value);
    put_message(tensor, 13, &entry);
}

/* A tensor of four floats in another file. */
static message external(void)
{
    message tensor = {0};
    put_number(&tensor, 1, 4);
    put_number(&tensor, 2, 1);
    put_number(&tensor, 14, 1);
    put_entry(&tensor, "location", "w.data");
    return tensor;
}

static void test_onnx_fields__external_data(void **state)
{
    haul__onnx_model m;
    message          graph = {0}, tensor = external(), entry = {0};
    (void)state;
    put_entry(&tensor, "offset", "1");
    put_entry(&tensor, "offset", "8");
    put_entry(&tensor, "length", "16");
    put_message(&graph, 5, &tensor);
    assert_int_equal(read_graph(&m, &graph), HAUL_OK);
    assert_int_equal(m.graph.tensors[0].offset, 8);
    assert_int_equal(m.graph.tensors[0].size, 16);
    haul__onnx_free(&m);
    put_entry(&tensor, "length", "12");
    tensor_refused(&tensor, "the length of external data is not that of the tensor");
    tensor = external();
    put_bytes(&tensor, 9, "x", 1);
    tensor_refused(&tensor, "a tensor has its elements twice");
    tensor = external();
    put_text(&entry, 1, "offset");
    entry.bytes[entry.size++] = 0x12; /* a value that is cut off */
    put_message(&tensor, 13, &entry);
    tensor_refused(&tensor, "a number is cut off");
}

/* Structures may take 64 bytes for each byte of the file, and a block. */
static void test_onnx_fields__memory_is_limited(void **state)
{
    const int64_t    blocks = haul__counted_blocks();
    haul__onnx_model m;
    message          graph = {0}, empty = {0}, node = {0}, attribute = {0};
    (void)state;
    for (int i = 0; i < 40; i++)
        put_message(&graph, 5, &empty);
    for (int i = 0; i < 600; i++) /* of several blocks */
        put_text(&graph, 2, "name");
    assert_int_equal(read_graph(&m, &graph), HAUL_OK);
    haul__onnx_free(&m);
    assert_int_equal(haul__counted_blocks(), blocks);
    graph = (message){0};
    for (int i = 0; i < 40; i++)
        put_message(&graph, 5, &empty);
    assert_int_equal(read_graph(&m, &graph), HAUL_OK);
    haul__onnx_free(&m);
    for (int i = 40; i < 200; i++)
        put_message(&graph, 5, &empty);
    refused(&graph, "it describes more than it has room for");
    put_message(&attribute, 5, &empty); /* each attribute has a tensor: no allocation alone is too large */
    for (int i = 0; i < 900; i++)
        put_message(&node, 5, &attribute);
    graph = (message){0};
    put_message(&graph, 1, &node);
    refused(&graph, "it describes more than it has room for");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_fields__first_bytes),       cmocka_unit_test(test_onnx_fields__defaults),
        cmocka_unit_test(test_onnx_fields__sizes_of_inputs),   cmocka_unit_test(test_onnx_fields__numbers_of_fields),
        cmocka_unit_test(test_onnx_fields__mixed_elements),    cmocka_unit_test(test_onnx_fields__external_data),
        cmocka_unit_test(test_onnx_fields__memory_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
