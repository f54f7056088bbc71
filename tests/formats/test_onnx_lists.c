/* ONNX models: attributes of every kind, lists that are packed and lists with a field for each element. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/onnx/model.h"
#include "formats/onnx/writer.h"
#include "support/onnx/file.h"

/* A model of one node with this attribute. */
static haul_status read_attribute(haul__onnx_model *m, const message *attribute)
{
    message node = node_of("Node", "x", "y"), graph = {0};
    put_message(&node, 5, attribute);
    put_message(&graph, 1, &node);
    const message file = model_of(&graph, 17);
    return haul__onnx_read(m, (haul__bytes){file.bytes, file.size}, NULL, "t.onnx", "test");
}

static void expect_refused(const message *attribute, const char *words)
{
    haul__onnx_model m;
    assert_int_equal(read_attribute(&m, attribute), HAUL_FORMAT);
    if (!strstr(haul_error_message(), words))
        fail_msg("%s (expected: %s)", haul_error_message(), words);
    haul_error_clear();
}

static void put_fixed(message *m, const void *value, size_t size)
{
    memcpy(m->bytes + m->size, value, size);
    m->size += size;
}

static void test_onnx_lists__values_of_attributes(void **state)
{
    haul__onnx_model m;
    message          a = {0}, packed = {0};
    const float      floats[] = {1.5f, -2};
    (void)state;
    put_text(&a, 1, "all");
    put_float(&a, 2, 0.25f);
    put_number(&a, 3, (uint64_t)-7);
    put_text(&a, 4, "text");
    put_float(&a, 7, 8);
    put_bytes(&a, 7, floats, sizeof floats);
    put_float(&a, 7, 9);
    put_number(&a, 8, 1);
    put_varint(&packed, 300);
    put_varint(&packed, (uint64_t)-1);
    put_message(&a, 8, &packed);
    put_number(&a, 8, 4);
    put_text(&a, 9, "one");
    put_bytes(&a, 9, "t\0wo", 4);
    put_bytes(&a, 9, "\xff", 1);
    put_text(&a, 9, "");
    put_number(&a, 20, 6);
    put_number(&a, 99, 6); /* an unknown field */
    assert_int_equal(read_attribute(&m, &a), HAUL_OK);
    assert_int_equal(m.graph.nodes[0].attribute_count, 1);
    const haul__onnx_attribute *r = m.graph.nodes[0].attributes;
    assert_string_equal(r->name, "all");
    assert_true(r->f == 0.25f && r->i == -7 && r->type == 6);
    assert_string_equal(r->text, "text");
    assert_int_equal(r->float_count, 4);
    assert_true(r->floats[0] == 8 && r->floats[1] == 1.5f && r->floats[2] == -2 && r->floats[3] == 9);
    assert_int_equal(r->int_count, 4);
    assert_true(r->ints[0] == 1 && r->ints[1] == 300 && r->ints[2] == -1 && r->ints[3] == 4);
    assert_int_equal(r->text_count, 4);
    assert_string_equal(r->texts[0], "one");
    assert_null(r->texts[1]);
    assert_null(r->texts[2]);
    assert_string_equal(r->texts[3], "");
    assert_null(r->tensor);
    assert_null(r->graph);
    haul__onnx_free(&m);
    a = (message){0};
    put_bytes(&a, 4, "\xff", 1);
    put_number(&a, 20, 1001);
    assert_int_equal(read_attribute(&m, &a), HAUL_OK);
    r = m.graph.nodes[0].attributes;
    assert_string_equal(r->name, "");
    assert_null(r->text);
    assert_int_equal(r->type, 1000);
    assert_true(!r->floats && !r->ints && !r->texts && !r->float_count && !r->int_count && !r->text_count);
    haul__onnx_free(&m);
}

