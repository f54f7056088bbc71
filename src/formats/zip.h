/* Zip archives, as npz files and PyTorch's files are: members that are stored or deflated, with 64-bit sizes. */
#ifndef HAUL_FORMATS_ZIP_H
#define HAUL_FORMATS_ZIP_H

#include <stdbool.h>

#include "files/file.h"

typedef struct haul__zip_member {
    const char *name;         /* UTF-8 */
    uint64_t    offset, data; /* where its header and its bytes begin in the file */
    uint64_t    packed, size; /* bytes in the file, and of the member */
    uint32_t    crc;
    bool        deflated;
    bool        link; /* a symbolic link of Unix, whose bytes are the target's name */
} haul__zip_member;

typedef struct haul__zip {
    haul__zip_member  *members; /* in the order of the file */
    haul__zip_member **by_name; /* sorted */
    uint8_t           *names;
    size_t             count;
} haul__zip;

/* Reads the directory of an archive. The members are within the file and do not overlap, and no name occurs twice.
 * After a failure there is nothing to free. */
haul_status haul__zip_open(haul__zip *zip, const haul__file *file);
void        haul__zip_free(haul__zip *zip);

/* NULL, without recording an error, if there is no member of that name. */
const haul__zip_member *haul__zip_find(const haul__zip *zip, const char *name);

/* Reads `bytes` bytes of a member from `offset` on. */
haul_status haul__zip_read(const haul__file *file, const haul__zip_member *member, uint64_t offset, void *out,
                           size_t bytes);

/* Writes an archive. Sizes and offsets from `limit` on are written as 64-bit numbers. */
#define HAUL__ZIP_LIMIT 0xffffffffu
typedef struct haul__zip_writer {
    haul__writer *file;
    const char   *operation;
    uint64_t      at, limit;
    uint8_t      *directory;
    size_t        size, capacity;
    uint64_t      count;
} haul__zip_writer;

/* A member is two blocks of bytes, one after the other. A stored member begins at a multiple of 64 bytes. */
haul_status haul__zip_put(haul__zip_writer *zip, const char *name, bool compress, const void *first, size_t first_size,
                          const void *second, size_t second_size);
/* Writes the directory. The caller commits the file, and frees `directory`. */
haul_status haul__zip_end(haul__zip_writer *zip);

#endif
