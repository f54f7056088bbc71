/* What the functions of operators call: inputs in both forms, attributes, errors. */
#include <haul/dtype.h>
#include <haul/transfer.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/half.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "onnx/export/trace.h"
#include "onnx/run.h"

/* ---- numbers ---- */

haul__number haul__number_of(int64_t i)
{
    return (haul__number){i, (double)i};
}

/* A whole number of a dtype wraps around, as a cast does. */
void haul__onnx_set(haul__numbers *n, int64_t i, haul__number value)
{
    HAUL__ASSERT(0 <= i && i < n->count);
    n->items[i] = haul_dtype_is_float(n->dtype)
                      ? (haul__number){0, n->dtype == HAUL_F64 ? value.f : (double)(float)value.f}
                  : n->dtype == HAUL_U8   ? haul__number_of((uint8_t)value.i)
                  : n->dtype == HAUL_I8   ? haul__number_of((int8_t)value.i)
                  : n->dtype == HAUL_I16  ? haul__number_of((int16_t)value.i)
                  : n->dtype == HAUL_I32  ? haul__number_of((int32_t)value.i)
                  : n->dtype == HAUL_U16  ? haul__number_of((uint16_t)value.i)
                  : n->dtype == HAUL_U32  ? haul__number_of((uint32_t)value.i)
                  : n->dtype == HAUL_BOOL ? haul__number_of(value.i != 0)
                                          : haul__number_of(value.i);
}

static haul__numbers *new_numbers(haul_dtype dtype, const haul_shape *shape, int64_t count)
{
    HAUL__ASSERT(0 <= count && count <= HAUL__ONNX_NUMBERS);
    haul__numbers *n = haul__calloc(1, sizeof *n + (size_t)count * sizeof *n->items);
    if (!n) {
        haul__fail_memory(HAUL__ONNX_CALL, sizeof *n);
        return NULL;
    }
    n->dtype = dtype;
    n->shape = *shape;
    n->count = count;
    return n;
}

haul__numbers *haul__onnx_new_numbers(haul__onnx_call *c, haul_dtype dtype, const haul_shape *shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape->ndim; d++)
        if (!haul__mul_size(count, shape->dims[d], &count) || (count > HAUL__ONNX_NUMBERS))
            return NULL;
    HAUL__ASSERT(0 <= count && count <= HAUL__ONNX_NUMBERS);
    haul__numbers *n = new_numbers(dtype, shape, count);
    if (!n) {
        c->failed = true;
        return NULL;
    }
    n->next = c->run->numbers;
    c->run->numbers = n;
    return n;
}

static haul__number read_one(haul_dtype dtype, const void *elements, int64_t i)
{
    switch (dtype) {
    case HAUL_F64: return (haul__number){0, ((const double *)elements)[i]};
    case HAUL_F32: return (haul__number){0, (double)((const float *)elements)[i]};
    case HAUL_U64:
    case HAUL_I64: return haul__number_of(((const int64_t *)elements)[i]);
    case HAUL_I32: return haul__number_of(((const int32_t *)elements)[i]);
    case HAUL_I16: return haul__number_of(((const int16_t *)elements)[i]);
    case HAUL_I8: return haul__number_of(((const int8_t *)elements)[i]);
    case HAUL_U16: return haul__number_of(((const uint16_t *)elements)[i]);
    case HAUL_U32: return haul__number_of(((const uint32_t *)elements)[i]);
    default: return haul__number_of(((const uint8_t *)elements)[i]);
    }
}

void haul__onnx_decode(haul__numbers *n, const void *elements)
{
    HAUL__ASSERT(!haul__is_half(n->dtype) && (elements || n->count == 0));
    for (int64_t i = 0; i < n->count; i++)
        n->items[i] = read_one(n->dtype, elements, i);
}

static void write_one(haul_dtype dtype, void *elements, int64_t i, haul__number value)
{
    switch (dtype) {
    case HAUL_F64: ((double *)elements)[i] = value.f; break;
    case HAUL_F32: ((float *)elements)[i] = (float)value.f; break;
    case HAUL_U64:
    case HAUL_I64: ((int64_t *)elements)[i] = value.i; break;
    case HAUL_U32: ((uint32_t *)elements)[i] = (uint32_t)value.i; break;
    case HAUL_U16: ((uint16_t *)elements)[i] = (uint16_t)value.i; break;
    case HAUL_I32: ((int32_t *)elements)[i] = (int32_t)value.i; break;
    case HAUL_I16: ((int16_t *)elements)[i] = (int16_t)value.i; break;
    default: ((uint8_t *)elements)[i] = (uint8_t)value.i; break;
    }
}

