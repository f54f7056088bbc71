#include "cli/compare/stream.h"

#include <errno.h>
#include <unistd.h>

bool stream_write(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes;) {
        const ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool stream_read(int fd, void *data, size_t bytes)
{
    for (char *at = data; bytes;) {
        const ssize_t n = read(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

side_hello stream_hello(void)
{
    return (side_hello){.mark = "haul compare 1", .record_size = sizeof(side_record)};
}
