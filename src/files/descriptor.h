/* Whole blocks of bytes from and to file descriptors, and faults for tests. */
#ifndef HAUL_FILES_DESCRIPTOR_H
#define HAUL_FILES_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

/* False, with errno, after an error; a signal is none. Reading also returns false at the end of the file. */
bool haul__read_all(int file, void *to, size_t size);
bool haul__write_all(int file, const void *from, size_t size);

/* True, with errno EIO, if a test asks that a system call on a file fails, instead of the call. */
bool haul__file_fault(void);

#endif
