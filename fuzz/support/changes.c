#include "changes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t change(uint8_t *file, size_t size, const uint8_t *by)
{
    const size_t place = ((size_t)by[0] << 8 | by[1]) % size, rest = size - place;
    const size_t count = by[3] % 16 < rest ? by[3] % 16 : rest;
    switch (by[2] % 4) {
    case 0: file[place] = by[3]; return size;
    case 1: file[place] ^= (uint8_t)(1 << by[3] % 8); return size;
    case 2:
        if (count == size)
            return size;
        memmove(file + place, file + place + count, rest - count);
        return size - count;
    default:
        if (size + count > ROOM)
            return size;
        memmove(file + place + count, file + place, rest);
        return size + count;
    }
}

size_t change_file(uint8_t *file, size_t size, const uint8_t *by, size_t by_size)
{
    for (size_t i = 0; i + 4 <= by_size && i < 4 * CHANGES; i += 4)
        size = change(file, size, by + i);
    return size;
}

int open_bytes(const uint8_t *data, size_t size, char path[PATH_SIZE])
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, PATH_SIZE, "/proc/self/fd/%d", fd);
    return fd;
}
