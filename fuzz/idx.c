/* Fuzzing the reader of IDX files, plain and packed by gzip: any bytes as a file. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/error.h"
#include "data/idx.h"
#include "formats/gzip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char      path[64];
    int64_t   dims[3];
    size_t    begin = 0, unpacked = 0;
    uint8_t  *bytes = NULL;
    const int fd = memfd_create("fuzz.idx", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    haul_error_clear();
    if (haul__file_read_all(path, "fuzz", 1 << 20, 0, &bytes, &unpacked) == HAUL_OK &&
        haul__gunzip(&bytes, &unpacked, path, "fuzz", 1 << 20) == HAUL_OK &&
        haul__idx_check(bytes, unpacked, 3, "fuzz", path, dims, &begin) == HAUL_OK &&
        (uint64_t)dims[0] * (uint64_t)dims[1] * (uint64_t)dims[2] != unpacked - begin)
        abort();
    haul__free(bytes);
    close(fd);
    return 0;
}
