/* The file of spilled tensors by itself: its parts are cut and joined, it grows and becomes shorter, and its messages
 * name the limit that it met. */
#include <dirent.h>
#include <errno.h>
#include <haul/haul.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "memory/spill/file.h"

enum { PAGE = 4096 };

static haul__spill_file *open_here(int64_t limit)
{
    haul__spill_file *f = haul__spill_file_open(".", limit, "test");
    assert_non_null(f);
    return f;
}

static haul__spill_part *reserve(haul__spill_file *f, int64_t bytes)
{
    haul__spill_part *p = haul__spill_file_reserve(f, bytes);
    assert_non_null(p);
    return p;
}

static void expect_sizes(haul__spill_file *f, int64_t pages, int64_t used)
{
    assert_int_equal(haul__spill_file_bytes(f), pages * PAGE);
    assert_int_equal(haul__spill_file_used(f), used * PAGE);
}

static void fill(haul__spill_part *p, int64_t pages, char with)
{
    char page[PAGE];
    memset(page, with, sizeof page);
    for (int64_t i = 0; i < pages; i++)
        assert_int_equal(haul__spill_part_write(p, i * PAGE, page, PAGE), HAUL_OK);
}

static void expect_filled(haul__spill_part *p, int64_t pages, char with)
{
    char page[PAGE];
    for (int64_t i = 0; i < pages; i++) {
        memset(page, ~with, sizeof page);
        assert_int_equal(haul__spill_part_read(p, i * PAGE, page, PAGE), HAUL_OK);
        for (int at = 0; at < PAGE; at++)
            assert_int_equal(page[at], with);
    }
}

/* A larger free part is cut, and its rest is a part for others. */
static void test_spill_file__cuts_parts(void **state)
{
    (void)state;
    haul__spill_file *f = open_here(0);
    haul__spill_part *wide = reserve(f, PAGE + 1), *last = reserve(f, PAGE);
    expect_sizes(f, 3, 3);
    fill(last, 1, 'c');
    haul__spill_part_release(wide);
    expect_sizes(f, 3, 1);
    haul__spill_part *first = reserve(f, PAGE), *second = reserve(f, 1);
    expect_sizes(f, 3, 3);
    fill(first, 1, 'a');
    fill(second, 1, 'b');
    expect_filled(first, 1, 'a');
    expect_filled(second, 1, 'b');
    expect_filled(last, 1, 'c');
    haul__spill_part_release(first);
    haul__spill_part_release(second);
    haul__spill_part_release(last);
    expect_sizes(f, 3, 0);
    haul__spill_file_close(f);
}

/* Free neighbours on either side, and on both, are one part again. */
static void test_spill_file__joins_neighbours(void **state)
{
    (void)state;
    static const int  orders[][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};
    haul__spill_file *f = open_here(0);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        haul__spill_part *parts[3], *end;
        for (int k = 0; k < 3; k++)
            parts[k] = reserve(f, (k + 1) * PAGE);
        end = reserve(f, PAGE);
        for (int k = 0; k < 3; k++)
            haul__spill_part_release(parts[orders[i][k]]);
        expect_sizes(f, 7, 1);
        haul__spill_part *whole = reserve(f, 6 * PAGE);
        expect_sizes(f, 7, 7);
        fill(whole, 6, 'w');
        fill(end, 1, 'e');
        expect_filled(whole, 6, 'w');
        haul__spill_part_release(end);
        haul__spill_part_release(whole);
        expect_sizes(f, 7, 0);
        haul__spill_file_trim(f);
        expect_sizes(f, 0, 0);
    }
    haul__spill_file_close(f);
}

/* A free part at the end is made larger: the file grows by the difference. */
static void test_spill_file__extends_the_end(void **state)
{
    (void)state;
    haul__spill_file *f = open_here(0);
    haul__spill_part *first = reserve(f, 2 * PAGE), *end = reserve(f, PAGE);
    haul__spill_part_release(end);
    end = reserve(f, 3 * PAGE);
    expect_sizes(f, 5, 5);
    fill(end, 3, 'e');
    fill(first, 2, 'f');
    expect_filled(end, 3, 'e');
    haul__spill_part_release(end);
    haul__spill_file_trim(f);
    expect_sizes(f, 2, 2);
    haul__spill_file_trim(f); /* the last part is in use */
    expect_sizes(f, 2, 2);
    expect_filled(first, 2, 'f');
    haul__spill_part_release(first);
    haul__spill_file_close(f);
}

/* A limit may be reached but not exceeded, and what does not fit changes nothing. */
static void test_spill_file__keeps_its_limit(void **state)
{
    (void)state;
    haul__spill_file *f = open_here(2 * PAGE);
    assert_int_equal(haul__spill_file_room(f), 2 * PAGE);
    haul__spill_part *p = reserve(f, 2 * PAGE);
    assert_null(haul__spill_file_reserve(f, PAGE));
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "has 8.0 KiB and needs 4.0 KiB more: its limit is 8.0 KiB; "));
    assert_non_null(strstr(haul_error_message(), " are free there"));
    expect_sizes(f, 2, 2);
    haul__spill_file_set_limit(f, 3 * PAGE);
    haul__spill_part *more = reserve(f, PAGE);
    expect_sizes(f, 3, 3);
    haul__spill_part_release(more);
    haul__spill_part_release(p);
    haul__spill_file_close(f);
    haul_error_clear();
}

