/* Files: reads that come in pieces, limits, and descriptors, of which none is left open. tests/formats has what readers
 * and writers of formats make of them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/object.h"
#include "files/below.h"
#include "files/descriptor.h"
#include "files/file.h"

static int count_open(void)
{
    int  count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void check_failed(haul_status status, haul_status expected, const char *words)
{
    assert_int_equal(status, expected);
    if (!strstr(haul_error_message(), words))
        fail_msg("%s (expected: %s)", haul_error_message(), words);
    haul_error_clear();
}

static void test_file__memory_is_read_within_its_bounds(void **state)
{
    static const uint8_t data[4] = {1, 2, 3, 4};
    haul__file           file;
    uint8_t              out[8] = {0};
    (void)state;
    haul__file_open_memory(&file, data, sizeof data, "part", "test");
    assert_int_equal(haul__file_read(&file, 1, out, 3), HAUL_OK);
    assert_memory_equal(out, data + 1, 3);
    assert_int_equal(haul__file_read(&file, 4, out, 0), HAUL_OK);
    check_failed(haul__file_read(&file, 1, out, 4), HAUL_FORMAT, "part became shorter while it was read");
    check_failed(haul__file_read(&file, 5, out, 0), HAUL_FORMAT, "part became shorter while it was read");
    check_failed(haul__file_read(&file, UINT64_MAX, out, 2), HAUL_FORMAT, "part became shorter while it was read");
    haul__file_close(&file);
}

static void test_file__whole_files_are_read_with_room(void **state)
{
    uint8_t  *data = NULL;
    size_t    size = 0;
    const int before = count_open();
    (void)state;
    assert_int_equal(haul__file_write_all("r", "test", "12345", 5), HAUL_OK);
    assert_int_equal(haul__file_read_all("r", "test", 5, 3, &data, &size), HAUL_OK);
    assert_int_equal(size, 5);
    memcpy(data + 5, "678", 3);
    assert_memory_equal(data, "12345678", 8);
    haul__free(data);
    check_failed(haul__file_read_all("r", "test", 4, 0, &data, &size), HAUL_FORMAT,
                 "r has 5 bytes; Haul reads at most 4");
    check_failed(haul__file_read_all("none", "test", 4, 0, &data, &size), HAUL_IO, "cannot open none: ");
    haul__file file;
    assert_int_equal(haul__file_open(&file, "r", "test"), HAUL_OK);
    assert_int_equal(truncate("r", 3), 0);
    uint8_t out[5];
    check_failed(haul__file_check_size(&file), HAUL_FORMAT, "r became shorter while it was read");
    check_failed(haul__file_read(&file, 0, out, 5), HAUL_FORMAT, "r became shorter while it was read");
    assert_int_equal(haul__file_read(&file, 1, out, 2), HAUL_OK);
    assert_memory_equal(out, "23", 2);
    haul__file_close(&file);
    const int same = dup(0); /* has the number of the file that was closed, and stays open */
    haul__file_close(&file);
    assert_true(fcntl(same, F_GETFD) >= 0);
    close(same);
    for (int64_t nth = 1; nth < 3; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul_status status = haul__file_read_all("r", "test", 5, 0, &data, &size);
        haul__fault_plan(0, 0);
        assert_int_equal(status, nth == 1 ? HAUL_OUT_OF_MEMORY : HAUL_OK);
    }
    haul__free(data);
    haul_error_clear();
    assert_int_equal(count_open(), before);
    unlink("r");
}

