/* The file for spilled elements that exceed host memory. It has no name in its folder, so nothing is left of it when
 * the process ends, however it ends.
 *
 * Errors are HAUL_IO; they name the folder, the bytes that are needed, and those that are free. */
#ifndef HAUL_MEMORY_SPILL_FILE_H
#define HAUL_MEMORY_SPILL_FILE_H

#include <haul/error.h>

typedef struct haul__spill_file haul__spill_file;

/* A part of the file, whose space on the disk is reserved. */
typedef struct haul__spill_part haul__spill_part;

/* Opens a file in the folder that grows up to `limit` bytes; 0: as far as the disk has room. NULL on failure. */
haul__spill_file *haul__spill_file_open(const char *folder, int64_t limit, const char *operation);

/* Closes a file of which no part is in use. NULL is ignored. */
void haul__spill_file_close(haul__spill_file *file);

const char *haul__spill_file_folder(const haul__spill_file *file);
void        haul__spill_file_set_limit(haul__spill_file *file, int64_t limit);

/* The bytes of the parts that are in use, and those that the file takes on the disk. */
int64_t haul__spill_file_used(haul__spill_file *file);
int64_t haul__spill_file_bytes(haul__spill_file *file);

/* The most bytes that the file can take: its limit, or as far as the disk has room now; -1: neither is known. */
int64_t haul__spill_file_room(haul__spill_file *file);

/* Reserves space for `bytes`. Only one thread at a time may call it. NULL on failure: the disk or the file is full. */
haul__spill_part *haul__spill_file_reserve(haul__spill_file *file, int64_t bytes);

/* Frees the space for other elements. Any thread may call it, also with locks; it does not wait for the disk. */
void haul__spill_part_release(haul__spill_part *part);

/* Returns space at the end of the file that no part uses to the disk. */
void haul__spill_file_trim(haul__spill_file *file);

/* Copies `bytes` to or from the part, `at` bytes after its beginning. */
haul_status haul__spill_part_write(haul__spill_part *part, int64_t at, const void *from, int64_t bytes);
haul_status haul__spill_part_read(haul__spill_part *part, int64_t at, void *to, int64_t bytes);

#endif
