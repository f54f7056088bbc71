/* JPEG files whose colours Haul converts itself: straight to planes, or to pixels. libjpeg-turbo decodes them to Y, Cb
 * and Cr. The results have the bytes that it would give, in less time: it has no planes of colours, and its pixels
 * would have to be taken apart again. */
#ifndef HAUL_DATA_IMAGE_JPEG_YCC_H
#define HAUL_DATA_IMAGE_JPEG_YCC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* after stdio.h, which it needs */
#include <jpeglib.h>

#include "data/image/dct.h"
#include "data/image/ycc.h"

typedef struct haul__jpeg_ycc {
    const haul__ycc_loops *loops;
    haul__ycc_kind         kind;
    haul__dct             *dct;         /* transforms blocks of coefficients; NULL if the library does it */
    int64_t                first, last; /* the columns that are converted; `first` is even */
    haul__ycc_target       to;          /* of the first row */
    int64_t                step;        /* bytes from a row of a plane to the next; 0 if rows are taken from there */
    /* Takes a row; NULL if they remain in planes. */
    void (*take)(void *context, int64_t y);
    void *context;
} haul__jpeg_ycc;

/* Sets `loops`, `kind` and `dct`, and returns true, if the picture is of a kind that can be read so. `scaled` says
 * whether its rows will be scaled. Call it after jpeg_read_header, and before jpeg_start_decompress, which it prepares,
 * and which must not be called if it sets `dct`. */
bool haul__jpeg_ycc_begin(struct jpeg_decompress_struct *jpeg, bool scaled, haul__jpeg_ycc *ycc);

/* Reads all rows. Needs the other fields. Errors leave through the library's handler. */
void haul__jpeg_ycc_read(struct jpeg_decompress_struct *jpeg, haul__jpeg_ycc *ycc);

#endif
