/* Tar archives: ustar (POSIX.1-1988), pax (POSIX.1-2001), and the long names of GNU tar. */
#ifndef HAUL_FORMATS_ARCHIVE_TAR_H
#define HAUL_FORMATS_ARCHIVE_TAR_H

#include "formats/archive/stream.h"

#define HAUL__TAR_BLOCK 512
/* The longest name of a member. */
#define HAUL__TAR_NAME 4096

/* True if a file begins with the head of a member. */
bool haul__is_tar(const uint8_t *head, size_t size);

/* A file of the archive: its name, which the visitor may change, and its size. The stream is at its first byte; the
 * visitor may read up to `size` bytes. Returns HAUL_END_OF_DATA, without an error, to see no more members. */
typedef haul_status haul__tar_visitor(void *context, char *name, uint64_t size, haul__stream *stream);

/* Calls the visitor for each file, in the order of the archive. Folders are left out. Fails with HAUL_FORMAT for a
 * damaged archive, and for links, devices and files with holes, which it names. */
haul_status haul__tar_scan(const haul__file *file, bool packed, haul__tar_visitor *visit, void *context);

#endif
