#include "files/descriptor.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"

bool haul__read_all(int file, void *to, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = read(file, (char *)to + at, size - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

bool haul__write_all(int file, const void *from, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t put = write(file, (const char *)from + at, size - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += (size_t)put;
    }
    return true;
}

bool haul__file_fault(void)
{
    if (!haul__fault_point(HAUL__FAULT_FILE))
        return false;
    errno = EIO;
    return true;
}
