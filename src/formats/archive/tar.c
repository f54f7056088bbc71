#include "formats/archive/tar.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"

/* Where the parts of a member's head are. */
enum { NAME = 0, SIZE = 124, CHECKSUM = 148, TYPE = 156, MAGIC = 257, PREFIX = 345 };
enum { NAME_SIZE = 100, SIZE_SIZE = 12, CHECKSUM_SIZE = 8, PREFIX_SIZE = 155 };

/* Attributes of pax have at most so many bytes, and so many may follow the end of the archive. */
#define PAX_LIMIT ((uint64_t)1 << 20)
#define END_LIMIT ((uint64_t)1 << 20)

typedef struct scan {
    const haul__file *file;
    haul__stream     *stream;
    uint8_t           head[HAUL__TAR_BLOCK];
    char              name[HAUL__TAR_NAME + 1];
    bool              has_name, has_size; /* of the next member, from a member that describes it */
    uint64_t          size;
} scan;

static haul_status malformed(const scan *s, const char *what)
{
    return haul__fail(HAUL_FORMAT, s->file->operation, "path", "%s is not a valid tar archive: %s", s->file->path,
                      what);
}

static haul_status refuse(const scan *s, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, s->file->operation, "path",
                      "the member %s of %s is %s; Haul reads archives of files and folders only",
                      haul__quoted(s->name, quoted), s->file->path, what);
}

/* ---- numbers ---- */

/* Octal digits between blanks, as large numbers are not; false if there is something else. */
static bool read_octal(const uint8_t *at, size_t size, uint64_t *out)
{
    size_t i = 0;
    *out = 0;
    while (i < size && at[i] == ' ')
        i++;
    for (; i < size && at[i] >= '0' && at[i] <= '7'; i++)
        *out = *out << 3 | (uint64_t)(at[i] - '0'); /* 12 digits have 36 bits */
    for (; i < size; i++)
        if (at[i] != ' ' && at[i] != 0)
            return false;
    return true;
}

/* A size: octal, or, from GNU tar, a big-endian number of eight bytes. */
static bool read_size(const uint8_t *at, uint64_t *out)
{
    if (at[0] != 0x80)
        return read_octal(at, SIZE_SIZE, out);
    *out = 0;
    for (int i = 4; i < SIZE_SIZE; i++)
        *out = *out << 8 | at[i];
    return !at[1] && !at[2] && !at[3] && *out <= INT64_MAX;
}

static bool checksum_fits(const uint8_t *head)
{
    uint64_t wanted, sum = 0;
    int64_t  with_signs = 0; /* as some old programs computed it */
    for (int i = 0; i < HAUL__TAR_BLOCK; i++) {
        const uint8_t byte = i >= CHECKSUM && i < CHECKSUM + CHECKSUM_SIZE ? ' ' : head[i];
        sum += byte;
        with_signs += byte < 128 ? byte : byte - 256;
    }
    return read_octal(head + CHECKSUM, CHECKSUM_SIZE, &wanted) &&
           (wanted == sum || (with_signs >= 0 && wanted == (uint64_t)with_signs));
}

static bool is_zero(const uint8_t *head)
{
    for (int i = 0; i < HAUL__TAR_BLOCK; i++)
        if (head[i])
            return false;
    return true;
}

bool haul__is_tar(const uint8_t *head, size_t size)
{
    return size >= HAUL__TAR_BLOCK && !is_zero(head) && checksum_fits(head);
}

/* ---- members that describe the next one ---- */

/* Reads exactly `bytes` bytes, or skips them. */
static haul_status take(scan *s, void *out, uint64_t bytes)
{
    uint64_t got;
    if (haul__stream_read(s->stream, out, bytes, &got))
        return haul_error_status();
    return got == bytes ? HAUL_OK : malformed(s, "it ends within a member");
}

/* The bytes of the current member up to a block's end. */
static uint64_t padding_of(uint64_t size)
{
    return (HAUL__TAR_BLOCK - size % HAUL__TAR_BLOCK) % HAUL__TAR_BLOCK;
}

static haul_status read_long_name(scan *s, uint64_t size)
{
    if (!size || size > HAUL__TAR_NAME)
        return malformed(s, "the name of a member has more than 4,096 bytes, or none");
    if (take(s, s->name, size) || take(s, NULL, padding_of(size)))
        return haul_error_status();
    HAUL__ASSERT(size < sizeof s->name);
    s->name[size] = 0;
    s->has_name = true;
    return HAUL_OK;
}

/* "27 path=some/folder/file\n": a length in bytes, a key and a value. */
static haul_status read_attribute(scan *s, const char *key, const char *value, size_t size)
{
    if (strcmp(key, "path") == 0) {
        if (!size || size > HAUL__TAR_NAME || memchr(value, 0, size))
            return malformed(s, "the name of a member has more than 4,096 bytes, or none");
        memcpy(s->name, value, size);
        s->name[size] = 0;
        s->has_name = true;
    }
    if (strcmp(key, "size") == 0) {
        s->size = 0;
        s->has_size = true;
        for (size_t i = 0; i < size; i++) {
            if (value[i] < '0' || value[i] > '9' || s->size > INT64_MAX / 10 - 1)
                return malformed(s, "the size of a member is not a number");
            s->size = s->size * 10 + (uint64_t)(value[i] - '0');
        }
    }
    return strncmp(key, "GNU.sparse.", 11) == 0 ? malformed(s, "it has a file with holes, which Haul does not read")
                                                : HAUL_OK;
}

