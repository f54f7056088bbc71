/* Writing JPEG by libjpeg-turbo. Its errors jump back to this file and become messages; nothing is printed, nothing
 * exits. */
#include "haul_config.h"

#include "data/image/write.h"

#ifdef HAUL_HAVE_JPEG
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/assert.h"
#include "core/error.h"

enum { ROOM = 4096 };

typedef struct state {
    struct jpeg_compress_struct jpeg; /* first: the library hands it back */
    struct jpeg_error_mgr       errors;
    struct jpeg_destination_mgr to;
    jmp_buf                     back;
    const haul__picture_out    *picture;
    haul_status                 status; /* of the writer, whose message is recorded */
    char                        message[JMSG_LENGTH_MAX];
    uint8_t                     bytes[ROOM];
} state;

static void give_up(j_common_ptr jpeg)
{
    state *s = (state *)jpeg;
    s->errors.format_message(jpeg, s->message);
    longjmp(s->back, 1);
}

static void ignore(j_common_ptr jpeg, int level)
{
    (void)jpeg;
    (void)level;
}

static void say_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void begin(j_compress_ptr jpeg)
{
    state *s = (state *)jpeg;
    s->to.next_output_byte = s->bytes;
    s->to.free_in_buffer = ROOM;
}

static void put(state *s, size_t bytes)
{
    HAUL__ASSERT(bytes <= ROOM);
    s->status = haul__writer_put(s->picture->writer, s->bytes, bytes);
    if (s->status)
        longjmp(s->back, 1);
}

/* The library's counters are not up to date here: the whole room is full. */
static boolean put_all(j_compress_ptr jpeg)
{
    put((state *)jpeg, ROOM);
    begin(jpeg);
    return TRUE;
}

static void put_rest(j_compress_ptr jpeg)
{
    state *s = (state *)jpeg;
    put(s, ROOM - s->to.free_in_buffer);
}

/* The state belongs to the caller, because local variables of the function that calls setjmp are unreliable after a
 * jump. */
static haul_status guarded(state *s)
{
    const haul__picture_out *p = s->picture;
    if (setjmp(s->back) != 0)
        return s->status                                  ? s->status
               : s->errors.msg_code == JERR_OUT_OF_MEMORY ? haul__picture_no_memory(p)
                                                          : haul__picture_fails(p, s->message);
    HAUL__ASSERT(p->channels == 1 || p->channels == 3);
    jpeg_create_compress(&s->jpeg);
    s->jpeg.dest = &s->to;
    s->jpeg.image_width = (JDIMENSION)p->width;
    s->jpeg.image_height = (JDIMENSION)p->height;
    s->jpeg.input_components = p->channels;
    s->jpeg.in_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&s->jpeg);
    jpeg_set_quality(&s->jpeg, p->quality, TRUE);
    jpeg_start_compress(&s->jpeg, TRUE);
    for (int64_t y = 0; y < p->height; y++) {
        JSAMPROW row = p->row;
        haul__picture_row(p, y);
        jpeg_write_scanlines(&s->jpeg, &row, 1);
    }
    jpeg_finish_compress(&s->jpeg);
    return HAUL_OK;
}

haul_status haul__write_jpeg(const haul__picture_out *picture)
{
    state s = {.picture = picture};
    s.jpeg.err = jpeg_std_error(&s.errors);
    s.errors.error_exit = give_up;
    s.errors.emit_message = ignore;
    s.errors.output_message = say_nothing;
    s.to.init_destination = begin;
    s.to.empty_output_buffer = put_all;
    s.to.term_destination = put_rest;
    haul_status status = guarded(&s);
    jpeg_destroy_compress(&s.jpeg);
    return status;
}

#else
#include "core/error.h"

haul_status haul__write_jpeg(const haul__picture_out *picture)
{
    return haul__fail(HAUL_UNSUPPORTED, picture->operation, "path",
                      "%s is to be a JPEG file, which this build of Haul cannot write: libjpeg was missing when it was "
                      "built",
                      picture->path);
}
#endif
