/* Folders, on disk or in an archive, which is read without unpacking it. */
#ifndef HAUL_DATA_FOLDER_H
#define HAUL_DATA_FOLDER_H

#include "formats/archive/archive.h"

/* What a dataset is read from. */
typedef struct haul__tree {
    haul__archive *archive; /* NULL: it is on disk */
    char          *root;    /* the path of the folder, also within the archive: ARCHIVE/FOLDER */
} haul__tree;

/* `directory` is a folder or an archive. Members that `keep` wants are kept (haul__archive_of_files). Where an archive
 * has nothing but one folder, with folders in it, that one is the root; so is a folder in it alone. A folder with the
 * name of a split, or of a part of pictures with masks, is never one. After a failure there is nothing to close. */
haul_status haul__tree_open(haul__tree *tree, const char *directory, haul__archive_wanted *keep, const void *context,
                            const char *operation);
void        haul__tree_close(haul__tree *tree);

bool haul__tree_has_file(const haul__archive *archive, const char *path);
bool haul__tree_has_folder(const haul__archive *archive, const char *path);

/* haul__file_read_all, also from an archive. */
haul_status haul__tree_read_all(const haul__archive *archive, const char *path, const char *operation, uint64_t limit,
                                size_t room, uint8_t **data, size_t *size);

typedef struct haul__entries {
    char **items; /* sorted */
    size_t count, capacity;
} haul__entries;

/* True if the entry is wanted. Must not allocate. */
typedef bool haul__wanted_entry(const char *name, bool is_folder);
/* Links on disk are followed. */
haul__wanted_entry haul__is_folder;

/* The wanted entries of a folder, sorted, without hidden ones. haul__entries_free frees `out`, even after a failure. */
haul_status haul__list_folder(const haul__archive *archive, const char *folder, haul__wanted_entry *wanted,
                              haul__entries *out, const char *operation);
void        haul__entries_free(haul__entries *entries);

/* Fails if the folder has an entry of this kind: "FOLDER/ENTRY is a folder within a class". */
haul_status haul__refuse_entries(const haul__archive *archive, const char *folder, haul__wanted_entry *kind,
                                 const char *what, const char *operation);

/* The index of a name; -1 if it is not among them. */
int64_t haul__entries_find(const haul__entries *entries, const char *name);

#endif
