/* Fuzzing the archives that datasets are read from: any bytes as a .tar, .tar.gz or .zip file, whose members are all
 * kept and read, and listed as folders. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/error.h"
#include "data/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_small(const void *context, const char *name)
{
    return strlen(name) < *(const size_t *)context;
}

static bool is_any(const char *name, bool is_folder)
{
    return is_folder || *name;
}

/* No name may lead out of a folder; names are sorted, and each is found. */
static void check_name(const haul__archive *archive, size_t i)
{
    const char *name = haul__archive_name(archive, i);
    if (!*name || *name == '/' || strncmp(name, "../", 3) == 0 || strstr(name, "/../") || strstr(name, "//") ||
        (i && strcmp(haul__archive_name(archive, i - 1), name) >= 0) || !haul__archive_has_file(archive, name))
        abort();
}

static void read_all(const haul__tree *tree)
{
    const haul__archive *archive = tree->archive;
    for (size_t i = 0; i < haul__archive_count(archive); i++) {
        uint8_t *bytes;
        size_t   count;
        check_name(archive, i);
        if (haul__archive_read(archive, haul__archive_name(archive, i), 1 << 20, 16, &bytes, &count) == HAUL_OK) {
            memset(bytes + count, 1, 16);
            haul__free(bytes);
        }
    }
    haul__entries entries = {0};
    haul__list_folder(archive, tree->root, is_any, &entries, "fuzz");
    for (size_t i = 1; i < entries.count; i++)
        if (strcmp(entries.items[i - 1], entries.items[i]) > 0)
            abort();
    haul__entries_free(&entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t most = 40;
    char                path[64];
    haul__tree          tree;
    int                 fd = memfd_create("fuzz.tar", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    haul_error_clear();
    if (haul__tree_open(&tree, path, is_small, &most, "fuzz") == HAUL_OK) {
        haul__archive_forget(tree.archive);
        if (haul__archive_keep(tree.archive, is_small, &most) == HAUL_OK)
            read_all(&tree);
        haul__tree_close(&tree);
    }
    close(fd);
    return 0;
}
