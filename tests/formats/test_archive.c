/* Tar archives, plain and packed by gzip, and zip archives: names, sizes, types of members, and damage. */
#include "formats/archive/tar.h"
#include "formats/zip.h"

#include "tar_bytes.h"

static void test_archive__members_of_tar(void **state)
{
    char     text[1100];
    uint8_t *head;
    (void)state;
    put_file(&made, "b", "second");
    put_file(&made, "./a//x", "first");
    put_head(&made, "folder/", 0, '5');
    put_head(&made, "folder2", 3, '5'); /* a size that some programs write; no bytes follow */
    put_head(&made, "named-folder/", 4, '0');
    put_content(&made, "skip", 4);
    put_file(&made, "__MACOSX/a", "foreign");
    put_file(&made, "..c", "");
    end_and_expect("..c=|a/x=first|b=second");
    memset(text, 'z', sizeof text); /* contents up to a block's end and past it */
    for (size_t size = 511; size <= 513; size++) {
        char expected[1200];
        text[size] = '\0';
        put_file(&made, "z", text);
        put_file(&made, "zz", "after");
        snprintf(expected, sizeof expected, "z=%s|zz=after", text);
        end_and_expect(expected);
        text[size] = 'z';
    }
    put_head(&made, "old", 3, 0);
    put_content(&made, "abc", 3);
    put_head(&made, "contiguous", 3, '7');
    put_content(&made, "def", 3);
    end_and_expect("contiguous=def|old=abc");
    head = put_head(&made, "file", 2, '0'); /* the prefix of POSIX, and none before it */
    memcpy(head + 345, "some/folder", 11);
    sum_up(head, false);
    put_content(&made, "hi", 2);
    head = put_head(&made, "gnu", 2, '0');
    memcpy(head + 257, "ustar ", 6);
    memcpy(head + 345, "times", 5);
    sum_up(head, false);
    put_content(&made, "ho", 2);
    end_and_expect("gnu=ho|some/folder/file=hi");
    memset(text, 'n', 100); /* a name, and a prefix, without a zero at the end */
    text[100] = '\0';
    head = put_head(&made, text, 1, '0');
    memset(head + 345, 'p', 155);
    sum_up(head, false);
    put_content(&made, "x", 1);
    char expected[1400];
    memset(expected, 'p', 155);
    snprintf(expected + 155, sizeof expected - 155, "/%s=x", text);
    end_and_expect(expected);
}

static void test_archive__numbers_of_tar(void **state)
{
    uint8_t *head = put_head(&made, "big", 0, '0');
    (void)state;
    memcpy(head + 124, "\x80\0\0\0\0\0\0\0\0\0\x02\x01",
           12); /* 513, as GNU tar writes numbers too large for octal digits */
    sum_up(head, false);
    put_zeros(&made, 1024);
    put_file(&made, "next", "n");
    end_and_expect("big=|next=n");
    head = put_head(&made, "blank", 0, '0');
    memcpy(head + 124, "   7 \0     ", 12);
    sum_up(head, false);
    put_content(&made, "1234567", 7);
    end_and_expect("blank=1234567");
    head = put_head(&made, "\xe9", 0, '0'); /* summed with signs */
    sum_up(head, true);
    end_and_expect("\xe9=");
    static const char *const sizes[] = {"\x80\1\0\0\0\0\0\0\0\0\0\0",
                                        "\x80\0\1\0\0\0\0\0\0\0\0\0",
                                        "\x80\0\0\1\0\0\0\0\0\0\0\0",
                                        "\x80\0\0\0\x80\0\0\0\0\0\0\0",
                                        "\x81\0\0\0\0\0\0\0\0\0\0\1",
                                        "00000000018",
                                        "0000x000001",
                                        "1 1 1 1 1 1"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        head = put_head(&made, "n", 0, '0');
        memcpy(head + 124, sizes[i], 12);
        sum_up(head, false);
        end_and_refuse("the size of a member is not a number");
    }
    put_file(&made, "a", "");
    head = put_head(&made, "b", 0, '0');
    head[0] = 'c';
    end_and_refuse("the checksum of a member is wrong");
    put_file(&made, "a", "");
    head = put_head(&made, "b", 0, '0');
    head[153] = 'x';
    end_and_refuse("the checksum of a member is wrong");
}

