/* Fuzzing the JPEG and PNG readers: any bytes as a file, decoded and resized. */
#include <stdlib.h>

#include "base/alloc.h"
#include "core/error.h"
#include "data/image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const haul__image *image, const haul__image_form *form)
{
    const int64_t height = form->height ? form->height : image->height;
    const int64_t width = form->width ? form->width : image->width;
    uint8_t      *out = haul__malloc((size_t)(form->channels * height * width));
    if (out)
        haul__image_put(image, form, out);
    haul__free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__image image = {
        .path = "fuzz.jpg", .operation = "haul_read_image", .argument = "path", .data = data, .size = size};
    haul_error_clear();
    if (haul__image_measure(&image))
        return 0;
    /* Large ones are allowed, but would only slow the search down. */
    if (image.height * image.width > 1 << 16)
        return 0;
    decode(&image, &(haul__image_form){.channels = 3});
    /* To a size that depends on the file. */
    decode(&image, &(haul__image_form){.height = 1 + data[size / 2] % 80,
                                       .width = 1 + data[size / 3] % 80,
                                       .channels = 1 + (int)(size & 2),
                                       .draft = (size & 4) != 0});
    return 0;
}
