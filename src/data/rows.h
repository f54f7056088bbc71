/* Rows of planes, moved and mirrored eight bytes at a time: rows of small pictures are too short for functions of the C
 * library. */
#ifndef HAUL_DATA_ROWS_H
#define HAUL_DATA_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* Planes of rows; elements have 1, 2, 4 or 8 bytes. */
typedef struct haul__planes {
    int64_t count, height, width;
    size_t  element; /* bytes */
} haul__planes;

/* out[y][x] = in[y + dy][x + dx] in each plane, and 0 where that is outside. The two do not overlap. */
void haul__planes_shift(const haul__planes *planes, const uint8_t *in, int64_t dy, int64_t dx, uint8_t *out);

/* Reverses each row, in place. */
void haul__planes_mirror(const haul__planes *planes, uint8_t *rows);

#endif
