#include "formats/archive/archive.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "formats/archive/tar.h"
#include "formats/deflate.h"
#include "formats/file_type.h"
#include "formats/gzip.h"
#include "formats/zip.h"

/* Members in memory have at most so many bytes, and at most so many for each byte of the file. */
#define KEPT_LIMIT  ((uint64_t)4 << 30)
#define KEPT_RATIO  64
#define KEPT_ALWAYS ((uint64_t)16 << 20)

typedef struct member {
    char                   *name;
    uint64_t                size, at; /* where it begins, of a tar archive that is not packed */
    const haul__zip_member *zip;
    uint8_t                *kept;
} member;

typedef enum kind { TAR, PACKED_TAR, ZIP } kind;

struct haul__archive {
    kind       kind;
    haul__file file;
    char      *path;
    haul__zip  zip;
    member    *members; /* sorted by name */
    size_t     count, capacity;
    uint64_t   used; /* bytes in memory, of names and members that are kept */
};

static haul_status refuse(const haul__archive *a, const char *name, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, a->file.operation, "path", "the member %s of %s %s", haul__quoted(name, quoted),
                      a->path, what);
}

/* ---- names ---- */

/* Removes empty parts and ".". False if it is absolute, or has "..". */
static bool normalise(char *name)
{
    char *out = name;
    if (*name == '/')
        return false;
    for (const char *at = name; *at;) {
        const size_t length = strcspn(at, "/");
        const char  *next = at + length + (at[length] == '/');
        if (length == 2 && memcmp(at, "..", 2) == 0)
            return false;
        if (length && !(length == 1 && *at == '.')) {
            if (out > name)
                *out++ = '/';
            HAUL__ASSERT(out <= at); /* a name becomes no longer */
            memmove(out, at, length);
            out += length;
        }
        at = next;
    }
    *out = 0;
    return true;
}

/* Files that the system of Apple adds: their names are those of pictures. */
static bool is_foreign(const char *name)
{
    return strncmp(name, "__MACOSX/", 9) == 0;
}

/* Counts bytes of memory. */
static haul_status use(haul__archive *a, uint64_t bytes)
{
    const uint64_t ratio = a->file.size < KEPT_LIMIT / KEPT_RATIO ? a->file.size * KEPT_RATIO : KEPT_LIMIT;
    const uint64_t limit = ratio + KEPT_ALWAYS < KEPT_LIMIT ? ratio + KEPT_ALWAYS : KEPT_LIMIT;
    if (bytes > limit || a->used > limit - bytes)
        return haul__fail(HAUL_FORMAT, a->file.operation, "path",
                          "%s needs more than %" PRIu64
                          " MiB when its members are in memory, as those of a .tar.gz file "
                          "are; unpack it, and name the folder",
                          a->path, limit >> 20);
    a->used += bytes;
    HAUL__ASSERT(a->used <= limit && limit <= KEPT_LIMIT);
    return HAUL_OK;
}

/* Changes the name; *out is NULL if the member is left out. */
static haul_status add(haul__archive *a, char *name, uint64_t size, member **out)
{
    *out = NULL;
    char *original = haul__strdup(name);
    if (!original)
        return haul__fail_memory(a->file.operation, strlen(name));
    haul_status status = HAUL_OK;
    if (!normalise(name))
        status = refuse(a, original, "has an absolute name or one with \"..\", which could lead out of a folder");
    haul__free(original);
    if (status || !*name || is_foreign(name))
        return status;
    if (use(a, sizeof **out + strlen(name) + 1))
        return haul_error_status();
    char *copy = haul__strdup(name);
    if (!copy || !haul__grow(&a->members, &a->capacity, a->count + 1, sizeof *a->members)) {
        haul__free(copy);
        return haul__fail_memory(a->file.operation, sizeof *a->members);
    }
    HAUL__ASSERT(a->count < a->capacity);
    *out = &a->members[a->count++];
    **out = (member){.name = copy, .size = size};
    return HAUL_OK;
}

