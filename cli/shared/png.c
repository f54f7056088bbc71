#include "cli/shared/png.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- check sums ---- */

/* CRC-32 of the PNG specification, appendix D; the first call begins with `crc` 0. */
static uint32_t crc_of(uint32_t crc, const unsigned char *bytes, size_t count)
{
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

/* Adler-32 of RFC 1950. */
static uint32_t adler_of(const unsigned char *bytes, size_t count)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < count; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* ---- writing ---- */

static unsigned char *put_number(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        *at++ = (unsigned char)(value >> (24 - 8 * i));
    return at;
}

/* A chunk around the `count` bytes that stand at at + 8. */
static unsigned char *close_chunk(unsigned char *at, const char *type, size_t count)
{
    put_number(at, (uint32_t)count);
    memcpy(at + 4, type, 4);
    return put_number(at + 8 + count, crc_of(0, at + 4, 4 + count));
}

static unsigned char *put_header(unsigned char *at, int width, int height, int channels)
{
    const unsigned char rest[] = {8, channels == 3 ? 2 : 0, 0, 0, 0};
    unsigned char      *data = put_number(put_number(at + 8, (uint32_t)width), (uint32_t)height);
    memcpy(data, rest, sizeof rest);
    return close_chunk(at, "IHDR", 8 + sizeof rest);
}

/* Rows with the filter "none", in stored blocks of at most 65535 bytes. */
static unsigned char *put_rows(unsigned char *at, const unsigned char *rows, size_t count)
{
    unsigned char *data = at + 8;
    *data++ = 0x78;
    *data++ = 0x01;
    for (size_t done = 0; done < count;) {
        size_t block = count - done < 65535 ? count - done : 65535;
        *data++ = done + block == count;
        *data++ = (unsigned char)block;
        *data++ = (unsigned char)(block >> 8);
        *data++ = (unsigned char)~block;
        *data++ = (unsigned char)(~block >> 8);
        memcpy(data, rows + done, block);
        data += block;
        done += block;
    }
    data = put_number(data, adler_of(rows, count));
    return close_chunk(at, "IDAT", (size_t)(data - at) - 8);
}

unsigned char *png_encode(const unsigned char *pixels, int width, int height, int channels, size_t *size)
{
    static const unsigned char signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    size_t                     line = (size_t)width * (size_t)channels, count = (line + 1) * (size_t)height;
    unsigned char             *rows = calloc(count, 1), *out = malloc(count + 5 * (count / 65535 + 1) + 128), *at = out;
    if (rows && out) {
        for (int y = 0; y < height; y++)
            memcpy(rows + (line + 1) * (size_t)y + 1, pixels + line * (size_t)y, line);
        memcpy(at, signature, sizeof signature);
        at = put_header(at + sizeof signature, width, height, channels);
        at = put_rows(at, rows, count);
        at = close_chunk(at, "IEND", 0);
        *size = (size_t)(at - out);
    } else {
        free(out);
        out = NULL;
    }
    free(rows);
    return out;
}
