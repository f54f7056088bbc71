/* Files, for readers that trust nothing and writers that leave a file either old or new.
 *
 * Errors are HAUL_IO and name the path. Every call that can fail asks haul__fault_point(HAUL__FAULT_FILE) first. */
#ifndef HAUL_IO_FILE_H
#define HAUL_IO_FILE_H

#include <haul/error.h>

/* A regular file opened for reading. `path` and `operation` are for messages; the file does not own them. */
typedef struct haul__file {
    int         fd;
    uint64_t    size; /* when it was opened */
    const char *path, *operation;
} haul__file;

haul_status haul__file_open(haul__file *file, const char *path, const char *operation);
/* Exactly `bytes` bytes from `offset` on; a file that ends before is HAUL_FORMAT. */
haul_status haul__file_read(const haul__file *file, uint64_t offset, void *out, size_t bytes);
void        haul__file_close(haul__file *file); /* closed ones are ignored */

/* A mapping of a whole file, an object that is kept and released. Its memory may be written: pages that are written
 * become the process's own, and the file stays as it is. Reading what a file no longer has, because it was truncated,
 * raises SIGBUS. */
typedef struct haul__mapping haul__mapping;
haul__mapping               *haul__file_map(const haul__file *file); /* NULL on failure; the file has bytes */
/* The same for reading only: its pages are never the process's own. */
haul__mapping *haul__file_map_readonly(const haul__file *file);
uint8_t       *haul__mapping_at(const haul__mapping *mapping, uint64_t offset);

/* Has the file still all the bytes it had when it was opened? If not: HAUL_FORMAT. */
haul_status haul__file_check_size(const haul__file *file);

/* A whole file of at most `limit` bytes, in memory to haul__free. */
haul_status haul__file_read_all(const char *path, const char *operation, uint64_t limit, uint8_t **data, size_t *size);

/* Writing: to PATH.tmp beside the target (which is locked, so that two writers cannot meet, and reused when a killed
 * process left one), then synced and renamed. A target that is a symbolic link is written where it leads. Nothing is
 * written beyond the process's limit on file sizes, which would raise SIGXFSZ: that fails with EFBIG. */
typedef struct haul__writer haul__writer;
haul__writer               *haul__writer_open(const char *path, const char *operation); /* NULL on failure */
haul_status                 haul__writer_put(haul__writer *writer, const void *data, size_t bytes);
/* Makes the new file visible. Ends the writer, also on failure: then the old file is there still, and no other. */
haul_status haul__writer_commit(haul__writer *writer);
void        haul__writer_abandon(haul__writer *writer); /* gives up; NULL is ignored */

#endif
