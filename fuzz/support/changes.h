/* Sound files that are changed as the fuzzer's bytes say, and bytes as files. */
#ifndef HAUL_FUZZ_CHANGES_H
#define HAUL_FUZZ_CHANGES_H

#include <stddef.h>
#include <stdint.h>

/* The largest changed file, and how often it is changed. */
enum { ROOM = 1 << 16, CHANGES = 64 };

/* Changes a file within ROOM bytes, and returns its new size: each four bytes of `by` set a byte, change a bit, take
 * bytes away or double some. */
size_t change_file(uint8_t *file, size_t size, const uint8_t *by, size_t by_size);

/* Opens a file in memory of these bytes, which has this path until it is closed. */
enum { PATH_SIZE = 64 };
int open_bytes(const uint8_t *data, size_t size, char path[PATH_SIZE]);

#endif
