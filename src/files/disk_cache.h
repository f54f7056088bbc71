/* A cache on disk for compiled programs and for choices that were made by timing. */
#ifndef HAUL_FILES_DISK_CACHE_H
#define HAUL_FILES_DISK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The key is any text (source, options, driver, device). Load returns memory that the caller must haul__free, or NULL
 * if there is no entry; a damaged entry counts as none. Store is best effort. The folder is $HAUL_CACHE_DIR, else
 * $XDG_CACHE_HOME/haul, else ~/.cache/haul. */
void *haul__cache_load(const char *key, size_t *bytes);
void  haul__cache_store(const char *key, const void *data, size_t bytes);

/* The folder, for haul__free; NULL if there can be none. Other parts of Haul have folders in it. */
char *haul__cache_folder(void);

/* Makes a folder and those around it, with these permissions (0700: for the user alone). Returns false, with errno, if
 * it does not exist afterwards. Changes the text while it works. */
bool haul__make_folders(char *path, unsigned mode);

/* What happened since the process started: entries that were found, that were not found or were damaged, and that were
 * written. */
typedef struct haul__cache_count {
    int64_t found, missing, stored;
} haul__cache_count;
haul__cache_count haul__cache_counts(void);

#endif
