/* Reads picture files as planes of bytes with a given size. */
#include <haul/dataset.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/alloc.h"
#include "core/error.h"
#include "core/option.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "data/image.h"
#include "host/view.h"
#include "io/file.h"

#define READ "haul_read_image"

/* Headers are mostly at the beginning; thumbnails and colour profiles can precede them. */
#define HEAD_BYTES 4096

/* Pictures of so many bytes are decoded in memory that their thread keeps. */
#define SCRATCH ((size_t)1 << 20)

haul_status haul__image_form_init(haul__image_form *form, const int64_t size[2], int channels, const char *operation)
{
    static const int64_t none[2] = {0, 0};
    int64_t              pair[2] = {size[0], size[1]};
    if (haul__option_pair(operation, "size", pair, none, 1) != HAUL_OK)
        return haul_error_status();
    if (pair[0] > HAUL__IMAGE_MAX_SIDE || pair[1] > HAUL__IMAGE_MAX_SIDE)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "size", "size is {%lld, %lld}; both must be at most %d",
                          (long long)pair[0], (long long)pair[1], HAUL__IMAGE_MAX_SIDE);
    if (channels && channels != 1 && channels != 3)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "channels",
                          "channels is %d; pictures have 3 (RGB) or 1 (greyscale)", channels);
    *form = (haul__image_form){.height = pair[0], .width = pair[1], .channels = channels ? channels : 3};
    return HAUL_OK;
}

/* ---- files ---- */

haul_status haul__image_open(haul__image *image)
{
    haul_status status =
        haul__file_read_all(image->path, image->operation, HAUL__IMAGE_MAX_BYTES, &image->owned, &image->size);
    image->data = image->owned;
    if (status == HAUL_OK)
        status = haul__image_measure(image);
    if (status != HAUL_OK)
        haul__image_close(image);
    return status;
}

void haul__image_close(haul__image *image)
{
    haul__free(image->owned);
    image->owned = NULL;
    image->data = NULL;
}

/* Is the beginning of the file enough? A failure is not an error, because the whole file decides. */
static bool measure_head(haul__image *image)
{
    uint8_t            head[HEAD_BYTES];
    haul__file         file;
    haul__error_record before;
    haul__error_save(&before);
    bool measured = false;
    if (haul__file_open(&file, image->path, image->operation) == HAUL_OK) {
        image->data = head;
        image->size = file.size < sizeof head ? (size_t)file.size : sizeof head;
        measured = file.size > sizeof head && haul__file_read(&file, 0, head, image->size) == HAUL_OK &&
                   haul__image_measure(image) == HAUL_OK;
        image->data = NULL;
        haul__file_close(&file);
    }
    haul__error_restore(&before);
    return measured;
}

haul_status haul__image_measure_file(haul__image *image)
{
    if (measure_head(image))
        return HAUL_OK;
    haul_status status = haul__image_open(image);
    haul__image_close(image);
    return status;
}

/* ---- pixels ---- */

/* ITU-R BT.601, in 16 bits; red becomes the grey value. Grey pictures keep their values, because the weights add up to
 * 65536. */
static void make_grey(uint8_t *pixels, int64_t count)
{
    for (int64_t i = 0; i < count; i++, pixels += HAUL__PIXEL)
        pixels[0] = (uint8_t)((pixels[0] * 19595u + pixels[1] * 38470u + pixels[2] * 7471u + 32768u) >> 16);
}

/* The first colours of pixels to planes, 16 pixels at a time where the processor can. */
static void split(const uint8_t *pixels, int64_t count, int channels, uint8_t *out)
{
    for (int c = 0; c < channels; c++, out += count) {
        int64_t i = 0;
#if defined(__SSE2__)
        const __m128i low = _mm_set1_epi32(255), shift = _mm_cvtsi32_si128(8 * c);
        for (; i + 16 <= count; i += 16) {
            const __m128i *from = (const __m128i *)(const void *)(pixels + HAUL__PIXEL * i);
            __m128i        v[4];
            for (int k = 0; k < 4; k++)
                v[k] = _mm_and_si128(_mm_srl_epi32(_mm_loadu_si128(from + k), shift), low);
            _mm_storeu_si128((__m128i *)(void *)(out + i),
                             _mm_packus_epi16(_mm_packs_epi32(v[0], v[1]), _mm_packs_epi32(v[2], v[3])));
        }
#endif
        for (; i < count; i++)
            out[i] = pixels[HAUL__PIXEL * i + c];
    }
}

haul_status haul__image_put(const haul__image *image, const haul__image_form *form, uint8_t *out)
{
    int64_t height = form->height ? form->height : image->height, width = form->width ? form->width : image->width;
    int64_t count = image->height * image->width;
    bool    same_size = height == image->height && width == image->width;
    size_t  bytes = HAUL__PIXEL * (size_t)(same_size ? count : count + height * width);
    /* The decoded picture, and the resized one. */
    bool     is_small = bytes <= SCRATCH;
    uint8_t *pixels = is_small ? haul__scratch(bytes) : haul__malloc(bytes), *resized = pixels;
    if (!pixels)
        return haul__image_no_memory(image, bytes);
    haul_status status = haul__image_decode(image, pixels);
    if (status == HAUL_OK && form->channels == 1)
        make_grey(pixels, count);
    if (status == HAUL_OK && !same_size) {
        resized = pixels + HAUL__PIXEL * count;
        status = haul__image_resize(image, pixels, height, width, resized);
    }
    if (status == HAUL_OK)
        split(resized, height * width, form->channels, out);
    if (!is_small)
        haul__free(pixels);
    return status;
}

haul_tensor *haul_read_image_with(const haul_read_image_options *options)
{
    haul__image_form form;
    if (!options || !options->path) {
        haul__fail_null(READ, "path");
        return haul__failed_tensor();
    }
    haul__image   image = {.path = options->path, .operation = READ, .argument = "path"};
    haul__loading loading;
    haul_tensor  *result = NULL;
    if (haul__image_form_init(&form, options->size, options->channels, READ) != HAUL_OK ||
        haul__image_open(&image) != HAUL_OK)
        return haul__failed_tensor();
    haul_shape shape =
        HAUL_SHAPE(form.channels, form.height ? form.height : image.height, form.width ? form.width : image.width);
    if (haul__loading_begin(&loading, HAUL_U8, &shape, READ) == HAUL_OK)
        result = haul__loading_end(&loading, haul__image_put(&image, &form, loading.memory));
    haul__image_close(&image);
    return haul__result_within(result, READ);
}