haul_tensor *haul__onnx_from_numbers(const haul__numbers *n)
{
    HAUL__ASSERT(0 <= n->count && n->count <= HAUL__ONNX_NUMBERS);
    const size_t size = (size_t)(n->count ? n->count : 1) * sizeof(int64_t);
    void        *elements = haul__malloc(size);
    if (!elements) {
        haul__fail_memory(HAUL__ONNX_CALL, size);
        return haul__result(NULL);
    }
    const haul_dtype dtype = haul__is_half(n->dtype) ? HAUL_F32 : n->dtype;
    for (int64_t i = 0; i < n->count; i++)
        write_one(dtype, elements, i, n->items[i]);
    haul_tensor *t = haul_from_host(dtype, n->shape, elements);
    haul__onnx_note(t, elements);
    haul__free(elements);
    return dtype == n->dtype ? t : haul_cast(t, n->dtype);
}

/* ---- inputs ---- */

int haul__onnx_count(const haul__onnx_call *c)
{
    return c->step->input_count;
}

static haul__onnx_slot *slot_of(const haul__onnx_call *c, int i)
{
    HAUL__ASSERT(i >= 0 && (i >= c->step->input_count || c->step->inputs[i] < c->run->plan->value_count));
    return i < c->step->input_count && c->step->inputs[i] >= 0 ? &c->run->slots[c->step->inputs[i]] : NULL;
}

bool haul__onnx_has(const haul__onnx_call *c, int i)
{
    return slot_of(c, i) != NULL;
}

haul_tensor *haul__onnx_x(haul__onnx_call *c, int i)
{
    haul__onnx_slot *slot = slot_of(c, i);
    if (!slot)
        return HAUL_NONE;
    if (slot->tensor)
        return slot->tensor;
    if (slot->numbers)
        return haul__onnx_from_numbers(slot->numbers);
    return haul__result(haul__onnx_wrong(c, "an input that no node made"));
}

const haul__numbers *haul__onnx_known(const haul__onnx_call *c, int i)
{
    const haul__onnx_slot *slot = slot_of(c, i);
    return slot ? slot->numbers : NULL;
}

const haul__numbers *haul__onnx_numbers(haul__onnx_call *c, int i)
{
    const haul__numbers *known = haul__onnx_known(c, i);
    haul_tensor         *x = known ? NULL : haul__onnx_x(c, i);
    if (known)
        return known;
    if (haul__is_none(x)) {
        haul__onnx_wrong(c, "an input is missing");
        return NULL;
    }
    if (!haul__failed(x) && haul__is_half(x->dtype))
        x = haul_cast(x, HAUL_F32);
    if (haul__failed(x))
        return NULL;
    haul__numbers *n = haul__onnx_new_numbers(c, x->dtype, &x->shape);
    int64_t        elements[HAUL__ONNX_NUMBERS];
    if (!n) {
        if (!c->failed)
            haul__onnx_refuse(c, "more than 1,024 numbers that say how to compute");
        return NULL;
    }
    HAUL__ASSERT(n->count == haul_tensor_count(x) && haul_tensor_bytes(x) <= sizeof elements);
    if (haul_read(x, elements, haul_tensor_bytes(x)))
        return NULL;
    haul__onnx_decode(n, elements);
    return n;
}

haul_shape haul__onnx_shape(haul__onnx_call *c, int i)
{
    const haul__onnx_slot *slot = slot_of(c, i);
    return !slot           ? (haul_shape){.ndim = 0}
           : slot->tensor  ? slot->tensor->shape
           : slot->numbers ? slot->numbers->shape
                           : (haul_shape){.ndim = 0};
}

haul_dtype haul__onnx_type(haul__onnx_call *c, int i)
{
    const haul__onnx_slot *slot = slot_of(c, i);
    return !slot           ? HAUL_DTYPE_NONE
           : slot->tensor  ? slot->tensor->dtype
           : slot->numbers ? slot->numbers->dtype
                           : HAUL_DTYPE_NONE;
}

