/* Archives of files, .tar, .tar.gz and .zip, that are read where they are: nothing is unpacked to disk.
 *
 * A member has the path ARCHIVE/NAME. Members of a .tar and a .zip file are read when they are needed. A .tar.gz file
 * can only be read from its beginning, so the members that are needed are kept in memory. */
#ifndef HAUL_FORMATS_ARCHIVE_ARCHIVE_H
#define HAUL_FORMATS_ARCHIVE_ARCHIVE_H

#include <stdbool.h>

#include "files/file.h"

typedef struct haul__archive haul__archive;

/* True if the file of that path is one that is read here, as far as its first bytes show; anything can be in a packed
 * one. Records no error. */
bool haul__is_archive(const char *path);

/* True if the member of that name is wanted. */
typedef bool haul__archive_wanted(const void *context, const char *name);

/* Reads the names of all members, and fails for names that are absolute or have "..", for links, and for names that
 * occur twice. Members that `keep` wants are kept, as by haul__archive_keep; it may be NULL. NULL on failure. */
haul__archive *haul__archive_of_files(const char *path, const char *operation, haul__archive_wanted *keep,
                                      const void *context);
void           haul__archive_close(haul__archive *archive); /* may be NULL */

/* Keeps the bytes of the wanted members in memory, if it is a .tar.gz file: at most 4 GiB. */
haul_status haul__archive_keep(haul__archive *archive, haul__archive_wanted *wanted, const void *context);
void        haul__archive_forget(haul__archive *archive); /* frees them */

/* Calls `found` with the names of the members in the order of the archive until it returns true, and sets *any to that.
 * It changes its context. */
typedef bool haul__archive_found(void *context, const char *name);
haul_status  haul__archive_look(const char *path, const char *operation, haul__archive_found *found, void *context,
                                bool *any);

/* The archive's own path, as it was given. */
const char *haul__archive_path(const haul__archive *archive);

/* The names of the members, sorted by their bytes: "train/cat/1.png", without "." and empty parts. */
size_t      haul__archive_count(const haul__archive *archive);
const char *haul__archive_name(const haul__archive *archive, size_t index);

/* The first member whose name is not before `name`. */
size_t haul__archive_lower(const haul__archive *archive, const char *name);

/* True if there is a member of that path, or one in the folder of that path. */
bool haul__archive_has_file(const haul__archive *archive, const char *path);
bool haul__archive_has_folder(const haul__archive *archive, const char *path);

/* Reads a whole member of at most `limit` bytes, into memory that has `room` more; the caller must haul__free it.
 * Several threads may call it. Of a .tar.gz file, the member must be kept. */
haul_status haul__archive_read(const haul__archive *archive, const char *path, uint64_t limit, size_t room,
                               uint8_t **data, size_t *size);

#endif
