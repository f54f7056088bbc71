/* Pictures from JPEG and PNG files. */
#ifndef HAUL_DATA_IMAGE_IMAGE_H
#define HAUL_DATA_IMAGE_IMAGE_H

#include <haul/error.h>
#include <stdbool.h>

#include "data/image/scale.h"
#include "formats/archive/archive.h"

/* Larger files and pictures are refused, whatever their header says. */
#define HAUL__IMAGE_MAX_BYTES  ((uint64_t)64 << 20)
#define HAUL__IMAGE_MAX_SIDE   16384
#define HAUL__IMAGE_MAX_PIXELS ((int64_t)1 << 26)

/* One picture. Height and width refer to the upright picture. */
typedef struct haul__image {
    const char          *path, *operation, *argument; /* for messages */
    const haul__archive *archive;                     /* that has the path; NULL: it is a file */
    const uint8_t       *data;                        /* the file */
    size_t               size;
    size_t               padding; /* bytes after the file, which decoders may read: end markers of JPEG */
    uint8_t             *owned;   /* data, if haul__image_open allocated it */
    int64_t              height, width;
    int                  orientation; /* orientation of the stored pixels as EXIF numbers it: 1 ... 8; 1 is upright */
    bool                 can_shrink;  /* the format can be decoded at 1/2, 1/4 and 1/8 of its size */
} haul__image;

/* The form of a decoded picture: its size, 0 and 0 for the picture's own, and 1 or 3 channels. */
typedef struct haul__image_form {
    int64_t height, width;
    int     channels;
    bool    draft;    /* decode at a smaller scale where possible */
    bool    uncached; /* one of so many that the decoded ones do not stay in the caches */
} haul__image_form;

/* Checks the options `size` and `channels`, in which 0 means the default. */
haul_status haul__image_form_init(haul__image_form *form, const int64_t size[2], int channels, const char *operation);

/* Gives a form without a size that of a measured image; fails if the form has another size, which it got from the
 * picture at `first`. */
haul_status haul__image_form_take_size(haul__image_form *form, const haul__image *image, const char *first);

/* Reads the file at image->path and measures it. haul__image_close frees it, and ignores images that are not open. */
haul_status haul__image_open(haul__image *image);
void        haul__image_close(haul__image *image);

/* Only measures it; reads just the beginning of the file if that is enough. */
haul_status haul__image_measure_file(haul__image *image);

/* Decodes an open image into `out`, channels x height x width bytes in that form. */
haul_status haul__image_put(const haul__image *image, const haul__image_form *form, uint8_t *out);

/* Finds height, width and orientation of image->data; ignores the rest of the file. */
haul_status haul__image_measure(haul__image *image);

/* Bytes of a decoded pixel: red, green, blue, and one without meaning. */
enum { HAUL__PIXEL = 4 };
/* Bytes after a row that may be read. */
enum { HAUL__ROW_PADDING = 64 };

/* What takes the rows of an upright picture, from the first to the last. */
typedef struct haul__image_rows {
    void (*take)(void *context, uint8_t *row); /* a row of pixels, which it may change, and the padding */
    void    *context;
    int64_t  first, last; /* the columns that are used, last excluded: the others may be left out */
    uint8_t *row;         /* memory for decoders to use: a row, one more pixel, and the padding */
    uint8_t *planes; /* [3, height, width], where decoders may put the whole picture in place of taking rows; or NULL */
    bool     uncached; /* these need not be in the caches afterwards */
    uint8_t *lines;    /* three planes of a row, `line` bytes apart, where they may put each row before they call */
    int64_t  line;     /* take_lines in place of `take`; or NULL */
    void (*take_lines)(void *context);
    int shrink; /* the picture is decoded at 1/shrink of its size, rounded up: 1, and 2, 4 or 8 if it can_shrink */
} haul__image_rows;

/* A side of the picture as it is decoded. */
static inline int64_t haul__image_shrunk(int64_t side, int shrink)
{
    return (side + shrink - 1) / shrink;
}

/* Decodes image->data. Grey, palettes and CMYK become RGB, transparency is dropped, 16 bits become 8. The picture must
 * have the image's height and width. */
haul_status haul__image_decode(const haul__image *image, const haul__image_rows *rows);

