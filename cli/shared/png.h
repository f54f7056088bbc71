/* Small pictures as PNG files in memory (ISO/IEC 15948), with deflate's stored blocks (RFC 1950 and 1951): they are so
 * small that compressing them would save little. */
#ifndef CLI_SHARED_PNG_H
#define CLI_SHARED_PNG_H

#include <stddef.h>

/* Encodes bytes [height][width][channels] with 1 or 3 channels. The caller must free the result; NULL if memory is
 * exhausted. */
unsigned char *png_encode(const unsigned char *pixels, int width, int height, int channels, size_t *size);

#endif
