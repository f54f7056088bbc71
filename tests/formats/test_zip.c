/* Zip archives whose records are changed one at a time: each change has its message, and the others are read. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/deflate.h"
#include "formats/zip.h"
#include "support/datasets.h"

/* Of the archives below, as they are with 32-bit numbers and with 64-bit ones. */
static const uint32_t NARROW_CRC = 0x8338214d, WIDE_CRC = 0xa0fa4d35;

enum { END = 22, LOCATOR = 20, END64 = 56, RECORD = 46, MEMBERS = 2 };

typedef struct archive {
    uint8_t of[2048];
    size_t  size, directory, end; /* where the directory and the last record begin */
} archive;

static const char content[] = "0123456789";

static void put(archive *a, size_t at, size_t width, uint64_t value)
{
    assert_true(at + width <= a->size);
    for (size_t i = 0; i < width; i++)
        a->of[at + i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const archive *a, size_t at, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)a->of[at + i] << 8 * i;
    return value;
}

/* Members a and bb with ten bytes each; with 64-bit numbers where they are `limit` or more. */
static archive write_archive(uint64_t limit)
{
    archive          a = {.size = 0};
    haul__zip_writer w = {.file = haul__writer_open("z.zip", "test"), .operation = "test", .limit = limit};
    assert_non_null(w.file);
    assert_int_equal(haul__zip_put(&w, "a", false, content, 4, content + 4, 6), HAUL_OK);
    assert_int_equal(haul__zip_put(&w, "bb", false, content, 10, NULL, 0), HAUL_OK);
    a.directory = (size_t)w.at;
    assert_int_equal(haul__zip_end(&w), HAUL_OK);
    assert_int_equal(haul__writer_commit(w.file), HAUL_OK);
    haul__free(w.directory);
    FILE *file = fopen("z.zip", "rb");
    assert_non_null(file);
    a.size = fread(a.of, 1, sizeof a.of, file);
    fclose(file);
    a.end = a.size - END;
    return a;
}

/* Opens the bytes, in memory that ends with them, and reads both members. */
static void check_opened(const archive *a, const char *words)
{
    haul__zip  zip;
    haul__file file;
    uint8_t   *own = malloc(a->size + 1);
    assert_non_null(own);
    memcpy(own, a->of, a->size);
    haul__file_open_memory(&file, own, a->size, "z.zip", "test");
    const haul_status status = haul__zip_open(&zip, &file);
    if (words) {
        assert_int_equal(status, HAUL_FORMAT);
        expect(words, HAUL_FORMAT, words);
    } else {
        char back[10] = "";
        if (status)
            fail_msg("%s", haul_error_message());
        assert_int_equal(zip.count, MEMBERS);
        for (size_t i = 0; i < MEMBERS; i++) {
            const haul__zip_member *m = haul__zip_find(&zip, i ? "bb" : "a");
            assert_non_null(m);
            assert_int_equal(m->crc, haul__crc32(0, content, 10));
            assert_false(m->deflated);
            assert_int_equal(haul__zip_read(&file, m, 0, back, 10), HAUL_OK);
            assert_memory_equal(back, content, 10);
            assert_int_equal(haul__zip_read(&file, m, 10, back, 0), HAUL_OK);
            assert_int_equal(haul__zip_read(&file, m, 10, back, 1), HAUL_FORMAT);
            expect("behind", HAUL_FORMAT, "is too short");
            assert_int_equal(haul__zip_read(&file, m, 11, back, 0), HAUL_FORMAT);
            expect("behind", HAUL_FORMAT, "is too short");
        }
        assert_null(haul__zip_find(&zip, "b"));
        haul__zip_free(&zip);
    }
    free(own);
}

typedef struct row {
    size_t      at, width;
    uint64_t    value;
    const char *words; /* NULL: the archive is read as before */
} row;

static void check_rows(const archive *sound, size_t base, const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        archive a = *sound;
        put(&a, base + rows[i].at, rows[i].width, rows[i].value);
        check_opened(&a, rows[i].words);
    }
}
#define CHECK_ROWS(sound, base, rows) check_rows(sound, base, rows, sizeof(rows) / sizeof *(rows))

