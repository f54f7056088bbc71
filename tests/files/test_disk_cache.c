/* The cache on disk: names of entries, its folder, permissions and counts. test_device.c has damaged entries and
 * faults. */
#include <dirent.h>
#include <errno.h>
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "files/disk_cache.h"

static char folder[] = "/tmp/haul-test-cache-XXXXXX";

static int begin(void **state)
{
    (void)state;
    return mkdtemp(folder) ? setenv("HAUL_CACHE_DIR", folder, 1) : -1;
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder); /* fails if a test leaves a file */
}

/* How many entries the folder has. */
static int count_files(void)
{
    int  count = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

/* SipHash-2-4 of 128 bits with a key of zeros, computed by a program of its own, which agrees with the authors'
 * vectors. */
static void test_disk_cache__names_are_hashes_of_keys(void **state)
{
    static const struct {
        const char *key, *name;
    } entries[] = {{"", "7de0a38047d74950f4f2ced447ab0242.bin"},
                   {"1234567", "de766399028e5a4ebd0f4317ea294ba7.bin"},
                   {"12345678", "e979231bcefdff18f1b7680d5bff4436.bin"},
                   {"kernels of one device", "9e1139c69c467b2da3a515f07d8ff9ac.bin"}};
    (void)state;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        char        path[100];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", folder, entries[i].name);
        haul__cache_store(entries[i].key, "data", 4);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
        assert_int_equal(info.st_size, 8 + 8 + 8 + 16 + strlen(entries[i].key) + 4);
        assert_int_equal(count_files(), 1);
        unlink(path);
    }
}

static void test_disk_cache__what_happens_is_counted(void **state)
{
    size_t                  bytes = 7;
    const int               lowest = dup(0); /* the lowest descriptor that is free */
    const haul__cache_count before = haul__cache_counts();
    char                    path[100];
    (void)state;
    close(lowest);
    snprintf(path, sizeof path, "%s/7de0a38047d74950f4f2ced447ab0242.bin", folder);
    assert_null(haul__cache_load("", &bytes));
    haul__cache_store("", "", 0);
    haul__fault_plan(HAUL__FAULT_FILE, 1);
    assert_null(haul__cache_load("", &bytes));
    haul__fault_plan(0, 0);
    void *back = haul__cache_load("", &bytes);
    assert_non_null(back);
    assert_int_equal(bytes, 0);
    haul__free(back);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0); /* nothing can have the entry's name, and nothing is left of the attempt */
    haul__cache_store("", "data", 4);
    assert_null(haul__cache_load("", &bytes));
    assert_int_equal(count_files(), 1);
    rmdir(path);
    assert_int_equal(dup(0), lowest); /* none was left open */
    close(lowest);
    const haul__cache_count after = haul__cache_counts();
    assert_int_equal(after.missing - before.missing, 3);
    assert_int_equal(after.stored - before.stored, 1);
    assert_int_equal(after.found - before.found, 1);
}

static void check_folder(const char *own, const char *xdg, const char *home, const char *expected)
{
    static const char *const names[] = {"HAUL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
    const char              *values[] = {own, xdg, home};
    char                    *before[3];
    for (int i = 0; i < 3; i++) {
        before[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        if (values[i])
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
    }
    char *found = haul__cache_folder();
    if (expected)
        assert_string_equal(found, expected);
    else
        assert_null(found);
    haul__free(found);
    for (int i = 0; i < 3; i++) {
        if (before[i])
            setenv(names[i], before[i], 1);
        else
            unsetenv(names[i]);
        free(before[i]);
    }
}

static void test_disk_cache__folder_is_the_first_that_is_set(void **state)
{
    (void)state;
    check_folder("own", "/xdg", "/home/a", "own");
    check_folder("", "/xdg", "/home/a", "/xdg/haul");
    check_folder(NULL, "/xdg", "/home/a", "/xdg/haul");
    check_folder(NULL, "xdg", "/home/a", "/home/a/.cache/haul");
    check_folder(NULL, "", "/home/a", "/home/a/.cache/haul");
    check_folder(NULL, NULL, "/home/a", "/home/a/.cache/haul");
    check_folder(NULL, NULL, "home", NULL);
    check_folder(NULL, NULL, "", NULL);
    check_folder(NULL, NULL, NULL, NULL);
}

static void test_disk_cache__folders_are_made_with_those_around_them(void **state)
{
    char        path[100];
    struct stat info;
    (void)state;
    snprintf(path, sizeof path, "%s/a/b/c", folder);
    assert_true(haul__make_folders(path, 0700));
    assert_true(haul__make_folders(path, 0700)); /* it is there */
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_string_equal(path + strlen(folder), "/a/b/c");
    for (int parts = 0; parts < 3; parts++) {
        assert_int_equal(rmdir(path), 0);
        *strrchr(path, '/') = '\0';
    }
    strcpy(path, "d/e"); /* in the current folder */
    assert_true(haul__make_folders(path, 0700));
    assert_int_equal(rmdir("d/e"), 0);
    assert_int_equal(rmdir("d"), 0);
    snprintf(path, sizeof path, "%s/new", folder);
    setenv("HAUL_CACHE_DIR", path, 1);
    haul__cache_store("", "data", 4);
    setenv("HAUL_CACHE_DIR", folder, 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    strcat(path, "/7de0a38047d74950f4f2ced447ab0242.bin");
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "/dev/null/a/b");
    errno = 0;
    assert_false(haul__make_folders(path, 0700));
    assert_int_equal(errno, ENOTDIR);
    path[0] = '\0';
    assert_false(haul__make_folders(path, 0700));
    assert_int_equal(errno, ENOENT);
    /* The error is the first one, of /proc/a, and not that of the folder in it, which cannot be found. */
    snprintf(path, sizeof path, "/proc/%s/b", "a");
    assert_false(haul__make_folders(path, 0700));
    const int second = errno;
    snprintf(path, sizeof path, "/proc/a");
    assert_false(haul__make_folders(path, 0700));
    assert_int_equal(errno, second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk_cache__names_are_hashes_of_keys),
        cmocka_unit_test(test_disk_cache__what_happens_is_counted),
        cmocka_unit_test(test_disk_cache__folder_is_the_first_that_is_set),
        cmocka_unit_test(test_disk_cache__folders_are_made_with_those_around_them),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
