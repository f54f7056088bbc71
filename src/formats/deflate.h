/* Compression of zip archives (RFC 1951), by zlib, and their checksums. */
#ifndef HAUL_FORMATS_DEFLATE_H
#define HAUL_FORMATS_DEFLATE_H

#include <stdbool.h>

#include "files/file.h"

/* No deflated byte becomes more than so many bytes. */
#define HAUL__DEFLATE_RATIO 1032

/* The CRC-32 of zip archives, of bytes that follow those of `crc`; it begins with 0. */
uint32_t haul__crc32(uint32_t crc, const void *data, size_t size);

/* Inflates `packed` bytes at `at` of the file and writes `bytes` bytes of the result to out, after the first `skip`. */
haul_status haul__inflate(const haul__file *file, uint64_t at, uint64_t packed, uint64_t skip, void *out, size_t bytes);

/* Deflates into fresh memory, which the caller must haul__free. NULL on failure. */
void *haul__deflate(const char *operation, const void *first, size_t first_size, const void *second, size_t second_size,
                    size_t *size);

#endif