static void test_archive__long_names_of_tar(void **state)
{
    static char name[4200], expected[4300];
    (void)state;
    memset(name, 'l', sizeof name);
    put_special(&made, 'L', "some/long/name\0", 15);
    put_file(&made, "short", "x");
    put_file(&made, "other", "y");
    end_and_expect("other=y|some/long/name=x");
    put_special(&made, 'L', name, 4096);
    put_file(&made, "short", "x");
    snprintf(expected, sizeof expected, "%.4096s=x", name);
    end_and_expect(expected);
    put_special(&made, 'L', name, 4097);
    end_and_refuse("the name of a member has more than 4,096 bytes, or none");
    put_special(&made, 'L', name, 0);
    end_and_refuse("the name of a member has more than 4,096 bytes, or none");
    for (const char *type = "gKV"; *type; type++) { /* these are skipped */
        put_special(&made, *type, name, 513);
        put_file(&made, "a", "x");
        end_and_expect("a=x");
    }
}

static void test_archive__attributes_of_pax(void **state)
{
    static char text[4200], expected[4200];
    (void)state;
    static const char attributes[] = "17 path=new/name\n10 size=3\n12 mtime=10\n";
    put_special(&made, 'x', attributes, sizeof attributes - 1);
    put_head(&made, "old", 0, '0');
    put_content(&made, "abc", 3);
    put_file(&made, "next", "n");
    end_and_expect("new/name=abc|next=n");
    put_special(&made, 'x', "7 k=v=\n6 x=y\n", 13);
    put_file(&made, "a", "x");
    end_and_expect("a=x");
    memset(text, 'p', sizeof text);
    memcpy(text, "4108 path=", 10);
    text[4107] = '\n';
    put_special(&made, 'x', text, 4108);
    end_and_refuse("the name of a member has more than 4,096 bytes, or none");
    memset(text, 'p', sizeof text);
    memcpy(text, "4107 path=", 10);
    text[4106] = '\n';
    put_special(&made, 'x', text, 4107);
    put_file(&made, "a", "x");
    snprintf(expected, sizeof expected, "%.4096s=x", text + 10);
    end_and_expect(expected);
    static const struct {
        const char *text;
        size_t      size;
        const char *words;
    } rows[] = {
        {"x path=a\n", 9, "the attributes of a member cannot be read"},
        {" 9 path=a", 9, "the attributes of a member cannot be read"},
        {"9 path=ab", 9, "the attributes of a member cannot be read"},
        {"9path=ab\n", 9, "the attributes of a member cannot be read"},
        {"10 path=a\n", 9, "the attributes of a member cannot be read"},
        {"8 path=a\n", 9, "the attributes of a member cannot be read"},
        {"3 \nxxx", 6, "the attributes of a member cannot be read"},
        {"7 path\n", 7, "the attributes of a member cannot be read"},
        {"9 p\0th=a\n", 9, "the attributes of a member cannot be read"},
        {"0000000009 path=a\n", 18, "the attributes of a member cannot be read"},
        {"8 path=\n", 8, "the name of a member has more than 4,096 bytes, or none"},
        {"10 path=\0\n", 10, "the name of a member has more than 4,096 bytes, or none"},
        {"9 size=/\n", 9, "the size of a member is not a number"},
        {"9 size=:\n", 9, "the size of a member is not a number"},
        {"28 size=9223372036854775808\n", 28, "the size of a member is not a number"},
        {"17 GNU.sparse.x=\n", 17, "it has a file with holes, which Haul does not read"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_special(&made, 'x', rows[i].text, rows[i].size);
        put_file(&made, "a", "x");
        end_and_refuse(rows[i].words);
    }
    put_head(&made, "pax", ((size_t)1 << 20) + 1, 'x');
    end_and_refuse("the attributes of a member have more than a megabyte");
}

static void test_archive__what_is_no_file_is_refused(void **state)
{
    static const struct {
        char        type;
        const char *words;
    } rows[] = {{'1', "the member 'it' of a.tar is a link;"},
                {'2', "the member 'it' of a.tar is a link;"},
                {'3', "the member 'it' of a.tar is a device;"},
                {'4', "the member 'it' of a.tar is a device;"},
                {'6', "the member 'it' of a.tar is a pipe;"},
                {'S', "the member 'it' of a.tar is a file with holes;"},
                {'Z', "the member 'it' of a.tar is of a type that Haul does not know;"}};
    static const char *const names[] = {"/a", "../a", "a/../b", "a/.."};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_head(&made, "it", 0, rows[i].type);
        end_and_refuse(rows[i].words);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put_file(&made, names[i], "x");
        end_and_refuse("has an absolute name or one with \"..\"");
    }
    put_file(&made, "a", "x");
    put_file(&made, "b", "x");
    put_file(&made, "./a", "y");
    end_and_refuse("the member 'a' of a.tar occurs twice");
}

