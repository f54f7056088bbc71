/* Random changes of pictures: turned by an angle, and with other colours. They compute what haul_rotate and the
 * functions haul_adjust_... compute, for one example at a time, on the thread that reads it. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "data/fields.h"
#include "data/transform.h"

#define ROTATE "haul_random_rotation"
#define COLOUR "haul_random_colour"

/* ---- rotation ---- */

typedef struct rotation {
    haul__named named;
    double      degrees;
} rotation;

static haul_status plan_rotation(const void *context, haul_field *field)
{
    (void)context;
    if (field->shape.ndim >= 2)
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, ROTATE, "fields", "%s has %d dimensions; a picture has at least 2", field->name,
                      field->shape.ndim);
}

/* Element (y, x) of the result is the nearest one to its place before the turn around the middle; 0 outside. */
static void turn(const haul_value *value, double degrees, uint8_t *out)
{
    const haul_shape *s = &value->shape;
    const int64_t     height = s->dims[s->ndim - 2], width = s->dims[s->ndim - 1];
    const size_t      element = haul__dtype_size(value->dtype), plane = (size_t)(height * width) * element;
    const double      angle = degrees * (3.14159265358979323846 / 180), c = cos(angle), d = sin(angle);
    const double      middle_y = (double)(height - 1) / 2, middle_x = (double)(width - 1) / 2;
    int64_t           planes = 1;
    for (int i = 0; i < s->ndim - 2; i++)
        planes *= s->dims[i];
    HAUL__ASSERT(s->ndim >= 2 && out != value->data);
    memset(out, 0, (size_t)planes * plane);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            const double   dy = (double)y - middle_y, dx = (double)x - middle_x;
            const double   from_x = rint(c * dx - d * dy + middle_x), from_y = rint(d * dx + c * dy + middle_y);
            const uint8_t *in = value->data;
            if (!(from_x >= 0 && from_x < (double)width && from_y >= 0 && from_y < (double)height))
                continue;
            const size_t to = (size_t)(y * width + x) * element;
            const size_t from = (size_t)((int64_t)from_y * width + (int64_t)from_x) * element;
            for (int64_t p = 0; p < planes; p++)
                memcpy(out + (size_t)p * plane + to, in + (size_t)p * plane + from, element);
        }
}

static haul_status apply_rotation(void *context, haul_example *e)
{
    const rotation *r = context;
    const char     *names = r->named.names;
    const double    degrees = (2 * haul_draw_unit(&e->draws) - 1) * r->degrees;
    for (int f; (f = haul__named_next(&names, e)) >= 0;) {
        const haul_value before = e->fields[f];
        uint8_t         *out = haul_example_resize(e, f, before.dtype, before.shape);
        if (!out)
            return haul_error_status();
        turn(&before, degrees, out);
    }
    return HAUL_OK;
}

haul_transform *haul_random_rotation(const char *fields, double degrees)
{
    if (!(degrees >= 0 && degrees <= 180)) {
        haul__fail(HAUL_INVALID_ARGUMENT, ROTATE, "degrees", "degrees is %g; a number from 0 to 180 is expected",
                   degrees);
        return NULL;
    }
    rotation *r = haul__named_new(sizeof *r, fields, plan_rotation, ROTATE);
    if (!r)
        return NULL;
    r->degrees = degrees;
    return haul__named_transform(r, apply_rotation);
}

/* ---- colours ---- */

typedef struct colours {
    haul__named named;
    double      amount;
} colours;

static haul_status plan_colours(const void *context, haul_field *field)
{
    const haul_shape *s = &field->shape;
    (void)context;
    if (field->dtype != HAUL_U8)
        return haul__fail(HAUL_DTYPE, COLOUR, "fields", "%s is %s; pictures of u8 are expected", field->name,
                          haul_dtype_name(field->dtype));
    if (s->ndim != 3 || (s->dims[0] != 1 && s->dims[0] != 3))
        return haul__fail(HAUL_SHAPE, COLOUR, "fields", "%s is not a picture [3, height, width] or [1, height, width]",
                          field->name);
    return HAUL_OK;
}

/* Cut to the range of u8, and truncated. */
static uint8_t to_u8(float value)
{
    return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
}

static float grey_of(const uint8_t *x, int64_t plane)
{
    return 0.2989F * (float)x[0] + 0.587F * (float)x[plane] + 0.114F * (float)x[2 * plane];
}

/* The mean grey of a picture; the grey of an element is truncated. */
static float mean_grey(const uint8_t *x, int64_t channels, int64_t plane)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < plane; i++)
        sum += channels == 3 ? to_u8(grey_of(x + i, plane)) : x[i];
    return plane ? (float)((double)sum / (double)plane) : 0;
}

/* factor x + (1 - factor) z for all elements. */
static void blend(uint8_t *x, int64_t count, float factor, float z)
{
    uint8_t table[256];
    for (int v = 0; v < 256; v++)
        table[v] = to_u8(factor * (float)v + (1 - factor) * z);
    for (int64_t i = 0; i < count; i++)
        x[i] = table[x[i]];
}

static void saturate(uint8_t *x, int64_t plane, float factor)
{
    for (int64_t i = 0; i < plane; i++, x++) {
        const float rest = (1 - factor) * (float)to_u8(grey_of(x, plane));
        for (int c = 0; c < 3; c++)
            x[c * plane] = to_u8(factor * (float)x[c * plane] + rest);
    }
}

static float draw_factor(haul_draws *draws, double amount)
{
    return (float)(1 + (2 * haul_draw_unit(draws) - 1) * amount);
}

static haul_status apply_colours(void *context, haul_example *e)
{
    const colours *c = context;
    const char    *names = c->named.names;
    const float    brightness = draw_factor(&e->draws, c->amount), contrast = draw_factor(&e->draws, c->amount);
    const float    saturation = draw_factor(&e->draws, c->amount);
    for (int f; (f = haul__named_next(&names, e)) >= 0;) {
        const haul_shape *s = &e->fields[f].shape;
        const int64_t     channels = s->dims[0], plane = s->dims[1] * s->dims[2];
        uint8_t          *x = e->fields[f].data;
        HAUL__ASSERT(s->ndim == 3 && (channels == 1 || channels == 3) && e->fields[f].dtype == HAUL_U8);
        blend(x, channels * plane, brightness, 0);
        blend(x, channels * plane, contrast, mean_grey(x, channels, plane));
        if (channels == 3)
            saturate(x, plane, saturation);
    }
    return HAUL_OK;
}

haul_transform *haul_random_colour(const char *fields, double amount)
{
    if (!(amount >= 0 && amount <= 1)) {
        haul__fail(HAUL_INVALID_ARGUMENT, COLOUR, "amount", "amount is %g; a number from 0 to 1 is expected", amount);
        return NULL;
    }
    colours *c = haul__named_new(sizeof *c, fields, plan_colours, COLOUR);
    if (!c)
        return NULL;
    c->amount = amount;
    return haul__named_transform(c, apply_colours);
}
