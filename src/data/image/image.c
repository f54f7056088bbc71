/* Chooses the decoder for a picture, and contains what all decoders share: limits, orientation. */
#include "data/image/image.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "formats/file_type.h"

static const char png_magic[] = "\x89PNG\r\n\x1a\n";

static const struct {
    const char         *magic;
    size_t              length;
    haul__image_reader *read;
} formats[] = {
    {"\xff\xd8\xff", 3, haul__read_jpeg},
    {png_magic, sizeof png_magic - 1, haul__read_png},
};

static haul_status read(haul__image *image, const haul__image_rows *rows)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (image->size >= formats[i].length && memcmp(image->data, formats[i].magic, formats[i].length) == 0)
            return formats[i].read(image, rows);
    const haul__file_type *type = haul__file_type_of(image->data, image->size);
    return haul__fail(HAUL_FORMAT, image->operation, image->argument,
                      "%s is neither a JPEG nor a PNG file%s%s; convert it, or move it away", image->path,
                      type ? ", but " : "", type ? type->name : "");
}

haul_status haul__image_measure(haul__image *image)
{
    return read(image, NULL);
}

haul_status haul__image_decode(const haul__image *image, const haul__image_rows *rows)
{
    HAUL__ASSERT(image->data && 0 <= rows->first && rows->first <= rows->last);
    haul__image copy = *image;
    return read(&copy, rows);
}

haul_status haul__image_numbers(const haul__image *image, uint8_t *out)
{
    const size_t length = sizeof png_magic - 1;
    if (image->size >= length && memcmp(image->data, png_magic, length) == 0)
        return haul__read_png_numbers(image, out);
    return haul__fail(HAUL_FORMAT, image->operation, image->argument,
                      "%s is not a PNG file; a mask needs one, because other formats change its numbers", image->path);
}

haul_status haul__image_unsound(const haul__image *image, const char *what)
{
    return haul__fail(HAUL_FORMAT, image->operation, image->argument, "%s is not a valid picture: %s", image->path,
                      what);
}

haul_status haul__image_no_memory(const haul__image *image, size_t bytes)
{
    return haul__fail_memory(image->operation, bytes);
}

/* ---- upright ---- */

/* How stored pixels become upright (EXIF 2.32, 4.6.4, Orientation): rows and columns are swapped, and each may be
 * reversed. */
static const struct turn {
    bool swap, flip_y, flip_x;
} turns[] = {
    [1] = {false, false, false}, [2] = {false, false, true}, [3] = {false, true, true}, [4] = {false, true, false},
    [5] = {true, false, false},  [6] = {true, false, true},  [7] = {true, true, true},  [8] = {true, true, false},
};

static const struct turn *turn_of(const haul__image *image)
{
    int orientation = image->orientation;
    return &turns[orientation >= 1 && orientation <= 8 ? orientation : 1];
}

int64_t haul__image_stored_height(const haul__image *image)
{
    return turn_of(image)->swap ? image->width : image->height;
}

int64_t haul__image_stored_width(const haul__image *image)
{
    return turn_of(image)->swap ? image->height : image->width;
}

haul_status haul__image_set_size(haul__image *image, int64_t height, int64_t width, int orientation, bool decoding)
{
    haul__image found = {.orientation = orientation};
    bool        swap = turn_of(&found)->swap;
    found.height = swap ? width : height;
    found.width = swap ? height : width;
    if (height < 1 || width < 1 || height > HAUL__IMAGE_MAX_SIDE || width > HAUL__IMAGE_MAX_SIDE ||
        height * width > HAUL__IMAGE_MAX_PIXELS)
        return haul__fail(
            HAUL_FORMAT, image->operation, image->argument,
            "%s has %lld x %lld pixels, and at most %d a side and %lld in all can be read; make it smaller",
            image->path, (long long)width, (long long)height, HAUL__IMAGE_MAX_SIDE, (long long)HAUL__IMAGE_MAX_PIXELS);
    if (decoding && (found.height != image->height || found.width != image->width))
        return haul__fail(HAUL_SHAPE, image->operation, image->argument,
                          "%s has %lld x %lld pixels now, and had %lld x %lld before: it has been changed", image->path,
                          (long long)found.width, (long long)found.height, (long long)image->width,
                          (long long)image->height);
    image->height = found.height;
    image->width = found.width;
    image->orientation = orientation;
    return HAUL_OK;
}

bool haul__image_is_upright(const haul__image *image)
{
    return turn_of(image) == &turns[1];
}

void haul__image_put_row(const haul__image *image, const uint8_t *row, int64_t y, uint8_t *pixels)
{
    HAUL__ASSERT(0 <= y && y < haul__image_stored_height(image));
    const struct turn *turn = turn_of(image);
    int64_t            height = image->height, width = image->width, stored = haul__image_stored_width(image);
    int64_t            to_y = turn->swap ? 0 : y, to_x = turn->swap ? y : 0;
    int64_t            step = turn->swap ? (turn->flip_y ? -width : width) : (turn->flip_x ? -1 : 1);
    int64_t at = (turn->flip_y ? height - 1 - to_y : to_y) * width + (turn->flip_x ? width - 1 - to_x : to_x);
    HAUL__ASSERT(0 <= at && at < height * width);
    HAUL__ASSERT(0 <= at + (stored - 1) * step && at + (stored - 1) * step < height * width);
    for (int64_t x = 0; x < stored; x++, at += step)
        memcpy(pixels + HAUL__PIXEL * at, row + HAUL__PIXEL * x, HAUL__PIXEL);
}

uint8_t *haul__image_new_pixels(const haul__image *image)
{
    HAUL__ASSERT(image->height > 0 && image->width > 0);
    const size_t bytes = (size_t)(HAUL__PIXEL * image->height * image->width);
    uint8_t     *pixels = haul__malloc(bytes + HAUL__ROW_PADDING);
    if (pixels)
        memset(pixels + bytes, 0, HAUL__ROW_PADDING);
    return pixels;
}

void haul__image_hand_over(const haul__image *image, uint8_t *pixels, const haul__image_rows *rows)
{
    for (int64_t y = 0; y < image->height; y++)
        rows->take(rows->context, pixels + HAUL__PIXEL * y * image->width);
}
