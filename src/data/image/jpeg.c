/* JPEG by libjpeg-turbo. Its errors jump back to this file and become messages; nothing is printed, nothing exits. */
#include "haul_config.h"

#include "data/image/image.h"

#ifdef HAUL_HAVE_JPEG
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "data/image/jpeg_ycc.h"

/* A progressive file may require many passes over its pixels. */
#define MAX_SCANS 200
/* For coefficients of progressive files. */
#define MAX_MEMORY (1l << 29)

#define EXIF_MARKER    (JPEG_APP0 + 1)
#define MARKER_MAXIMUM 0xffff

typedef struct state {
    struct jpeg_decompress_struct jpeg; /* first: the library hands it back */
    struct jpeg_error_mgr         errors;
    struct jpeg_progress_mgr      progress;
    jmp_buf                       back;
    char                          message[JMSG_LENGTH_MAX];
    bool                          exhausted; /* memory */
    uint8_t                      *pixels;    /* of a picture that is not upright */
} state;

static void give_up(j_common_ptr jpeg)
{
    state *s = (state *)jpeg;
    s->exhausted = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
    s->errors.format_message(jpeg, s->message);
    longjmp(s->back, 1);
}

/* Warnings that mean missing or invented pixels are errors; traces are ignored. */
static void judge(j_common_ptr jpeg, int level)
{
    int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF || code == JWRN_HUFF_BAD_CODE))
        give_up(jpeg);
}

static void say_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void watch(j_common_ptr jpeg)
{
    state *s = (state *)jpeg;
    if (s->jpeg.input_scan_number <= MAX_SCANS)
        return;
    snprintf(s->message, sizeof s->message, "it has more than %d scans", MAX_SCANS);
    longjmp(s->back, 1);
}

/* Converts four inks to pixels, in place. Files with Adobe's marker store 255 for no ink, others for full
 * ink. */
static void mix_inks(uint8_t *row, int64_t width, bool inverted)
{
    for (int64_t x = 0; x < width; x++) {
        const uint8_t *inks = row + 4 * x;
        uint8_t        left[4]; /* the light that each ink lets through */
        for (int c = 0; c < 4; c++)
            left[c] = inverted ? inks[c] : (uint8_t)(255 - inks[c]);
        for (int c = 0; c < 3; c++)
            row[4 * x + c] = (uint8_t)((left[c] * left[3] + 127) / 255);
    }
}

/* Colours as libjpeg can give them: 3 for RGB or 4 for CMYK; 0 for those that it converts to neither. */
static int channels_of(const struct jpeg_decompress_struct *jpeg)
{
    switch (jpeg->jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr: return 3;
    case JCS_CMYK:
    case JCS_YCCK: return 4;
    default: return 0;
    }
}

/* EXIF data is in an APP1 segment that begins with its name. */
static int orientation_of(const struct jpeg_decompress_struct *jpeg)
{
    static const char name[] = "Exif\0"; /* and the zero that ends the literal */
    for (const struct jpeg_marker_struct *m = jpeg->marker_list; m; m = m->next)
        if (m->marker == EXIF_MARKER && m->data_length > sizeof name && memcmp(m->data, name, sizeof name) == 0)
            return haul__exif_orientation(m->data + sizeof name, m->data_length - sizeof name);
    return 1;
}

/* Leaves out the columns that are not used, if they are many. Returns the first column that is decoded. A column
 * depends on its neighbours where colours are stored at half the resolution, so a few more are decoded at both sides.
 */
static int64_t crop(state *s, const haul__image_rows *rows)
{
    enum { MARGIN = 16 };
    const int64_t all = s->jpeg.output_width, first = rows->first < MARGIN ? 0 : rows->first - MARGIN;
    const int64_t last = rows->last + MARGIN < all ? rows->last + MARGIN : all;
    HAUL__ASSERT(s->pixels || (first < last && rows->last <= all));
    JDIMENSION begin = (JDIMENSION)first, width = (JDIMENSION)(last - first);
    if (s->pixels || width > all - all / 8)
        return 0;
    jpeg_crop_scanline(&s->jpeg, &begin, &width);
    return begin;
}

typedef struct delivery {
    const state            *state;
    const haul__image      *image;
    const haul__image_rows *rows;
    uint8_t                *row;
} delivery;

/* Rows are handed over as they come, but those of a picture that is not upright are collected. */
static void deliver(void *context, int64_t y)
{
    const delivery *d = context;
    if (d->state->pixels)
        haul__image_put_row(d->image, d->row, y, d->state->pixels);
    else
        d->rows->take(d->rows->context, d->row);
}

static void read_rows(state *s, bool inks, delivery *d)
{
    const int64_t height = haul__image_stored_height(d->image), first = crop(s, d->rows);
    /* One pixel off the alignment: libjpeg-turbo writes aligned rows past the caches, to memory. */
    HAUL__ASSERT(0 <= first && first + (int64_t)s->jpeg.output_width <= haul__image_stored_width(d->image));
    d->row = d->rows->row + HAUL__PIXEL;
    for (int64_t y = 0; y < height; y++) {
        JSAMPROW row = d->row + HAUL__PIXEL * first;
        jpeg_read_scanlines(&s->jpeg, &row, 1);
        if (inks)
            mix_inks(row, s->jpeg.output_width, s->jpeg.saw_Adobe_marker);
        deliver(d, y);
    }
}

/* True if so few columns are used that the library, which can leave out the others, is faster. */
static bool is_mostly_cropped(const state *s, const haul__image_rows *rows)
{
    return !s->pixels && rows->last - rows->first < (int64_t)s->jpeg.image_width / 2;
}

