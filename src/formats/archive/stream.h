/* The bytes of a file from the first to the last, unpacked if gzip packed them (RFC 1952, with zlib). */
#ifndef HAUL_FORMATS_ARCHIVE_STREAM_H
#define HAUL_FORMATS_ARCHIVE_STREAM_H

#include <stdbool.h>

#include "files/file.h"

typedef struct haul__stream haul__stream;

/* NULL on failure. The file stays open until the stream is closed. */
haul__stream *haul__stream_open(const haul__file *file, bool packed);
void          haul__stream_close(haul__stream *stream); /* may be NULL */

/* Reads `bytes` bytes, or fewer at the end. `out` may be NULL: the bytes are skipped. A packed file that ends early, or
 * whose checksum is wrong, is an error of status HAUL_FORMAT. */
haul_status haul__stream_read(haul__stream *stream, void *out, uint64_t bytes, uint64_t *got);

/* Where the next byte is, among the unpacked ones. */
uint64_t haul__stream_at(const haul__stream *stream);

#endif
