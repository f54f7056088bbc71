/* PNG by libpng. Its errors jump back to us and become messages; nothing is printed, nothing exits. */
#include "haul_config.h"

#include "data/image.h"

#ifdef HAUL_HAVE_PNG
#include <png.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"

typedef struct state {
    png_struct  *png;
    png_info    *info;
    haul__image *image;
    size_t       at; /* bytes of the file taken */
    uint8_t     *pixels;
    bool         exhausted; /* memory */
    char         message[128];
} state;

static void give_up(png_struct *png, const char *message)
{
    state *s = png_get_error_ptr(png);
    snprintf(s->message, sizeof s->message, "%s", message);
    png_longjmp(png, 1);
}

static void say_nothing(png_struct *png, const char *message)
{
    (void)png;
    (void)message;
}

static void take(png_struct *png, png_byte *out, size_t bytes)
{
    state *s = png_get_io_ptr(png);
    if (bytes > s->image->size - s->at)
        png_error(png, "it ends too early");
    memcpy(out, s->image->data + s->at, bytes);
    s->at += bytes;
}

static void *allocate(png_struct *png, png_alloc_size_t bytes)
{
    state *s = png_get_mem_ptr(png);
    void  *memory = haul__malloc(bytes);
    s->exhausted = s->exhausted || !memory;
    return memory;
}

static void release(png_struct *png, void *memory)
{
    (void)png;
    haul__free(memory);
}

/* Whatever is in the file becomes 8-bit RGB. Returns the number of passes over the picture. */
static int ask_for_rgb(state *s)
{
    png_set_expand(s->png);
    png_set_strip_16(s->png);
    png_set_gray_to_rgb(s->png);
    png_set_strip_alpha(s->png);
    int passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    return passes;
}

/* Errors leave by a jump: what must be freed afterwards is in the state. */
static haul_status read(state *s, haul__image *image, uint8_t *out)
{
    png_set_read_fn(s->png, s, take);
    png_set_user_limits(s->png, HAUL__IMAGE_MAX_SIDE, HAUL__IMAGE_MAX_SIDE);
    png_set_chunk_malloc_max(s->png, 1 << 22);
    png_set_chunk_cache_max(s->png, 64);
    png_read_info(s->png, s->info);
    haul_status status = haul__image_set_size(image, png_get_image_height(s->png, s->info),
                                              png_get_image_width(s->png, s->info), out != NULL);
    if (status != HAUL_OK || !out)
        return status;
    int    passes = ask_for_rgb(s);
    size_t row = 3 * (size_t)image->width;
    if (png_get_rowbytes(s->png, s->info) != row)
        return haul__image_unsound(image, "it cannot be made 8-bit RGB");
    if (!(s->pixels = haul__calloc((size_t)image->height, row)))
        return haul__fail_memory("haul_image_folder", (size_t)image->height * row);
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < image->height; y++)
            png_read_row(s->png, s->pixels + (size_t)y * row, NULL);
    png_read_end(s->png, NULL);
    for (int64_t y = 0; y < image->height; y++)
        haul__image_put_row(image, s->pixels + (size_t)y * row, y, out);
    return HAUL_OK;
}

/* The state is the caller's: what lies in the function that calls setjmp is not to be relied on after a jump. */
static haul_status guarded(state *s, haul__image *image, uint8_t *out)
{
    if (setjmp(png_jmpbuf(s->png)) != 0)
        return s->exhausted ? haul__fail_memory("haul_image_folder", 0) : haul__image_unsound(image, s->message);
    return read(s, image, out);
}

haul_status haul__read_png(haul__image *image, uint8_t *out)
{
    state s = {.image = image};
    s.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, give_up, say_nothing, &s, allocate, release);
    s.info = s.png ? png_create_info_struct(s.png) : NULL;
    haul_status status = s.info ? guarded(&s, image, out) : haul__fail_memory("haul_image_folder", sizeof s);
    png_destroy_read_struct(&s.png, &s.info, NULL);
    haul__free(s.pixels);
    return status;
}

#else
#include "core/error.h"

haul_status haul__read_png(haul__image *image, uint8_t *out)
{
    (void)out;
    return haul__fail(HAUL_UNSUPPORTED, "haul_image_folder", "directory",
                      "%s is a PNG file; this build of haul reads none (libpng was missing)", image->path);
}
#endif
