/* Files packed by gzip: every form of the head, and every kind of damage. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/deflate.h"
#include "formats/gzip.h"
#include "support/datasets.h"

enum { CHECKSUM = 2, EXTRA = 4, NAME = 8, COMMENT = 16 };

static const char content[] = "the bytes before they were packed, the bytes before they were packed";

typedef struct packed {
    uint8_t of[8192];
    size_t  size, begin; /* begin: of the packed bytes */
} packed;

static void put(packed *p, const void *bytes, size_t size)
{
    assert_true(p->size + size <= sizeof p->of);
    memcpy(p->of + p->size, bytes, size);
    p->size += size;
}

/* The content with a head of these flags, whose name has so many letters. False in a build without zlib. */
static bool pack(packed *p, int flags, size_t letters)
{
    const uint8_t  head[10] = {0x1f, 0x8b, 8, (uint8_t)flags};
    const uint32_t numbers[2] = {haul__crc32(0, content, sizeof content), sizeof content};
    static uint8_t extra[302] = {300 & 255, 300 >> 8}, name[6000];
    size_t         size;
    void          *data = haul__deflate("test", content, sizeof content, "", 0, &size);
    haul_error_clear();
    if (!data)
        return false;
    p->size = 0;
    put(p, head, sizeof head);
    memset(name, 'n', sizeof name);
    name[letters] = 0;
    if (flags & EXTRA)
        put(p, extra, sizeof extra);
    if (flags & NAME)
        put(p, name, letters + 1);
    if (flags & COMMENT)
        put(p, "a comment", 10);
    if (flags & CHECKSUM)
        put(p, "xy", 2);
    p->begin = p->size;
    put(p, data, size);
    haul__free(data);
    for (int i = 0; i < 8; i++)
        put(p, &(uint8_t){(uint8_t)(numbers[i / 4] >> 8 * (i % 4))}, 1);
    return true;
}

/* Unpacks the first `size` bytes. After a failure the bytes are as before. */
static haul_status unpack(const uint8_t *bytes, size_t size, uint64_t limit, const void *expected, size_t expected_size)
{
    uint8_t *own = haul__malloc(size + 1), *data = own;
    size_t   got = size;
    assert_non_null(own);
    memcpy(own, bytes, size);
    const haul_status status = haul__gunzip(&data, &got, "g.gz", "test", limit);
    if (status) {
        assert_ptr_equal(data, own);
        assert_memory_equal(data, bytes, size);
    } else {
        assert_int_equal(got, expected_size);
        assert_memory_equal(data, expected, expected_size);
    }
    haul__free(data);
    return status;
}

static void expect_refused(const packed *p, size_t size, const char *words)
{
    assert_int_equal(unpack(p->of, size, 1 << 20, NULL, 0), HAUL_FORMAT);
    expect(words, HAUL_FORMAT, words);
}

static void test_gzip__other_files_stay_as_they_are(void **state)
{
    static const char *const rows[] = {"\x1f\x8b\x07 more", "\x1e\x8b\x08 more", "\x1f\x8a\x08 more", "more"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(haul__is_gzip((const uint8_t *)rows[i], strlen(rows[i])));
        assert_int_equal(unpack((const uint8_t *)rows[i], strlen(rows[i]), 100, rows[i], strlen(rows[i])), HAUL_OK);
    }
    assert_false(haul__is_gzip((const uint8_t *)"\x1f\x8b\x08", 2));
    assert_true(haul__is_gzip((const uint8_t *)"\x1f\x8b\x08", 3));
}

static void test_gzip__heads_of_all_forms(void **state)
{
    packed p;
    (void)state;
    for (int flags = 0; flags < 32; flags += 2) {
        if (!pack(&p, flags, 7))
            skip();
        assert_int_equal(unpack(p.of, p.size, sizeof content, content, sizeof content), HAUL_OK);
        for (size_t size = 3; size < p.begin + 8; size++)
            expect_refused(&p, size, "it ends within its header, or that is longer than 4,096 bytes");
    }
    pack(&p, NAME, 4000);
    assert_int_equal(unpack(p.of, p.size, sizeof content, content, sizeof content), HAUL_OK);
    pack(&p, NAME, 5000);
    expect_refused(&p, p.size, "it ends within its header, or that is longer than 4,096 bytes");
    memset(p.of, 0, sizeof p.of);
    memcpy(p.of, "\x1f\x8b\x08", 3); /* nothing, and its checksum */
    assert_int_equal(unpack(p.of, 18, 0, "", 0), HAUL_OK);
}

static void test_gzip__damage(void **state)
{
    packed p;
    (void)state;
    if (!pack(&p, 0, 0))
        skip();
    assert_int_equal(unpack(p.of, p.size, sizeof content - 1, NULL, 0), HAUL_FORMAT);
    expect("limit", HAUL_FORMAT, "bytes when unpacked");
    p.of[p.size - 2] = 1; /* of the size */
    expect_refused(&p, p.size, "bytes when unpacked");
    p.of[p.size - 2] = 0;
    p.of[p.size - 8] ^= 1;
    expect_refused(&p, p.size, "its checksum is wrong");
    p.of[p.size - 8] ^= 1;
    p.of[p.begin] = 7; /* a block of a type that does not exist */
    expect_refused(&p, p.size, "a compressed part cannot be unpacked");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gzip__other_files_stay_as_they_are),
        cmocka_unit_test(test_gzip__heads_of_all_forms),
        cmocka_unit_test(test_gzip__damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