/* ---- tar ---- */

typedef struct tar_scan {
    haul__archive        *archive;
    haul__archive_wanted *keep;
    haul__archive_found  *found;
    void                 *context;
    const void           *wanted; /* the context of `keep` */
    bool                  any;
} tar_scan;

static haul_status keep_member(haul__archive *a, member *m, haul__stream *stream)
{
    uint64_t got;
    HAUL__ASSERT(a->kind == PACKED_TAR && !m->kept);
    if (use(a, m->size))
        return haul_error_status();
    if (!(m->kept = haul__malloc((size_t)m->size)))
        return haul__fail_memory(a->file.operation, (size_t)m->size);
    if (haul__stream_read(stream, m->kept, m->size, &got))
        return haul_error_status();
    return got == m->size ? HAUL_OK : refuse(a, m->name, "is cut: the archive ends within it");
}

static haul_status list_member(void *context, char *name, uint64_t size, haul__stream *stream)
{
    tar_scan   *s = context;
    member     *m;
    haul_status status = add(s->archive, name, size, &m);
    if (status || !m)
        return status;
    m->at = haul__stream_at(stream);
    return s->keep && s->archive->kind == PACKED_TAR && s->keep(s->wanted, m->name) ? keep_member(s->archive, m, stream)
                                                                                    : HAUL_OK;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const member *)a)->name, ((const member *)b)->name);
}

static member *find(const haul__archive *a, const char *name)
{
    const size_t at = haul__archive_lower(a, name);
    return at < a->count && strcmp(a->members[at].name, name) == 0 ? &a->members[at] : NULL;
}

static haul_status take_member(void *context, char *name, uint64_t size, haul__stream *stream)
{
    tar_scan *s = context;
    HAUL__ASSERT(s->archive->kind == PACKED_TAR);
    member *m = normalise(name) ? find(s->archive, name) : NULL;
    return m && !m->kept && m->size == size && s->keep(s->wanted, m->name) ? keep_member(s->archive, m, stream)
                                                                           : HAUL_OK;
}

haul_status haul__archive_keep(haul__archive *a, haul__archive_wanted *wanted, const void *context)
{
    tar_scan s = {.archive = a, .keep = wanted, .wanted = context};
    return a->kind == PACKED_TAR ? haul__tar_scan(&a->file, true, take_member, &s) : HAUL_OK;
}

void haul__archive_forget(haul__archive *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->members[i].kept)
            a->used -= a->members[i].size;
        haul__free(a->members[i].kept);
        a->members[i].kept = NULL;
    }
}

/* ---- zip ---- */

static bool ends_with_slash(const char *name)
{
    const size_t length = strlen(name);
    return length && name[length - 1] == '/';
}

static haul_status list_zip(haul__archive *a)
{
    for (size_t i = 0; i < a->zip.count; i++) {
        const haul__zip_member *z = &a->zip.members[i];
        member                 *m;
        if (z->link)
            return refuse(a, z->name, "is a link; Haul reads archives of files and folders only");
        if (ends_with_slash(z->name))
            continue;
        char       *name = haul__strdup(z->name);
        haul_status status = name ? add(a, name, z->size, &m) : haul__fail_memory(a->file.operation, strlen(z->name));
        haul__free(name);
        if (status)
            return status;
        if (m)
            m->zip = z;
    }
    return HAUL_OK;
}

/* ---- opening ---- */

static haul_status fail_kind(const haul__archive *a, const uint8_t *head, size_t size)
{
    const haul_status status = haul__refuse_file_type(haul__file_type_of(head, size), a->file.operation, a->path,
                                                      "a folder or an archive (.tar, .tar.gz or .zip)");
    return status
               ? status
               : haul__fail(HAUL_FORMAT, a->file.operation, "path",
                            "%s is neither a folder nor an archive; Haul reads .tar, .tar.gz and .zip files", a->path);
}

