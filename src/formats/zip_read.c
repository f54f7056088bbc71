/* Reads zip archives (PKWARE's APPNOTE.TXT): the record at the end of the file has the place of the directory, which
 * has a record for each member. Every offset and size is checked against the file before it is used. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "formats/deflate.h"
#include "formats/zip.h"

enum {
    END_SIZE = 22,
    LOCATOR_SIZE = 20,
    END64_SIZE = 56,
    MEMBER_SIZE = 46, /* in the directory, without texts */
    LOCAL_SIZE = 30,  /* before a member's bytes, without texts */
    ENCRYPTED = 1,
    STORED = 0,
    DEFLATED = 8,
    UNIX = 3, /* the system whose file types are in the upper half of the attributes */
    TYPES = 0170000,
    LINK = 0120000
};

static uint32_t read16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t read32(const uint8_t *p)
{
    return read16(p) | read16(p + 2) << 16;
}

static uint64_t read64(const uint8_t *p)
{
    return (uint64_t)read32(p) | (uint64_t)read32(p + 4) << 32;
}

static bool has_mark(const uint8_t *p, uint8_t third)
{
    return p[0] == 'P' && p[1] == 'K' && p[2] == third && p[3] == third + 1;
}

static haul_status malformed(const haul__file *file, const char *what)
{
    return haul__fail(HAUL_FORMAT, file->operation, "path", "%s is not a valid zip archive: %s", file->path, what);
}

/* ---- the end of the file ---- */

typedef struct directory {
    uint64_t offset, size, count;
    uint64_t limit; /* members and directory are before it */
} directory;

/* The record at the end, with sizes of 64 bits. */
static haul_status read_end64(const haul__file *file, uint64_t end, directory *d)
{
    uint8_t locator[LOCATOR_SIZE], record[END64_SIZE];
    HAUL__ASSERT(end <= file->size);
    if (end < LOCATOR_SIZE + END64_SIZE)
        return malformed(file, "it lacks the record with 64-bit sizes");
    if (haul__file_read(file, end - LOCATOR_SIZE, locator, LOCATOR_SIZE))
        return haul_error_status();
    const uint64_t at = read64(locator + 8);
    if (!has_mark(locator, 6) || locator[3] != 7 || at > end - LOCATOR_SIZE - END64_SIZE)
        return malformed(file, "it lacks the record with 64-bit sizes");
    if (haul__file_read(file, at, record, END64_SIZE))
        return haul_error_status();
    if (!(record[0] == 'P' && record[1] == 'K' && record[2] == 6 && record[3] == 6))
        return malformed(file, "it lacks the record with 64-bit sizes");
    *d = (directory){
        .count = read64(record + 32), .size = read64(record + 40), .offset = read64(record + 48), .limit = at};
    return HAUL_OK;
}

static haul_status read_end(const haul__file *file, const uint8_t *record, uint64_t end, directory *d)
{
    HAUL__ASSERT(end <= file->size);
    *d = (directory){
        .count = read16(record + 10), .size = read32(record + 12), .offset = read32(record + 16), .limit = end};
    if (d->count == 0xffff || d->size == 0xffffffff || d->offset == 0xffffffff) {
        const haul_status status = read_end64(file, end, d);
        if (status)
            return status;
    } else if (read16(record + 4) || read16(record + 6)) {
        return malformed(file, "it is one of several parts");
    }
    if (d->offset > d->limit || d->size > d->limit - d->offset)
        return malformed(file, "its directory goes past the end of the file");
    return d->count > d->size / MEMBER_SIZE ? malformed(file, "its directory has fewer members than it claims")
                                            : HAUL_OK;
}