/* Every way to open and to write a file closes what it opened, also where it fails. */
static void test_file__no_descriptor_is_left_open(void **state)
{
    haul__file file;
    const int  before = count_open();
    (void)state;
    for (int64_t nth = 0; nth < 12; nth++) {
        haul__fault_plan(HAUL__FAULT_FILE, nth);
        haul__file_write_all("w", "test", "12345", 5);
        if (nth % 2)
            haul__file_write_all("w", "test", "12345", 5); /* in the place of the file that is there */
        if (haul__file_open(&file, "w", "test") == HAUL_OK)
            haul__file_close(&file);
        haul__fault_plan(0, 0);
        haul_error_clear();
        assert_int_equal(count_open(), before);
    }
    if (haul__file_write_all("w.tmp", "test", "left", 4))
        fail_msg("%s", haul_error_message()); /* as a killed process leaves it */
    assert_int_equal(haul__file_write_all("w", "test", "1", 1), HAUL_OK);
    assert_int_equal(access("w.tmp", F_OK), -1);
    assert_int_equal(count_open(), before);
    check_failed(haul__file_open(&file, ".", "test"), HAUL_IO, ". is a folder, not a file");
    assert_int_equal(count_open(), before);
    mkdir("w.tmp", 0700);
    check_failed(haul__file_write_all("w", "test", "1", 1), HAUL_IO, "something that is not a file has its name");
    assert_int_equal(count_open(), before);
    rmdir("w.tmp");
    haul__writer *writer = haul__writer_open("w", "test");
    assert_non_null(writer);
    check_failed(haul__file_write_all("w", "test", "1", 1), HAUL_IO, "another program is writing ");
    haul__writer_abandon(writer);
    haul__writer_abandon(NULL);
    assert_int_equal(count_open(), before);
    haul__mapping *mapping = NULL;
    assert_int_equal(haul__file_open(&file, "w", "test"), HAUL_OK);
    mapping = haul__file_map_readonly(&file);
    assert_non_null(mapping);
    assert_int_equal(*haul__mapping_at(mapping, 0), '1');
    haul__object_release(mapping);
    haul__file_close(&file);
    assert_int_equal(count_open(), before);
    unlink("w");
}

static void test_file__writers_that_cannot_be_opened(void **state)
{
    (void)state;
    assert_null(haul__writer_open(NULL, "test"));
    check_failed(haul_error_status(), HAUL_INVALID_ARGUMENT, "path");
    assert_null(haul__writer_open(".", "test"));
    check_failed(haul_error_status(), HAUL_IO, ". is a folder, not a file");
    assert_true(fcntl(0, F_GETFD) >= 0); /* nothing is closed that was not opened */
    assert_int_equal(haul__file_write_all("o", "test", "1", 1), HAUL_OK);
    errno = EWOULDBLOCK; /* of an earlier call */
    assert_int_equal(haul__file_write_all("o", "test", "2", 1), HAUL_OK);
    const int64_t blocks = haul__counted_blocks();
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul_status status = haul__file_write_all("o", "test", "3", 1);
        const bool        reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        assert_int_equal(status, reached ? HAUL_OUT_OF_MEMORY : HAUL_OK);
        haul_error_clear();
        if (!reached)
            break;
    }
    assert_int_equal(haul__counted_blocks(), blocks);
    unlink("o");
}

