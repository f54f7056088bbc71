/* Fields: checks, copies, names. */
#include "data/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/half.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"

#define MAX_CLASSES 1000000

/* ---- elements ---- */

void haul__element_store(haul_dtype dtype, double value, void *out)
{
    switch (dtype) {
    case HAUL_BOOL: memcpy(out, &(uint8_t){value != 0}, 1); break;
    case HAUL_U8: memcpy(out, &(uint8_t){(uint8_t)value}, 1); break;
    case HAUL_I8: memcpy(out, &(int8_t){(int8_t)value}, 1); break;
    case HAUL_I16: memcpy(out, &(int16_t){(int16_t)value}, 2); break;
    case HAUL_I32: memcpy(out, &(int32_t){(int32_t)value}, 4); break;
    case HAUL_I64: memcpy(out, &(int64_t){(int64_t)value}, 8); break;
    case HAUL_U16: memcpy(out, &(uint16_t){(uint16_t)value}, 2); break;
    case HAUL_U32: memcpy(out, &(uint32_t){(uint32_t)value}, 4); break;
    case HAUL_U64: memcpy(out, &(uint64_t){(uint64_t)value}, 8); break;
    case HAUL_F16:
    case HAUL_BF16: memcpy(out, &(uint16_t){haul__half_encode(dtype, value)}, 2); break;
    case HAUL_F32: memcpy(out, &(float){(float)value}, 4); break;
    default: memcpy(out, &value, 8); break;
    }
}

/* An integer dtype has no fractions and a limited range. */
static bool can_represent(haul_dtype dtype, double value)
{
    if (haul_dtype_is_float(dtype))
        return true;
    if (dtype == HAUL_BOOL)
        return value == 0 || value == 1;
    return haul__dtype_holds(dtype, value);
}

/* ---- checks ---- */

static haul_status check_name(const haul_field *fields, int index, const char *operation)
{
    const char *name = fields[index].name;
    if (!name)
        return haul__fail_null(operation, "name");
    if (!*name || strpbrk(name, ", \t\n"))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "fields",
                          "field %d is named \"%.40s\"; a name must not be empty or contain commas or blanks", index,
                          name);
    for (int i = 0; i < index; i++)
        if (strcmp(fields[i].name, name) == 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "fields", "two fields are named \"%.40s\"", name);
    return HAUL_OK;
}

static haul_status check_shape(const haul_field *field, const char *operation, size_t *bytes, int *varying)
{
    haul_shape shape = field->shape;
    int64_t    count;
    *varying = -1;
    if (shape.ndim >= HAUL_MAX_DIMS)
        return haul__fail(HAUL_SHAPE, operation, "fields",
                          "%s has %d dimensions; an example has at most %d, because a batch adds one", field->name,
                          shape.ndim, HAUL_MAX_DIMS - 1);
    for (int d = 0; d < shape.ndim; d++) {
        if (shape.dims[d] != -1)
            continue;
        if (*varying >= 0)
            return haul__fail(HAUL_SHAPE, operation, "fields",
                              "dimensions %d and %d of %s are -1; at most one can vary", *varying, d, field->name);
        *varying = d;
        shape.dims[d] = 1;
    }
    HAUL__ASSERT(*varying < shape.ndim);
    haul_status status = haul__shape_count(&shape, operation, &count);
    if (status == HAUL_OK)
        *bytes = *varying < 0 ? (size_t)count * haul__dtype_size(field->dtype) : 0;
    return status;
}

