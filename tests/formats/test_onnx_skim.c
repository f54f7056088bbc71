/* ONNX files that are read without the elements of large tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/error.h"
#include "formats/onnx/model.h"
#include "support/onnx/file.h"

enum { FLOAT = 1, COUNT = HAUL__ONNX_LEFT_OUT / 4 + 1 };

typedef struct large {
    size_t  size;
    uint8_t bytes[1 << 20];
} large;

static large file, graph, tensor, attribute, node;
static float elements[COUNT];

/* A field of a message; `inner` is not the message. */
static void put(large *m, uint32_t field, const void *bytes, size_t size)
{
    message head = {0};
    put_varint(&head, field << 3 | 2);
    put_varint(&head, size);
    assert_true(m->size + head.size + size <= sizeof m->bytes);
    memcpy(m->bytes + m->size, head.bytes, head.size);
    memcpy(m->bytes + m->size + head.size, bytes, size);
    m->size += head.size + size;
}

static void make_tensor(const char *name, int count)
{
    message head = {0};
    put_number(&head, 1, (uint64_t)count);
    put_number(&head, 2, FLOAT);
    put_text(&head, 8, name);
    memcpy(tensor.bytes, head.bytes, tensor.size = head.size);
    put(&tensor, 9, elements, (size_t)count * 4);
}

/* A large initialiser, a small one, and a large tensor in a node Constant. */
static void make_file(void)
{
    message head = {0}, import = {0};
    for (int i = 0; i < COUNT; i++)
        elements[i] = (float)i;
    file.size = graph.size = node.size = attribute.size = 0;
    make_tensor("large", COUNT);
    put(&graph, 5, tensor.bytes, tensor.size);
    make_tensor("small", 3);
    put(&graph, 5, tensor.bytes, tensor.size);
    make_tensor("inside", COUNT);
    put(&attribute, 1, "value", 5);
    put(&attribute, 5, tensor.bytes, tensor.size);
    put(&node, 2, "y", 1);
    put(&node, 4, "Constant", 8);
    put(&node, 5, attribute.bytes, attribute.size);
    put(&graph, 1, node.bytes, node.size);
    put_number(&import, 2, 17);
    put_number(&head, 1, 8);
    put_message(&head, 8, &import);
    memcpy(file.bytes, head.bytes, file.size = head.size);
    put(&file, 7, graph.bytes, graph.size);
}

static void expect_elements(const haul__onnx_tensor *t, int count)
{
    static float back[COUNT];
    memset(back, 0, sizeof back);
    assert_int_equal(t->count, count);
    assert_int_equal(haul__onnx_elements(t, "t.onnx", "test", back, (size_t)count * 4), HAUL_OK);
    assert_memory_equal(back, elements, (size_t)count * 4);
}

static void test_onnx_skim__leaves_large_elements_out(void **state)
{
    (void)state;
    haul__file       source;
    haul__onnx_model model;
    make_file();
    uint8_t *data = calloc(1, file.size);
    haul__file_open_memory(&source, file.bytes, file.size, "t.onnx", "test");
    assert_int_equal(haul__onnx_skim(&source, data), HAUL_OK);
    assert_int_equal(haul__onnx_read(&model, (haul__bytes){data, file.size}, &source, "t.onnx", "test"), HAUL_OK);
    const haul__onnx_graph *g = &model.graph;
    assert_int_equal(g->tensor_count, 2);
    assert_true(g->tensors[0].file && !g->tensors[1].file && g->nodes->attributes->tensor->file);
    assert_memory_not_equal(data, file.bytes, file.size);
    expect_elements(&g->tensors[0], COUNT);
    expect_elements(&g->tensors[1], 3);
    expect_elements(g->nodes->attributes->tensor, COUNT);
    haul__onnx_free(&model);
    free(data);
}

/* A file that is cut off, or has a wrong byte, fails as if all of it were read. */
static void test_onnx_skim__faults_are_those_of_the_reader(void **state)
{
    (void)state;
    haul__file       source;
    haul__onnx_model model;
    char             expected[1024];
    make_file();
    uint8_t *data = malloc(file.size);
    for (size_t i = 0; i < 400; i++) {
        const bool    cut = i < 200;
        const size_t  place = i % 200 * (file.size / 200), size = cut ? place : file.size;
        const uint8_t before = file.bytes[place];
        file.bytes[place] = cut ? before : 0xff;
        const haul_status status = haul__onnx_read(&model, (haul__bytes){file.bytes, size}, NULL, "t.onnx", "test");
        strcpy(expected, status ? haul_error_message() : "");
        haul_error_clear();
        if (!status)
            haul__onnx_free(&model);
        memset(data, 0, file.size);
        haul__file_open_memory(&source, file.bytes, size, "t.onnx", "test");
        assert_int_equal(haul__onnx_skim(&source, data), HAUL_OK);
        assert_int_equal(haul__onnx_read(&model, (haul__bytes){data, size}, &source, "t.onnx", "test"), status);
        assert_string_equal(status ? haul_error_message() : "", expected);
        haul_error_clear();
        if (!status)
            haul__onnx_free(&model);
        file.bytes[place] = before;
    }
    free(data);
}

enum { MANY = 50000 };

static float many[MANY];

