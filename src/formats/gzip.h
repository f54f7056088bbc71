/* Files that may be compressed by gzip (RFC 1952). */
#ifndef HAUL_FORMATS_GZIP_H
#define HAUL_FORMATS_GZIP_H

#include <stdbool.h>

#include "files/file.h"

/* True if a file begins as gzip's do. */
bool haul__is_gzip(const uint8_t *head, size_t size);

/* Replaces bytes in memory, from haul__malloc, by what gzip packed in them, at most `limit` bytes; leaves others as
 * they are. `path` is for messages. On failure *data is as it was. */
haul_status haul__gunzip(uint8_t **data, size_t *size, const char *path, const char *operation, uint64_t limit);

#endif
