/* The check of IDX files of bytes, on bytes in memory so that tests and fuzzers can call it. */
#ifndef HAUL_DATA_IDX_H
#define HAUL_DATA_IDX_H

#include <haul/error.h>

/* Bytes in so many dimensions, 1 to 3, whose sizes dims becomes. *begin: where the elements are. */
haul_status haul__idx_check(const uint8_t *data, size_t size, int ndim, const char *operation, const char *path,
                            int64_t dims[3], size_t *begin);

#endif
