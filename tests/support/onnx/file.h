/* Writes ONNX models, field by field, for tests. A message is a buffer; a field that is one is appended as bytes. */
#ifndef HAUL_TESTS_ONNX_FILE_H
#define HAUL_TESTS_ONNX_FILE_H

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Sizes for put_value and put_tensor. */
#define SIZES(...) ((const int64_t[]){__VA_ARGS__, 0})
#define NO_SIZES   ((const int64_t[]){0})

typedef struct message {
    size_t  size;
    uint8_t bytes[4096];
} message;

static inline void put_varint(message *m, uint64_t value)
{
    for (; value > 127; value >>= 7)
        m->bytes[m->size++] = (uint8_t)(value | 128);
    m->bytes[m->size++] = (uint8_t)value;
    assert(m->size <= sizeof m->bytes);
}

static inline void put_number(message *m, uint32_t field, uint64_t value)
{
    put_varint(m, field << 3);
    put_varint(m, value);
}

static inline void put_bytes(message *m, uint32_t field, const void *data, size_t size)
{
    put_varint(m, field << 3 | 2);
    put_varint(m, size);
    assert(m->size + size <= sizeof m->bytes);
    memcpy(m->bytes + m->size, data, size);
    m->size += size;
}

static inline void put_text(message *m, uint32_t field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

static inline void put_message(message *m, uint32_t field, const message *value)
{
    put_bytes(m, field, value->bytes, value->size);
}

static inline void put_float(message *m, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_varint(m, field << 3 | 5);
    for (int i = 0; i < 4; i++)
        m->bytes[m->size++] = (uint8_t)(bits >> 8 * i);
}

/* An input or a result; the sizes end with 0, and -1 is the size "n". */
static inline void put_value(message *graph, uint32_t field, const char *name, int dtype, const int64_t *sizes)
{
    message value = {0}, type = {0}, tensor = {0}, shape = {0};
    for (; *sizes; sizes++) {
        message size = {0};
        if (*sizes < 0)
            put_text(&size, 2, "n");
        else
            put_number(&size, 1, (uint64_t)*sizes);
        put_message(&shape, 1, &size);
    }
    put_number(&tensor, 1, (uint64_t)dtype);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&value, 1, name);
    put_message(&value, 2, &type);
    put_message(graph, field, &value);
}

/* An initialiser with its elements in raw_data; the sizes end with 0. */
static inline void put_tensor(message *graph, const char *name, int dtype, const int64_t *sizes, const void *data,
                              size_t bytes)
{
    message tensor = {0};
    for (; *sizes; sizes++)
        put_number(&tensor, 1, (uint64_t)*sizes);
    put_number(&tensor, 2, (uint64_t)dtype);
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, data, bytes);
    put_message(graph, 5, &tensor);
}

/* A node; names are separated by spaces, and "-" is one that is left out. */
static inline message node_of(const char *type, const char *inputs, const char *outputs)
{
    message     node = {0};
    const char *lists[] = {inputs, outputs};
    for (uint32_t k = 0; k < 2; k++)
        for (const char *at = lists[k]; *at;) {
            const size_t length = strcspn(at, " ");
            put_bytes(&node, k + 1, at, length == 1 && *at == '-' ? 0 : length);
            at += length + strspn(at + length, " ");
        }
    put_text(&node, 3, type);
    put_text(&node, 4, type);
    return node;
}

static inline void put_int(message *node, const char *name, int64_t value)
{
    message attribute = {0};
    put_text(&attribute, 1, name);
    put_number(&attribute, 3, (uint64_t)value);
    put_number(&attribute, 20, 2);
    put_message(node, 5, &attribute);
}

static inline void put_ints(message *node, const char *name, int count, const int64_t *values)
{
    message attribute = {0};
    put_text(&attribute, 1, name);
    for (int i = 0; i < count; i++)
        put_number(&attribute, 8, (uint64_t)values[i]);
    put_number(&attribute, 20, 7);
    put_message(node, 5, &attribute);
}

static inline void put_graph(message *node, const char *name, const message *value)
{
    message attribute = {0};
    put_text(&attribute, 1, name);
    put_message(&attribute, 6, value);
    put_number(&attribute, 20, 5);
    put_message(node, 5, &attribute);
}

static inline void put_string(message *node, const char *name, const char *value)
{
    message attribute = {0};
    put_text(&attribute, 1, name);
    put_text(&attribute, 4, value);
    put_number(&attribute, 20, 3);
    put_message(node, 5, &attribute);
}

static inline message model_of(const message *graph, int opset)
{
    message model = {0}, import = {0};
    put_number(&import, 2, (uint64_t)opset);
    put_number(&model, 1, 8);
    put_text(&model, 2, "haul");
    put_message(&model, 8, &import);
    put_message(&model, 7, graph);
    return model;
}

static inline void write_message(const char *path, const message *m)
{
    FILE *file = fopen(path, "wb");
    assert(file);
    const size_t written = fwrite(m->bytes, 1, m->size, file);
    assert(written == m->size);
    (void)written;
    fclose(file);
}

#endif
