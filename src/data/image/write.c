/* haul_save_image: checks the picture, brings it to the host, and writes the format that the path's ending names. */
#include "data/image/write.h"

#include <haul/autograd.h>
#include <haul/dataset.h>
#include <haul/ops.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/ascii.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "data/image/image.h"

#define SAVE "haul_save_image"

enum { QUALITY = 75 };

void haul__picture_row(const haul__picture_out *picture, int64_t y)
{
    HAUL__ASSERT(0 <= y && y < picture->height && (picture->channels == 1 || picture->channels == 3));
    const int64_t  plane = picture->height * picture->width;
    const uint8_t *from = picture->planes + y * picture->width;
    const int      channels = picture->channels;
    for (int64_t x = 0; x < picture->width; x++)
        for (int c = 0; c < channels; c++)
            picture->row[x * channels + c] = from[c * plane + x];
}

haul_status haul__picture_fails(const haul__picture_out *picture, const char *what)
{
    return haul__fail(HAUL_IO, picture->operation, "path", "%s cannot be written: %s", picture->path, what);
}

haul_status haul__picture_no_memory(const haul__picture_out *picture)
{
    return haul__fail(HAUL_OUT_OF_MEMORY, picture->operation, "path", "no memory to write %s", picture->path);
}

/* The format by the ending of the name; NULL if there is none for it. */
static haul__picture_writer *writer_for(const char *path)
{
    const char *ending = strrchr(path, '.');
    if (ending && haul__same_letters(ending, ".png", SIZE_MAX))
        return haul__write_png;
    if (ending && (haul__same_letters(ending, ".jpg", SIZE_MAX) || haul__same_letters(ending, ".jpeg", SIZE_MAX)))
        return haul__write_jpeg;
    return NULL;
}

static haul_status check(const haul_save_image_options *o, haul__picture_out *picture)
{
    const haul_tensor *x = o->x;
    const int          ndim = x->shape.ndim;
    char               shape[80];
    if (!writer_for(o->path))
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "path", "%s ends with none of .png, .jpg and .jpeg", o->path);
    if (o->quality < 0 || o->quality > 100)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "quality", "quality is %d; 1 to 100 is expected", o->quality);
    if (x->dtype != HAUL_U8 && !haul_dtype_is_float(x->dtype))
        return haul__fail(HAUL_DTYPE, SAVE, "x", "x is %s; u8, or floats from 0 to 1, are expected",
                          haul_dtype_name(x->dtype));
    picture->channels = ndim == 3 ? (int)(x->shape.dims[0] == 1 ? 1 : x->shape.dims[0] == 3 ? 3 : 0) : ndim == 2;
    picture->height = picture->channels ? x->shape.dims[ndim - 2] : 0;
    picture->width = picture->channels ? x->shape.dims[ndim - 1] : 0;
    if (picture->height < 1 || picture->height > HAUL__IMAGE_MAX_SIDE || picture->width < 1 ||
        picture->width > HAUL__IMAGE_MAX_SIDE || picture->height * picture->width > HAUL__IMAGE_MAX_PIXELS)
        return haul__fail(HAUL_SHAPE, SAVE, "x",
                          "x has shape %s, but [3, height, width], [1, height, width] or [height, width] is expected, "
                          "with sides from 1 to %d and at most 2^26 pixels",
                          haul__shape_text(&x->shape, shape, sizeof shape), HAUL__IMAGE_MAX_SIDE);
    return HAUL_OK;
}

/* Writes a checked picture, whose bytes and row are in `memory`. */
static haul_status write(haul_tensor *x, haul__picture_out *picture, uint8_t *memory)
{
    const size_t bytes = (size_t)(picture->channels * picture->height * picture->width);
    picture->planes = memory;
    picture->row = memory + bytes;
    HAUL__ASSERT(haul__failed(x) || (x->dtype == HAUL_U8 && (size_t)x->count == bytes));
    if (haul_read(x, memory, bytes))
        return haul_error_status();
    picture->writer = haul__writer_open(picture->path, SAVE);
    if (!picture->writer)
        return haul_error_status();
    haul_status status = writer_for(picture->path)(picture);
    if (!status)
        return haul__writer_commit(picture->writer);
    haul__writer_abandon(picture->writer);
    return status;
}

haul_status haul_save_image_with(const haul_save_image_options *o)
{
    haul__picture_out picture = {.operation = SAVE};
    if (!o || !o->path)
        return haul__fail_null(SAVE, "path");
    if (haul__check_tensor(SAVE, "x", o->x))
        return haul_error_status();
    picture.path = o->path;
    picture.quality = o->quality ? o->quality : QUALITY;
    if (check(o, &picture))
        return haul_error_status();
    haul_scope scope;
    if (haul__scope_open(&scope, SAVE))
        return haul_error_status();
    haul_tensor *x = haul_detach(o->x);
    if (x->dtype != HAUL_U8)
        x = haul_cast(haul_clamp(haul_affine(x, 255, 0.5), 0, 255), HAUL_U8);
    const size_t bytes = (size_t)(picture.channels * (picture.height + 1) * picture.width);
    uint8_t     *memory = haul__malloc(bytes);
    haul_status  status = memory ? write(x, &picture, memory) : haul__picture_no_memory(&picture);
    haul__free(memory);
    haul__scope_close(&scope);
    return status ? haul__fail_within(SAVE) : HAUL_OK;
}
