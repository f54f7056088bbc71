/* Lists folders. Names are sorted, so that numbers do not depend on the file system. */
#include "data/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/text/plain.h"
#include "core/error.h"

void haul__entries_free(haul__entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        haul__free(entries->items[i]);
    haul__free(entries->items);
    *entries = (haul__entries){0};
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool haul__is_folder(int parent, const struct dirent *entry)
{
    struct stat info;
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
        return entry->d_type == DT_DIR;
    return fstatat(parent, entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

static haul_status add(haul__entries *out, const char *name, const char *operation)
{
    char *copy = haul__strdup(name);
    if (copy && haul__grow(&out->items, &out->capacity, out->count + 1, sizeof *out->items)) {
        out->items[out->count++] = copy;
        return HAUL_OK;
    }
    haul__free(copy);
    return haul__fail_memory(operation, sizeof *out->items);
}

haul_status haul__list_folder(const char *folder, haul__wanted_entry *wanted, haul__entries *out, const char *operation)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return haul__fail(HAUL_IO, operation, "directory", "cannot open the folder %s: %s", folder,
                          haul__strerror(errno));
    haul_status          status = HAUL_OK;
    const struct dirent *entry;
    while (status == HAUL_OK && (errno = 0, entry = readdir(dir)))
        if (entry->d_name[0] != '.' && wanted(dirfd(dir), entry))
            status = add(out, entry->d_name, operation);
    if (status == HAUL_OK && errno)
        status =
            haul__fail(HAUL_IO, operation, "directory", "cannot read the folder %s: %s", folder, haul__strerror(errno));
    closedir(dir);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare);
    return status;
}

haul_status haul__refuse_entries(const char *folder, haul__wanted_entry *kind, const char *what, const char *operation)
{
    haul__entries found = {0};
    haul_status   status = haul__list_folder(folder, kind, &found, operation);
    if (status == HAUL_OK && found.count)
        status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "directory", "%s/%s %s", folder, found.items[0], what);
    haul__entries_free(&found);
    return status;
}

int64_t haul__entries_find(const haul__entries *entries, const char *name)
{
    char *const *found =
        entries->count ? bsearch(&name, entries->items, entries->count, sizeof *entries->items, compare) : NULL;
    return found ? found - entries->items : -1;
}