static void test_zip__record_at_the_end(void **state)
{
    const archive a = write_archive(HAUL__ZIP_LIMIT);
    const size_t  size = (size_t)get(&a, a.end + 12, 4);
    (void)state;
    assert_int_equal(get(&a, a.end + 10, 2), MEMBERS);
    assert_int_equal(size, 2 * RECORD + 3);
    assert_int_equal(a.directory + size, a.end);
    check_opened(&a, NULL);
    const row rows[] = {{0, 1, 'p', "it ends without a directory of its members"},
                        {1, 1, 'k', "it ends without a directory of its members"},
                        {2, 1, 6, "it ends without a directory of its members"},
                        {3, 1, 5, "it ends without a directory of its members"},
                        {20, 2, 1, "it ends without a directory of its members"},
                        {4, 2, 1, "it is one of several parts"},
                        {6, 2, 1, "it is one of several parts"},
                        {10, 2, 3, "its directory has fewer members than it claims"},
                        {10, 2, 0xffff, "it lacks the record with 64-bit sizes"},
                        {12, 4, 0xffffffff, "it lacks the record with 64-bit sizes"},
                        {16, 4, 0xffffffff, "it lacks the record with 64-bit sizes"},
                        {12, 4, size + 1, "its directory goes past the end of the file"},
                        {16, 4, a.directory + 1, "its directory goes past the end of the file"},
                        {16, 4, a.end + 1, "its directory goes past the end of the file"},
                        {16, 4, 0xfffffffe, "its directory goes past the end of the file"},
                        {16, 4, a.directory - 1, "its directory is damaged"},
                        {12, 4, size - 1, "its directory is damaged"}};
    CHECK_ROWS(&a, a.end, rows);
    archive longer = a; /* a comment, and the bytes of another end within it */
    longer.size += 40;
    memcpy(longer.of + a.size, "PK\5\6", 4);
    put(&longer, a.end + 20, 2, 40);
    check_opened(&longer, NULL);
    for (size_t cut = 0; cut < END; cut++) {
        archive less = {.size = cut};
        check_opened(&less, "it ends without a directory of its members");
    }
    archive empty = {.size = END};
    memcpy(empty.of, "PK\5\6", 4);
    haul__zip  zip;
    haul__file file;
    haul__file_open_memory(&file, empty.of, END, "z.zip", "test");
    assert_int_equal(haul__zip_open(&zip, &file), HAUL_OK);
    assert_int_equal(zip.count, 0);
    assert_null(haul__zip_find(&zip, "a"));
    haul__zip_free(&zip);
}

static void test_zip__records_of_members(void **state)
{
    const archive a = write_archive(HAUL__ZIP_LIMIT);
    (void)state;
    const row first[] = {{0, 1, 'p', "its directory is damaged"},
                         {3, 1, 3, "its directory is damaged"},
                         {8, 2, 0x801, "its member 'a' is encrypted"},
                         {8, 2, 0, NULL},
                         {10, 2, 1, "its member 'a' is compressed in another way than deflated"},
                         {10, 2, 12, "its member 'a' is compressed in another way than deflated"},
                         {20, 4, 9, "its member 'a' has sizes that do not fit each other"},
                         {24, 4, 11, "its member 'a' has sizes that do not fit each other"},
                         {24, 4, 0xffffffff, "its directory is damaged"},
                         {20, 4, 0xffffffff, "its directory is damaged"},
                         {42, 4, 0xffffffff, "its directory is damaged"},
                         {28, 2, 0xffff, "its directory is damaged"},
                         {30, 2, 0xffff, "its directory is damaged"},
                         {32, 2, 0xffff, "its directory is damaged"},
                         {46, 1, 0, "the name of a member is not UTF-8"},
                         {46, 1, 0xff, "the name of a member is not UTF-8"},
                         {42, 4, 1, "its member 'a' is damaged"},
                         {5, 1, 3, NULL}};
    CHECK_ROWS(&a, a.directory, first);
    const row second[] = {{42, 4, a.directory - 29, "its member 'bb' begins past the end of the file"},
                          {42, 4, a.directory + 1, "its member 'bb' begins past the end of the file"},
                          {42, 4, 0, "overlaps another one"},
                          {24, 4, 0xffffffff, "its directory is damaged"},
                          {32, 2, 1, "its directory is damaged"}};
    CHECK_ROWS(&a, a.directory + RECORD + 1, second);
    const row local[] = {{0, 1, 'p', "its member 'a' is damaged"},
                         {3, 1, 3, "its member 'a' is damaged"},
                         {28, 2, 0xffff, "overlaps another one"}};
    CHECK_ROWS(&a, 0, local);
    archive sizes = a; /* both sizes, past the next member's beginning */
    put(&sizes, a.directory + 20, 4, 1000);
    put(&sizes, a.directory + 24, 4, 1000);
    check_opened(&sizes, "its member 'a' overlaps another one");
    sizes = a;
    put(&sizes, a.directory + RECORD + 1 + 20, 4, 1000);
    put(&sizes, a.directory + RECORD + 1 + 24, 4, 1000);
    check_opened(&sizes, "its member 'bb' goes past the end of the file");
    archive deflated = a; /* no ten bytes become more than 10,329 */
    put(&deflated, a.directory + 10, 2, 8);
    put(&deflated, a.directory + 24, 4, 11 * HAUL__DEFLATE_RATIO);
    check_opened(&deflated, "its member 'a' has sizes that do not fit each other");
    archive twice = a;
    put(&twice, a.directory + RECORD + 1 + 28, 2, 1); /* the second name is "b", and its other letter is a comment */
    put(&twice, a.directory + RECORD + 1 + 32, 2, 1);
    put(&twice, a.directory + RECORD + 1 + 46, 1, 'a');
    check_opened(&twice, "its member 'a' occurs twice");
}