/* Writes the stored numbers of an open PNG file, grey values or indices into its palette, height x width bytes; fails
 * if it has colours or more than 8 bits. The picture must be upright. */
haul_status haul__image_numbers(const haul__image *image, uint8_t *out);

/* ---- resizing ---- */

/* For each of `out` places along a side of the resized picture the nearest of the `in` pixels: the side has `scaled`
 * pixels before it is cut. */
void haul__image_nearest(int64_t in, int64_t scaled, int64_t out, int64_t *nearest);

typedef struct haul__side {
    int64_t cut;          /* results before the first one that is kept */
    double  scale, reach; /* inputs of a result; the distance at which weights become 0 */
} haul__side;

/* The smallest size with the image's proportions that covers height x width. */
void haul__image_cover(const haul__image *image, int64_t *height, int64_t *width);

/* Scales pixels to the smallest size that covers another one, and crops the centre. */
typedef struct haul__scaler {
    const haul__scale_loops *loops;
    haul__side               down_side, across_side;
    haul__scale_axis         down, across;
    int                      planes;       /* the channels, if rows of planes are scaled; 0 for rows of pixels */
    int64_t                  line, plane;  /* bytes from a plane of a row to the next, before and after scaling */
    uint8_t                 *lines;        /* [planes, line]: the row that is taken */
    int64_t                  pitch;        /* bytes from a scaled row to the next, a multiple of the padding */
    uint8_t                 *rows;         /* [down.taps, pitch]; row y is at y % down.taps */
    uint8_t                 *result;       /* [pitch] */
    const uint8_t          **window;       /* [down.stored] */
    double                  *temporary;    /* weights that are being computed, */
    int32_t                 *rounded;      /* and as they are stored */
    int64_t                  taken, given; /* rows so far */
} haul__scaler;

/* Returns the bytes of memory that haul__scaler_begin uses until the end, a multiple of HAUL__ROW_PADDING. */
size_t haul__scaler_plan(haul__scaler *s, const haul__image *image, int64_t height, int64_t width, int channels);
void   haul__scaler_begin(haul__scaler *s, uint8_t *memory);
/* The columns of the picture that it uses, *last excluded. */
void haul__scaler_columns(const haul__scaler *s, int64_t *first, int64_t *last);

/* Takes the next row of the picture: from s->lines, if s->planes is not 0; else the pixels of `row` and its padding. */
void haul__scaler_take(haul__scaler *s, const uint8_t *row);
/* The next row of the result, valid until the next call: planes that are s->plane bytes apart, or pixels. NULL if it
 * needs rows that have not been taken. */
const uint8_t *haul__scaler_give(haul__scaler *s);

/* ---- for the readers of formats ---- */

/* One function for each format: with rows == NULL it measures, else it decodes. */
typedef haul_status haul__image_reader(haul__image *image, const haul__image_rows *rows);
haul__image_reader  haul__read_jpeg, haul__read_png;
haul_status         haul__read_png_numbers(const haul__image *image, uint8_t *out);

/* Fails with HAUL_FORMAT and the decoder's message. */
haul_status haul__image_unsound(const haul__image *image, const char *what);
haul_status haul__image_no_memory(const haul__image *image, size_t bytes);

/* The orientation in EXIF data (from "II" or "MM" on); 1 if there is none. */
int haul__exif_orientation(const uint8_t *tiff, size_t size);

/* Sets the size and orientation of the stored pixels, and checks them against the limits or, when decoding, against the
 * expected ones. */
haul_status haul__image_set_size(haul__image *image, int64_t height, int64_t width, int orientation, bool decoding);

/* The stored pixels. */
int64_t haul__image_stored_height(const haul__image *image);
int64_t haul__image_stored_width(const haul__image *image);

/* True if stored rows are those of the upright picture. */
bool haul__image_is_upright(const haul__image *image);

/* Writes stored row `y`, turned upright, to the pixels. */
void haul__image_put_row(const haul__image *image, const uint8_t *row, int64_t y, uint8_t *pixels);

/* Memory for all pixels and the padding, which the caller must haul__free; NULL if memory is exhausted. Needed for
 * pictures whose rows do not come in order. */
uint8_t *haul__image_new_pixels(const haul__image *image);
/* Hands them over, row by row. */
void haul__image_hand_over(const haul__image *image, uint8_t *pixels, const haul__image_rows *rows);

#endif