static void deliver_lines(void *context, int64_t y)
{
    const delivery *d = context;
    (void)y;
    d->rows->take_lines(d->rows->context);
}

static void read_ycc(state *s, haul__jpeg_ycc *ycc, delivery *d)
{
    uint8_t      *whole = s->pixels ? NULL : d->rows->planes, *lines = s->pixels ? NULL : d->rows->lines;
    uint8_t      *planes = whole ? whole : lines;
    const int64_t plane = whole ? d->image->height * d->image->width : d->rows->line;
    ycc->first = s->pixels ? 0 : d->rows->first / 2 * 2;
    ycc->last = s->pixels ? s->jpeg.image_width : d->rows->last;
    ycc->to.pixels = d->row = d->rows->row;
    for (int c = 0; c < 3 && planes; c++)
        ycc->to.planes[c] = planes + c * plane;
    ycc->to.uncached = whole && d->rows->uncached;
    ycc->step = whole ? d->image->width : 0;
    ycc->take = whole ? NULL : lines ? deliver_lines : deliver;
    ycc->context = d;
    HAUL__ASSERT(ycc->first % 2 == 0 && ycc->first < ycc->last && ycc->last <= (int64_t)s->jpeg.image_width);
    haul__jpeg_ycc_read(&s->jpeg, ycc);
}

/* Errors leave by a jump, so everything that must be freed afterwards is in the state. */
static haul_status read(state *s, haul__image *image, const haul__image_rows *rows)
{
    jpeg_mem_src(&s->jpeg, image->data, (unsigned long)(image->size + image->padding));
    jpeg_save_markers(&s->jpeg, EXIF_MARKER, MARKER_MAXIMUM);
    jpeg_read_header(&s->jpeg, TRUE);
    if (!channels_of(&s->jpeg))
        return haul__fail(HAUL_UNSUPPORTED, image->operation, image->argument,
                          "%s has %d colour channels of an unknown kind; convert it to RGB", image->path,
                          s->jpeg.num_components);
    haul_status status = haul__image_set_size(image, (int64_t)s->jpeg.image_height, (int64_t)s->jpeg.image_width,
                                              orientation_of(&s->jpeg), rows != NULL);
    image->can_shrink = true;
    if (status || !rows)
        return status;
    const bool inks = channels_of(&s->jpeg) == 4;
    HAUL__ASSERT(rows->shrink == 1 || rows->shrink == 2 || rows->shrink == 4 || rows->shrink == 8);
    image->height = haul__image_shrunk(image->height, rows->shrink);
    image->width = haul__image_shrunk(image->width, rows->shrink);
    s->jpeg.scale_num = 1;
    s->jpeg.scale_denom = (unsigned)rows->shrink;
    s->jpeg.out_color_space = inks ? JCS_CMYK : JCS_EXT_RGBX;
    s->jpeg.mem->max_memory_to_use = MAX_MEMORY;
    if (!haul__image_is_upright(image) && !(s->pixels = haul__image_new_pixels(image)))
        return haul__image_no_memory(image, (size_t)(HAUL__PIXEL * image->height * image->width));
    haul__jpeg_ycc ycc = {0};
    const bool     is_ycc = !is_mostly_cropped(s, rows) && haul__jpeg_ycc_begin(&s->jpeg, !rows->planes, &ycc);
    if (!ycc.dct)
        jpeg_start_decompress(&s->jpeg);
    if (!ycc.dct && (s->jpeg.output_height != haul__image_stored_height(image) ||
                     s->jpeg.output_width != haul__image_stored_width(image)))
        return haul__image_unsound(image, "it has another size when it is decoded at a smaller scale");
    if (is_ycc)
        read_ycc(s, &ycc, &(delivery){s, image, rows, NULL});
    else
        read_rows(s, inks, &(delivery){s, image, rows, NULL});
    jpeg_finish_decompress(&s->jpeg);
    if (s->jpeg.src->bytes_in_buffer < image->padding)
        return haul__image_unsound(image, "it ends too early");
    if (s->pixels)
        haul__image_hand_over(image, s->pixels, rows);
    return HAUL_OK;
}

/* The state belongs to the caller, because local variables of the function that calls setjmp are unreliable after a
 * jump. */
static haul_status guarded(state *s, haul__image *image, const haul__image_rows *rows)
{
    if (setjmp(s->back) != 0)
        return s->exhausted ? haul__image_no_memory(image, 0) : haul__image_unsound(image, s->message);
    jpeg_create_decompress(&s->jpeg);
    s->jpeg.progress = &s->progress;
    return read(s, image, rows);
}

haul_status haul__read_jpeg(haul__image *image, const haul__image_rows *rows)
{
    state s = {.pixels = NULL};
    s.jpeg.err = jpeg_std_error(&s.errors);
    s.errors.error_exit = give_up;
    s.errors.emit_message = judge;
    s.errors.output_message = say_nothing;
    s.progress.progress_monitor = watch;
    haul_status status = guarded(&s, image, rows);
    jpeg_destroy_decompress(&s.jpeg);
    haul__free(s.pixels);
    return status;
}

#else
#include "core/error.h"

haul_status haul__read_jpeg(haul__image *image, const haul__image_rows *rows)
{
    (void)rows;
    return haul__fail(HAUL_UNSUPPORTED, image->operation, image->argument,
                      "%s is a JPEG file, which this build of Haul cannot read: libjpeg was missing when it was built",
                      image->path);
}
#endif
