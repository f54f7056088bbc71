/* Random crop and flip of the last two dimensions of fields, whatever their dtype, and conversion of dtypes. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/half.h"
#include "core/error.h"
#include "core/tensor.h"
#include "data/fields.h"
#include "data/rows.h"
#include "data/transform.h"

#define CROP    "haul_random_crop"
#define FLIP    "haul_random_flip"
#define CONVERT "haul_convert"

/* A value as planes of rows. */
static haul__planes planes_of(const haul_value *value)
{
    const haul_shape *s = &value->shape;
    haul__planes      p = {.count = 1, .height = 1, .width = 1, .element = haul__dtype_size(value->dtype)};
    if (s->ndim >= 1)
        p.width = s->dims[s->ndim - 1];
    if (s->ndim >= 2)
        p.height = s->dims[s->ndim - 2];
    for (int d = 0; d < s->ndim - 2; d++)
        p.count *= s->dims[d];
    return p;
}

/* ---- crop ---- */

typedef struct crop {
    haul__named named;
    int64_t     padding;
} crop;

static haul_status plan_crop(const void *context, haul_field *field)
{
    (void)context;
    if (field->shape.ndim >= 2)
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, CROP, "fields", "%s has %d dimensions; a picture has at least 2", field->name,
                      field->shape.ndim);
}

static haul_status apply_crop(void *context, haul_example *e)
{
    const crop *c = context;
    const char *names = c->named.names;
    uint64_t    places = 2 * (uint64_t)c->padding + 1;
    int64_t     dy = (int64_t)haul_draw_below(&e->draws, places) - c->padding;
    int64_t     dx = (int64_t)haul_draw_below(&e->draws, places) - c->padding;
    for (int f; (f = haul__named_next(&names, e)) >= 0;) {
        const haul__planes planes = planes_of(&e->fields[f]);
        const uint8_t     *in = e->fields[f].data;
        uint8_t           *out = haul_example_resize(e, f, e->fields[f].dtype, e->fields[f].shape);
        if (!out)
            return haul_error_status();
        HAUL__ASSERT(out != in);
        haul__planes_shift(&planes, in, dy, dx, out);
    }
    return HAUL_OK;
}

haul_transform *haul_random_crop(const char *fields, int64_t padding)
{
    if (padding < 0 || padding > INT32_MAX) {
        haul__fail(HAUL_INVALID_ARGUMENT, CROP, "padding", "padding is %lld; it must be from 0 to %d",
                   (long long)padding, INT32_MAX);
        return NULL;
    }
    crop *c = haul__named_new(sizeof *c, fields, plan_crop, CROP);
    if (!c)
        return NULL;
    c->padding = padding;
    return haul__named_transform(c, apply_crop);
}

/* ---- flip ---- */

static haul_status plan_flip(const void *context, haul_field *field)
{
    (void)context;
    if (field->shape.ndim >= 1)
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, FLIP, "fields", "%s is 0-d and cannot be flipped", field->name);
}

static haul_status apply_flip(void *context, haul_example *e)
{
    const haul__named *named = context;
    const char        *names = named->names;
    if (!(haul_draw_bits(&e->draws) & 1))
        return HAUL_OK;
    for (int f; (f = haul__named_next(&names, e)) >= 0;) {
        const haul__planes planes = planes_of(&e->fields[f]);
        haul__planes_mirror(&planes, e->fields[f].data);
    }
    return HAUL_OK;
}

haul_transform *haul_random_flip(const char *fields)
{
    haul__named *named = haul__named_new(sizeof *named, fields, plan_flip, FLIP);
    return named ? haul__named_transform(named, apply_flip) : NULL;
}

/* ---- convert ---- */

typedef struct conversion {
    haul__named named;
    haul_dtype  to;
} conversion;

/* True if `to` holds all values of `from`, up to the rounding of floats. */
static bool holds(haul_dtype to, haul_dtype from)
{
    if (haul_dtype_is_float(to) || to == from || from == HAUL_BOOL)
        return true;
    return haul_dtype_is_integer(to) && haul_dtype_is_integer(from) && haul_dtype_promote(from, to) == to;
}

static haul_status plan_convert(const void *context, haul_field *field)
{
    const conversion *c = context;
    if (!holds(c->to, field->dtype))
        return haul__fail(HAUL_DTYPE, CONVERT, "dtype", "%s is %s, and %s does not have all of its values", field->name,
                          haul_dtype_name(field->dtype), haul_dtype_name(c->to));
    field->dtype = c->to;
    return HAUL_OK;
}

/* Integers as they are, floats as double: together they carry every possible value exactly. */
static int64_t load_integer(haul_dtype dtype, const uint8_t *in)
{
    switch (dtype) {
    case HAUL_BOOL: return *in != 0;
    case HAUL_I8: return *(const int8_t *)in;
    case HAUL_I16: return *(const int16_t *)(const void *)in;
    case HAUL_I32: return *(const int32_t *)(const void *)in;
    case HAUL_I64:
    case HAUL_U64: return *(const int64_t *)(const void *)in; /* its bits */
    case HAUL_U16: return *(const uint16_t *)(const void *)in;
    case HAUL_U32: return *(const uint32_t *)(const void *)in;
    default: return *in;
    }
}

static double load_float(haul_dtype dtype, const uint8_t *in)
{
    switch (dtype) {
    case HAUL_F32: return *(const float *)(const void *)in;
    case HAUL_F64: return *(const double *)(const void *)in;
    default: return haul__half_decode(dtype, *(const uint16_t *)(const void *)in);
    }
}

static void convert_element(haul_dtype from, const uint8_t *in, haul_dtype to, uint8_t *out)
{
    if (haul_dtype_is_float(from)) {
        haul__element_store(to, load_float(from, in), out);
        return;
    }
    int64_t value = load_integer(from, in);
    if (from == HAUL_U64) /* to floats */
        haul__element_store(to, (double)(uint64_t)value, out);
    else if (to == HAUL_I64)
        memcpy(out, &value, sizeof value);
    else if (to == HAUL_F32)
        memcpy(out, &(float){(float)value}, sizeof(float)); /* rounded once */
    else
        haul__element_store(to, (double)value, out);
}

static haul_status apply_convert(void *context, haul_example *e)
{
    const conversion *c = context;
    const char       *names = c->named.names;
    for (int f; (f = haul__named_next(&names, e)) >= 0;) {
        haul_dtype     from = e->fields[f].dtype;
        haul__planes   p = planes_of(&e->fields[f]);
        const uint8_t *in = e->fields[f].data;
        size_t         width = haul__dtype_size(from);
        uint8_t       *out = from == c->to ? NULL : haul_example_resize(e, f, c->to, e->fields[f].shape);
        if (from == c->to)
            continue;
        if (!out)
            return haul_error_status();
        HAUL__ASSERT(out != in);
        for (int64_t i = 0; i < p.count * p.height * p.width; i++)
            convert_element(from, in + (size_t)i * width, c->to, out + (size_t)i * haul__dtype_size(c->to));
    }
    return HAUL_OK;
}

haul_transform *haul_convert(const char *fields, haul_dtype dtype)
{
    if (dtype <= HAUL_DTYPE_NONE || dtype >= HAUL_DTYPE_END) {
        haul__fail(HAUL_DTYPE, CONVERT, "dtype", "no valid dtype is given");
        return NULL;
    }
    conversion *c = haul__named_new(sizeof *c, fields, plan_convert, CONVERT);
    if (!c)
        return NULL;
    c->to = dtype;
    return haul__named_transform(c, apply_convert);
}
