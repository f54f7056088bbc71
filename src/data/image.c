/* Which decoder reads a picture, and what all of them share. */
#include "data/image.h"

#include <string.h>

#include "core/error.h"

#define OPEN "haul_image_folder"

static const struct {
    const char         *magic;
    size_t              length;
    haul__image_reader *read;
} formats[] = {
    {"\xff\xd8\xff", 3, haul__read_jpeg},
    {"\x89PNG\r\n\x1a\n", 8, haul__read_png},
};

static haul_status read(haul__image *image, uint8_t *out)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (image->size >= formats[i].length && memcmp(image->data, formats[i].magic, formats[i].length) == 0)
            return formats[i].read(image, out);
    return haul__fail(HAUL_FORMAT, OPEN, "directory", "%s is neither a JPEG nor a PNG file", image->path);
}

haul_status haul__image_measure(haul__image *image)
{
    return read(image, NULL);
}

haul_status haul__image_decode(const haul__image *image, uint8_t *out)
{
    haul__image copy = *image;
    return read(&copy, out);
}

haul_status haul__image_unsound(const haul__image *image, const char *what)
{
    return haul__fail(HAUL_FORMAT, OPEN, "directory", "%s is not a valid picture: %s", image->path, what);
}

haul_status haul__image_set_size(haul__image *image, int64_t height, int64_t width, bool decoding)
{
    if (height < 1 || width < 1 || height > HAUL__IMAGE_MAX_SIDE || width > HAUL__IMAGE_MAX_SIDE ||
        height * width > HAUL__IMAGE_MAX_PIXELS)
        return haul__fail(HAUL_FORMAT, OPEN, "directory",
                          "%s has %lld x %lld pixels; at most %d a side and %lld in all are read", image->path,
                          (long long)width, (long long)height, HAUL__IMAGE_MAX_SIDE, (long long)HAUL__IMAGE_MAX_PIXELS);
    if (decoding && (height != image->height || width != image->width))
        return haul__fail(HAUL_SHAPE, OPEN, "directory",
                          "%s has %lld x %lld pixels, the first picture %lld x %lld: all must have the same size",
                          image->path, (long long)width, (long long)height, (long long)image->width,
                          (long long)image->height);
    image->height = height;
    image->width = width;
    return HAUL_OK;
}

void haul__image_put_row(const haul__image *image, const uint8_t *row, int64_t y, uint8_t *out)
{
    int64_t  width = image->width, plane = image->height * width;
    uint8_t *red = out + y * width, *green = red + plane, *blue = green + plane;
    for (int64_t x = 0; x < width; x++) {
        red[x] = row[3 * x];
        green[x] = row[3 * x + 1];
        blue[x] = row[3 * x + 2];
    }
}
