/* The names of a folder's entries. */
#ifndef HAUL_DATA_FOLDER_H
#define HAUL_DATA_FOLDER_H

#include <dirent.h>
#include <haul/error.h>

typedef struct haul__entries {
    char **items; /* sorted */
    size_t count, capacity;
} haul__entries;

/* True if the entry is wanted. `parent` is the open folder. Must not allocate. */
typedef bool haul__wanted_entry(int parent, const struct dirent *entry);
/* Links are followed. */
bool haul__is_folder(int parent, const struct dirent *entry);

/* The wanted entries of a folder, sorted, without hidden ones. haul__entries_free frees `out`, even after a failure. */
haul_status haul__list_folder(const char *folder, haul__wanted_entry *wanted, haul__entries *out,
                              const char *operation);
void        haul__entries_free(haul__entries *entries);

/* Fails if the folder has an entry of this kind: "FOLDER/ENTRY is a folder within a class". */
haul_status haul__refuse_entries(const char *folder, haul__wanted_entry *kind, const char *what, const char *operation);

/* The index of a name; -1 if it is not among them. */
int64_t haul__entries_find(const haul__entries *entries, const char *name);

#endif