static bool kind_of(const uint8_t *head, size_t size, kind *out)
{
    if (haul__is_tar(head, size))
        *out = TAR;
    else if (haul__is_gzip(head, size))
        *out = PACKED_TAR;
    else if (size >= 4 && (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0))
        *out = ZIP;
    else
        return false;
    return true;
}

static haul_status read_head(const haul__file *file, uint8_t head[HAUL__TAR_BLOCK], size_t *size)
{
    *size = file->size < HAUL__TAR_BLOCK ? (size_t)file->size : HAUL__TAR_BLOCK;
    return haul__file_read(file, 0, head, *size);
}

static haul_status find_kind(haul__archive *a)
{
    uint8_t head[HAUL__TAR_BLOCK];
    size_t  size;
    if (read_head(&a->file, head, &size))
        return haul_error_status();
    return kind_of(head, size, &a->kind) ? HAUL_OK : fail_kind(a, head, size);
}

bool haul__is_archive(const char *path)
{
    uint8_t            head[HAUL__TAR_BLOCK];
    size_t             size;
    kind               found;
    haul__file         file;
    haul__error_record before;
    haul__error_save(&before);
    bool is = haul__file_open(&file, path, "haul__is_archive") == HAUL_OK;
    if (is) {
        is = read_head(&file, head, &size) == HAUL_OK && kind_of(head, size, &found);
        haul__file_close(&file);
    }
    haul__error_restore(&before);
    return is;
}

/* Its kind is known, and of a zip file the directory. */
static haul_status begin(haul__archive *a, const char *path, const char *operation)
{
    a->file.fd = -1;
    if (!(a->path = haul__strdup(path)))
        return haul__fail_memory(operation, strlen(path));
    haul_status status = haul__file_open(&a->file, a->path, operation);
    if (status == HAUL_OK)
        status = find_kind(a);
    return status == HAUL_OK && a->kind == ZIP ? haul__zip_open(&a->zip, &a->file) : status;
}

static haul_status sort(haul__archive *a)
{
    if (a->count)
        qsort(a->members, a->count, sizeof *a->members, compare);
    for (size_t i = 1; i < a->count; i++)
        if (strcmp(a->members[i - 1].name, a->members[i].name) == 0)
            return refuse(a, a->members[i].name, "occurs twice");
    return HAUL_OK;
}

haul__archive *haul__archive_of_files(const char *path, const char *operation, haul__archive_wanted *keep,
                                      const void *context)
{
    haul__archive *a = haul__calloc(1, sizeof *a);
    if (!a) {
        haul__fail_memory(operation, sizeof *a);
        return NULL;
    }
    tar_scan    s = {.archive = a, .keep = keep, .wanted = context};
    haul_status status = begin(a, path, operation);
    if (status == HAUL_OK)
        status = a->kind == ZIP ? list_zip(a) : haul__tar_scan(&a->file, a->kind == PACKED_TAR, list_member, &s);
    if (status == HAUL_OK)
        status = sort(a);
    if (status == HAUL_OK)
        return a;
    haul__archive_close(a);
    return NULL;
}

void haul__archive_close(haul__archive *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->count; i++) {
        haul__free(a->members[i].name);
        haul__free(a->members[i].kept);
    }
    haul__free(a->members);
    haul__zip_free(&a->zip);
    haul__file_close(&a->file);
    haul__free(a->path);
    haul__free(a);
}

static haul_status look_at_member(void *context, char *name, uint64_t size, haul__stream *stream)
{
    tar_scan *s = context;
    (void)size, (void)stream;
    if (normalise(name) && *name && !is_foreign(name))
        s->any = s->found(s->context, name);
    return s->any ? HAUL_END_OF_DATA : HAUL_OK;
}