static void test_onnx_lists__wrong_attributes_are_refused(void **state)
{
    static const struct {
        uint32_t    field;
        int         wire; /* 0 a number, 2 bytes, 5 four bytes */
        const char *words;
    } rows[] = {{1, 0, "another wire type"}, {2, 0, "another wire type"}, {3, 2, "another wire type"},
                {3, 5, "another wire type"}, {4, 0, "another wire type"}, {5, 0, "another wire type"},
                {6, 0, "another wire type"}, {7, 0, "another wire type"}, {8, 5, "another wire type"},
                {9, 0, "another wire type"}, {20, 2, "another wire type"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        message a = {0};
        if (rows[i].wire == 0)
            put_number(&a, rows[i].field, 1);
        else if (rows[i].wire == 2)
            put_bytes(&a, rows[i].field, "", 0);
        else
            put_float(&a, rows[i].field, 1);
        expect_refused(&a, rows[i].words);
    }
    message a = {0}, tensor = {0}, graph = {0};
    put_bytes(&a, 7, "1234567", 7);
    expect_refused(&a, "a list of numbers is cut off");
    a = (message){0};
    put_bytes(&a, 8, "\x01\x80", 2);
    expect_refused(&a, "a number is cut off");
    a = (message){0};
    put_number(&tensor, 2, 1);
    put_float(&tensor, 4, 1);
    put_message(&a, 5, &tensor);
    haul__onnx_model m;
    assert_int_equal(read_attribute(&m, &a), HAUL_OK);
    assert_non_null(m.graph.nodes[0].attributes[0].tensor);
    haul__onnx_free(&m);
    put_message(&a, 5, &tensor);
    expect_refused(&a, "an attribute has two tensors");
    a = (message){0};
    put_text(&graph, 2, "inner");
    put_message(&a, 6, &graph);
    assert_int_equal(read_attribute(&m, &a), HAUL_OK);
    assert_string_equal(m.graph.nodes[0].attributes[0].graph->name, "inner");
    haul__onnx_free(&m);
    put_message(&a, 6, &graph);
    expect_refused(&a, "an attribute has two graphs");
}

/* Elements of fixed sizes, packed, each in a field of its own, and both. */
static void test_onnx_lists__elements_of_fixed_sizes(void **state)
{
    const float  floats[] = {1.5f, -2, 3};
    const double doubles[] = {1.5, -2, 3};
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (size_t packed = 0; packed <= 3; packed++) {
            const size_t     width = wide ? 8 : 4;
            const uint8_t   *values = wide ? (const uint8_t *)doubles : (const uint8_t *)floats;
            message          tensor = {0}, graph = {0}, size = {0};
            haul__onnx_model m;
            uint8_t          out[24];
            put_varint(&size, 3);
            put_message(&tensor, 1, &size); /* the shape is packed */
            put_number(&tensor, 2, wide ? 11 : 1);
            put_bytes(&tensor, wide ? 10 : 4, values, packed * width);
            for (size_t i = packed; i < 3; i++) {
                put_varint(&tensor, wide ? 10 << 3 | 1 : 4 << 3 | 5);
                put_fixed(&tensor, values + i * width, width);
            }
            put_message(&graph, 5, &tensor);
            message file = model_of(&graph, 17);
            assert_int_equal(haul__onnx_read(&m, (haul__bytes){file.bytes, file.size}, NULL, "t.onnx", "test"),
                             HAUL_OK);
            const haul__onnx_tensor *t = m.graph.tensors;
            assert_int_equal(t->dtype, wide ? HAUL_F64 : HAUL_F32);
            assert_int_equal(t->count, 3);
            memset(out, 0x55, sizeof out);
            assert_int_equal(haul__onnx_elements(t, "t.onnx", "test", out, 3 * width), HAUL_OK);
            assert_memory_equal(out, values, 3 * width);
            haul__onnx_free(&m);
            file = (message){0}; /* one more than the shape has */
            put_bytes(&tensor, wide ? 10 : 4, values, width);
            graph = (message){0};
            put_message(&graph, 5, &tensor);
            file = model_of(&graph, 17);
            assert_int_equal(haul__onnx_read(&m, (haul__bytes){file.bytes, file.size}, NULL, "t.onnx", "test"),
                             HAUL_FORMAT);
            assert_non_null(strstr(haul_error_message(), "other elements than its shape says"));
            haul_error_clear();
        }
}

static void test_onnx_lists__dtypes_have_names_and_numbers(void **state)
{
    (void)state;
    assert_int_equal(haul__onnx_dtype(1), HAUL_F32);
    assert_int_equal(haul__onnx_dtype(16), HAUL_BF16);
    assert_int_equal(haul__onnx_dtype(-1), HAUL_DTYPE_NONE);
    assert_int_equal(haul__onnx_dtype(0), HAUL_DTYPE_NONE);
    assert_int_equal(haul__onnx_dtype(24), HAUL_DTYPE_NONE);
    assert_string_equal(haul__onnx_dtype_name(23), "float4e2m1");
    assert_string_equal(haul__onnx_dtype_name(24), "an unknown type");
    assert_string_equal(haul__onnx_dtype_name(-1), "an unknown type");
    assert_string_equal(haul__onnx_dtype_name(11), "double");
    assert_int_equal(haul__onnx_dtype_number(HAUL_F32), 1);
    assert_int_equal(haul__onnx_dtype_number(HAUL_BF16), 16);
    for (int64_t number = 1; number < 24; number++)
        if (haul__onnx_dtype(number) != HAUL_DTYPE_NONE)
            assert_int_equal(haul__onnx_dtype_number(haul__onnx_dtype(number)), number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_lists__values_of_attributes),
        cmocka_unit_test(test_onnx_lists__wrong_attributes_are_refused),
        cmocka_unit_test(test_onnx_lists__elements_of_fixed_sizes),
        cmocka_unit_test(test_onnx_lists__dtypes_have_names_and_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