static void test_archive__damage_of_tar(void **state)
{
    (void)state;
    put_file(&made, "a", "x");
    expect_refused("it ends without the block of zeros that ends an archive");
    put_file(&made, "a", "x");
    put_zeros(&made, 511);
    expect_refused("it ends without the block of zeros that ends an archive");
    put_file(&made, "a", "x");
    put_zeros(&made, 512);
    expect_members("a=x");
    made.size = 0;
    put_head(&made, "a", 513, '0');
    put_zeros(&made, 1023);
    expect_refused("it ends within a member");
    put_special(&made, 'L', "name", 4);
    made.size--;
    expect_refused("it ends within a member");
    put_special(&made, 'x', "6 x=y\n", 6);
    made.size--;
    expect_refused("it ends within a member");
    put_head(&made, "x", 600, 'x');
    put_zeros(&made, 512);
    expect_refused("it ends within a member");
    put_head(&made, "g", 600, 'g');
    put_zeros(&made, 512);
    expect_refused("it ends within a member");
    put_zeros(&made, 1024);
    assert_null(open_made("a.tar"));
    expect("zeros", HAUL_FORMAT, "is neither a folder nor an archive; Haul reads .tar, .tar.gz and .zip files");
    made.size = 0;
}

static void test_archive__damage_of_packed_tar(void **state)
{
    (void)state;
    put_file(&made, "a", "x");
    put_zeros(&made, 1024);
    if (!pack(&made))
        skip();
    const bytes whole_one = made;
    for (size_t size = 10; size < whole_one.size; size++) {
        made.size = size;
        assert_null(open_made("a.tar.gz"));
        expect("cut", HAUL_FORMAT, "is damaged: it ends before its compressed bytes do");
    }
    made = whole_one;
    made.of[made.size - 5] ^= 1; /* the checksum */
    assert_null(open_made("a.tar.gz"));
    expect("checksum", HAUL_FORMAT, "is damaged: a compressed part cannot be unpacked");
    made = whole_one; /* zeros may follow, and another part that is packed */
    put_zeros(&made, 300);
    haul__archive *a = open_made("a.tar.gz");
    assert_non_null(a);
    haul__archive_close(a);
    made = whole_one;
    put(&made, whole_one.of, whole_one.size);
    a = open_made("a.tar.gz");
    assert_non_null(a);
    assert_int_equal(haul__archive_count(a), 1); /* what follows the end of an archive is read, and has no members */
    haul__archive_close(a);
    made = whole_one;
    put(&made, "x", 1);
    assert_null(open_made("a.tar.gz"));
    expect("another byte", HAUL_FORMAT, "is damaged: ");
    made.size = 0;
}

static void test_archive__members_of_packed_tar_are_kept(void **state)
{
    uint8_t *data;
    size_t   size;
    (void)state;
    put_file(&made, "a", "first");
    put_file(&made, "b", "second");
    put_zeros(&made, 1024);
    if (!pack(&made))
        skip();
    write_bytes("k.tar.gz", made.of, made.size);
    haul__archive *a = haul__archive_of_files("k.tar.gz", "test", keep_all, "b");
    assert_non_null(a);
    assert_string_equal(haul__archive_path(a), "k.tar.gz");
    assert_int_equal(haul__archive_read(a, "k.tar.gz/a", 10, 0, &data, &size), HAUL_FORMAT);
    expect("not kept", HAUL_FORMAT, "the member 'a' of k.tar.gz was not kept when the archive was read");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(haul__archive_read(a, "k.tar.gz/b", 6, 0, &data, &size), HAUL_OK);
        assert_int_equal(size, 6);
        assert_memory_equal(data, "second", 6);
        haul__free(data);
        assert_int_equal(haul__archive_keep(a, keep_all, NULL), HAUL_OK);
    }
    assert_int_equal(haul__archive_read(a, "k.tar.gz/a", 5, 0, &data, &size), HAUL_OK);
    assert_memory_equal(data, "first", 5);
    haul__free(data);
    haul__archive_forget(a);
    assert_int_equal(haul__archive_read(a, "b", 10, 0, &data, &size), HAUL_FORMAT);
    haul_error_clear();
    haul__archive_close(a);
    haul__archive_close(NULL);
    made.size = 0;
}

