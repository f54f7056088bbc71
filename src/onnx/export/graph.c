/* The graph of a model that is written: nodes, values and initialisers. */
#include <haul/dtype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "onnx/export/export.h"

#define ABSENT HAUL__ONNX_ABSENT

void haul__onnx_saved_free(haul__onnx_saved *g)
{
    for (size_t i = 0; i < g->node_count; i++)
        haul__message_free(&g->nodes[i].attributes);
    for (size_t i = 0; i < g->value_count; i++)
        haul__free(g->values[i].name);
    haul__free(g->nodes);
    haul__free(g->values);
    haul__free(g->tensors);
    haul__free(g->numbers);
    haul__free(g->bytes);
}

/* Room for `more` elements of a list. */
#define HAS_ROOM(g, list, count, room, more)                                                                           \
    (!(g)->failed && (g)->count <= INT32_MAX / 2 &&                                                                    \
     haul__grow(&(g)->list, &(g)->room, (g)->count + (size_t)(more), sizeof *(g)->list))

/* ---- values ---- */

static bool is_taken(const haul__onnx_saved *g, const char *name)
{
    for (size_t i = 0; i < g->value_count; i++)
        if (g->values[i].name && !strcmp(g->values[i].name, name))
            return true;
    return false;
}

/* The name, with underscores after it until no other value has it. */
static char *unique(haul__onnx_saved *g, const char *name)
{
    char *text = haul__strdup(name);
    while (text && is_taken(g, text)) {
        char *longer = haul__format("%s_", text);
        haul__free(text);
        text = longer;
    }
    g->failed = g->failed || !text;
    return text;
}

int haul__onnx_add_value(haul__onnx_saved *g, const char *name, int node)
{
    HAUL__ASSERT(node >= -1 && (node < 0 || (size_t)node <= g->node_count));
    if (!HAS_ROOM(g, values, value_count, value_room, 1)) {
        g->failed = true;
        return ABSENT;
    }
    g->values[g->value_count] = (haul__onnx_saved_value){.name = name ? unique(g, name) : NULL, .node = node};
    return (int)g->value_count++;
}

/* ---- initialisers ---- */

static int add_initialiser(haul__onnx_saved *g, const char *name, const haul__onnx_saved_tensor *t)
{
    if (!HAS_ROOM(g, tensors, tensor_count, tensor_room, 1)) {
        g->failed = true;
        return ABSENT;
    }
    const int value = haul__onnx_add_value(g, name, -1);
    HAUL__ASSERT(value == ABSENT || (size_t)value + 1 == g->value_count);
    g->tensors[g->tensor_count] = *t;
    g->tensors[g->tensor_count++].value = value;
    return value;
}

int haul__onnx_add_tensor(haul__onnx_saved *g, const char *name, haul_tensor *t)
{
    return add_initialiser(
        g, name,
        &(haul__onnx_saved_tensor){.tensor = t, .dtype = t->dtype, .shape = t->shape, .bytes = haul_tensor_bytes(t)});
}

/* Elements that are kept until the file is written. The same constants are one. */
static int add_constant(haul__onnx_saved *g, haul_dtype dtype, const haul_shape *shape, const void *elements,
                        size_t bytes)
{
    for (size_t i = 0; i < g->tensor_count && !g->failed; i++) {
        const haul__onnx_saved_tensor *t = &g->tensors[i];
        HAUL__ASSERT(t->tensor || t->at + t->bytes <= g->byte_count);
        if (!t->tensor && t->dtype == dtype && t->bytes == bytes && haul__shape_equal(&t->shape, shape) &&
            !memcmp(g->bytes + t->at, elements, bytes))
            return t->value;
    }
    if (!HAS_ROOM(g, bytes, byte_count, byte_room, bytes + 1)) {
        g->failed = true;
        return ABSENT;
    }
    const size_t at = g->byte_count;
    memcpy(g->bytes + at, elements, bytes);
    g->byte_count += bytes;
    HAUL__ASSERT(g->byte_count < g->byte_room);
    return add_initialiser(g, NULL,
                           &(haul__onnx_saved_tensor){.dtype = dtype, .shape = *shape, .at = at, .bytes = bytes});
}

int haul__onnx_add_constant(haul__onnx_saved *g, haul_dtype dtype, const haul_shape *shape, size_t at, size_t bytes)
{
    HAUL__ASSERT(at + bytes <= g->byte_count);
    return add_initialiser(g, NULL,
                           &(haul__onnx_saved_tensor){.dtype = dtype, .shape = *shape, .at = at, .bytes = bytes});
}