static void test_file__nothing_is_written_past_the_limit(void **state)
{
    struct rlimit before, limit;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 10;
    haul__writer *writer = haul__writer_open("l", "test");
    assert_non_null(writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const haul_status first = haul__writer_put(writer, "123456", 6), second = haul__writer_put(writer, "7890", 4);
    const haul_status third = haul__writer_put(writer, "x", 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(first, HAUL_OK);
    assert_int_equal(second, HAUL_OK);
    check_failed(third, HAUL_IO, "cannot write ");
    haul__writer_abandon(writer);
    assert_int_equal(access("l", F_OK), -1);
    assert_int_equal(access("l.tmp", F_OK), -1);
}

/* A pipe of packets gives one at a time. */
static void test_file__pieces_are_read_until_all_are_there(void **state)
{
    int  ends[2];
    char out[] = "---------";
    (void)state;
    if (pipe2(ends, O_DIRECT | O_CLOEXEC))
        skip();
    assert_true(haul__write_all(ends[1], "ab", 2) && haul__write_all(ends[1], "c", 1) &&
                haul__write_all(ends[1], "defgh", 5));
    assert_true(haul__read_all(ends[0], out, 6));
    assert_string_equal(out, "abcdef---");
    assert_true(haul__write_all(ends[1], "ab", 2));
    close(ends[1]);
    assert_false(haul__read_all(ends[0], out, 3)); /* it ends too early */
    close(ends[0]);
    assert_false(haul__read_all(-1, out, 1));
    assert_false(haul__write_all(-1, out, 1));
    assert_true(haul__read_all(-1, out, 0));
    assert_true(haul__write_all(-1, out, 0));
}

static void test_file__names_below_a_folder(void **state)
{
    static char name[5000];
    haul__file  file;
    const int   before = count_open();
    (void)state;
    mkdir("b", 0700);
    mkdir("b/c", 0700);
    mkdir("b/..d", 0700);
    assert_int_equal(haul__file_write_all("b/c/x", "test", "1", 1), HAUL_OK);
    assert_int_equal(haul__file_write_all("b/..d/y", "test", "22", 2), HAUL_OK);
    assert_int_equal(symlink("c", "b/link"), 0);
    assert_int_equal(symlink("x", "b/c/link"), 0);
    assert_int_equal(haul__file_open_below(&file, "b/owner", "c/x", "test"), HAUL_OK);
    assert_int_equal(file.size, 1);
    haul__file_close(&file);
    assert_int_equal(haul__file_open_below(&file, "b/owner", "..d/y", "test"), HAUL_OK);
    assert_int_equal(file.size, 2);
    haul__file_close(&file);
    assert_int_equal(haul__file_open_below(&file, "owner", "b/c/x", "test"), HAUL_OK);
    haul__file_close(&file);
    static const struct {
        const char *name, *words;
    } rows[] = {{"", "which is not a path below its folder"},
                {"/x", "which is not a path below its folder"},
                {"..", "which is not a path below its folder"},
                {"../x", "which is not a path below its folder"},
                {"c/../x", "which is not a path below its folder"},
                {"c//x", "which is not a path below its folder"},
                {"c/x/", "which is not a path below its folder"},
                {"link/x", "which leads through a link; Haul follows none"},
                {"c/link", "which leads through a link"},
                {"c/x/y", "which leads through a link"},
                {"c", "which is not a regular file"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_failed(haul__file_open_below(&file, "b/owner", rows[i].name, "test"), HAUL_FORMAT, rows[i].words);
    check_failed(haul__file_open_below(&file, "b/owner", "none", "test"), HAUL_IO,
                 "cannot open 'none', which the file names: ");
    check_failed(haul__file_open_below(&file, "none/owner", "x", "test"), HAUL_IO,
                 "cannot open 'x', which the file names: ");
    memset(name, 'n', sizeof name - 1);
    name[4096] = '\0';
    check_failed(haul__file_open_below(&file, "b/owner", name, "test"), HAUL_FORMAT,
                 "which is not a path below its folder");
    name[4095] = '\0'; /* may be a name, but no file system has so long a one */
    check_failed(haul__file_open_below(&file, "b/owner", name, "test"), HAUL_IO, "which the file names: ");
    name[4090] = '/'; /* a shorter path after a longer one */
    check_failed(haul__file_open_below(&file, name, "x", "test"), HAUL_IO, "cannot open 'x', which the file names: ");
    assert_int_equal(haul__file_open_below(&file, "b/owner", "c/x", "test"), HAUL_OK);
    haul__file_close(&file);
    name[4090] = 'n';
    name[4095] = '/';
    name[4096] = 'n';
    check_failed(haul__file_open_below(&file, name, "x", "test"), HAUL_IO, "cannot open 'x', which the file names: ");
    for (int64_t nth = 1; nth < 5; nth++) {
        haul__fault_plan(HAUL__FAULT_FILE, nth);
        if (haul__file_open_below(&file, "b/owner", "c/x", "test") == HAUL_OK)
            haul__file_close(&file);
        haul__fault_plan(0, 0);
        haul_error_clear();
    }
    assert_int_equal(count_open(), before);
    unlink("b/c/x"), unlink("b/..d/y"), unlink("b/link"), unlink("b/c/link");
    rmdir("b/c"), rmdir("b/..d"), rmdir("b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file__memory_is_read_within_its_bounds),
        cmocka_unit_test(test_file__whole_files_are_read_with_room),
        cmocka_unit_test(test_file__no_descriptor_is_left_open),
        cmocka_unit_test(test_file__writers_that_cannot_be_opened),
        cmocka_unit_test(test_file__nothing_is_written_past_the_limit),
        cmocka_unit_test(test_file__pieces_are_read_until_all_are_there),
        cmocka_unit_test(test_file__names_below_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