/* The record may be followed by a comment of at most 65,535 bytes. */
static haul_status find_directory(const haul__file *file, directory *d)
{
    const size_t size = file->size < END_SIZE + 65535 ? (size_t)file->size : END_SIZE + 65535;
    uint8_t     *tail = haul__malloc(size);
    if (!tail)
        return haul__fail_memory(file->operation, size);
    haul_status status = haul__file_read(file, file->size - size, tail, size);
    size_t      at = size < END_SIZE ? 0 : size - END_SIZE + 1;
    bool        found = false;
    while (status == HAUL_OK && at && !found) {
        at--;
        HAUL__ASSERT(at + END_SIZE <= size);
        found = has_mark(tail + at, 5) && read16(tail + at + 20) == size - at - END_SIZE;
    }
    if (status == HAUL_OK)
        status = found ? read_end(file, tail + at, file->size - size + at, d)
                       : malformed(file, "it ends without a directory of its members");
    haul__free(tail);
    return status;
}

/* ---- members ---- */

/* Fields of 32 bits that are full have their values among the extra fields, in this order. */
static bool read_extra(const uint8_t *extra, size_t size, haul__zip_member *m)
{
    uint64_t *const wide[] = {&m->size, &m->packed, &m->offset};
    bool            full = m->size == 0xffffffff || m->packed == 0xffffffff || m->offset == 0xffffffff;
    while (full && size >= 4) {
        const size_t   length = read16(extra + 2);
        const uint8_t *at = extra + 4;
        if (length > size - 4)
            return false;
        if (read16(extra) == 1) {
            size_t left = length;
            for (size_t i = 0; i < 3; i++) {
                if (*wide[i] != 0xffffffff)
                    continue;
                if (left < 8)
                    return false;
                *wide[i] = read64(at);
                at += 8;
                left -= 8;
            }
            full = false;
        }
        extra += 4 + length;
        size -= 4 + length;
    }
    return !full;
}

static haul_status refuse(const haul__file *file, const haul__zip_member *m, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, file->operation, "path", "%s is not a valid zip archive: its member %s %s",
                      file->path, haul__quoted(m->name, quoted), what);
}

static haul_status check_member(const haul__file *file, const haul__zip_member *m, unsigned flags, unsigned method)
{
    if (flags & ENCRYPTED)
        return refuse(file, m, "is encrypted");
    if (method != STORED && method != DEFLATED)
        return refuse(file, m, "is compressed in another way than deflated; only stored and deflated ones are read");
    if (m->deflated ? m->size / HAUL__DEFLATE_RATIO > m->packed : m->size != m->packed)
        return refuse(file, m, "has sizes that do not fit each other");
    return HAUL_OK;
}

/* Reads one record and returns its size, 0 on failure. The name moves to the beginning of the record, where it has room
 * for its zero. */
static size_t read_member(const haul__file *file, uint8_t *at, size_t left, haul__zip_member *m)
{
    if (left < MEMBER_SIZE || !has_mark(at, 1))
        return malformed(file, "its directory is damaged"), 0;
    const size_t   name = read16(at + 28), extra = read16(at + 30), comment = read16(at + 32);
    const unsigned flags = read16(at + 8), method = read16(at + 10);
    if (name + extra + comment > left - MEMBER_SIZE)
        return malformed(file, "its directory is damaged"), 0;
    *m = (haul__zip_member){.name = (const char *)at,
                            .crc = read32(at + 16),
                            .packed = read32(at + 20),
                            .size = read32(at + 24),
                            .offset = read32(at + 42),
                            .deflated = method == DEFLATED,
                            .link = at[5] == UNIX && (read16(at + 40) & TYPES) == LINK};
    const bool wide = read_extra(at + MEMBER_SIZE + name, extra, m);
    memmove(at, at + MEMBER_SIZE, name);
    at[name] = 0;
    if (!wide)
        return malformed(file, "its directory is damaged"), 0;
    if (memchr(at, 0, name) || !haul__is_utf8(at, name))
        return malformed(file, "the name of a member is not UTF-8"), 0;
    return check_member(file, m, flags, method) ? 0 : MEMBER_SIZE + name + extra + comment;
}

static int compare_offsets(const void *a, const void *b)
{
    const uint64_t x = ((const haul__zip_member *)a)->offset, y = ((const haul__zip_member *)b)->offset;
    return (x > y) - (x < y);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(haul__zip_member *const *)a)->name, (*(haul__zip_member *const *)b)->name);
}

