/* Sharded safetensors files: model.safetensors.index.json is a JSON object whose weight_map has, for the name of each
 * tensor, the name of the file in the same folder that holds it. Index and files must agree on every tensor. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "files/json.h"
#include "formats/file_type.h"
#include "formats/tensor_file.h"

#define OPEN HAUL__OPEN_TENSORS

enum { INDEX_LIMIT = 1 << 28, MAX_DEPTH = 4 };

/* A row of the map. */
typedef struct row {
    const char *shard, *name;
} row;

typedef struct reader {
    haul_safetensors *file;
    const char       *path;
    row              *rows; /* sorted by shard and name */
    size_t            count, capacity;
} reader;

static int compare(const void *a, const void *b)
{
    const row *x = a, *y = b;
    const int  order = strcmp(x->shard, y->shard);
    return order ? order : strcmp(x->name, y->name);
}

static haul_status malformed(const reader *r, const char *name, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, OPEN, "path", "%s is not a valid index of safetensors files: %s %s", r->path,
                      haul__quoted(name, quoted), what);
}

/* ---- the map ---- */

/* The name of a file in the index's folder. */
static bool is_plain_name(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) <= 255;
}

static haul_status read_rows(reader *r, const haul__json *map)
{
    if (!(r->rows = haul__calloc(map->count + 1, sizeof *r->rows)))
        return haul__fail_memory(OPEN, map->count * sizeof *r->rows);
    for (const haul__json *i = map->child; i; i = i->next) {
        if (i->kind != HAUL__JSON_STRING)
            return malformed(r, i->name, "has no name of a file");
        if (!is_plain_name(i->string))
            return malformed(r, i->name, "is in a file whose name leads out of the index's folder, or is hidden");
        HAUL__ASSERT(r->count < map->count);
        r->rows[r->count++] = (row){.shard = i->string, .name = i->name};
    }
    qsort(r->rows, r->count, sizeof *r->rows, compare);
    for (size_t i = 1; i < r->count; i++)
        if (compare(&r->rows[i - 1], &r->rows[i]) == 0)
            return malformed(r, r->rows[i].name, "occurs twice");
    return HAUL_OK;
}

/* The rows from `first` on that name the same file. */
static size_t rows_of_shard(const reader *r, size_t first)
{
    size_t end = first;
    HAUL__ASSERT(first < r->count);
    while (end < r->count && strcmp(r->rows[end].shard, r->rows[first].shard) == 0)
        end++;
    return end - first;
}

/* ---- files ---- */

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? haul__format("%.*s", (int)(slash - path) + 1, path) : haul__strdup("./");
}

/* True if a link leads to a file in the folder itself. */
static bool stays_within(const char *folder, const char *target)
{
    char       *real = realpath(folder, NULL);
    const char *slash = strrchr(target, '/');
    const bool  stays = real && slash && strlen(real) == (size_t)(slash - target) &&
                       strncmp(real, target, (size_t)(slash - target)) == 0;
    free(real);
    return stays;
}

/* Replaces a link by the file that it leads to. */
static haul_status follow(const reader *r, const char *folder, char **path, const char *shard)
{
    struct stat info;
    if (lstat(*path, &info) != 0 || !S_ISLNK(info.st_mode))
        return HAUL_OK; /* an error is reported when the file is opened */
    char *target = realpath(*path, NULL), *copy;
    if (!target || !stays_within(folder, target)) {
        free(target);
        return malformed(r, shard, "is a link that leads out of the index's folder; replace it by a copy");
    }
    copy = haul__strdup(target);
    free(target);
    if (!copy)
        return haul__fail_memory(OPEN, strlen(*path));
    haul__free(*path);
    *path = copy;
    return HAUL_OK;
}

static haul_status open_part(const reader *r, const char *shard, haul__tensor_part *part)
{
    char *folder = folder_of(r->path);
    part->file.fd = -1;
    part->path = folder ? haul__format("%s%s", folder, shard) : NULL;
    haul_status status = part->path ? follow(r, folder, &part->path, shard) : haul__fail_memory(OPEN, strlen(r->path));
    haul__free(folder);
    return status ? status : haul__file_open_unlinked(&part->file, part->path, OPEN);
}

/* ---- tensors ---- */