/* The directory may have the members in any order, and a name may be empty. */
static void test_zip__directories_of_other_programs(void **state)
{
    archive   a = write_archive(HAUL__ZIP_LIMIT);
    uint8_t   first[RECORD + 1];
    haul__zip zip;
    (void)state;
    memcpy(first, a.of + a.directory, sizeof first);
    memmove(a.of + a.directory, a.of + a.directory + sizeof first, RECORD + 2);
    memcpy(a.of + a.directory + RECORD + 2, first, sizeof first);
    check_opened(&a, NULL);
    put(&a, a.directory + RECORD + 2 + 28, 2, 0); /* the last name */
    put(&a, a.end + 12, 4, 2 * RECORD + 2);
    haul__file file;
    haul__file_open_memory(&file, a.of, a.size, "z.zip", "test");
    assert_int_equal(haul__zip_open(&zip, &file), HAUL_OK);
    assert_non_null(haul__zip_find(&zip, ""));
    haul__zip_free(&zip);
}

static void test_zip__links_of_unix(void **state)
{
    archive    a = write_archive(HAUL__ZIP_LIMIT);
    haul__zip  zip;
    haul__file file;
    (void)state;
    for (int system = 0; system < 4; system += 3)
        for (uint64_t type = 0; type < 16; type++) {
            put(&a, a.directory + 5, 1, (uint64_t)system);
            put(&a, a.directory + 40, 2, type << 12 | 0777);
            haul__file_open_memory(&file, a.of, a.size, "z.zip", "test");
            assert_int_equal(haul__zip_open(&zip, &file), HAUL_OK);
            assert_int_equal(haul__zip_find(&zip, "a")->link, system == 3 && type == 10);
            haul__zip_free(&zip);
        }
}

