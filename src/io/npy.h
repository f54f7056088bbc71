/* The head of an .npy file, read from bytes in memory so that tests and fuzzers reach it. */
#ifndef HAUL_IO_NPY_H
#define HAUL_IO_NPY_H

#include <haul/tensor.h>

/* No head is longer than this: 12 bytes and a dictionary of at most 10,000, as NumPy limits it. */
#define HAUL__NPY_HEAD_LIMIT 10012

typedef struct haul__npy {
    haul_dtype dtype;
    haul_shape shape;
    int64_t    count;
    size_t     offset, bytes; /* where the elements lie in the file */
    bool       fortran;       /* first index fastest */
    bool       big_endian;
} haul__npy;

/* `data` is the beginning of a file of `file_size` bytes: all of it, or at least HAUL__NPY_HEAD_LIMIT bytes. HAUL_OK
 * promises that offset + bytes <= file_size. `path` is for messages. */
haul_status haul__npy_parse(const uint8_t *data, size_t size, uint64_t file_size, const char *path, haul__npy *out);

/* Row-major elements in the host's order from what the file holds; `in` may be changed. */
void haul__npy_decode(const haul__npy *head, uint8_t *in, uint8_t *out);

#endif
