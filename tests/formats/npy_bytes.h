/* npy files as other programs write them. */
#ifndef HAUL_TESTS_FORMATS_NPY_BYTES_H
#define HAUL_TESTS_FORMATS_NPY_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* An npy file of a version, with a header and `count` bytes 0, 1, 2 ... of elements. Returns its size. */
static inline size_t build_npy(uint8_t *out, int version, const char *header, size_t count)
{
    size_t length = strlen(header), start = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    for (size_t i = 8; i < start; i++)
        out[i] = (uint8_t)(length >> 8 * (i - 8));
    memcpy(out + start, header, length);
    for (size_t i = 0; i < count; i++)
        out[start + length + i] = (uint8_t)i;
    return start + length + count;
}

#endif