static haul_status check_field(const haul_field *fields, int index, const char *operation, haul__fields *out)
{
    HAUL__ASSERT(0 <= index && index < HAUL_MAX_FIELDS);
    const haul_field *field = &fields[index];
    haul_status       status = check_name(fields, index, operation);
    if (status)
        return status;
    if (field->dtype <= HAUL_DTYPE_NONE || field->dtype >= HAUL_DTYPE_END)
        return haul__fail(HAUL_DTYPE, operation, "fields", "field %s has no valid dtype", field->name);
    if (field->classes < 0 || field->classes > MAX_CLASSES)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "fields",
                          "field %s has %d classes; from 0 to %d are possible", field->name, field->classes,
                          MAX_CLASSES);
    if (field->class_names && !field->classes)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "fields",
                          "field %s has .class_names but no .classes; set .classes to how many names there are",
                          field->name);
    if (!can_represent(field->dtype, field->padding))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "fields",
                          ".padding of field %s is %g, which %s cannot represent", field->name, field->padding,
                          haul_dtype_name(field->dtype));
    return check_shape(field, operation, &out->bytes[index], &out->varying[index]);
}

/* ---- copies ---- */

static haul_status copy_class_names(haul_field *field, const char *const *names, const char *operation)
{
    HAUL__ASSERT(field->classes > 0 && !field->class_names);
    char **copies = haul__calloc((size_t)field->classes + 1, sizeof *copies);
    field->class_names = (const char *const *)copies;
    if (!copies)
        return haul__fail_memory(operation, (size_t)field->classes * sizeof *copies);
    for (int i = 0; i < field->classes; i++) {
        if (names && !names[i])
            return haul__fail_null(operation, "class_names");
        if (!(copies[i] = names ? haul__strdup(names[i]) : haul__format("%d", i)))
            return haul__fail_memory(operation, 16);
    }
    return HAUL_OK;
}

static haul_status copy_field(haul_field *out, const haul_field *in, const char *operation)
{
    const char *const *names = in->class_names;
    *out = *in;
    out->class_names = NULL;
    if (!(out->name = haul__strdup(in->name)))
        return haul__fail_memory(operation, strlen(in->name));
    return out->classes ? copy_class_names(out, names, operation) : HAUL_OK;
}

haul__fields *haul__fields_copy(const haul_field *fields, int count, const char *operation)
{
    if (count < 1 || count > HAUL_MAX_FIELDS) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "fields", "%d fields; from 1 to %d are possible", count,
                   HAUL_MAX_FIELDS);
        return NULL;
    }
    haul__fields *out = haul__calloc(1, sizeof *out);
    haul_status   status = out ? HAUL_OK : haul__fail_memory(operation, sizeof *out);
    for (int i = 0; i < count && status == HAUL_OK; i++) {
        status = check_field(fields, i, operation, out);
        if (status == HAUL_OK) {
            out->count = i + 1;
            status = copy_field(&out->items[i], &fields[i], operation);
        }
    }
    if (status == HAUL_OK)
        return out;
    haul__fields_free(out);
    return NULL;
}

void haul__fields_free(haul__fields *fields)
{
    for (int i = 0; fields && i < fields->count; i++) {
        haul_field *field = &fields->items[i];
        for (int k = 0; field->class_names && k < field->classes; k++)
            haul__free((char *)field->class_names[k]);
        haul__free((void *)field->class_names);
        haul__free((char *)field->name);
    }
    haul__free(fields);
}

/* ---- queries ---- */

int haul__fields_find(const haul__fields *fields, const char *name, size_t length)
{
    for (int i = 0; i < fields->count; i++)
        if (strlen(fields->items[i].name) == length && memcmp(fields->items[i].name, name, length) == 0)
            return i;
    return -1;
}

char *haul__fields_text(const haul_field *fields, int count, char *buffer, size_t size)
{
    HAUL__ASSERT(size > 0);
    size_t at = 0;
    buffer[0] = 0;
    for (int i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(buffer + at, size - at, i ? ", %s" : "%s", fields[i].name);
    return buffer;
}

bool haul__field_fits(const haul_field *field, haul_dtype dtype, const haul_shape *shape)
{
    if (dtype != field->dtype || shape->ndim != field->shape.ndim)
        return false;
    for (int d = 0; d < shape->ndim; d++)
        if (shape->dims[d] < 0 || (field->shape.dims[d] != -1 && shape->dims[d] != field->shape.dims[d]))
            return false;
    return true;
}