static haul_status check_agreement(const reader *r, const row *rows, size_t count, const haul__safetensors_header *h,
                                   const char *path)
{
    char quoted[HAUL__QUOTED_SIZE];
    HAUL__ASSERT(count > 0);
    for (size_t i = 0; i < count; i++)
        if (!haul__safetensors_find(h, rows[i].name))
            return haul__fail(HAUL_FORMAT, OPEN, "path", "%s lacks %s, which %s expects there", path,
                              haul__quoted(rows[i].name, quoted), r->path);
    for (int i = 0; i < h->count; i++) {
        const row wanted = {.shard = rows->shard, .name = h->entries[i].name};
        if (!bsearch(&wanted, rows, count, sizeof *rows, compare))
            return haul__fail(HAUL_FORMAT, OPEN, "path", "%s holds %s, which %s does not expect there", path,
                              haul__quoted(wanted.name, quoted), r->path);
    }
    return HAUL_OK;
}

/* Moves the entries into the header of the whole. */
static haul_status take_entries(reader *r, haul__safetensors_header *h, int part)
{
    haul__safetensors_header *all = &r->file->header;
    const size_t              wanted = (size_t)all->count + (size_t)h->count;
    if (wanted > INT_MAX || !haul__grow(&all->entries, &r->capacity, wanted, sizeof *all->entries))
        return haul__fail_memory(OPEN, wanted * sizeof *all->entries);
    for (int i = 0; i < h->count; i++) {
        all->entries[all->count] = h->entries[i];
        all->entries[all->count++].part = part;
    }
    h->count = 0;
    return HAUL_OK;
}

static haul_status read_shard(reader *r, const row *rows, size_t count)
{
    const int                index = r->file->part_count;
    haul__tensor_part       *part = &r->file->parts[index];
    haul__safetensors_header header;
    r->file->part_count++;
    haul_status status = open_part(r, rows->shard, part);
    if (status || (status = haul__safetensors_read_header(&part->file, &header, &part->data)))
        return status;
    status = check_agreement(r, rows, count, &header, part->path);
    if (status == HAUL_OK)
        status = take_entries(r, &header, index);
    haul__safetensors_free(&header);
    return status;
}

static haul_status read_shards(reader *r)
{
    size_t      shards = 0;
    haul_status status = HAUL_OK;
    for (size_t i = 0; i < r->count; i += rows_of_shard(r, i))
        shards++;
    haul__tensor_part *parts = haul__realloc(r->file->parts, shards + 1, sizeof *parts);
    if (!parts)
        return haul__fail_memory(OPEN, shards * sizeof *parts);
    memset(parts + 1, 0, shards * sizeof *parts);
    r->file->parts = parts;
    for (size_t i = 0, count; i < r->count && status == HAUL_OK; i += count) {
        count = rows_of_shard(r, i);
        status = read_shard(r, &r->rows[i], count);
    }
    HAUL__ASSERT(status || (size_t)r->file->part_count == shards + 1);
    HAUL__ASSERT(status || (size_t)r->file->header.count == r->count); /* index and files agree */
    return status == HAUL_OK ? haul__safetensors_sort(&r->file->header, r->path) : status;
}

static haul_status read_index(haul_safetensors *f, const haul__json *index)
{
    reader            r = {.file = f, .path = f->parts->path};
    const haul__json *map = index ? haul__json_member(index, "weight_map") : NULL;
    f->header.format = "sharded safetensors";
    if (!map || map->kind != HAUL__JSON_OBJECT)
        return haul__fail(HAUL_FORMAT, OPEN, "path",
                          "%s is not a safetensors file, but a JSON text; the index of one has a weight_map, an object",
                          r.path);
    haul_status status = read_rows(&r, map);
    if (status == HAUL_OK)
        status = read_shards(&r);
    haul__free(r.rows);
    return status;
}

haul_status haul__index_open(haul_safetensors *f)
{
    const haul__file *file = &f->parts->file;
    haul__json       *json = NULL;
    size_t            used;
    if (file->size > INDEX_LIMIT)
        return haul__fail(HAUL_FORMAT, OPEN, "path", "%s is not a safetensors file, but a long text", file->path);
    const size_t size = (size_t)file->size;
    uint8_t     *text = haul__malloc(size);
    haul_status  status = text ? haul__file_read(file, 0, text, size) : haul__fail_memory(OPEN, size);
    if (status == HAUL_OK)
        status = haul__json_read_all(OPEN, text, size, MAX_DEPTH, &json, &used);
    haul__free(text);
    if (status == HAUL_OK)
        status = read_index(f, json);
    haul__json_free(json);
    return status;
}
