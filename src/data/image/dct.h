/* The inverse DCT of JPEG's blocks, in the widest vectors that the processor has. The results have the bytes of
 * libjpeg-turbo's accurate method ("islow"), also where coefficients are larger than a picture's can be. */
#ifndef HAUL_DATA_IMAGE_DCT_H
#define HAUL_DATA_IMAGE_DCT_H

#include <stdint.h>

#include "backends/cpu/level.h"

/* Blocks are computed in groups of up to so many. */
enum { HAUL__DCT_GROUP = 4 };

/* Multiplies coefficients by the table, and transforms them. Block i becomes 8 rows of 8 bytes from out + 8 * i on;
 * rows are `pitch` bytes apart. The number of blocks is a multiple of HAUL__DCT_GROUP. */
typedef void haul__dct(const int16_t *coefficients, const uint16_t *table, int64_t blocks, uint8_t *out, int64_t pitch);

/* That of an instruction level that the processor runs; NULL if the library's own is as fast. */
haul__dct *haul__dct_of(haul__cpu_level_id level);

#endif
