/* Pictures to PNG and JPEG files. */
#ifndef HAUL_DATA_IMAGE_WRITE_H
#define HAUL_DATA_IMAGE_WRITE_H

#include <haul/error.h>
#include <stdint.h>

#include "files/file.h"

/* One picture, on its way to a file that is not complete yet. */
typedef struct haul__picture_out {
    const char    *path, *operation; /* for messages */
    haul__writer  *writer;
    const uint8_t *planes; /* [channels, height, width] */
    uint8_t       *row;    /* memory for a row of pixels */
    int64_t        height, width;
    int            channels, quality; /* 1 or 3; of JPEG: 1 to 100 */
} haul__picture_out;

/* One function for each format. */
typedef haul_status  haul__picture_writer(const haul__picture_out *picture);
haul__picture_writer haul__write_png, haul__write_jpeg;

/* The pixels of row y in picture->row: one byte, or red, green and blue. */
void haul__picture_row(const haul__picture_out *picture, int64_t y);

haul_status haul__picture_fails(const haul__picture_out *picture, const char *what);
haul_status haul__picture_no_memory(const haul__picture_out *picture);

#endif
