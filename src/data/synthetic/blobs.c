/* Two Gaussian clouds in ten dimensions, for small dense networks: the best possible accuracy is about 0.99. */
#include <string.h>

#include "data/synthetic/synthetic.h"

#define NEW        "haul_blobs"
#define DIMENSIONS 10

/* Distance of a cloud's centre from the origin along each axis; the deviation is 1. The signs alternate, so that the
 * sum of the values carries no information. */
#define CENTRE 0.75

static haul_status read_row(void *context, haul_example *e)
{
    haul_draws d = haul__synthetic_draws(context, e);
    float      row[DIMENSIONS], label = (float)(haul_draw_bits(&d) & 1);
    for (int i = 0; i < DIMENSIONS; i++) {
        double centre = (label != 0) == (i % 2 == 0) ? CENTRE : -CENTRE;
        row[i] = (float)(centre + haul_draw_normal(&d));
    }
    memcpy(e->fields[0].data, row, sizeof row);
    memcpy(e->fields[1].data, &label, sizeof label);
    return HAUL_OK;
}

haul_dataset *haul_blobs_with(const haul_synthetic_options *options)
{
    const haul_dataset_source source = {
        .fields = {{.name = "x", .dtype = HAUL_F32, .shape = HAUL_SHAPE(DIMENSIONS)},
                   {.name = "y", .dtype = HAUL_F32, .shape = HAUL_SHAPE(1), .classes = 2}},
        .name = "blobs",
        .read = read_row,
    };
    return haul__synthetic_make(options, HAUL__FOR_BLOBS, &source, NEW);
}
