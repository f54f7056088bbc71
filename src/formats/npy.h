/* The header of an .npy file, parsed from bytes in memory so that tests and fuzzers can call it. */
#ifndef HAUL_FORMATS_NPY_H
#define HAUL_FORMATS_NPY_H

#include <haul/tensor.h>

/* The longest header: 12 bytes and a dictionary of at most 10,000, which is NumPy's limit. */
#define HAUL__NPY_HEAD_LIMIT 10012

typedef struct haul__npy {
    haul_dtype dtype;
    haul_shape shape;
    int64_t    count;
    size_t     offset, bytes; /* of the elements in the file */
    bool       fortran;       /* Fortran order: the first index is fastest */
    bool       big_endian;
} haul__npy;

/* `data` is the beginning of a file of `file_size` bytes: all of it, or at least HAUL__NPY_HEAD_LIMIT bytes. HAUL_OK
 * guarantees that offset + bytes <= file_size. `path` is for messages. */
haul_status haul__npy_parse(const uint8_t *data, size_t size, uint64_t file_size, const char *path, haul__npy *out);

/* Converts the file's elements to row-major ones in the host's byte order; `in` may be changed. */
void haul__npy_decode(const haul__npy *head, uint8_t *in, uint8_t *out);

/* Writes the header of t into `out`, of HAUL__NPY_OWN_HEAD bytes, and returns its size, a multiple of 64; 0: the format
 * has no name for the dtype. */
#define HAUL__NPY_OWN_HEAD 512
size_t haul__npy_head(const haul_tensor *t, char *out, size_t size);

#endif