static void test_archive__members_are_found(void **state)
{
    uint8_t *data;
    size_t   size;
    (void)state;
    put_file(&made, "c/x", "1");
    put_file(&made, "a", "22");
    put_file(&made, "c-", "333");
    put_file(&made, "d", "");
    put_zeros(&made, 1024);
    haul__archive *a = open_made("f.tar");
    assert_non_null(a);
    assert_int_equal(haul__archive_count(a), 4);
    assert_int_equal(haul__archive_lower(a, ""), 0);
    assert_int_equal(haul__archive_lower(a, "a"), 0);
    assert_int_equal(haul__archive_lower(a, "b"), 1);
    assert_int_equal(haul__archive_lower(a, "c/"), 2);
    assert_int_equal(haul__archive_lower(a, "d"), 3);
    assert_int_equal(haul__archive_lower(a, "e"), 4);
    assert_true(haul__archive_has_file(a, "f.tar/c/x") && haul__archive_has_file(a, "a"));
    assert_false(haul__archive_has_file(a, "f.tar/c") || haul__archive_has_file(a, "f.tar/e"));
    assert_true(haul__archive_has_folder(a, "f.tar/c") && haul__archive_has_folder(a, "f.tar"));
    assert_false(haul__archive_has_folder(a, "f.tar/a") || haul__archive_has_folder(a, "f.tar/e") ||
                 haul__archive_has_folder(a, "f.tar/c/x"));
    assert_int_equal(haul__archive_read(a, "f.tar/a", 1, 0, &data, &size), HAUL_FORMAT);
    expect("limit", HAUL_FORMAT, "f.tar/a has 2 bytes; Haul reads at most 1");
    assert_int_equal(haul__archive_read(a, "f.tar/e", 1, 0, &data, &size), HAUL_IO);
    expect("none", HAUL_IO, "the archive has no f.tar/e");
    haul__archive_close(a);
    made.size = 0;
}

static bool stop_at(void *context, const char *name)
{
    char *seen = context;
    strcat(seen, name);
    return name[0] == 's';
}

static void write_zip(const char *path, const char *const names[], int count)
{
    haul__zip_writer zip = {.file = haul__writer_open(path, "test"), .operation = "test", .limit = HAUL__ZIP_LIMIT};
    for (int i = 0; i < count; i++)
        assert_int_equal(haul__zip_put(&zip, names[i], false, names[i], strlen(names[i]), NULL, 0), HAUL_OK);
    assert_int_equal(haul__zip_end(&zip), HAUL_OK);
    assert_int_equal(haul__writer_commit(zip.file), HAUL_OK);
    haul__free(zip.directory);
}

static void test_archive__names_are_looked_at_in_order(void **state)
{
    static const char *const names[] = {"z", "__MACOSX/s", "folder/", "stop", "after"};
    char                     seen[100] = "";
    bool                     any = false;
    (void)state;
    for (int i = 0; i < 5; i++)
        put_file(&made, names[i], "");
    put_zeros(&made, 1024);
    write_bytes("l.tar", made.of, made.size);
    assert_int_equal(haul__archive_look("l.tar", "test", stop_at, seen, &any), HAUL_OK);
    assert_true(any);
    assert_string_equal(seen, "zstop");
    seen[0] = '\0';
    write_zip("l.zip", names, 5);
    assert_int_equal(haul__archive_look("l.zip", "test", stop_at, seen, &any), HAUL_OK);
    assert_true(any);
    assert_string_equal(seen, "zfolder/stop");
    seen[0] = '\0';
    write_zip("l.zip", names, 1);
    assert_int_equal(haul__archive_look("l.zip", "test", stop_at, seen, &any), HAUL_OK);
    assert_false(any);
    assert_int_equal(haul__archive_look("nowhere", "test", stop_at, seen, &any), HAUL_IO);
    assert_false(any);
    haul_error_clear();
    made.size = 0;
}