/* Finds where the bytes of each member begin. */
static haul_status locate(haul__zip *zip, const haul__file *file, uint64_t limit)
{
    uint8_t local[LOCAL_SIZE];
    qsort(zip->members, zip->count, sizeof *zip->members, compare_offsets);
    for (size_t i = 0; i < zip->count; i++) {
        haul__zip_member *m = &zip->members[i];
        const uint64_t    end = i + 1 < zip->count ? m[1].offset : limit;
        zip->by_name[i] = m;
        if (m->offset > limit || limit - m->offset < LOCAL_SIZE)
            return refuse(file, m, "begins past the end of the file");
        if (haul__file_read(file, m->offset, local, LOCAL_SIZE))
            return haul_error_status();
        if (!has_mark(local, 3))
            return refuse(file, m, "is damaged");
        m->data = m->offset + LOCAL_SIZE + read16(local + 26) + read16(local + 28);
        HAUL__ASSERT(m->data >= m->offset + LOCAL_SIZE && m->offset <= limit);
        if (m->data > end || m->packed > end - m->data)
            return refuse(file, m, i + 1 < zip->count ? "overlaps another one" : "goes past the end of the file");
    }
    HAUL__ASSERT(!zip->count || zip->by_name[zip->count - 1] == &zip->members[zip->count - 1]);
    qsort(zip->by_name, zip->count, sizeof *zip->by_name, compare_names);
    for (size_t i = 1; i < zip->count; i++)
        if (strcmp(zip->by_name[i - 1]->name, zip->by_name[i]->name) == 0)
            return refuse(file, zip->by_name[i], "occurs twice");
    return HAUL_OK;
}

static haul_status read_members(haul__zip *zip, const haul__file *file, const directory *d)
{
    const size_t size = (size_t)d->size, count = (size_t)d->count;
    HAUL__ASSERT(!zip->names && !zip->count && count <= size / MEMBER_SIZE);
    zip->names = haul__malloc(size);
    zip->members = haul__calloc(count + 1, sizeof *zip->members);
    zip->by_name = haul__calloc(count + 1, sizeof *zip->by_name);
    if (!zip->names || !zip->members || !zip->by_name)
        return haul__fail_memory(file->operation, size + count * (sizeof *zip->members + sizeof *zip->by_name));
    if (haul__file_read(file, d->offset, zip->names, size))
        return haul_error_status();
    for (size_t at = 0; zip->count < count; zip->count++) {
        const size_t used = read_member(file, zip->names + at, size - at, &zip->members[zip->count]);
        if (!used)
            return haul_error_status();
        at += used;
        HAUL__ASSERT(at <= size);
    }
    return locate(zip, file, d->offset);
}

haul_status haul__zip_open(haul__zip *zip, const haul__file *file)
{
    directory d = {0};
    *zip = (haul__zip){0};
    haul_status status = find_directory(file, &d);
    if (status == HAUL_OK)
        status = read_members(zip, file, &d);
    if (status)
        haul__zip_free(zip);
    return status;
}

void haul__zip_free(haul__zip *zip)
{
    haul__free(zip->members);
    haul__free(zip->by_name);
    haul__free(zip->names);
    *zip = (haul__zip){0};
}

const haul__zip_member *haul__zip_find(const haul__zip *zip, const char *name)
{
    haul__zip_member   key = {.name = name}, *wanted = &key;
    haul__zip_member **found =
        zip->count ? bsearch(&wanted, zip->by_name, zip->count, sizeof *zip->by_name, compare_names) : NULL;
    return found ? *found : NULL;
}

haul_status haul__zip_read(const haul__file *file, const haul__zip_member *m, uint64_t offset, void *out, size_t bytes)
{
    if (offset > m->size || bytes > m->size - offset)
        return refuse(file, m, "is too short");
    HAUL__ASSERT(m->data <= file->size && m->packed <= file->size - m->data); /* as it was located */
    return m->deflated ? haul__inflate(file, m->data, m->packed, offset, out, bytes)
                       : haul__file_read(file, m->data + offset, out, bytes);
}