static const haul__numbers *one_number(haul__onnx_call *c, int i)
{
    const haul__numbers *n = haul__onnx_numbers(c, i);
    if (n && n->count != 1) {
        haul__onnx_wrong(c, "an input must have one element");
        return NULL;
    }
    return n;
}

haul_status haul__onnx_integer(haul__onnx_call *c, int i, int64_t otherwise, int64_t *out)
{
    const haul__numbers *n = haul__onnx_has(c, i) ? one_number(c, i) : NULL;
    *out = n ? n->items->i : otherwise;
    return n || !haul__onnx_has(c, i) ? HAUL_OK : haul_error_status();
}

haul_status haul__onnx_real(haul__onnx_call *c, int i, double otherwise, double *out)
{
    const haul__numbers *n = haul__onnx_has(c, i) ? one_number(c, i) : NULL;
    *out = n ? n->items->f : otherwise;
    return n || !haul__onnx_has(c, i) ? HAUL_OK : haul_error_status();
}

/* ---- attributes ---- */

const haul__onnx_attribute *haul__onnx_attribute_of(const haul__onnx_node *node, const char *name)
{
    for (size_t i = 0; i < node->attribute_count; i++)
        if (!strcmp(node->attributes[i].name, name))
            return &node->attributes[i];
    return NULL;
}

int64_t haul__onnx_int(const haul__onnx_call *c, const char *name, int64_t otherwise)
{
    const haul__onnx_attribute *a = haul__onnx_attribute_of(c->step->node, name);
    return a ? a->i : otherwise;
}

double haul__onnx_float(const haul__onnx_call *c, const char *name, double otherwise)
{
    const haul__onnx_attribute *a = haul__onnx_attribute_of(c->step->node, name);
    return a ? (double)a->f : otherwise;
}

const char *haul__onnx_string(const haul__onnx_call *c, const char *name, const char *otherwise)
{
    const haul__onnx_attribute *a = haul__onnx_attribute_of(c->step->node, name);
    return a && a->text ? a->text : otherwise;
}

haul_status haul__onnx_ints(const haul__onnx_call *c, const char *name, haul__onnx_list *out)
{
    const haul__onnx_attribute *a = haul__onnx_attribute_of(c->step->node, name);
    *out = (haul__onnx_list){.given = a != NULL};
    if (a && a->int_count > 16)
        return haul__onnx_wrong(c, "a list has more than 16 numbers"), haul_error_status();
    for (size_t i = 0; a && i < a->int_count; i++)
        out->items[out->count++] = a->ints[i];
    HAUL__ASSERT(out->count <= 16 && (out->given || out->count == 0));
    return HAUL_OK;
}

haul_status haul__onnx_ints_or_input(haul__onnx_call *c, const char *name, int i, int since, haul__onnx_list *out)
{
    if (c->opset < since)
        return haul__onnx_ints(c, name, out);
    *out = (haul__onnx_list){.given = haul__onnx_has(c, i)};
    const haul__numbers *n = out->given ? haul__onnx_numbers(c, i) : NULL;
    if (out->given && !n)
        return haul_error_status();
    if (n && n->count > 16)
        return haul__onnx_wrong(c, "a list has more than 16 numbers"), haul_error_status();
    for (int64_t k = 0; n && k < n->count; k++)
        out->items[out->count++] = n->items[k].i;
    HAUL__ASSERT(out->count <= 16 && (out->given || out->count == 0));
    return HAUL_OK;
}

haul_status haul__onnx_axis(haul__onnx_call *c, int64_t axis, int ndim, int *out)
{
    HAUL__ASSERT(ndim >= 0);
    *out = (int)(axis < 0 ? axis + ndim : axis);
    if (axis >= -ndim && axis < ndim)
        return HAUL_OK;
    return haul__onnx_wrong(c, "an axis is out of range"), haul_error_status();
}

/* ---- errors ---- */

haul_tensor *haul__onnx_refuse(const haul__onnx_call *c, const char *what)
{
    haul__fail(HAUL_UNSUPPORTED, HAUL__ONNX_CALL, NULL, "Haul does not support %s of the operator %.40s", what,
               c->step->node->type);
    return NULL;
}

haul_tensor *haul__onnx_wrong(const haul__onnx_call *c, const char *what)
{
    haul__fail(HAUL_INVALID_ARGUMENT, HAUL__ONNX_CALL, NULL, "%s, which does not fit the operator %.40s", what,
               c->step->node->type);
    return NULL;
}
