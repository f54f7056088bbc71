/* Pictures from the bytes of JPEG and PNG files. */
#ifndef HAUL_DATA_IMAGE_H
#define HAUL_DATA_IMAGE_H

#include <haul/error.h>

/* What is refused, whatever a header says. */
#define HAUL__IMAGE_MAX_SIDE   16384
#define HAUL__IMAGE_MAX_PIXELS ((int64_t)1 << 26)

typedef struct haul__image {
    const uint8_t *data; /* the file */
    size_t         size;
    const char    *path; /* for messages */
    int64_t        height, width;
} haul__image;

/* Find height and width out; the rest of the file is not looked at. */
haul_status haul__image_measure(haul__image *image);

/* Decode into planar RGB, 3 x height x width bytes; grey and CMYK become RGB, transparency is dropped, 16 bits
 * become 8. The picture must have the given height and width. */
haul_status haul__image_decode(const haul__image *image, uint8_t *out);

/* One function a format: with out == NULL it measures, else it decodes. */
typedef haul_status haul__image_reader(haul__image *image, uint8_t *out);
haul__image_reader  haul__read_jpeg, haul__read_png;

/* For the readers: HAUL_FORMAT with what the decoder says; the size a header gives, checked against the limits or, when
 * decoding, against what is expected; a row of RGB values spread over the planes. */
haul_status haul__image_unsound(const haul__image *image, const char *what);
haul_status haul__image_set_size(haul__image *image, int64_t height, int64_t width, bool decoding);
void        haul__image_put_row(const haul__image *image, const uint8_t *row, int64_t y, uint8_t *out);

#endif
