/* Fuzzing the JPEG and PNG readers: any bytes as a file, decoded and resized. */
#include <stdlib.h>

#include "core/alloc.h"
#include "core/error.h"
#include "data/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* To a size that depends on the file. */
static void resize(const haul__image *image, const uint8_t *data, size_t size)
{
    haul__image_form form = {
        .height = 1 + data[size / 2] % 80, .width = 1 + data[size / 3] % 80, .channels = 1 + (size & 2)};
    uint8_t *out = haul__malloc((size_t)(form.channels * form.height * form.width));
    if (out)
        haul__image_put(image, &form, out);
    haul__free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__image image = {
        .path = "fuzz.jpg", .operation = "haul_read_image", .argument = "path", .data = data, .size = size};
    haul_error_clear();
    if (haul__image_measure(&image) != HAUL_OK)
        return 0;
    /* Large ones are allowed, but would only slow the search down. */
    if (image.height * image.width > 1 << 16)
        return 0;
    uint8_t *out = haul__malloc((size_t)(HAUL__PIXEL * image.height * image.width));
    if (out)
        haul__image_decode(&image, out);
    haul__free(out);
    resize(&image, data, size);
    return 0;
}