static void test_zip__numbers_of_64_bits(void **state)
{
    const archive a = write_archive(0);
    const size_t  end64 = a.end - LOCATOR - END64, locator = a.end - LOCATOR;
    (void)state;
    assert_int_equal(get(&a, end64 + 32, 8), MEMBERS);
    assert_int_equal(get(&a, end64 + 40, 8), 2 * (RECORD + 28) + 3);
    assert_int_equal(get(&a, end64 + 48, 8), a.directory);
    assert_int_equal(get(&a, a.directory + RECORD + 1, 4), 1 | 24 << 16); /* the extra field of the first member */
    check_opened(&a, NULL);
    const row ends[] = {{0, 1, 'p', "it lacks the record with 64-bit sizes"},
                        {1, 1, 'k', "it lacks the record with 64-bit sizes"},
                        {2, 1, 5, "it lacks the record with 64-bit sizes"},
                        {3, 1, 7, "it lacks the record with 64-bit sizes"},
                        {32, 8, 4, "its directory has fewer members than it claims"},
                        {40, 8, 1 << 20, "its directory goes past the end of the file"},
                        {40, 8, UINT64_MAX, "its directory goes past the end of the file"},
                        {48, 8, UINT64_MAX, "its directory goes past the end of the file"},
                        {48, 8, a.directory + 1, "its directory goes past the end of the file"}};
    CHECK_ROWS(&a, end64, ends);
    const row locators[] = {{0, 1, 'p', "it lacks the record with 64-bit sizes"},
                            {3, 1, 6, "it lacks the record with 64-bit sizes"},
                            {8, 8, end64 + 1, "it lacks the record with 64-bit sizes"},
                            {8, 8, end64 - 1, "it lacks the record with 64-bit sizes"},
                            {8, 8, UINT64_MAX, "it lacks the record with 64-bit sizes"},
                            {8, 8, locator, "it lacks the record with 64-bit sizes"},
                            {8, 8, (uint64_t)1 << 63 | end64, "it lacks the record with 64-bit sizes"}};
    CHECK_ROWS(&a, locator, locators);
    const size_t extra = a.directory + RECORD + 1;
    const row    fields[] = {{0, 2, 2, "its directory is damaged"},   {2, 2, 23, "its directory is damaged"},
                             {2, 2, 25, "its directory is damaged"},  {2, 2, 8, "its directory is damaged"},
                             {4, 8, 11, "sizes that do not fit"},     {12, 8, 9, "sizes that do not fit"},
                             {20, 8, 1 << 20, "begins past the end"}, {20, 8, UINT64_MAX, "begins past the end"}};
    CHECK_ROWS(&a, extra, fields);
    archive some = a; /* only the offset is among the extra fields, after a field of another kind */
    put(&some, a.directory + 20, 4, 10);
    put(&some, a.directory + 24, 4, 10);
    put(&some, extra, 2, 7);
    put(&some, extra + 2, 2, 12);
    put(&some, extra + 16, 2, 1);
    put(&some, extra + 18, 2, 8);
    put(&some, extra + 20, 8, 0);
    check_opened(&some, NULL);
    put(&some, a.directory + 30, 2, 16); /* the field is a part of the comment now */
    put(&some, a.directory + 32, 2, 12);
    check_opened(&some, "its directory is damaged");
    put(&some, a.directory + 30, 2, 0);
    put(&some, a.directory + 32, 2, 28);
    put(&some, a.directory + 42, 4, 0);
    check_opened(&some, NULL);
}

/* A number is among the extra fields from the limit on, and not below it. */
static void test_zip__numbers_at_the_limit(void **state)
{
    const archive plain = write_archive(HAUL__ZIP_LIMIT);
    const size_t  second = (size_t)get(&plain, plain.directory + RECORD + 1 + 42, 4);
    const size_t  size = (size_t)get(&plain, plain.end + 12, 4);
    (void)state;
    const uint64_t limits[] = {10, 11, second, second + 1, plain.directory, plain.directory + 1, size, size + 1};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const uint64_t limit = limits[i];
        const archive  a = write_archive(limit);
        const bool     first_wide = 10 >= limit;
        const size_t   next = a.directory + RECORD + 1 + (first_wide ? 28 : 0), extra = (size_t)get(&a, next + 30, 2);
        check_opened(&a, NULL);
        for (size_t field = 20; field <= 24; field += 4)
            assert_int_equal(get(&a, a.directory + field, 4), first_wide ? 0xffffffff : 10);
        assert_int_equal(get(&a, a.directory + 42, 4), first_wide ? 0xffffffff : 0);
        const uint64_t where = extra ? get(&a, next + RECORD + 2 + 20, 8) : get(&a, next + 42, 4);
        assert_int_equal(extra, first_wide || where >= limit ? 28 : 0);
        const size_t bytes = 2 * RECORD + 3 + (first_wide ? 28 : 0) + extra;
        const bool   ends = a.directory >= limit || bytes >= limit;
        assert_int_equal(get(&a, a.end + 16, 4), ends ? 0xffffffff : a.directory);
        assert_int_equal(get(&a, a.end + 12, 4), ends ? 0xffffffff : bytes);
        assert_int_equal(get(&a, a.end + 10, 2), ends ? 0xffff : MEMBERS);
    }
}

