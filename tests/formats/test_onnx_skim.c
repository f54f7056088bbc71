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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_skim__leaves_large_elements_out),
        cmocka_unit_test(test_onnx_skim__faults_are_those_of_the_reader),
    };
    return cmocka_run_group_tests_name("onnx_skim", tests, NULL, NULL);
}
