/* The library fills a band of rows at a time, 8 or 16 of Y. Rows at the border of two bands need Cb and Cr of both, so
 * that two bands are kept. A band of a common picture stays in the nearest cache. */
#include "haul_config.h"

#ifdef HAUL_HAVE_JPEG
#include "data/image_jpeg_ycc.h"

#include <string.h>

#include "core/shape.h"

enum { BANDS = 2, ROWS = DCTSIZE };

/* Rows of one component: row r is at r modulo BANDS * count. */
typedef struct component {
    uint8_t *memory;
    int64_t  pitch, count; /* rows of a band, a power of two */
    int64_t  height;       /* rows of the picture */
} component;

typedef struct bands {
    haul__jpeg_ycc *ycc;
    component       y, chroma[2];
    int16_t        *sums[2];
    int64_t         width, height; /* of the picture */
    int64_t         halves;        /* columns of Cb and Cr */
} bands;

/* ---- which pictures ---- */

static bool has_factors(const jpeg_component_info *c, int across, int down)
{
    return c->h_samp_factor == across && c->v_samp_factor == down;
}

/* The kind of the picture's Cb and Cr; HAUL__YCC_KINDS for all others. */
static haul__ycc_kind kind_of(const struct jpeg_decompress_struct *jpeg)
{
    const jpeg_component_info *c = jpeg->comp_info;
    if (jpeg->jpeg_color_space != JCS_YCbCr || jpeg->num_components != 3 || !has_factors(&c[1], 1, 1) ||
        !has_factors(&c[2], 1, 1))
        return HAUL__YCC_KINDS;
    return has_factors(c, 1, 1)   ? HAUL__YCC_FULL
           : has_factors(c, 2, 1) ? HAUL__YCC_HALF
           : has_factors(c, 2, 2) ? HAUL__YCC_QUARTER
                                  : HAUL__YCC_KINDS;
}

bool haul__jpeg_ycc_begin(struct jpeg_decompress_struct *jpeg, haul__jpeg_ycc *ycc)
{
    enum { NARROW = 2 * ROWS }; /* the library does not interpolate very narrow pictures */
    ycc->kind = kind_of(jpeg);
    ycc->loops = haul__ycc_loops_of(haul__cpu_chosen_level());
    if (!ycc->loops || ycc->kind == HAUL__YCC_KINDS || jpeg->scale_num != jpeg->scale_denom ||
        jpeg->image_width < NARROW)
        return false;
    jpeg->out_color_space = JCS_RGB;
    jpeg->raw_data_out = TRUE;
    return true;
}

/* ---- memory ---- */

/* Memory that the library frees with the picture. */
static void *memory_of(struct jpeg_decompress_struct *jpeg, int64_t bytes)
{
    return jpeg->mem->alloc_large((j_common_ptr)jpeg, JPOOL_IMAGE, (size_t)bytes);
}

/* Sides have at most HAUL__IMAGE_MAX_SIDE pixels, so that sizes do not overflow. */
static component component_of(struct jpeg_decompress_struct *jpeg, int64_t width, int64_t height, int64_t count)
{
    const int64_t pitch = (haul__ceil_div(width, 2 * DCTSIZE) * 2 * DCTSIZE) + HAUL__YCC_PADDING;
    return (component){memory_of(jpeg, BANDS * count * pitch), pitch, count, height};
}

static bands bands_of(struct jpeg_decompress_struct *jpeg, haul__jpeg_ycc *ycc)
{
    const int across = ycc->kind == HAUL__YCC_FULL ? 1 : 2, down = ycc->kind == HAUL__YCC_QUARTER ? 2 : 1;
    bands     b = {.ycc = ycc, .width = jpeg->output_width, .height = jpeg->output_height};
    b.halves = haul__ceil_div(b.width, across);
    b.y = component_of(jpeg, b.width, b.height, ROWS * down);
    for (int i = 0; i < 2; i++) {
        b.chroma[i] = component_of(jpeg, b.halves, haul__ceil_div(b.height, down), ROWS);
        /* Room before and after the sums, which is read. */
        const int64_t bytes = (b.halves + 2 * HAUL__YCC_PADDING) * (int64_t)sizeof(int16_t);
        b.sums[i] = (int16_t *)memory_of(jpeg, bytes);
        memset(b.sums[i], 0, (size_t)bytes);
        b.sums[i] += HAUL__YCC_PADDING / 2;
    }
    return b;
}

/* ---- rows ---- */

/* A row, or the nearest one that the picture has. */
static const uint8_t *row_of(const component *c, int64_t row)
{
    const int64_t inside = row < 0 ? 0 : row < c->height ? row : c->height - 1;
    return c->memory + (inside & (BANDS * c->count - 1)) * c->pitch;
}

static void read_band(struct jpeg_decompress_struct *jpeg, bands *b, int64_t number)
{
    JSAMPROW   y[2 * ROWS], cb[ROWS], cr[ROWS];
    JSAMPARRAY all[] = {y, cb, cr};
    component *components[] = {&b->y, &b->chroma[0], &b->chroma[1]};
    for (int i = 0; i < 3; i++)
        for (int64_t r = 0; r < components[i]->count; r++)
            all[i][r] = components[i]->memory + (number % BANDS * components[i]->count + r) * components[i]->pitch;
    jpeg_read_raw_data(jpeg, all, (JDIMENSION)b->y.count);
}

static void convert_row(bands *b, int64_t y)
{
    const haul__jpeg_ycc *ycc = b->ycc;
    haul__ycc             row = {.y = row_of(&b->y, y)};
    haul__ycc_target      to = ycc->to;
    for (int i = 0; i < 2; i++) {
        const component *c = &b->chroma[i];
        row.sums[i] = b->sums[i];
        if (ycc->kind == HAUL__YCC_FULL)
            row.stored[i] = row_of(c, y);
        else if (ycc->kind == HAUL__YCC_HALF)
            ycc->loops->sums(row_of(c, y), NULL, b->halves, b->sums[i]);
        else
            ycc->loops->sums(row_of(c, y / 2), row_of(c, y / 2 + (y % 2 ? 1 : -1)), b->halves, b->sums[i]);
    }
    for (int c = 0; c < 3 && to.planes[c]; c++)
        to.planes[c] += y * ycc->step;
    ycc->loops->convert(ycc->kind, &row, ycc->first, ycc->last, &to);
    if (ycc->take)
        ycc->take(ycc->context, y);
}

void haul__jpeg_ycc_read(struct jpeg_decompress_struct *jpeg, haul__jpeg_ycc *ycc)
{
    bands         b = bands_of(jpeg, ycc);
    const int64_t count = haul__ceil_div(b.height, b.y.count), waiting = ycc->kind == HAUL__YCC_QUARTER;
    for (int64_t band = 0, y = 0; band < count; band++) {
        read_band(jpeg, &b, band);
        /* The last row needs the next band. */
        for (; y < b.height && (band + 1 == count || y < (band + 1) * b.y.count - waiting); y++)
            convert_row(&b, y);
    }
}
#endif
