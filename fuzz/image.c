/* Fuzzing the JPEG and PNG readers: any bytes as a file. */
#include <stdlib.h>

#include "core/alloc.h"
#include "core/error.h"
#include "data/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__image image = {.data = data, .size = size, .path = "fuzz.jpg"};
    haul_error_clear();
    if (haul__image_measure(&image) != HAUL_OK)
        return 0;
    /* Large ones are allowed, but would only slow the search down. */
    if (image.height * image.width > 1 << 16)
        return 0;
    uint8_t *out = haul__malloc((size_t)(3 * image.height * image.width));
    if (out)
        haul__image_decode(&image, out);
    haul__free(out);
    return 0;
}