/* Reads the file, which is well formed. */
static uint8_t *skim_and_read(haul__file *source, haul__onnx_model *model)
{
    uint8_t *data = calloc(1, file.size);
    assert_non_null(data);
    haul__file_open_memory(source, file.bytes, file.size, "t.onnx", "test");
    assert_int_equal(haul__onnx_skim(source, data), HAUL_OK);
    assert_int_equal(haul__onnx_read(model, (haul__bytes){data, file.size}, source, "t.onnx", "test"), HAUL_OK);
    return data;
}

/* The elements are read on request, and the memory for all of the file has none of them behind `skipped` bytes. */
static void expect_left_out(const haul__onnx_tensor *t, const uint8_t *data, int count, size_t skipped)
{
    static float  back[MANY];
    const uint8_t none[4] = {0};
    assert_non_null(t->file);
    assert_int_equal(haul__onnx_elements(t, "t.onnx", "test", back, (size_t)count * 4), HAUL_OK);
    assert_memory_equal(back, many, (size_t)count * 4);
    for (size_t i = skipped; i < (size_t)count * 4; i += 4)
        assert_memory_equal(data + t->offset + i, none, 4);
}

static void make_large(const char *name, int count)
{
    message head = {0};
    put_number(&head, 1, (uint64_t)count);
    put_number(&head, 2, FLOAT);
    put_text(&head, 8, name);
    memcpy(tensor.bytes, head.bytes, tensor.size = head.size);
    put(&tensor, 9, many, (size_t)count * 4);
    attribute.size = node.size = 0;
}

/* The graph becomes the model's, whose last field has one byte. */
static void end_file(void)
{
    message head = {0};
    put_number(&head, 1, 8);
    memcpy(file.bytes, head.bytes, file.size = head.size);
    put(&file, 7, graph.bytes, graph.size);
    put(&file, 3, "v", 1);
}

/* In the graph, in a node, and in the innermost of eight graphs. */
static void test_onnx_skim__elements_stay_in_the_file_wherever_they_are(void **state)
{
    haul__file       source;
    haul__onnx_model model;
    (void)state;
    for (int i = 0; i < MANY; i++)
        many[i] = (float)(i + 1);
    graph.size = 0;
    make_large("deep", MANY);
    put(&graph, 5, tensor.bytes, tensor.size);
    for (int i = 0; i < 7; i++) {
        attribute.size = node.size = 0;
        put(&attribute, 6, graph.bytes, graph.size);
        put(&node, 5, attribute.bytes, attribute.size);
        graph.size = 0;
        put(&graph, 1, node.bytes, node.size);
    }
    make_large("inside", MANY);
    put(&attribute, 5, tensor.bytes, tensor.size);
    put(&node, 5, attribute.bytes, attribute.size);
    put(&graph, 1, node.bytes, node.size);
    put(&graph, 5, tensor.bytes, tensor.size);
    end_file();
    uint8_t                *data = skim_and_read(&source, &model);
    const haul__onnx_graph *g = &model.graph;
    expect_left_out(g->tensors, data, MANY, 1 << 17);
    expect_left_out(g->nodes[1].attributes->tensor, data, MANY, 1 << 17);
    for (int i = 0; i < 7; i++)
        g = g->nodes[0].attributes->graph;
    expect_left_out(g->tensors, data, MANY, 1 << 17);
    haul__onnx_free(&model);
    free(data);
}

/* The least size that is left out: the bytes that were read before it end within the elements. */
static void test_onnx_skim__elements_of_the_least_size(void **state)
{
    haul__file       source;
    haul__onnx_model model;
    (void)state;
    for (int i = 0; i < MANY; i++)
        many[i] = (float)(i + 1);
    graph.size = 0;
    make_large("least", HAUL__ONNX_LEFT_OUT / 4);
    put(&graph, 5, tensor.bytes, tensor.size);
    end_file();
    uint8_t *data = skim_and_read(&source, &model);
    expect_left_out(model.graph.tensors, data, HAUL__ONNX_LEFT_OUT / 4, HAUL__ONNX_LEFT_OUT - 8);
    haul__onnx_free(&model);
    free(data);
}

/* A field that ends behind its message, within the file. */
static void test_onnx_skim__fields_end_within_their_message(void **state)
{
    static const uint8_t longer[] = {8 << 3 | 2, 5, 'a'};
    haul__file           source;
    haul__onnx_model     model;
    (void)state;
    graph.size = 0;
    put(&graph, 5, longer, sizeof longer);
    put(&graph, 2, "a name", 6);
    end_file();
    uint8_t *data = calloc(1, file.size);
    assert_non_null(data);
    haul__file_open_memory(&source, file.bytes, file.size, "t.onnx", "test");
    assert_int_equal(haul__onnx_skim(&source, data), HAUL_OK);
    assert_memory_equal(data, file.bytes, file.size);
    assert_int_equal(haul__onnx_read(&model, (haul__bytes){data, file.size}, &source, "t.onnx", "test"), HAUL_FORMAT);
    assert_non_null(strstr(haul_error_message(), "a field is longer than the message that has it"));
    haul_error_clear();
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_skim__leaves_large_elements_out),
        cmocka_unit_test(test_onnx_skim__faults_are_those_of_the_reader),
        cmocka_unit_test(test_onnx_skim__elements_stay_in_the_file_wherever_they_are),
        cmocka_unit_test(test_onnx_skim__elements_of_the_least_size),
        cmocka_unit_test(test_onnx_skim__fields_end_within_their_message),
    };
    return cmocka_run_group_tests_name("onnx_skim", tests, NULL, NULL);
}