haul_status haul__archive_look(const char *path, const char *operation, haul__archive_found *found, void *context,
                               bool *any)
{
    haul__archive a = {.count = 0};
    tar_scan      s = {.archive = &a, .found = found, .context = context};
    haul_status   status = begin(&a, path, operation);
    if (status == HAUL_OK && a.kind != ZIP)
        status = haul__tar_scan(&a.file, a.kind == PACKED_TAR, look_at_member, &s);
    for (size_t i = 0; status == HAUL_OK && i < a.zip.count && !s.any; i++)
        s.any = !is_foreign(a.zip.members[i].name) && found(context, a.zip.members[i].name);
    *any = s.any;
    haul__zip_free(&a.zip);
    haul__file_close(&a.file);
    haul__free(a.path);
    return status;
}

/* ---- members ---- */

const char *haul__archive_path(const haul__archive *a)
{
    return a->path;
}

size_t haul__archive_count(const haul__archive *a)
{
    return a->count;
}

const char *haul__archive_name(const haul__archive *a, size_t index)
{
    return a->members[index].name;
}

size_t haul__archive_lower(const haul__archive *a, const char *name)
{
    size_t first = 0, last = a->count;
    while (first < last) {
        const size_t middle = first + (last - first) / 2;
        if (strcmp(a->members[middle].name, name) < 0)
            first = middle + 1;
        else
            last = middle;
    }
    HAUL__ASSERT(first == a->count || strcmp(a->members[first].name, name) >= 0);
    HAUL__ASSERT(!first || strcmp(a->members[first - 1].name, name) < 0);
    return first;
}

/* The name of a path's member: what follows the archive's path and a slash. */
static const char *name_of(const haul__archive *a, const char *path)
{
    const size_t length = strlen(a->path);
    return strncmp(path, a->path, length) ? path : path[length] == '/' ? path + length + 1 : path + length;
}

bool haul__archive_has_file(const haul__archive *a, const char *path)
{
    return find(a, name_of(a, path)) != NULL;
}

bool haul__archive_has_folder(const haul__archive *a, const char *path)
{
    const char  *name = name_of(a, path);
    const size_t length = strlen(name);
    for (size_t i = haul__archive_lower(a, name); i < a->count; i++) {
        if (strncmp(a->members[i].name, name, length))
            return false;
        if (!length || a->members[i].name[length] == '/')
            return true;
    }
    return false;
}

static haul_status read_zip(const haul__archive *a, const member *m, uint8_t *out)
{
    HAUL__ASSERT(a->kind == ZIP && m->size == m->zip->size);
    haul_status status = haul__zip_read(&a->file, m->zip, 0, out, (size_t)m->size);
    if (status == HAUL_OK && haul__crc32(0, out, (size_t)m->size) != m->zip->crc)
        status = refuse(a, m->name, "is damaged: its checksum is wrong");
    return status;
}

static haul_status read_into(const haul__archive *a, const member *m, uint8_t *out)
{
    if (m->zip)
        return read_zip(a, m, out);
    if (a->kind == TAR)
        return haul__file_read(&a->file, m->at, out, (size_t)m->size);
    if (!m->kept)
        return refuse(a, m->name, "was not kept when the archive was read");
    memcpy(out, m->kept, (size_t)m->size);
    return HAUL_OK;
}

haul_status haul__archive_read(const haul__archive *a, const char *path, uint64_t limit, size_t room, uint8_t **data,
                               size_t *size)
{
    const member *m = find(a, name_of(a, path));
    if (!m)
        return haul__fail(HAUL_IO, a->file.operation, "path", "the archive has no %s", path);
    if (m->size > limit)
        return haul__fail(HAUL_FORMAT, a->file.operation, "path", "%s has %llu bytes; Haul reads at most %llu", path,
                          (unsigned long long)m->size, (unsigned long long)limit);
    HAUL__ASSERT(limit <= SIZE_MAX - room);
    uint8_t *out = haul__malloc((size_t)m->size + room);
    if (!out)
        return haul__fail_memory(a->file.operation, (size_t)m->size + room);
    haul_status status = read_into(a, m, out);
    if (status) {
        haul__free(out);
        return status;
    }
    *data = out;
    *size = (size_t)m->size;
    return HAUL_OK;
}
