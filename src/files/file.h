/* Files, for readers that validate everything and for writers that leave either the old file or the new one.
 *
 * Errors are HAUL_IO and name the path. Every call that can fail asks haul__fault_point(HAUL__FAULT_FILE) first. */
#ifndef HAUL_FILES_FILE_H
#define HAUL_FILES_FILE_H

#include <haul/error.h>

/* A regular file opened for reading. `path` and `operation` are for messages; the caller owns them. */
typedef struct haul__file {
    int            fd;
    uint64_t       size; /* when it was opened */
    const char    *path, *operation;
    const uint8_t *memory; /* the file's bytes, if it is a part of another one that was read; else NULL */
} haul__file;

haul_status haul__file_open(haul__file *file, const char *path, const char *operation);
/* Bytes in memory as a file. The caller keeps them until it closes the file. */
void        haul__file_open_memory(haul__file *file, const uint8_t *data, size_t size, const char *path,
                                   const char *operation);
haul_status haul__file_open_unlinked(haul__file *file, const char *path, const char *operation); /* refuses a link */
/* Reads exactly `bytes` bytes from `offset` on; fails with HAUL_FORMAT if the file ends before. */
haul_status haul__file_read(const haul__file *file, uint64_t offset, void *out, size_t bytes);
void        haul__file_close(haul__file *file); /* ignored if it is closed */

/* A mapping of a whole file, an object with references. Its memory may be written: written pages become private to the
 * process, and the file does not change. Reading pages that a truncation removed raises SIGBUS. */
typedef struct haul__mapping haul__mapping;
haul__mapping               *haul__file_map(const haul__file *file); /* NULL on failure; the file is not empty */
/* The same for reading only: all pages stay shared. */
haul__mapping *haul__file_map_readonly(const haul__file *file);
uint8_t       *haul__mapping_at(const haul__mapping *mapping, uint64_t offset);

/* Checks that the file still has as many bytes as when it was opened. If not: HAUL_FORMAT. */
haul_status haul__file_check_size(const haul__file *file);

/* Checks that the file had at most `limit` bytes when it was opened. If not: HAUL_FORMAT. */
haul_status haul__file_check_limit(const haul__file *file, uint64_t limit);

/* Reads a whole file of at most `limit` bytes, into memory that has `room` more; the caller must haul__free it. */
haul_status haul__file_read_all(const char *path, const char *operation, uint64_t limit, size_t room, uint8_t **data,
                                size_t *size);

/* Writes to PATH.tmp in the same folder, then syncs and renames it. PATH.tmp is locked, so that two writers cannot
 * meet. It is always a fresh file: one that a killed process left is removed, and what has other names keeps its
 * contents. If the target is a symbolic link, the file that it points to is replaced. The new file has the permissions
 * of the one that it replaces; where there is none, the umask decides. Nothing is written beyond the process's limit on
 * file sizes, which would raise SIGXFSZ: that fails with EFBIG. */
typedef struct haul__writer haul__writer;
haul__writer               *haul__writer_open(const char *path, const char *operation); /* NULL on failure */
haul_status                 haul__writer_put(haul__writer *writer, const void *data, size_t bytes);
/* Makes the new file visible. Ends the writer even on failure; then only the old file is there. */
haul_status haul__writer_commit(haul__writer *writer);
void        haul__writer_abandon(haul__writer *writer); /* gives up; NULL is ignored */

/* Writes a whole file this way. */
haul_status haul__file_write_all(const char *path, const char *operation, const void *data, size_t size);

#endif
