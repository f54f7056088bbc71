/* A folder of shards: safetensors files with the same tensors, or npy files. */
#include <dirent.h>
#include <errno.h>
#include <haul/files.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/ascii.h"
#include "base/text/plain.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/object.h"
#include "data/arrays.h"
#include "formats/safetensors.h"

#define OPEN "haul_shard_dataset"

/* ---- the files ---- */

typedef struct names {
    char **items;
    size_t count, capacity;
} names;

static void names_free(names *n)
{
    for (size_t i = 0; i < n->count; i++)
        haul__free(n->items[i]);
    haul__free(n->items);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static haul_status add_name(names *n, const char *folder, const char *name)
{
    char *path = haul__format("%s/%s", folder, name);
    if (path && haul__grow(&n->items, &n->capacity, n->count + 1, sizeof *n->items)) {
        n->items[n->count++] = path;
        return HAUL_OK;
    }
    haul__free(path);
    return haul__fail_memory(OPEN, sizeof *n->items);
}

/* The paths of all shards, sorted. Hidden files are left out. */
static haul_status list(const char *folder, names *out)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return haul__fail(HAUL_IO, OPEN, "directory", "cannot open the folder %s: %s", folder, haul__strerror(errno));
    haul_status          status = HAUL_OK;
    const struct dirent *entry;
    while (status == HAUL_OK && (errno = 0, entry = readdir(dir)))
        if (entry->d_name[0] != '.' &&
            (haul__ends_with(entry->d_name, ".npy") || haul__ends_with(entry->d_name, ".safetensors")))
            status = add_name(out, folder, entry->d_name);
    if (status == HAUL_OK && errno)
        status = haul__fail(HAUL_IO, OPEN, "directory", "cannot read the folder %s: %s", folder, haul__strerror(errno));
    closedir(dir);
    if (status == HAUL_OK && !out->count)
        status = haul__fail(HAUL_IO, OPEN, "directory", "%s has no files that end in .safetensors or .npy", folder);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare);
    return status;
}

/* ---- npy ---- */

static haul_status add_npy(haul__arrays *a, const char *path)
{
    haul__array  array = {NULL};
    haul__npy    head;
    haul__shard *shard = NULL;
    haul_status  status = haul__array_open_npy(&array, path, &head, OPEN);
    if (status == HAUL_OK)
        status = a->field_count ? haul__arrays_check_field(a, 0, head.dtype, &head.shape, path, OPEN)
                                : haul__arrays_add_field(a, "x", 1, head.dtype, &head.shape, OPEN);
    if (status == HAUL_OK && !(shard = haul__arrays_add_shard(a, head.shape.dims[0], OPEN)))
        status = haul_error_status();
    HAUL__ASSERT(!shard || a->field_count == 1);
    if (shard)
        shard->arrays[0] = array;
    else
        haul__object_release(array.mapping);
    return status;
}

/* ---- safetensors ---- */

/* The fields of the first file are those of the dataset; others must have the same. */
static haul_status match_fields(haul__arrays *a, const haul__safetensors_header *header, const char *path)
{
    haul_status status = HAUL_OK;
    bool        first = !a->field_count;
    if (!header->count || (!first && header->count != a->field_count))
        return haul__fail(HAUL_FORMAT, OPEN, "path", "%s has %d tensors; the files before it have %d", path,
                          header->count, a->field_count);
    for (int f = 0; f < header->count && status == HAUL_OK; f++) {
        const haul__safetensors_entry *e = header->by_name[f];
        char                           quoted[HAUL__QUOTED_SIZE];
        if (!e->dtype)
            return haul__fail(HAUL_DTYPE, OPEN, "path", "%s in %s has the dtype %s, which is not supported",
                              haul__quoted(e->name, quoted), path, e->dtype_name);
        if (!first && strcmp(e->name, a->fields[f].name) != 0)
            return haul__fail(HAUL_FORMAT, OPEN, "path", "%s has a tensor %s; the files before it have %s", path,
                              haul__quoted(e->name, quoted), a->fields[f].name);
        status = first ? haul__arrays_add_field(a, e->name, strlen(e->name), e->dtype, &e->shape, OPEN)
                       : haul__arrays_check_field(a, f, e->dtype, &e->shape, path, OPEN);
        if (status == HAUL_OK && e->shape.dims[0] != header->by_name[0]->shape.dims[0])
            status = haul__fail(HAUL_FORMAT, OPEN, "path", "%s has %lld examples of %s and %lld of %s", path,
                                (long long)header->by_name[0]->shape.dims[0], a->fields[0].name,
                                (long long)e->shape.dims[0], a->fields[f].name);
    }
    return status;
}

static haul_status map_shard(haul__arrays *a, const haul__safetensors_header *header, const haul__file *file,
                             uint64_t data)
{
    HAUL__ASSERT(header->count == a->field_count);
    haul__mapping *mapping = haul__file_map_readonly(file);
    haul__shard   *shard = mapping ? haul__arrays_add_shard(a, header->by_name[0]->shape.dims[0], OPEN) : NULL;
    for (int f = 0; shard && f < a->field_count; f++) {
        haul__object_keep(mapping);
        shard->arrays[f].mapping = mapping;
        shard->arrays[f].data = haul__mapping_at(mapping, data + header->by_name[f]->begin);
    }
    haul__object_release(mapping);
    return shard ? HAUL_OK : haul_error_status();
}

static haul_status add_safetensors(haul__arrays *a, const char *path)
{
    haul__file               file;
    haul__safetensors_header header;
    uint64_t                 data = 0;
    haul_status              status = haul__file_open(&file, path, OPEN);
    if (status)
        return status;
    if (haul__safetensors_read_header(&file, &header, &data)) {
        status = haul__fail_within(OPEN);
    } else {
        status = match_fields(a, &header, path);
        if (status == HAUL_OK)
            status = map_shard(a, &header, &file, data);
        haul__safetensors_free(&header);
    }
    haul__file_close(&file);
    return status;
}

/* ---- all of them ---- */

static haul_status add_files(haul__arrays *a, const char *directory)
{
    names       files = {0};
    haul_status status = list(directory, &files);
    HAUL__ASSERT(status || files.count > 0);
    for (size_t i = 0; i < files.count && status == HAUL_OK; i++) {
        bool npy = haul__ends_with(files.items[i], ".npy");
        if (npy != haul__ends_with(files.items[0], ".npy"))
            status =
                haul__fail(HAUL_FORMAT, OPEN, "directory",
                           "%s has both npy and safetensors files: keep shards of one kind in a folder", directory);
        else
            status = npy ? add_npy(a, files.items[i]) : add_safetensors(a, files.items[i]);
    }
    names_free(&files);
    return status;
}

haul_dataset *haul_shard_dataset(const char *directory)
{
    if (!directory) {
        haul__fail_null(OPEN, "directory");
        return NULL;
    }
    haul__arrays *a = haul__arrays_new(directory, OPEN);
    if (!a)
        return NULL;
    if (add_files(a, directory) == HAUL_OK)
        return haul__arrays_dataset(a, OPEN);
    haul__arrays_free(a);
    return NULL;
}
