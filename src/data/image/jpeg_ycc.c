/* The library fills a band of rows at a time, 8 or 16 of Y. Rows at the border of two bands need Cb and Cr of both, so
 * that two bands are kept. A band of a common picture stays in the nearest cache.
 *
 * Where Haul transforms blocks itself, the library is asked for the coefficients of the whole picture. It puts them
 * where its memory manager says, whose functions for arrays of blocks are replaced: there is memory for one band, and
 * when the library asks for the next one, the band is transformed and its rows are converted. */
#include "base/numbers.h"
#include "haul_config.h"

#ifdef HAUL_HAVE_JPEG
#include "data/image/jpeg_ycc.h"

#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "core/shape.h"

enum { BANDS = 2, ROWS = DCTSIZE };

/* Rows of one component: row r is at r modulo BANDS * count. */
typedef struct component {
    uint8_t *memory;
    int64_t  pitch, count; /* rows of a band, a power of two */
    int64_t  height;       /* rows of the picture */

    /* If Haul transforms blocks: */
    int64_t   blocks;  /* of a row, filled up to groups */
    JBLOCKROW rows[2]; /* of a band, one after the other */
    size_t    bytes;   /* of these */
} component;

typedef struct bands {
    haul__jpeg_ycc *ycc;
    component       y, chroma[2];
    int64_t         bands, number; /* of the picture; the one that is being filled */
    int64_t         done;          /* rows that were converted */
    int             requested;     /* components for which the library asked for memory */
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

/* Where nothing else uses vectors of 512 bits, pictures are read faster without them, by 2 in 100 (Intel Xeon with
 * AVX512-BF16); with resizing, slower by 5. */
static haul__cpu_level_id level_for(bool scaled)
{
    const haul__cpu_level_id chosen = haul__cpu_chosen_level();
    return chosen == HAUL__CPU_V4 && !scaled ? HAUL__CPU_V3 : chosen;
}

bool haul__jpeg_ycc_begin(struct jpeg_decompress_struct *jpeg, bool scaled, haul__jpeg_ycc *ycc)
{
    enum { NARROW = 2 * ROWS }; /* the library does not interpolate very narrow pictures */
    ycc->kind = kind_of(jpeg);
    ycc->loops = haul__ycc_loops_of(level_for(scaled));
    if (!ycc->loops || ycc->kind == HAUL__YCC_KINDS || jpeg->scale_num != jpeg->scale_denom ||
        jpeg->image_width < NARROW)
        return false;
    jpeg->out_color_space = JCS_RGB;
    jpeg->raw_data_out = TRUE;
    /* One scan has all coefficients of a band, as far as it is sound. */
    if (!jpeg->progressive_mode && !jpeg->arith_code && jpeg->comps_in_scan == jpeg->num_components &&
        jpeg->dct_method == JDCT_ISLOW)
        ycc->dct = haul__dct_of(level_for(scaled));
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
    return (component){
        .memory = memory_of(jpeg, BANDS * count * pitch), .pitch = pitch, .count = count, .height = height};
}

static bands bands_of(struct jpeg_decompress_struct *jpeg, haul__jpeg_ycc *ycc)
{
    const int across = ycc->kind == HAUL__YCC_FULL ? 1 : 2, down = ycc->kind == HAUL__YCC_QUARTER ? 2 : 1;
    bands     b = {.ycc = ycc, .width = jpeg->image_width, .height = jpeg->image_height};
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
    b.bands = haul__ceil_div(b.height, b.y.count);
    HAUL__ASSERT(b.bands > 0 && b.halves > 0);
    return b;
}

/* ---- rows ---- */

/* A row, or the nearest one that the picture has. */
static const uint8_t *row_of(const component *c, int64_t row)
{
    const int64_t inside = row < 0 ? 0 : row < c->height ? row : c->height - 1;
    HAUL__ASSERT(c->height > 0 && (c->count & (c->count - 1)) == 0);
    return c->memory + (inside & (BANDS * c->count - 1)) * c->pitch;
}

static void convert_row(bands *b, int64_t y)
{
    HAUL__ASSERT(0 <= y && y < b->height);
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

/* The rows of the first `count` bands, but the last row of a band may need the next one. */
static void convert_rows(bands *b, int64_t count)
{
    const int64_t waiting = b->ycc->kind == HAUL__YCC_QUARTER, all = count * b->y.count;
    HAUL__ASSERT(count <= b->bands);
    while (b->done < b->height && (count == b->bands || b->done < all - waiting))
        convert_row(b, b->done++);
}

static component *component_at(bands *b, int i)
{
    HAUL__ASSERT(0 <= i && i < 3);
    return i ? &b->chroma[i - 1] : &b->y;
}

static uint8_t *memory_of_band(const component *c, int64_t number)
{
    return c->memory + number % BANDS * c->count * c->pitch;
}

/* ---- rows by the library ---- */

static void read_band(struct jpeg_decompress_struct *jpeg, bands *b, int64_t number)
{
    JSAMPROW   y[2 * ROWS], cb[ROWS], cr[ROWS];
    JSAMPARRAY all[] = {y, cb, cr};
    for (int i = 0; i < 3; i++)
        for (int64_t r = 0; r < component_at(b, i)->count; r++)
            all[i][r] = memory_of_band(component_at(b, i), number) + r * component_at(b, i)->pitch;
    HAUL__ASSERT(number < b->bands && b->y.count <= 2 * ROWS);
    jpeg_read_raw_data(jpeg, all, (JDIMENSION)b->y.count);
}

/* ---- rows from coefficients ---- */

/* Rows of blocks of a component, for the bands one after the other. The components come in order. */
static jvirt_barray_ptr request_blocks(j_common_ptr jpeg, int pool, boolean zeroed, JDIMENSION blocks, JDIMENSION all,
                                       JDIMENSION rows)
{
    bands *b = jpeg->client_data;
    HAUL__ASSERT(b->requested < 3);
    component *c = component_at(b, b->requested++);
    (void)zeroed, (void)all;
    c->blocks = haul__ceil_div(blocks, HAUL__DCT_GROUP) * HAUL__DCT_GROUP;
    c->bytes = rows * (size_t)c->blocks * sizeof(JBLOCK);
    c->rows[0] = jpeg->mem->alloc_large(jpeg, pool, c->bytes);
    c->rows[1] = c->rows[0] + (rows > 1 ? c->blocks : 0);
    HAUL__ASSERT(rows * ROWS == c->count && c->blocks * ROWS <= c->pitch);
    return (jvirt_barray_ptr)(void *)c;
}

/* Transforms the band that the library has filled. */
static void transform_band(const struct jpeg_decompress_struct *jpeg, bands *b)
{
    HAUL__ASSERT(b->number < b->bands && b->requested == 3);
    for (int i = 0; i < 3; i++) {
        const component *c = component_at(b, i);
        for (int64_t r = 0; r < c->count / ROWS; r++)
            b->ycc->dct(c->rows[r][0], jpeg->comp_info[i].quant_table->quantval, c->blocks,
                        memory_of_band(c, b->number) + r * ROWS * c->pitch, c->pitch);
    }
    convert_rows(b, ++b->number);
}

/* Where the library puts the blocks of a component in the band that begins with row `row`: zeros. */
static JBLOCKARRAY access_blocks(j_common_ptr jpeg, jvirt_barray_ptr array, JDIMENSION row, JDIMENSION rows,
                                 boolean writable)
{
    bands     *b = jpeg->client_data;
    component *c = (component *)(void *)array;
    (void)writable;
    if (row / rows != b->number)
        transform_band((struct jpeg_decompress_struct *)jpeg, b);
    HAUL__ASSERT(row / rows == b->number && rows * ROWS == c->count);
    memset(c->rows[0], 0, c->bytes);
    return c->rows;
}

static void read_coefficients(struct jpeg_decompress_struct *jpeg, bands *b)
{
    jpeg->client_data = b;
    jpeg->mem->request_virt_barray = request_blocks;
    jpeg->mem->access_virt_barray = access_blocks;
    jpeg_read_coefficients(jpeg);
    transform_band(jpeg, b);
}

void haul__jpeg_ycc_read(struct jpeg_decompress_struct *jpeg, haul__jpeg_ycc *ycc)
{
    bands b = bands_of(jpeg, ycc);
    if (ycc->dct)
        read_coefficients(jpeg, &b);
    for (; b.number < b.bands; convert_rows(&b, ++b.number))
        read_band(jpeg, &b, b.number);
    HAUL__ASSERT(b.done == b.height); /* each row was converted once */
    if (ycc->to.uncached)
        atomic_thread_fence(memory_order_seq_cst);
}
#endif
