/* Reading PNG by libpng. */
#include "haul_config.h"

#include "data/image/image.h"

#ifdef HAUL_HAVE_PNG
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "data/image/png_guard.h"

typedef struct state {
    png_struct  *png;
    png_info    *info;
    haul__image *image;
    size_t       at;      /* bytes of the file taken */
    uint8_t     *stored;  /* pixels as in the file, if rows cannot be handed over as they come */
    uint8_t     *pixels;  /* of a picture that is not upright */
    uint8_t     *numbers; /* where the stored numbers go in place of pixels; or NULL */
    png_guard    guard;
} state;

static void take(png_struct *png, png_byte *out, size_t bytes)
{
    state *s = png_get_io_ptr(png);
    HAUL__ASSERT(s->at <= s->image->size);
    if (bytes > s->image->size - s->at)
        png_error(png, "it ends too early");
    memcpy(out, s->image->data + s->at, bytes);
    s->at += bytes;
}

/* Converts any file to pixels. Returns the number of passes over the picture. */
static int ask_for_pixels(state *s)
{
    png_set_expand(s->png);
    png_set_strip_16(s->png);
    png_set_gray_to_rgb(s->png);
    png_set_strip_alpha(s->png);
    png_set_filler(s->png, 0xff, PNG_FILLER_AFTER);
    int passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    return passes;
}

/* Only metadata before the pixels is read, which is where writers put it. */
static int orientation_of(state *s)
{
    int orientation = 1;
#ifdef PNG_eXIf_SUPPORTED
    png_uint_32 size;
    png_byte   *exif;
    if (png_get_eXIf_1(s->png, s->info, &size, &exif))
        orientation = haul__exif_orientation(exif, size);
#endif
    return orientation;
}

static haul_status read_rows(state *s, const haul__image *image, const haul__image_rows *rows)
{
    for (int64_t y = 0; y < image->height; y++) {
        png_read_row(s->png, rows->row, NULL);
        rows->take(rows->context, rows->row);
    }
    png_read_end(s->png, NULL);
    return HAUL_OK;
}

/* The rows of all passes, `pitch` bytes apart. */
static void read_passes(state *s, int passes, int64_t height, uint8_t *out, size_t pitch)
{
    HAUL__ASSERT(passes > 0 && height > 0);
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < height; y++)
            png_read_row(s->png, out + (size_t)y * pitch, NULL);
    png_read_end(s->png, NULL);
}

/* Interlaced pictures, whose rows are completed in several passes, and those that are not upright. */
static haul_status read_whole(state *s, const haul__image *image, int passes, const haul__image_rows *rows)
{
    const int64_t height = haul__image_stored_height(image);
    const size_t  row = HAUL__PIXEL * (size_t)haul__image_stored_width(image);
    const bool    upright = haul__image_is_upright(image);
    if (!(s->stored = haul__image_new_pixels(image)) || (!upright && !(s->pixels = haul__image_new_pixels(image))))
        return haul__image_no_memory(image, (size_t)height * row);
    HAUL__ASSERT(height * haul__image_stored_width(image) == image->height * image->width);
    read_passes(s, passes, height, s->stored, row);
    for (int64_t y = 0; y < height && !upright; y++)
        haul__image_put_row(image, s->stored + (size_t)y * row, y, s->pixels);
    haul__image_hand_over(image, upright ? s->stored : s->pixels, rows);
    return HAUL_OK;
}

/* A byte for each pixel, as it is stored: a grey value or an index into the palette. */
static haul_status read_numbers(state *s, const haul__image *image)
{
    HAUL__ASSERT(s->numbers);
    const int kind = png_get_color_type(s->png, s->info);
    if ((kind != PNG_COLOR_TYPE_GRAY && kind != PNG_COLOR_TYPE_PALETTE) || png_get_bit_depth(s->png, s->info) > 8)
        return haul__fail(
            HAUL_FORMAT, image->operation, image->argument,
            "%s is no mask: its pixels have %s; a number of at most 8 bits is expected for each pixel, as "
            "a grey value or as an index into a palette",
            image->path,
            kind & PNG_COLOR_MASK_COLOR   ? "colours"
            : kind & PNG_COLOR_MASK_ALPHA ? "transparency"
                                          : "16 bits");
    png_set_packing(s->png);
    const int passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    read_passes(s, passes, image->height, s->numbers, (size_t)image->width);
    return HAUL_OK;
}

/* Errors leave by a jump, so everything that must be freed afterwards is in the state. */
static haul_status read(state *s, haul__image *image, const haul__image_rows *rows)
{
    png_set_read_fn(s->png, s, take);
    png_set_user_limits(s->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* this file's own errors follow, with their own
                                                                    * message */
    png_set_chunk_malloc_max(s->png, 1 << 22);
    png_set_chunk_cache_max(s->png, 64);
    png_read_info(s->png, s->info);
    haul_status status =
        haul__image_set_size(image, png_get_image_height(s->png, s->info), png_get_image_width(s->png, s->info),
                             orientation_of(s), rows || s->numbers);
    if (!status && s->numbers)
        return read_numbers(s, image);
    if (status || !rows)
        return status;
    const int passes = ask_for_pixels(s);
    if (png_get_rowbytes(s->png, s->info) != HAUL__PIXEL * (size_t)haul__image_stored_width(image))
        return haul__image_unsound(image, "it cannot be made 8-bit RGB");
    return passes == 1 && haul__image_is_upright(image) ? read_rows(s, image, rows)
                                                        : read_whole(s, image, passes, rows);
}

/* The state belongs to the caller, because local variables of the function that calls setjmp are unreliable after a
 * jump. */
static haul_status guarded(state *s, haul__image *image, const haul__image_rows *rows)
{
    if (setjmp(png_jmpbuf(s->png)) != 0)
        return s->guard.exhausted ? haul__image_no_memory(image, 0) : haul__image_unsound(image, s->guard.message);
    return read(s, image, rows);
}

static haul_status read_file(haul__image *image, const haul__image_rows *rows, uint8_t *numbers)
{
    HAUL__ASSERT(!rows || !numbers);
    state s = {.image = image, .numbers = numbers};
    s.png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s.guard, give_up, say_nothing, &s.guard, allocate, release);
    s.info = s.png ? png_create_info_struct(s.png) : NULL;
    haul_status status = s.info ? guarded(&s, image, rows) : haul__image_no_memory(image, sizeof s);
    png_destroy_read_struct(&s.png, &s.info, NULL);
    haul__free(s.stored);
    haul__free(s.pixels);
    return status;
}

haul_status haul__read_png(haul__image *image, const haul__image_rows *rows)
{
    return read_file(image, rows, NULL);
}

haul_status haul__read_png_numbers(const haul__image *image, uint8_t *out)
{
    haul__image copy = *image;
    return read_file(&copy, NULL, out);
}

#else
#include "core/error.h"

static haul_status missing(const haul__image *image)
{
    return haul__fail(HAUL_UNSUPPORTED, image->operation, image->argument,
                      "%s is a PNG file, which this build of Haul cannot read: libpng was missing when it was built",
                      image->path);
}

haul_status haul__read_png(haul__image *image, const haul__image_rows *rows)
{
    (void)rows;
    return missing(image);
}

haul_status haul__read_png_numbers(const haul__image *image, uint8_t *out)
{
    (void)out;
    return missing(image);
}
#endif
