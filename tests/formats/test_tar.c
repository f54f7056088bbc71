/* Tar archives at their bounds: fields without a zero at their end, attributes, and members of more than one piece. */
#include "tar_bytes.h"

static void test_tar__names_have_an_end(void **state)
{
    uint8_t *head;
    (void)state;
    put_special(&made, 'L', "a/long/name", 11);
    put_file(&made, "x", "1");
    put_special(&made, 'L', "b", 1);
    put_file(&made, "y", "2");
    end_and_expect("a/long/name=1|b=2");
    put_special(&made, 'x', "20 path=a/long/name\n", 20);
    put_file(&made, "x", "1");
    put_special(&made, 'x', "9 path=b\n", 9);
    put_file(&made, "y", "2");
    end_and_expect("a/long/name=1|b=2");
    head = put_head(&made, "file", 2, '0'); /* a prefix of one letter, and the version that POSIX asks for */
    memcpy(head + 263, "00", 2);
    head[345] = 'p';
    sum_up(head, false);
    put_content(&made, "hi", 2);
    end_and_expect("p/file=hi");
}

static void test_tar__numbers_fill_their_fields(void **state)
{
    int      sum = 0;
    uint8_t *head = put_head(&made, "a", 3, '0');
    (void)state;
    memcpy(head + 124, "0000000000031", 13); /* twelve digits, and one of the next field */
    sum_up(head, false);
    put_content(&made, "abc", 3);
    head = put_head(&made, "b", 0, '0');
    head[265] = 0x80;
    sum_up(head, true);
    end_and_expect("a=abc|b=");
    head = put_head(&made, "c", 0, '0'); /* bytes whose sum is 0 if they have signs */
    memset(head + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += head[i];
    for (int i = 265; sum > 0; i++) {
        const int less = sum < 128 ? sum : 128;
        head[i] = (uint8_t)(256 - less);
        sum -= less;
    }
    sum_up(head, true);
    end_and_expect("c=");
    put_file(&made, "a", "x");
    put(&made, "x", 1); /* a head of which the first byte only is not zero */
    put_zeros(&made, 511);
    end_and_refuse("the checksum of a member is wrong");
}

static void test_tar__attributes_at_their_bounds(void **state)
{
    (void)state;
    put_special(&made, 'x', "10 size=3\n", 10);
    put_file(&made, "a", "abc");
    put_special(&made, 'x', "11 size=19\n", 11);
    put_file(&made, "b", "nineteen letters or");
    put_special(&made, 'x', "", 0);
    put_file(&made, "c", "x");
    put_special(&made, 'x', "4 =\n", 4);
    put_file(&made, "d", "y");
    end_and_expect("a=abc|b=nineteen letters or|c=x|d=y");
    static const char *const rows[] = {"000000017 path=a\n", "99 path=a\n", "7 path\n9 path=a\n"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_special(&made, 'x', rows[i], strlen(rows[i]));
        put_file(&made, "a", "x");
        end_and_refuse("the attributes of a member cannot be read");
    }
    put_special(&made, 'x', "28 size=9000000000000000000\n", 28);
    put_file(&made, "a", "x");
    put_zeros(&made, 1024);
    assert_null(open_made("h.tar"));
    expect("large", HAUL_FORMAT, "it ends within a member");
}

static bool find_any(void *context, const char *name)
{
    (void)context, (void)name;
    return true;
}

static void test_tar__names_without_a_file_are_not_looked_at(void **state)
{
    bool any = true;
    (void)state;
    put_file(&made, "/absolute", "");
    put_file(&made, ".", "");
    put_zeros(&made, 1024);
    write_bytes("l.tar", made.of, made.size);
    assert_int_equal(haul__archive_look("l.tar", "test", find_any, NULL, &any), HAUL_OK);
    assert_false(any);
}

/* Writes an archive of members with these bytes, packed. False in a build without zlib. */
static bool write_packed(const char *path, const char *const *names, const uint8_t *const *data, const size_t *sizes,
                         int count)
{
    size_t all = 1024, at = 0, packed;
    for (int i = 0; i < count; i++)
        all += 512 + (sizes[i] + 511) / 512 * 512;
    uint8_t *whole = calloc(all, 1);
    assert_non_null(whole);
    for (int i = 0; i < count; i++) {
        made.size = 0;
        memcpy(whole + at, put_head(&made, names[i], sizes[i], '0'), 512);
        memcpy(whole + at + 512, data[i], sizes[i]);
        at += 512 + (sizes[i] + 511) / 512 * 512;
    }
    void          *deflated = haul__deflate("test", whole, all, "", 0, &packed);
    const uint32_t crc = haul__crc32(0, whole, all);
    free(whole);
    haul_error_clear();
    if (!deflated)
        return false;
    uint8_t *file = calloc(packed + 18, 1);
    assert_non_null(file);
    memcpy(file, "\x1f\x8b\x08", 3);
    memcpy(file + 10, deflated, packed);
    for (int i = 0; i < 8; i++)
        file[10 + packed + (size_t)i] = (uint8_t)((i < 4 ? crc : (uint32_t)all) >> 8 * (i % 4));
    write_bytes(path, file, packed + 18);
    free(file);
    haul__free(deflated);
    return true;
}

/* Bytes that cannot be packed: they are read in several pieces. */
static void test_tar__packed_members_of_several_pieces(void **state)
{
    enum { SIZE = 300000 };
    static const char *const names[] = {"a", "b"};
    uint8_t                 *large = malloc(SIZE), *data;
    const uint8_t *const     members[] = {large, (const uint8_t *)"small"};
    size_t                   size;
    uint32_t                 random = 1;
    (void)state;
    assert_non_null(large);
    for (int i = 0; i < SIZE; i++)
        large[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    if (write_packed("p.tar.gz", names, members, (const size_t[]){SIZE, 5}, 2)) {
        haul__archive *a = haul__archive_of_files("p.tar.gz", "test", keep_all, "b");
        assert_non_null(a);
        assert_int_equal(haul__archive_read(a, "b", 5, 0, &data, &size), HAUL_OK);
        assert_memory_equal(data, "small", 5);
        haul__free(data);
        assert_int_equal(haul__archive_keep(a, keep_all, NULL), HAUL_OK);
        assert_int_equal(haul__archive_read(a, "a", SIZE, 0, &data, &size), HAUL_OK);
        assert_int_equal(size, SIZE);
        assert_memory_equal(data, large, SIZE);
        haul__free(data);
        haul__archive_forget(a);
        for (int i = 0; i < 2; i++)
            assert_int_equal(haul__archive_read(a, names[i], SIZE, 0, &data, &size), HAUL_FORMAT);
        haul_error_clear();
        haul__archive_close(a);
    }
    free(large);
}

/* Members that are kept may take 16 MiB, and 64 bytes for each byte of the file. */
static void test_tar__memory_of_members_is_limited(void **state)
{
    enum { SIZE = 12 << 20 };
    static const char *const names[] = {"a", "b"};
    uint8_t                 *zeros = calloc(SIZE, 1);
    const uint8_t *const     members[] = {zeros, zeros};
    (void)state;
    assert_non_null(zeros);
    for (int count = 1; count <= 2; count++)
        if (write_packed("m.tar.gz", names, members, (const size_t[]){SIZE, SIZE}, count)) {
            haul__archive *a = haul__archive_of_files("m.tar.gz", "test", keep_all, NULL);
            assert_int_equal(a != NULL, count == 1);
            if (!a)
                expect("memory", HAUL_FORMAT, "MiB when its members are in memory");
            haul__archive_close(a);
        }
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_tar__names_have_an_end, clear),
        cmocka_unit_test_setup(test_tar__numbers_fill_their_fields, clear),
        cmocka_unit_test_setup(test_tar__attributes_at_their_bounds, clear),
        cmocka_unit_test_setup(test_tar__names_without_a_file_are_not_looked_at, clear),
        cmocka_unit_test_setup(test_tar__packed_members_of_several_pieces, clear),
        cmocka_unit_test_setup(test_tar__memory_of_members_is_limited, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
