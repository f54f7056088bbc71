/* Tar archives for tests: members are put one after the other, and the whole is opened, plain and packed by gzip. */
#ifndef HAUL_TESTS_FORMATS_TAR_BYTES_H
#define HAUL_TESTS_FORMATS_TAR_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/archive/archive.h"
#include "formats/deflate.h"
#include "support/datasets.h"

typedef struct bytes {
    uint8_t of[64 * 1024];
    size_t  size;
} bytes;

static bytes made;

static inline void put(bytes *b, const void *data, size_t size)
{
    assert_true(b->size + size <= sizeof b->of);
    memcpy(b->of + b->size, data, size);
    b->size += size;
}

static inline void put_zeros(bytes *b, size_t size)
{
    assert_true(b->size + size <= sizeof b->of);
    memset(b->of + b->size, 0, size);
    b->size += size;
}

/* The bytes of a member up to a block's end. */
static inline void put_content(bytes *b, const char *content, size_t size)
{
    put(b, content, size);
    put_zeros(b, (512 - size % 512) % 512);
}

/* Writes the checksum of a head, as a program that counts bytes with signs does if asked. */
static inline void sum_up(uint8_t *head, bool with_signs)
{
    int  sum = 0;
    char text[16];
    memset(head + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += with_signs ? (int8_t)head[i] : head[i];
    snprintf(text, sizeof text, "%06o", (unsigned)sum);
    memcpy(head + 148, text, 7);
}

static inline uint8_t *put_head(bytes *b, const char *name, size_t size, char type)
{
    char     text[24];
    uint8_t *head = b->of + b->size;
    put_zeros(b, 512);
    memcpy(head, name, strlen(name) < 100 ? strlen(name) : 100);
    snprintf(text, sizeof text, "%011zo", size);
    memcpy(head + 124, text, 12);
    head[156] = (uint8_t)type;
    memcpy(head + 257, "ustar\0", 6);
    sum_up(head, false);
    return head;
}

static inline void put_file(bytes *b, const char *name, const char *content)
{
    put_head(b, name, strlen(content), '0');
    put_content(b, content, strlen(content));
}

static inline void put_special(bytes *b, char type, const char *content, size_t size)
{
    put_head(b, "special", size, type);
    put_content(b, content, size);
}

/* Packs the bytes as gzip does. Returns false in a build without zlib. */
static inline bool pack(bytes *b)
{
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    const uint32_t       crc = haul__crc32(0, b->of, b->size), size = (uint32_t)b->size;
    size_t               packed;
    void                *data = haul__deflate("test", b->of, b->size, "", 0, &packed);
    haul_error_clear();
    if (!data)
        return false;
    b->size = 0;
    put(b, head, sizeof head);
    put(b, data, packed);
    for (int i = 0; i < 8; i++)
        put(b, &(uint8_t){(uint8_t)((i < 4 ? crc : size) >> 8 * (i % 4))}, 1);
    haul__free(data);
    return true;
}

/* Before each test. */
static inline int clear(void **state)
{
    (void)state;
    made.size = 0;
    return 0;
}

static inline bool keep_all(const void *context, const char *name)
{
    return !context || strcmp(context, name) == 0;
}

/* Opens the bytes as an archive. */
static inline haul__archive *open_made(const char *path)
{
    write_bytes(path, made.of, made.size);
    return haul__archive_of_files(path, "test", keep_all, NULL);
}

/* Lists names and contents: name=content|name=content. */
static inline void list(haul__archive *a, char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < haul__archive_count(a); i++) {
        uint8_t    *data = NULL;
        size_t      size = 0;
        const char *name = haul__archive_name(a, i);
        if (haul__archive_read(a, name, 5000, 1, &data, &size))
            fail_msg("%s", haul_error_message());
        data[size] = '\0';
        assert_true(strlen((char *)data) == size || !data[0]);
        used += (size_t)snprintf(out + used, room - used, "%s%s=%s", i ? "|" : "", name, (char *)data);
        haul__free(data);
    }
    assert_true(used < room);
}

/* The archive that was made, plain and packed, has these members. */
static inline void expect_members(const char *members)
{
    char           out[6000];
    haul__archive *a = open_made("a.tar");
    if (!a)
        fail_msg("%s: %s", members, haul_error_message());
    list(a, out, sizeof out);
    assert_string_equal(out, members);
    haul__archive_close(a);
    if (!pack(&made))
        return;
    if (!(a = open_made("a.tar.gz")))
        fail_msg("%s: %s", members, haul_error_message());
    list(a, out, sizeof out);
    assert_string_equal(out, members);
    haul__archive_close(a);
}

static inline void end_and_expect(const char *members)
{
    put_zeros(&made, 1024);
    expect_members(members);
    made.size = 0;
}

static inline void expect_refused(const char *words)
{
    for (int packed = 0; packed < 2; packed++) {
        if (packed && !pack(&made))
            break;
        assert_null(open_made("a.tar"));
        expect(words, HAUL_FORMAT, words);
    }
    made.size = 0;
}

static inline void end_and_refuse(const char *words)
{
    put_zeros(&made, 1024);
    expect_refused(words);
}

#endif
