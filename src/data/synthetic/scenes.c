/* Drawn pictures with the class of each pixel: a disc and a square, in colours of their own, in noise. Only integers
 * are used, so that all machines draw the same. */
#include <stdlib.h>

#include "base/assert.h"
#include "data/synthetic/synthetic.h"

#define NEW     "haul_scenes"
#define SIDE    32
#define PIXELS  (SIDE * SIDE)
#define NOISE   24 /* values noise can have */
#define LEAST   4  /* half of a figure's size, in pixels: */
#define LARGEST 7

enum { BACKGROUND, DISC, SQUARE, CLASSES };
static const char *const class_names[CLASSES] = {[BACKGROUND] = "background", [DISC] = "disc", [SQUARE] = "square"};

typedef struct figure {
    int x, y, reach;
} figure;

static figure draw_figure(haul_draws *d)
{
    const int reach = haul__draw_between(d, LEAST, LARGEST);
    HAUL__ASSERT(2 * reach < SIDE);
    return (figure){.x = haul__draw_between(d, reach, SIDE - 1 - reach),
                    .y = haul__draw_between(d, reach, SIDE - 1 - reach),
                    .reach = reach};
}

static int class_of(const figure *disc, const figure *square, int x, int y)
{
    const int dx = x - disc->x, dy = y - disc->y;
    if (abs(x - square->x) <= square->reach && abs(y - square->y) <= square->reach)
        return SQUARE;
    return dx * dx + dy * dy <= disc->reach * disc->reach ? DISC : BACKGROUND;
}

/* Dark behind light figures, or light behind dark ones; each channel by itself. */
static void draw_colours(haul_draws *d, uint8_t colours[CLASSES][3])
{
    const int light = haul__draw_between(d, 0, 1);
    for (int k = 0; k < CLASSES; k++)
        for (int c = 0; c < 3; c++)
            colours[k][c] =
                (uint8_t)((k == BACKGROUND) == light ? haul__draw_between(d, 10, 90) : haul__draw_between(d, 130, 230));
}

static haul_status read_scene(void *context, haul_example *e)
{
    haul_draws   d = haul__synthetic_draws(context, e);
    uint8_t      colours[CLASSES][3], *picture = e->fields[0].data;
    int64_t     *mask = e->fields[1].data;
    const figure disc = draw_figure(&d), square = draw_figure(&d);
    draw_colours(&d, colours);
    haul__draw_bytes(&d, picture, 3 * PIXELS);
    for (int i = 0; i < PIXELS; i++) {
        const int class = class_of(&disc, &square, i % SIDE, i / SIDE);
        mask[i] = class;
        for (int c = 0; c < 3; c++)
            picture[c * PIXELS + i] = (uint8_t)(colours[class][c] + picture[c * PIXELS + i] % NOISE);
    }
    return HAUL_OK;
}

haul_dataset *haul_scenes_with(const haul_synthetic_options *options)
{
    const haul_dataset_source source = {
        .fields = {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(3, SIDE, SIDE)},
                   {.name = "y",
                    .dtype = HAUL_I64,
                    .shape = HAUL_SHAPE(SIDE, SIDE),
                    .classes = CLASSES,
                    .class_names = class_names}},
        .name = "scenes",
        .read = read_scene,
    };
    return haul__synthetic_make(options, HAUL__FOR_SCENES, &source, NEW);
}
