/* Text files that are read whole. */
#ifndef CLI_SHARED_TEXT_FILE_H
#define CLI_SHARED_TEXT_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The whole file with a NUL at its end, to free; `limit` is the most bytes. NULL after a complaint. */
char *text_file_read(const char *path, uint64_t limit, size_t *size);

/* The line of a place in a text, from 1. */
int text_file_line(const char *text, const char *place);

#endif
