/* Lists folders. Names are sorted, so that numbers do not depend on the file system. */
#include "data/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
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

bool haul__is_folder(const char *name, bool is_folder)
{
    (void)name;
    return is_folder;
}

static bool is_folder_of(int parent, const struct dirent *entry)
{
    struct stat info;
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
        return entry->d_type == DT_DIR;
    return fstatat(parent, entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

static haul_status add(haul__entries *out, const char *name, size_t length, const char *operation)
{
    char *copy = haul__format("%.*s", (int)length, name);
    if (copy && haul__grow(&out->items, &out->capacity, out->count + 1, sizeof *out->items)) {
        out->items[out->count++] = copy;
        return HAUL_OK;
    }
    haul__free(copy);
    return haul__fail_memory(operation, sizeof *out->items);
}

static haul_status list_on_disk(const char *folder, haul__wanted_entry *wanted, haul__entries *out,
                                const char *operation)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return haul__fail(HAUL_IO, operation, "directory", "cannot open the folder %s: %s", folder,
                          haul__strerror(errno));
    haul_status          status = HAUL_OK;
    const struct dirent *entry;
    while (status == HAUL_OK && (errno = 0, entry = readdir(dir)))
        if (entry->d_name[0] != '.' && wanted(entry->d_name, is_folder_of(dirfd(dir), entry)))
            status = add(out, entry->d_name, strlen(entry->d_name), operation);
    if (status == HAUL_OK && errno)
        status =
            haul__fail(HAUL_IO, operation, "directory", "cannot read the folder %s: %s", folder, haul__strerror(errno));
    closedir(dir);
    return status;
}

/* ---- archives ---- */

/* A folder's members have a range of the sorted names. */
static haul_status list_in_archive(const haul__archive *a, const char *folder, haul__wanted_entry *wanted,
                                   haul__entries *out, const char *operation)
{
    const size_t path = strlen(haul__archive_path(a));
    HAUL__ASSERT(strncmp(folder, haul__archive_path(a), path) == 0 && (!folder[path] || folder[path] == '/'));
    char        *prefix = haul__format("%s%s", folder[path] ? folder + path + 1 : "", folder[path] ? "/" : "");
    haul_status  status = prefix ? HAUL_OK : haul__fail_memory(operation, strlen(folder));
    const size_t length = prefix ? strlen(prefix) : 0;
    const char  *last = NULL; /* the folder that was seen last, and the length of its name */
    size_t       last_length = 0;
    for (size_t i = prefix ? haul__archive_lower(a, prefix) : 0; status == HAUL_OK && i < haul__archive_count(a); i++) {
        const char *name = haul__archive_name(a, i);
        if (strncmp(name, prefix, length) != 0)
            break;
        name += length;
        const size_t part = strcspn(name, "/");
        char         entry[NAME_MAX + 1];
        if (part == last_length && last && memcmp(last, name, part) == 0 && name[part] == '/')
            continue;
        if (name[part] == '/') {
            last = name;
            last_length = part;
        }
        if (*name == '.' || part >= sizeof entry)
            continue;
        memcpy(entry, name, part);
        entry[part] = 0;
        if (wanted(entry, name[part] == '/'))
            status = add(out, name, part, operation);
    }
    haul__free(prefix);
    return status;
}

haul_status haul__list_folder(const haul__archive *archive, const char *folder, haul__wanted_entry *wanted,
                              haul__entries *out, const char *operation)
{
    HAUL__ASSERT(!out->count);
    haul_status status = archive ? list_in_archive(archive, folder, wanted, out, operation)
                                 : list_on_disk(folder, wanted, out, operation);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare);
    return status;
}

haul_status haul__refuse_entries(const haul__archive *archive, const char *folder, haul__wanted_entry *kind,
                                 const char *what, const char *operation)
{
    haul__entries found = {0};
    haul_status   status = haul__list_folder(archive, folder, kind, &found, operation);
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

bool haul__tree_has_file(const haul__archive *archive, const char *path)
{
    return archive ? haul__archive_has_file(archive, path) : access(path, F_OK) == 0;
}

bool haul__tree_has_folder(const haul__archive *archive, const char *path)
{
    struct stat info;
    return archive ? haul__archive_has_folder(archive, path) : stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

haul_status haul__tree_read_all(const haul__archive *archive, const char *path, const char *operation, uint64_t limit,
                                size_t room, uint8_t **data, size_t *size)
{
    return archive ? haul__archive_read(archive, path, limit, room, data, size)
                   : haul__file_read_all(path, operation, limit, room, data, size);
}

/* ---- opening ---- */

static bool is_any(const char *name, bool is_folder)
{
    (void)name, (void)is_folder;
    return true;
}

static bool has_own_meaning(const char *name)
{
    static const char *const names[] = {"train", "test", "images", "masks"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Goes one folder down if it is all that the root has, and has folders. */
static haul_status descend(haul__tree *tree, bool *changed, const char *operation)
{
    haul__entries all = {0}, inner = {0};
    char         *down = NULL;
    haul_status   status = haul__list_folder(tree->archive, tree->root, is_any, &all, operation);
    *changed = false;
    if (status == HAUL_OK && all.count == 1 && !has_own_meaning(all.items[0])) {
        down = haul__format("%s/%s", tree->root, all.items[0]);
        status = down ? haul__list_folder(tree->archive, down, haul__is_folder, &inner, operation)
                      : haul__fail_memory(operation, strlen(tree->root));
        *changed = status == HAUL_OK && inner.count;
    }
    if (*changed) {
        haul__free(tree->root);
        tree->root = down;
        down = NULL;
    }
    haul__free(down);
    haul__entries_free(&inner);
    haul__entries_free(&all);
    return status;
}

haul_status haul__tree_open(haul__tree *tree, const char *directory, haul__archive_wanted *keep, const void *context,
                            const char *operation)
{
    struct stat info;
    bool        changed = false;
    haul_status status = HAUL_OK;
    *tree = (haul__tree){.root = haul__strdup(directory)};
    if (!tree->root)
        return haul__fail_memory(operation, strlen(directory));
    if (stat(directory, &info) == 0 && S_ISREG(info.st_mode)) {
        tree->archive = haul__archive_of_files(directory, operation, keep, context);
        changed = tree->archive != NULL;
        status = changed ? HAUL_OK : haul_error_status();
    }
    while (status == HAUL_OK && changed)
        status = descend(tree, &changed, operation);
    if (status)
        haul__tree_close(tree);
    return status;
}

void haul__tree_close(haul__tree *tree)
{
    haul__archive_close(tree->archive);
    haul__free(tree->root);
    *tree = (haul__tree){.root = NULL};
}
