/* Drawn pictures: one of ten figures, anywhere, of any size, in two colours, lighter or darker than what surrounds it,
 * under noise. No pixel by itself determines the class, so that a linear model learns next to nothing. The class is in
 * the local form, which convolutions find. Only sums and products are used, so that all machines draw the same. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "data/synthetic/synthetic.h"

#define NEW    "haul_shapes"
#define SIDE   32
#define PIXELS (SIDE * SIDE)
#define NOISE  32 /* values noise can have */

/* ---- figures: true if (u, v) is inside. The square from -1 to 1 is the figure's own; v points down ---- */

static bool disc(float u, float v)
{
    return u * u + v * v <= 1;
}

static bool square(float u, float v)
{
    return fabsf(u) <= 0.85f && fabsf(v) <= 0.85f;
}

static bool triangle(float u, float v)
{
    return v <= 0.8f && fabsf(u) <= 0.56f * (v + 1);
}

static bool cross(float u, float v)
{
    return (fabsf(u) <= 0.27f && fabsf(v) <= 1) || (fabsf(v) <= 0.27f && fabsf(u) <= 1);
}

static bool ring(float u, float v)
{
    float square_of_radius = u * u + v * v;
    return square_of_radius <= 1 && square_of_radius >= 0.4f;
}

static bool diamond(float u, float v)
{
    return fabsf(u) + fabsf(v) <= 1 && fabsf(u) + fabsf(v) >= 0.5f;
}

/* A pentagram: inside at least four of the five half-planes whose borders are its lines. */
static bool star(float u, float v)
{
    static const float normals[5][2] = {
        {0, 1},
        {0.95105652f, 0.30901699f},
        {0.58778525f, -0.80901699f},
        {-0.58778525f, -0.80901699f},
        {-0.95105652f, 0.30901699f},
    };
    int inside = 0;
    for (int i = 0; i < 5; i++)
        inside += normals[i][0] * u + normals[i][1] * v <= 0.35f;
    return inside >= 4;
}

/* Bands of a quarter of the figure's width. */
static bool band(float t)
{
    return ((int)((t + 1) * 2.5f) & 1) == 0;
}

static bool horizontal(float u, float v)
{
    return disc(u, v) && band(v);
}

static bool vertical(float u, float v)
{
    return disc(u, v) && band(u);
}

static bool checks(float u, float v)
{
    return fabsf(u) <= 0.95f && fabsf(v) <= 0.95f && band(u) == band(v);
}

static const struct {
    const char *name;
    bool (*inside)(float u, float v);
} figures[] = {
    {"disc", disc},       {"square", square}, {"triangle", triangle},     {"cross", cross},       {"ring", ring},
    {"diamond", diamond}, {"star", star},     {"horizontal", horizontal}, {"vertical", vertical}, {"checks", checks},
};
#define CLASSES 10

/* ---- a picture ---- */

/* Two colours that differ in lightness by `contrast`, each with a tint of its own; noise leaves them within a byte. */
static void draw_colours(haul_draws *d, uint8_t colours[2][3])
{
    int contrast = haul__draw_between(d, 80, 150), middle = haul__draw_between(d, 110, 145),
        sign = haul__draw_between(d, 0, 1) ? 1 : -1;
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++)
            colours[k][c] =
                (uint8_t)(middle + (k ? sign : -sign) * contrast / 2 + haul__draw_between(d, -18, 18) - NOISE / 2);
}

/* 255 where the figure is. Sizes and places are in sixteenths of a pixel. */
static void draw_mask(haul_draws *d, bool (*inside)(float u, float v), uint8_t mask[PIXELS])
{
    int   size = haul__draw_between(d, 8 * 16, 14 * 16), middle = (SIDE - 1) * 8, room = middle - size;
    int   at[2] = {middle + haul__draw_between(d, -room, room), middle + haul__draw_between(d, -room, room)};
    float scale = 1.0f / (float)size;
    HAUL__ASSERT(room >= 0 && at[0] >= size && at[0] + size <= 16 * (SIDE - 1));
    HAUL__ASSERT(at[1] >= size && at[1] + size <= 16 * (SIDE - 1));
    memset(mask, 0, PIXELS);
    for (int y = (at[1] - size + 15) / 16; 16 * y <= at[1] + size; y++)
        for (int x = (at[0] - size + 15) / 16; 16 * x <= at[0] + size; x++)
            if (inside((float)(16 * x - at[0]) * scale, (float)(16 * y - at[1]) * scale))
                mask[y * SIDE + x] = 255;
}

/* `plane` holds random bytes, which become noise. */
static void paint(const uint8_t *restrict mask, uint8_t outside, uint8_t inside, uint8_t *restrict plane)
{
    uint8_t difference = inside ^ outside;
    for (int i = 0; i < PIXELS; i++)
        plane[i] = (uint8_t)((outside ^ (mask[i] & difference)) + plane[i] % NOISE);
}

static haul_status read_shape(void *context, haul_example *e)
{
    haul_draws d = haul__synthetic_draws(context, e);
    uint8_t    mask[PIXELS], colours[2][3], *picture = e->fields[0].data;
    int64_t    label = (int64_t)haul_draw_below(&d, CLASSES);
    memcpy(e->fields[1].data, &label, sizeof label);
    draw_colours(&d, colours);
    draw_mask(&d, figures[label].inside, mask);
    haul__draw_bytes(&d, picture, 3 * PIXELS);
    for (int c = 0; c < 3; c++)
        paint(mask, colours[0][c], colours[1][c], picture + c * PIXELS);
    return HAUL_OK;
}

haul_dataset *haul_shapes_with(const haul_synthetic_options *options)
{
    const char *names[CLASSES];
    for (int i = 0; i < CLASSES; i++)
        names[i] = figures[i].name;
    const haul_dataset_source source = {
        .fields =
            {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(3, SIDE, SIDE)},
             {.name = "y", .dtype = HAUL_I64, .shape = HAUL_SCALAR_SHAPE, .classes = CLASSES, .class_names = names}},
        .name = "shapes",
        .read = read_shape,
    };
    return haul__synthetic_make(options, HAUL__FOR_SHAPES, &source, NEW);
}