int haul__onnx_add_ints(haul__onnx_saved *g, const int64_t *values, int count)
{
    return add_constant(g, HAUL_I64, &HAUL_SHAPE(count), values, (size_t)count * sizeof *values);
}

int haul__onnx_add_int(haul__onnx_saved *g, int64_t value)
{
    return add_constant(g, HAUL_I64, &HAUL_SCALAR_SHAPE, &value, sizeof value);
}

int haul__onnx_add_number(haul__onnx_saved *g, haul_dtype dtype, double value)
{
    const uint64_t bits = haul__element_bits(dtype, value);
    return add_constant(g, dtype, &HAUL_SCALAR_SHAPE, &bits, (size_t)haul_dtype_bits(dtype) / 8);
}

int haul__onnx_add_repeated(haul__onnx_saved *g, haul_dtype dtype, double value, int64_t count)
{
    const uint64_t bits = haul__element_bits(dtype, value);
    const size_t   size = (size_t)haul_dtype_bits(dtype) / 8;
    HAUL__ASSERT(size > 0 && size <= sizeof bits);
    uint8_t *all = (uint64_t)count < HAUL__MESSAGE_LIMIT / 8 ? haul__malloc((size_t)count * size + 1) : NULL;
    if (!all) {
        g->failed = true;
        return ABSENT;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(all + (size_t)i * size, &bits, size);
    const int value_number = add_constant(g, dtype, &HAUL_SHAPE(count), all, (size_t)count * size);
    haul__free(all);
    return value_number;
}

/* ---- nodes ---- */

int haul__onnx_add_nodes(haul__onnx_saved *g, const char *type, const int *inputs, int count, int results)
{
    HAUL__ASSERT(count >= 0 && results > 0);
    if (!HAS_ROOM(g, nodes, node_count, node_room, 1) ||
        !HAS_ROOM(g, numbers, number_count, number_room, count + results)) {
        g->failed = true;
        return ABSENT;
    }
    while (count && inputs[count - 1] == ABSENT)
        count--;
    haul__onnx_saved_node n = {.type = type,
                               .input = (int)g->number_count,
                               .input_count = count,
                               .output = (int)g->number_count + count,
                               .output_count = results};
    memcpy(n.module, g->module, sizeof n.module);
    for (int i = 0; i < count; i++) {
        HAUL__ASSERT(inputs[i] == ABSENT || (inputs[i] >= 0 && (size_t)inputs[i] < g->value_count));
        g->numbers[g->number_count++] = inputs[i];
    }
    int first = ABSENT;
    for (int i = 0; i < results; i++) {
        const int value = haul__onnx_add_value(g, NULL, (int)g->node_count);
        g->numbers[g->number_count++] = value;
        first = i ? first : value;
    }
    HAUL__ASSERT(g->number_count <= g->number_room);
    g->nodes[g->node_count++] = n;
    return g->failed ? ABSENT : first;
}

int haul__onnx_add_node(haul__onnx_saved *g, const char *type, const int *inputs, int count)
{
    return haul__onnx_add_nodes(g, type, inputs, count, 1);
}

int haul__onnx_add_cast(haul__onnx_saved *g, int x, haul_dtype dtype)
{
    const int y = HAUL__ONNX_NODE(g, "Cast", x);
    haul__onnx_set_int(g, "to", haul__onnx_dtype_number(dtype));
    return y;
}

/* ---- attributes ---- */

/* Of AttributeProto: name 1, f 2, i 3, s 4, t 5, ints 8, strings 9, type 20. */
typedef enum attribute_type { FLOAT = 1, INT = 2, STRING = 3, TENSOR = 4, INTS = 7, STRINGS = 8 } attribute_type;

static haul__message begin(const char *name)
{
    haul__message a = {.bytes = NULL};
    haul__put_text(&a, 1, name);
    return a;
}

/* Adds the attribute to the last node, and frees it. */
static void finish(haul__onnx_saved *g, haul__message *a, attribute_type type)
{
    haul__put_integer(a, 20, (uint64_t)type);
    if (!g->failed && g->node_count) {
        haul__message *to = &g->nodes[g->node_count - 1].attributes;
        haul__put_message(to, 5, a); /* the field of a node */
        g->failed = to->failed;
    }
    haul__message_free(a);
}

void haul__onnx_set_int(haul__onnx_saved *g, const char *name, int64_t value)
{
    haul__message a = begin(name);
    haul__put_integer(&a, 3, (uint64_t)value);
    finish(g, &a, INT);
}

void haul__onnx_set_float(haul__onnx_saved *g, const char *name, double value)
{
    haul__message a = begin(name);
    haul__put_float(&a, 2, (float)value);
    finish(g, &a, FLOAT);
}

void haul__onnx_set_text(haul__onnx_saved *g, const char *name, const char *value)
{
    haul__message a = begin(name);
    haul__put_text(&a, 4, value);
    finish(g, &a, STRING);
}

void haul__onnx_set_texts(haul__onnx_saved *g, const char *name, const char *const *values, int count)
{
    haul__message a = begin(name);
    for (int i = 0; i < count; i++)
        haul__put_text(&a, 9, values[i]);
    finish(g, &a, STRINGS);
}

void haul__onnx_set_ints(haul__onnx_saved *g, const char *name, const int64_t *values, int count)
{
    haul__message a = begin(name);
    for (int i = 0; i < count; i++)
        haul__put_integer(&a, 8, (uint64_t)values[i]);
    finish(g, &a, INTS);
}

/* TensorProto: dims 1, data_type 2, raw_data 9. */
void haul__onnx_set_number(haul__onnx_saved *g, const char *name, haul_dtype dtype, double value)
{
    const uint64_t bits = haul__element_bits(dtype, value);
    haul__message  a = begin(name), t = {.bytes = NULL};
    haul__put_integer(&t, 1, 1);
    haul__put_integer(&t, 2, (uint64_t)haul__onnx_dtype_number(dtype));
    haul__put_bytes(&t, 9, &bits, (size_t)haul_dtype_bits(dtype) / 8);
    haul__put_message(&a, 5, &t);
    haul__message_free(&t);
    finish(g, &a, TENSOR);
}

/* ---- calls ---- */

int haul__onnx_cannot(haul__onnx_saving *c, const char *why)
{
    c->why = why;
    return ABSENT;
}

/* The first size of the inputs, from the first input that has it. */
static int batch_of(haul__onnx_saved *g)
{
    for (int i = 0; i < g->input_count && g->batch_value == ABSENT; i++)
        if (g->inputs[i].shape.ndim && g->inputs[i].shape.dims[0] != g->inputs[i].other.dims[0]) {
            char module[HAUL__ONNX_MODULE];
            memcpy(module, g->module, sizeof module);
            memset(g->module, 0, sizeof g->module);
            g->batch_value = HAUL__ONNX_NODE(g, "Shape", g->inputs[i].value);
            haul__onnx_set_int(g, "start", 0);
            haul__onnx_set_int(g, "end", 1);
            memcpy(g->module, module, sizeof module);
        }
    return g->batch_value;
}

/* How many times the batch a size is; 0: it is not a multiple. */
static int64_t multiple(const haul__onnx_saved *g, int64_t size, int64_t other)
{
    HAUL__ASSERT(g->batch[0] > 1 && g->batch[1] > g->batch[0]);
    const int64_t n = size / g->batch[0];
    return size % g->batch[0] == 0 && other % g->batch[1] == 0 && other / g->batch[1] == n ? n : 0;
}

static int computed_sizes(haul__onnx_saving *c, const haul_shape *shape, const haul_shape *other)
{
    haul__onnx_saved *g = c->g;
    int               parts[HAUL_MAX_DIMS];
    HAUL__ASSERT(shape->ndim == other->ndim);
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dims[d] == other->dims[d]) {
            parts[d] = haul__onnx_add_ints(g, &shape->dims[d], 1);
            continue;
        }
        const int64_t n = multiple(g, shape->dims[d], other->dims[d]);
        if (!n)
            return haul__onnx_cannot(c, "a size is not a multiple of the batch");
        parts[d] = batch_of(g);
        if (n > 1)
            parts[d] = HAUL__ONNX_NODE(g, "Mul", parts[d], haul__onnx_add_ints(g, &n, 1));
    }
    if (shape->ndim == 1)
        return parts[0];
    const int y = haul__onnx_add_node(g, "Concat", parts, shape->ndim);
    haul__onnx_set_int(g, "axis", 0);
    return y;
}

int haul__onnx_sizes(haul__onnx_saving *c, const haul_shape *shape, const haul_shape *other, bool infer)
{
    int64_t sizes[HAUL_MAX_DIMS] = {0};
    int     differ = 0;
    bool    zero = false;
    for (int d = 0; d < shape->ndim; d++) {
        differ += shape->dims[d] != other->dims[d];
        zero = zero || (!shape->dims[d] && !other->dims[d]);
        sizes[d] = shape->dims[d] == other->dims[d] ? shape->dims[d] : -1;
    }
    if (differ > 1 || (differ && (!infer || zero)))
        return computed_sizes(c, shape, other);
    return haul__onnx_add_ints(c->g, sizes, shape->ndim);
}
