/* The orientation of a picture from EXIF data: a TIFF header ("II" or "MM" for the byte order, 42, the offset of the
 * first directory) and directories with entries of 12 bytes. */
#include "data/image/image.h"

#include <string.h>

#include "base/assert.h"

#define ORIENTATION 0x0112
#define SHORT       3 /* the type of a 16-bit number */
#define ENTRY_BYTES 12

typedef struct tiff {
    const uint8_t *data;
    size_t         size;
    bool           big_endian;
} tiff;

/* Reads `bytes` (2 or 4) bytes at `at`, which are within the data. */
static uint32_t number(const tiff *t, size_t at, int bytes)
{
    HAUL__ASSERT((bytes == 2 || bytes == 4) && at + (size_t)bytes <= t->size);
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | t->data[at + (size_t)(t->big_endian ? i : bytes - 1 - i)];
    return value;
}

int haul__exif_orientation(const uint8_t *data, size_t size)
{
    tiff t = {.data = data, .size = size, .big_endian = size && data[0] == 'M'};
    if (size < 8 || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return 1;
    size_t at = number(&t, 4, 4);
    if (at > size - 2)
        return 1;
    size_t entries = number(&t, at, 2);
    for (at += 2; entries && size - at >= ENTRY_BYTES; entries--, at += ENTRY_BYTES) {
        if (number(&t, at, 2) != ORIENTATION || number(&t, at + 2, 2) != SHORT)
            continue;
        uint32_t value = number(&t, at + 8, 2);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