static void test_archive__members_of_zip(void **state)
{
    static const char *const names[] = {"b/1", "a", "folder/", "__MACOSX/a"}, *const twice[] = {"a", "./a"};
    char out[200];
    (void)state;
    write_zip("m.zip", names, 4);
    assert_true(haul__is_archive("m.zip"));
    haul__archive *a = haul__archive_of_files("m.zip", "test", NULL, NULL);
    assert_non_null(a);
    list(a, out, sizeof out);
    assert_string_equal(out, "a=a|b/1=b/1");
    haul__archive_close(a);
    write_zip("m.zip", twice, 2);
    assert_null(haul__archive_of_files("m.zip", "test", NULL, NULL));
    expect("twice", HAUL_FORMAT, "the member 'a' of m.zip occurs twice");
    write_zip("m.zip", NULL, 0);
    a = haul__archive_of_files("m.zip", "test", NULL, NULL);
    assert_non_null(a);
    assert_int_equal(haul__archive_count(a), 0);
    haul__archive_close(a);
    write_zip("m.zip", names,
              2); /* a wrong byte of a member, which ends 64 bytes after the file's beginning or later */
    FILE *file = fopen("m.zip", "r+b");
    assert_non_null(file);
    fseek(file, 64, SEEK_SET);
    assert_int_equal(fgetc(file), 'b');
    fseek(file, 64, SEEK_SET);
    fputc('B', file);
    fclose(file);
    a = haul__archive_of_files("m.zip", "test", NULL, NULL);
    uint8_t *data;
    size_t   size;
    assert_int_equal(haul__archive_read(a, "m.zip/b/1", 10, 0, &data, &size), HAUL_FORMAT);
    expect("damaged", HAUL_FORMAT, "the member 'b/1' of m.zip is damaged: its checksum is wrong");
    haul__archive_close(a);
    write_text("m.zip", "PK");
    assert_false(haul__is_archive("m.zip"));
    assert_false(haul__is_archive("nowhere"));
    assert_int_equal(haul_error_status(), HAUL_OK);
}

static void test_archive__every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    put_special(&made, 'x', "12 path=b/c\n", 12);
    put_file(&made, "a", "x");
    put_file(&made, "b", "y");
    put_zeros(&made, 1024);
    pack(&made);
    write_bytes("e.tar", made.of, made.size);
    const int64_t blocks = haul__counted_blocks();
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
        haul__archive *a = haul__archive_of_files("e.tar", "test", keep_all, NULL);
        const bool     reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached) {
            assert_int_equal(haul__archive_count(a), 2);
            haul__archive_close(a);
            break;
        }
        assert_null(a);
        assert_true(haul_error_status() == HAUL_OUT_OF_MEMORY || haul_error_status() == HAUL_IO);
        haul_error_clear();
    }
    assert_int_equal(haul__counted_blocks(), blocks);
    made.size = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_archive__members_of_tar, clear),
        cmocka_unit_test_setup(test_archive__numbers_of_tar, clear),
        cmocka_unit_test_setup(test_archive__long_names_of_tar, clear),
        cmocka_unit_test_setup(test_archive__attributes_of_pax, clear),
        cmocka_unit_test_setup(test_archive__what_is_no_file_is_refused, clear),
        cmocka_unit_test_setup(test_archive__damage_of_tar, clear),
        cmocka_unit_test_setup(test_archive__damage_of_packed_tar, clear),
        cmocka_unit_test_setup(test_archive__members_of_packed_tar_are_kept, clear),
        cmocka_unit_test_setup(test_archive__members_are_found, clear),
        cmocka_unit_test_setup(test_archive__names_are_looked_at_in_order, clear),
        cmocka_unit_test_setup(test_archive__members_of_zip, clear),
        cmocka_unit_test_setup(test_archive__every_failing_allocation_is_an_error, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
