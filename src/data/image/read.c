/* Reads picture files as planes of bytes with a given size. */
#include <haul/dataset.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "core/option.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "data/folder.h"
#include "data/image/image.h"
#include "files/file.h"
#include "host_access/view.h"

#define READ "haul_read_image"

/* Headers are mostly at the beginning; thumbnails and colour profiles can precede them. */
#define HEAD_BYTES 4096

/* libjpeg-turbo decodes faster where so many bytes follow: 512 for each of the blocks that it decodes together, of
 * which common pictures have 6. */
#define PADDING 3072

/* Up to so many bytes, the memory for decoding and scaling is one that the thread keeps. */
#define SCRATCH ((size_t)1 << 20)

haul_status haul__image_form_init(haul__image_form *form, const int64_t size[2], int channels, const char *operation)
{
    static const int64_t none[2] = {0, 0};
    int64_t              pair[2] = {size[0], size[1]};
    if (haul__option_pair(operation, "size", pair, none, 1))
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

haul_status haul__image_form_take_size(haul__image_form *form, const haul__image *image, const char *first)
{
    HAUL__ASSERT(image->height > 0 && image->width > 0);
    if (form->height && (image->height != form->height || image->width != form->width))
        return haul__fail(HAUL_SHAPE, image->operation, "size",
                          "%s has %lld x %lld pixels and %s has %lld x %lld; say to which size pictures are resized, "
                          "for example .size = {64, 64}",
                          image->path, (long long)image->width, (long long)image->height, first, (long long)form->width,
                          (long long)form->height);
    form->height = image->height;
    form->width = image->width;
    return HAUL_OK;
}

/* ---- files ---- */

haul_status haul__image_open(haul__image *image)
{
    static const uint8_t ends[] = {0xff, 0xd9, 0xff, 0xd9, 0xff, 0xd9, 0xff, 0xd9};
    HAUL__ASSERT(!image->owned);
    haul_status status = haul__tree_read_all(image->archive, image->path, image->operation, HAUL__IMAGE_MAX_BYTES,
                                             PADDING, &image->owned, &image->size);
    image->data = image->owned;
    for (image->padding = 0; status == HAUL_OK && image->padding < PADDING; image->padding += sizeof ends)
        memcpy(image->owned + image->size + image->padding, ends, sizeof ends);
    if (status == HAUL_OK)
        status = haul__image_measure(image);
    if (status)
        haul__image_close(image);
    return status;
}

void haul__image_close(haul__image *image)
{
    haul__free(image->owned);
    image->owned = NULL;
    image->data = NULL;
    image->padding = 0;
}

/* True if the beginning of the file is enough. A failure is not an error, because the whole file decides. */
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
    if (!image->archive && measure_head(image))
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

#if defined(__SSE2__)
/* 16 pixels to 16 bytes of each colour. The number of a byte has six bits, four for the pixel and two for the colour.
 * Interleaving the first half of the bytes with the second one moves the highest bit to the lowest place, so that after
 * four times those of the colour are the highest. */
static inline void split_16(const uint8_t *pixels, __m128i *v)
{
    for (int i = 0; i < 4; i++)
        v[i] = _mm_loadu_si128((const __m128i *)(const void *)pixels + i);
#pragma GCC unroll 4
    for (int round = 0; round < 4; round++) {
        const __m128i a = v[0], b = v[1], c = v[2], d = v[3];
        v[0] = _mm_unpacklo_epi8(a, c);
        v[1] = _mm_unpackhi_epi8(a, c);
        v[2] = _mm_unpacklo_epi8(b, d);
        v[3] = _mm_unpackhi_epi8(b, d);
    }
}
#endif

/* The first colours of pixels to planes that are `plane` bytes apart. */
static void split(const uint8_t *pixels, int64_t count, int channels, int64_t plane, uint8_t *out)
{
    int64_t i = 0;
#if defined(__SSE2__)
    for (; i + 16 <= count; i += 16) {
        __m128i v[4];
        split_16(pixels + HAUL__PIXEL * i, v);
        for (int c = 0; c < channels; c++)
            _mm_storeu_si128((__m128i *)(void *)(out + c * plane + i), v[c]);
    }
#endif
    for (; i < count; i++)
        for (int c = 0; c < channels; c++)
            out[c * plane + i] = pixels[HAUL__PIXEL * i + c];
}

/* Where the rows of a picture go: scaled, if it has another size, and split, into `out`. */
typedef struct target {
    const haul__image_form *form;
    haul__scaler            scaler;
    bool                    scales;
    int64_t                 height, width, width_in;
    int64_t                 done; /* rows */
    uint8_t                *out;  /* [channels, height, width] */
} target;

static void put_row(target *t, const uint8_t *row)
{
    HAUL__ASSERT(t->done < t->height);
    split(row, t->width, t->form->channels, t->height * t->width, t->out + t->done++ * t->width);
}

static void put_planes(target *t, const uint8_t *planes)
{
    HAUL__ASSERT(t->done < t->height && t->form->channels == t->scaler.planes && t->width <= t->scaler.plane);
    uint8_t *out = t->out + t->done++ * t->width;
    for (int c = 0; c < t->form->channels; c++)
        memcpy(out + c * t->height * t->width, planes + c * t->scaler.plane, (size_t)t->width);
}

/* The row is in the scaler's lines, if it scales planes. */
static void scale_row(target *t, const uint8_t *row)
{
    const uint8_t *scaled;
    HAUL__ASSERT(t->scales && (row || t->scaler.planes));
    haul__scaler_take(&t->scaler, row);
    while ((scaled = haul__scaler_give(&t->scaler)))
        if (t->scaler.planes)
            put_planes(t, scaled);
        else
            put_row(t, scaled);
}

static void take_lines(void *context)
{
    scale_row(context, NULL);
}

static void take_row(void *context, uint8_t *row)
{
    target *t = context;
    if (t->form->channels == 1)
        make_grey(row, t->width_in);
    if (!t->scales) {
        put_row(t, row);
        return;
    }
    if (t->scaler.planes)
        split(row, t->width_in, t->scaler.planes, t->scaler.line, t->scaler.lines);
    scale_row(t, row);
}

/* The largest scale of a draft whose pixels still cover the size, as Pillow chooses it. */
static int shrink_of(const haul__image *image, const haul__image_form *form, int64_t height, int64_t width)
{
    int shrink = form->draft && image->can_shrink ? 8 : 1;
    haul__image_cover(image, &height, &width);
    while (shrink > 1 && (shrink * height > image->height || shrink * width > image->width))
        shrink /= 2;
    HAUL__ASSERT(shrink >= 1);
    return shrink;
}

/* The image as it is decoded. */
static haul__image shrunk(const haul__image *image, int shrink)
{
    haul__image result = *image;
    result.height = haul__image_shrunk(image->height, shrink);
    result.width = haul__image_shrunk(image->width, shrink);
    return result;
}

haul_status haul__image_put(const haul__image *image, const haul__image_form *form, uint8_t *out)
{
    target            t = {.form = form,
                           .height = form->height ? form->height : image->height,
                           .width = form->width ? form->width : image->width,
                           .out = out};
    const int         shrink = shrink_of(image, form, t.height, t.width);
    const haul__image decoded = shrunk(image, shrink);
    t.width_in = decoded.width;
    t.scales = t.height != decoded.height || t.width != decoded.width;
    /* A row, and what the scaler needs. Stored rows may be longer than upright ones. */
    const int64_t longest = decoded.height > decoded.width ? decoded.height : decoded.width;
    const size_t row = (size_t)(haul__ceil_div(HAUL__PIXEL * (longest + 1), HAUL__ROW_PADDING) + 1) * HAUL__ROW_PADDING;
    const size_t bytes =
        row + (t.scales ? haul__scaler_plan(&t.scaler, &decoded, t.height, t.width, form->channels) : 0);
    const bool is_small = bytes <= SCRATCH;
    uint8_t   *memory = is_small ? haul__scratch(bytes) : haul__malloc(bytes);
    if (!memory)
        return haul__image_no_memory(image, bytes);
    memset(memory, 0, row);
    haul__image_rows rows = {.take = take_row, .context = &t, .last = t.width_in, .row = memory, .shrink = shrink};
    if (!t.scales && form->channels == 3)
        rows.planes = out;
    rows.uncached = form->uncached;
    if (t.scales) {
        haul__scaler_begin(&t.scaler, memory + row);
        haul__scaler_columns(&t.scaler, &rows.first, &rows.last);
        if (t.scaler.planes == 3) {
            rows.lines = t.scaler.lines;
            rows.line = t.scaler.line;
            rows.take_lines = take_lines;
        }
    }
    HAUL__ASSERT(0 <= rows.first && rows.first < rows.last && rows.last <= t.width_in);
    haul_status status = haul__image_decode(image, &rows);
    if (!is_small)
        haul__free(memory);
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
    if (haul__image_form_init(&form, options->size, options->channels, READ) || haul__image_open(&image))
        return haul__failed_tensor();
    form.draft = options->draft;
    haul_shape shape =
        HAUL_SHAPE(form.channels, form.height ? form.height : image.height, form.width ? form.width : image.width);
    if (haul__loading_begin(&loading, HAUL_U8, &shape, READ) == HAUL_OK)
        result = haul__loading_end(&loading, haul__image_put(&image, &form, loading.memory));
    haul__image_close(&image);
    return haul__result_within(result, READ);
}