/* A part at the end that grows counts from its end, not from its beginning. What does not fit leaves it free. */
static void test_spill_file__limits_growing_parts(void **state)
{
    (void)state;
    haul__spill_file *f = open_here(4 * PAGE);
    haul__spill_part *first = reserve(f, 2 * PAGE);
    haul__spill_part_release(reserve(f, PAGE));
    assert_null(haul__spill_file_reserve(f, 3 * PAGE));
    assert_int_equal(haul_error_status(), HAUL_IO);
    expect_sizes(f, 3, 2);
    haul__spill_file_trim(f);
    expect_sizes(f, 2, 2);
    haul__spill_part *last = reserve(f, 2 * PAGE);
    haul__spill_part_release(last);
    haul__spill_file_trim(f);
    haul__spill_part_release(first);
    haul__spill_file_trim(f); /* the part that went before does not stand behind this one */
    expect_sizes(f, 0, 0);
    haul__spill_file_close(f);
    haul_error_clear();
}

/* ulimit -f is a limit of the file's length. */
static void test_spill_file__keeps_the_processs_limit(void **state)
{
    struct rlimit     before;
    haul__spill_file *f = open_here(0);
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 2 * PAGE, .rlim_max = before.rlim_max}), 0);
    haul__spill_part *p = reserve(f, PAGE);
    assert_null(haul__spill_file_reserve(f, 2 * PAGE));
    assert_non_null(strstr(haul_error_message(), "(ulimit -f) is reached"));
    haul__spill_part *more = reserve(f, PAGE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    haul__spill_part_release(p);
    haul__spill_part_release(more);
    haul__spill_file_close(f);
    haul_error_clear();
}

/* The descriptor of the one file without a name that this process has here. */
static int descriptor_here(void)
{
    char           here[4000], name[300], link[4096];
    int            found = -1;
    struct dirent *e;
    DIR           *d = opendir("/proc/self/fd");
    assert_non_null(d);
    assert_non_null(getcwd(here, sizeof here));
    while ((e = readdir(d))) {
        snprintf(name, sizeof name, "/proc/self/fd/%s", e->d_name);
        const ssize_t length = readlink(name, link, sizeof link - 1);
        link[length > 0 ? length : 0] = '\0';
        if (!strncmp(link, here, strlen(here)) && strstr(link, "(deleted)"))
            found = atoi(e->d_name);
    }
    closedir(d);
    return found;
}

/* A file that became shorter ends a read, whatever an earlier call left in errno. */
static void test_spill_file__ends(void **state)
{
    char              page[PAGE];
    haul__spill_file *f = open_here(0);
    haul__spill_part *p = reserve(f, PAGE);
    (void)state;
    const int descriptor = descriptor_here();
    if (descriptor >= 0) {
        assert_int_equal(ftruncate(descriptor, 100), 0);
        errno = EINTR;
        assert_int_equal(haul__spill_part_read(p, 0, page, PAGE), HAUL_IO);
        assert_non_null(strstr(haul_error_message(), "100 of 4096 bytes could be read from the file"));
        assert_non_null(strstr(haul_error_message(), ": the file ends there; "));
    }
    haul__spill_part_release(p);
    haul__spill_file_close(f);
    haul_error_clear();
}

/* Without host memory, opening and reserving fail, and what they made is freed. */
static void test_spill_file__without_host_memory(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 3; n++) {
        haul_error_clear();
        haul__fault_plan(HAUL__FAULT_HOST, n);
        assert_null(haul__spill_file_open(".", 0, "test"));
        haul__fault_plan(0, 0);
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    }
    haul_error_clear();
}

/* Without a limit, the room is what the file has and what its file system has left. */
static void test_spill_file__knows_its_room(void **state)
{
    (void)state;
    struct statvfs    info;
    haul__spill_file *f = open_here(0);
    assert_int_equal(statvfs(".", &info), 0);
    const int64_t left = (int64_t)info.f_bavail * (int64_t)info.f_frsize, room = haul__spill_file_room(f);
    assert_true(room > left / 2 && room < 2 * left); /* other programs write meanwhile */
    haul__spill_file_close(f);
}

static int descriptors(void)
{
    int  count = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static void test_spill_file__closes_and_refuses(void **state)
{
    (void)state;
    const int before = descriptors();
    haul__spill_file_close(open_here(0));
    haul__spill_file_close(NULL);
    assert_null(haul__spill_file_open("./absent", 0, "test"));
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "cannot be made in ./absent"));
    assert_int_equal(descriptors(), before);
    haul__spill_file *f = open_here(0);
    assert_null(haul__spill_file_reserve(f, INT64_MAX));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    haul__spill_file_close(f);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spill_file__cuts_parts),
        cmocka_unit_test(test_spill_file__joins_neighbours),
        cmocka_unit_test(test_spill_file__extends_the_end),
        cmocka_unit_test(test_spill_file__keeps_its_limit),
        cmocka_unit_test(test_spill_file__limits_growing_parts),
        cmocka_unit_test(test_spill_file__keeps_the_processs_limit),
        cmocka_unit_test(test_spill_file__ends),
        cmocka_unit_test(test_spill_file__without_host_memory),
        cmocka_unit_test(test_spill_file__knows_its_room),
        cmocka_unit_test(test_spill_file__closes_and_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
