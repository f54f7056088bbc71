/* Small pictures as PNG files in memory (ISO/IEC 15948), with deflate's stored blocks (RFC 1950 and 1951): the pictures
 * of the page are so small that compressing them would save little. */
#ifndef CLI_REPORT_DRAW_PNG_H
#define CLI_REPORT_DRAW_PNG_H

#include <stddef.h>

enum { PNG_MOST_SIDE = 128 };

/* Encodes bytes [height][width][channels] with 1 or 3 channels and sides of at most PNG_MOST_SIDE. The caller must free
 * the result; NULL if memory is exhausted. */
unsigned char *png_encode(const unsigned char *pixels, int width, int height, int channels, size_t *size);

#endif
