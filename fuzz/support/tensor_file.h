/* What the targets of files with tensors share. */
#ifndef HAUL_FUZZ_TENSOR_FILE_H
#define HAUL_FUZZ_TENSOR_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Opens the bytes as a file. Every tensor is loaded twice, from the file and from its mapping: both give the same
 * bytes, or fail. */
void load_tensors(const uint8_t *data, size_t size);

/* A sound zip archive, which is written member after member. */
typedef struct archive {
    uint8_t *bytes;
    size_t   size;
    struct {
        const char *name;
        size_t      offset, size;
        uint32_t    crc;
    } members[8];
    int count;
} archive;

void put_member(archive *archive, const char *name, const void *data, size_t size);
/* Writes the directory. The caller frees the bytes. */
void end_archive(archive *archive);

#endif