static haul_status read_attributes(scan *s, char *at, size_t left)
{
    while (left) {
        size_t length = 0, digits = 0;
        for (; digits < left && digits < 8 && at[digits] >= '0' && at[digits] <= '9'; digits++)
            length = length * 10 + (size_t)(at[digits] - '0');
        if (!digits || length > left || length < digits + 3 || at[digits] != ' ' || at[length - 1] != '\n')
            return malformed(s, "the attributes of a member cannot be read");
        char *key = at + digits + 1, *equals = memchr(key, '=', length - digits - 2);
        if (!equals || memchr(key, 0, (size_t)(equals - key)))
            return malformed(s, "the attributes of a member cannot be read");
        *equals = 0;
        if (read_attribute(s, key, equals + 1, (size_t)(at + length - 1 - (equals + 1))))
            return haul_error_status();
        HAUL__ASSERT(length <= left && length > digits);
        at += length;
        left -= length;
    }
    return HAUL_OK;
}

static haul_status read_pax(scan *s, uint64_t size)
{
    if (size > PAX_LIMIT)
        return malformed(s, "the attributes of a member have more than a megabyte");
    char *text = haul__malloc((size_t)size + 1);
    if (!text)
        return haul__fail_memory(s->file->operation, (size_t)size);
    haul_status status = take(s, text, size);
    if (status == HAUL_OK)
        status = read_attributes(s, text, (size_t)size);
    haul__free(text);
    return status ? status : take(s, NULL, padding_of(size));
}

/* ---- members ---- */

static void read_name(scan *s)
{
    const uint8_t *head = s->head;
    const bool     posix = memcmp(head + MAGIC, "ustar\0", 6) == 0;
    const size_t   prefix = posix ? strnlen((const char *)head + PREFIX, PREFIX_SIZE) : 0;
    const size_t   name = strnlen((const char *)head + NAME, NAME_SIZE);
    HAUL__ASSERT(prefix + name + 2 <= sizeof s->name);
    if (s->has_name)
        return;
    memcpy(s->name, head + PREFIX, prefix);
    s->name[prefix] = '/';
    memcpy(s->name + prefix + (prefix > 0), head + NAME, name);
    s->name[prefix + (prefix > 0) + name] = 0;
}

static haul_status visit_file(scan *s, uint64_t size, haul__tar_visitor *visit, void *context)
{
    const uint64_t begin = haul__stream_at(s->stream), all = size + padding_of(size);
    haul_status    status = visit(context, s->name, size, s->stream);
    HAUL__ASSERT(haul__stream_at(s->stream) - begin <= size); /* the visitor stays within the member */
    return status ? status : take(s, NULL, all - (haul__stream_at(s->stream) - begin));
}

/* What the type of a member is in words that follow "is"; NULL if it is a file or a folder. */
static const char *refused_type(uint8_t type)
{
    switch (type) {
    case 0:
    case '0':
    case '7':
    case '5': return NULL;
    case '1':
    case '2': return "a link";
    case '3':
    case '4': return "a device";
    case '6': return "a pipe";
    case 'S': return "a file with holes";
    default: return "of a type that Haul does not know";
    }
}

/* The member whose head was read. */
static haul_status read_member(scan *s, haul__tar_visitor *visit, void *context)
{
    const uint8_t type = s->head[TYPE];
    uint64_t      size;
    if (!checksum_fits(s->head))
        return malformed(s, "the checksum of a member is wrong");
    if (!read_size(s->head + SIZE, &size))
        return malformed(s, "the size of a member is not a number");
    if (type == 'L')
        return read_long_name(s, size);
    if (type == 'x')
        return read_pax(s, size);
    if (type == 'g' || type == 'K' || type == 'V') /* attributes of all members, of a link, the archive's label */
        return take(s, NULL, size + padding_of(size));
    read_name(s);
    const char *refused = refused_type(type);
    if (refused)
        return refuse(s, refused);
    size = s->has_size ? s->size : size;
    s->has_name = s->has_size = false;
    const size_t length = strlen(s->name);
    if (type == '5' || (length && s->name[length - 1] == '/'))
        return take(s, NULL, type == '5' ? 0 : size + padding_of(size));
    return visit_file(s, size, visit, context);
}

/* Reads to the end, so that the checksum of a packed file is compared. */
static haul_status read_end(scan *s)
{
    uint64_t got;
    if (haul__stream_read(s->stream, NULL, END_LIMIT, &got))
        return haul_error_status();
    return got < END_LIMIT ? HAUL_OK : malformed(s, "more than a megabyte follows its end");
}

static haul_status read_members(scan *s, haul__tar_visitor *visit, void *context)
{
    for (;;) {
        uint64_t got;
        if (haul__stream_read(s->stream, s->head, HAUL__TAR_BLOCK, &got))
            return haul_error_status();
        if (got < HAUL__TAR_BLOCK)
            return malformed(s, "it ends without the block of zeros that ends an archive, so a part of it is missing");
        if (is_zero(s->head))
            return read_end(s);
        const haul_status status = read_member(s, visit, context);
        if (status)
            return status == HAUL_END_OF_DATA ? HAUL_OK : status;
    }
}

haul_status haul__tar_scan(const haul__file *file, bool packed, haul__tar_visitor *visit, void *context)
{
    scan *s = haul__calloc(1, sizeof *s);
    if (!s)
        return haul__fail_memory(file->operation, sizeof *s);
    s->file = file;
    s->stream = haul__stream_open(file, packed);
    haul_status status = s->stream ? read_members(s, visit, context) : haul_error_status();
    haul__stream_close(s->stream);
    haul__free(s);
    return status;
}
