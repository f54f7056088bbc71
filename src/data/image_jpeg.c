/* JPEG by libjpeg-turbo. Its errors jump back to us and become messages; nothing is printed, nothing exits. */
#include "haul_config.h"

#include "data/image.h"

#ifdef HAUL_HAVE_JPEG
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#include "core/alloc.h"
#include "core/error.h"

/* A progressive file may ask for its pixels to be gone through again and again. */
#define MAX_SCANS 200
/* For coefficients of progressive files. */
#define MAX_MEMORY (1l << 29)

typedef struct state {
    struct jpeg_decompress_struct jpeg; /* first: the library hands it back */
    struct jpeg_error_mgr         errors;
    struct jpeg_progress_mgr      progress;
    jmp_buf                       back;
    char                          message[JMSG_LENGTH_MAX];
    bool                          exhausted; /* memory */
    uint8_t                      *row;
} state;

static void give_up(j_common_ptr jpeg)
{
    state *s = (state *)jpeg;
    s->exhausted = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
    s->errors.format_message(jpeg, s->message);
    longjmp(s->back, 1);
}

/* Warnings that mean that pixels are missing or made up are errors; a trace is nothing. */
static void judge(j_common_ptr jpeg, int level)
{
    int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF || code == JWRN_HUFF_BAD_CODE))
        give_up(jpeg);
}

static void say_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void watch(j_common_ptr jpeg)
{
    state *s = (state *)jpeg;
    if (s->jpeg.input_scan_number <= MAX_SCANS)
        return;
    snprintf(s->message, sizeof s->message, "it has more than %d scans", MAX_SCANS);
    longjmp(s->back, 1);
}

/* Four inks become three colours, in place. Files with Adobe's marker hold 255 for no ink, others for all of it. */
static void mix_inks(uint8_t *row, int64_t width, bool inverted)
{
    for (int64_t x = 0; x < width; x++) {
        const uint8_t *inks = row + 4 * x;
        uint8_t        left[4]; /* light that each ink lets through */
        for (int c = 0; c < 4; c++)
            left[c] = inverted ? inks[c] : (uint8_t)(255 - inks[c]);
        for (int c = 0; c < 3; c++)
            row[3 * x + c] = (uint8_t)((left[c] * left[3] + 127) / 255);
    }
}

/* Values of a pixel after decoding: 3 of RGB or 4 of CMYK; 0 where the file has colours that become neither. */
static int channels_of(const struct jpeg_decompress_struct *jpeg)
{
    switch (jpeg->jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr: return 3;
    case JCS_CMYK:
    case JCS_YCCK: return 4;
    default: return 0;
    }
}

/* Errors leave by a jump: what must be freed afterwards is in the state. */
static haul_status read(state *s, haul__image *image, uint8_t *out)
{
    jpeg_mem_src(&s->jpeg, image->data, (unsigned long)image->size);
    jpeg_read_header(&s->jpeg, TRUE);
    if (!channels_of(&s->jpeg))
        return haul__fail(HAUL_UNSUPPORTED, "haul_image_folder", "directory",
                          "%s has %d colour channels of an unknown kind; convert it to RGB", image->path,
                          s->jpeg.num_components);
    haul_status status =
        haul__image_set_size(image, (int64_t)s->jpeg.image_height, (int64_t)s->jpeg.image_width, out != NULL);
    if (status != HAUL_OK || !out)
        return status;
    bool inks = channels_of(&s->jpeg) == 4;
    s->jpeg.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    s->jpeg.mem->max_memory_to_use = MAX_MEMORY;
    if (!(s->row = haul__malloc(4 * (size_t)image->width)))
        return haul__fail_memory("haul_image_folder", 4 * (size_t)image->width);
    jpeg_start_decompress(&s->jpeg);
    for (int64_t y = 0; y < image->height; y++) {
        JSAMPROW rows[1] = {s->row};
        jpeg_read_scanlines(&s->jpeg, rows, 1);
        if (inks)
            mix_inks(s->row, image->width, s->jpeg.saw_Adobe_marker);
        haul__image_put_row(image, s->row, y, out);
    }
    jpeg_finish_decompress(&s->jpeg);
    return HAUL_OK;
}

/* The state is the caller's: what lies in the function that calls setjmp is not to be relied on after a jump. */
static haul_status guarded(state *s, haul__image *image, uint8_t *out)
{
    if (setjmp(s->back) != 0)
        return s->exhausted ? haul__fail_memory("haul_image_folder", 0) : haul__image_unsound(image, s->message);
    jpeg_create_decompress(&s->jpeg);
    s->jpeg.progress = &s->progress;
    return read(s, image, out);
}

haul_status haul__read_jpeg(haul__image *image, uint8_t *out)
{
    state s = {.row = NULL};
    s.jpeg.err = jpeg_std_error(&s.errors);
    s.errors.error_exit = give_up;
    s.errors.emit_message = judge;
    s.errors.output_message = say_nothing;
    s.progress.progress_monitor = watch;
    haul_status status = guarded(&s, image, out);
    jpeg_destroy_decompress(&s.jpeg);
    haul__free(s.row);
    return status;
}

#else
#include "core/error.h"

haul_status haul__read_jpeg(haul__image *image, uint8_t *out)
{
    (void)out;
    return haul__fail(HAUL_UNSUPPORTED, "haul_image_folder", "directory",
                      "%s is a JPEG file; this build of haul reads none (libjpeg was missing)", image->path);
}
#endif
