/* Writing PNG by libpng. */
#include "haul_config.h"

#include "data/image/write.h"

#ifdef HAUL_HAVE_PNG

#include "base/alloc.h"
#include "core/error.h"
#include "data/image/png_guard.h"

typedef struct state {
    png_struct              *png;
    png_info                *info;
    const haul__picture_out *picture;
    haul_status              status; /* of the writer, whose message is recorded */
    png_guard                guard;
} state;

static void put(png_struct *png, png_byte *data, size_t bytes)
{
    state *s = png_get_io_ptr(png);
    s->status = haul__writer_put(s->picture->writer, data, bytes);
    if (s->status)
        png_error(png, "it cannot be written");
}

static void flush(png_struct *png)
{
    (void)png;
}

/* The state belongs to the caller, because local variables of the function that calls setjmp are unreliable after a
 * jump. */
static haul_status guarded(state *s)
{
    const haul__picture_out *p = s->picture;
    if (setjmp(png_jmpbuf(s->png)) != 0)
        return s->status            ? s->status
               : s->guard.exhausted ? haul__picture_no_memory(p)
                                    : haul__picture_fails(p, s->guard.message);
    png_set_write_fn(s->png, s, put, flush);
    png_set_IHDR(s->png, s->info, (png_uint_32)p->width, (png_uint_32)p->height, 8,
                 p->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(s->png, s->info);
    for (int64_t y = 0; y < p->height; y++) {
        haul__picture_row(p, y);
        png_write_row(s->png, p->row);
    }
    png_write_end(s->png, s->info);
    return HAUL_OK;
}

haul_status haul__write_png(const haul__picture_out *picture)
{
    state s = {.picture = picture};
    s.png =
        png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &s.guard, give_up, say_nothing, &s.guard, allocate, release);
    s.info = s.png ? png_create_info_struct(s.png) : NULL;
    haul_status status = s.info ? guarded(&s) : haul__picture_no_memory(picture);
    png_destroy_write_struct(&s.png, &s.info);
    return status;
}

#else
#include "core/error.h"

haul_status haul__write_png(const haul__picture_out *picture)
{
    return haul__fail(HAUL_UNSUPPORTED, picture->operation, "path",
                      "%s is to be a PNG file, which this build of Haul cannot write: libpng was missing when it was "
                      "built",
                      picture->path);
}
#endif