/* A member is compressed, so that its sizes differ: each of them alone may reach the limit. */
static void test_zip__sizes_at_the_limit(void **state)
{
    static const char zeros[4000];
    (void)state;
    for (int small = 0; small < 2; small++) {
        const size_t size = small ? 2 : sizeof zeros;
        uint64_t     limit = HAUL__ZIP_LIMIT;
        for (int round = 0; round < 2; round++) {
            archive          a = {.size = 0};
            haul__zip_writer w = {.file = haul__writer_open("s.zip", "test"), .operation = "test", .limit = limit};
            assert_non_null(w.file);
            const haul_status status = haul__zip_put(&w, "a", true, zeros, size, NULL, 0);
            if (status == HAUL_UNSUPPORTED) {
                haul__writer_abandon(w.file);
                haul_error_clear();
                skip();
            }
            assert_int_equal(status, HAUL_OK);
            memcpy(a.of, w.directory, a.size = w.size);
            const uint64_t packed = get(&a, 20, 4);
            assert_int_equal(packed == 0xffffffff, round == 1);
            assert_true(round || (packed > size) == small);
            limit = small ? packed : size;
            haul__writer_abandon(w.file);
            haul__free(w.directory);
        }
    }
    haul__zip_writer w = {.file = haul__writer_open("s.zip", "test"), .operation = "test", .limit = 152};
    for (int i = 0; i < 2; i++) /* a directory of 152 bytes behind members of 128 */
        assert_int_equal(haul__zip_put(&w, i ? "a name that has thirty letters" : "another one, of thirty letters",
                                       false, "", 0, "", 0),
                         HAUL_OK);
    assert_true(w.size == 152 && w.at == 128);
    assert_int_equal(haul__zip_end(&w), HAUL_OK);
    assert_int_equal(haul__writer_commit(w.file), HAUL_OK);
    haul__free(w.directory);
    archive a = {.size = 0};
    FILE   *file = fopen("s.zip", "rb");
    assert_non_null(file);
    a.size = fread(a.of, 1, sizeof a.of, file);
    fclose(file);
    assert_int_equal(get(&a, a.size - END + 12, 4), 0xffffffff);
}

/* Other programs read these bytes, too (io_python.py), and they do not depend on the time. */
static void test_zip__bytes_stay_the_same(void **state)
{
    const archive narrow = write_archive(HAUL__ZIP_LIMIT), wide = write_archive(0);
    (void)state;
    assert_int_equal(haul__crc32(0, narrow.of, narrow.size), NARROW_CRC);
    assert_int_equal(haul__crc32(0, wide.of, wide.size), WIDE_CRC);
}

/* The most members, and the longest comment, that the record at the end has room for. */
static void test_zip__as_many_as_16_bits_hold(void **state)
{
    enum { MANY = 0xffff };
    char             name[8];
    haul__zip        zip;
    haul__file       file;
    archive          a = write_archive(HAUL__ZIP_LIMIT);
    haul__zip_writer w = {.file = haul__writer_open("z.zip", "test"), .operation = "test", .limit = HAUL__ZIP_LIMIT};
    (void)state;
    assert_non_null(w.file);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(haul__zip_put(&w, name, false, "", 0, "", 0), HAUL_OK);
    }
    assert_int_equal(haul__zip_end(&w), HAUL_OK);
    assert_int_equal(haul__writer_commit(w.file), HAUL_OK);
    haul__free(w.directory);
    assert_int_equal(haul__file_open(&file, "z.zip", "test"), HAUL_OK);
    assert_int_equal(haul__zip_open(&zip, &file), HAUL_OK);
    assert_int_equal(zip.count, MANY);
    assert_non_null(haul__zip_find(&zip, "65534"));
    haul__zip_free(&zip);
    haul__file_close(&file);
    uint8_t *longer = calloc(a.size + MANY, 1);
    assert_non_null(longer);
    put(&a, a.end + 20, 2, MANY);
    memcpy(longer, a.of, a.size);
    haul__file_open_memory(&file, longer, a.size + MANY, "z.zip", "test");
    assert_int_equal(haul__zip_open(&zip, &file), HAUL_OK);
    assert_int_equal(zip.count, MEMBERS);
    haul__zip_free(&zip);
    free(longer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zip__record_at_the_end),       cmocka_unit_test(test_zip__records_of_members),
        cmocka_unit_test(test_zip__links_of_unix),           cmocka_unit_test(test_zip__numbers_of_64_bits),
        cmocka_unit_test(test_zip__numbers_at_the_limit),    cmocka_unit_test(test_zip__bytes_stay_the_same),
        cmocka_unit_test(test_zip__as_many_as_16_bits_hold), cmocka_unit_test(test_zip__directories_of_other_programs),
        cmocka_unit_test(test_zip__sizes_at_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
