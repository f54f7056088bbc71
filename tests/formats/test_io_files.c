/* The files that the library writes: their permissions, and the temporary files from which they come. */
#include <errno.h>
#include <fcntl.h>
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

static haul_scope     *scope;
static haul_module    *net;
static haul_optimizer *optimizer;

static int setup(void **state)
{
    (void)state;
    scope = haul_scope_push();
    net = haul_nn_linear(2, 2);
    optimizer = haul_sgd(net, 0.1);
    return !optimizer;
}

static int teardown(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    return 0;
}

/* Each way to write a file. */
static haul_status write_npy(const char *path)
{
    return haul_save_npy(path, haul_ones(HAUL_F32, HAUL_SHAPE(2)));
}

static haul_status write_safetensors(const char *path)
{
    haul_named_tensor t = {.name = "t", .tensor = haul_ones(HAUL_F32, HAUL_SHAPE(2))};
    return haul_save_safetensors(path, &t, 1, NULL, 0);
}

static haul_status write_weights(const char *path)
{
    return haul_save_weights(path, net);
}

static haul_status write_checkpoint(const char *path)
{
    return haul_save_checkpoint(path, net, optimizer);
}

static haul_status (*const writers[])(const char *path) = {write_npy, write_safetensors, write_weights,
                                                           write_checkpoint};
enum { WRITERS = sizeof writers / sizeof *writers };

static unsigned mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode & 07777;
}

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void assert_text(const char *path, const char *wanted)
{
    char   text[64] = "";
    FILE  *f = fopen(path, "r");
    size_t size = f ? fread(text, 1, sizeof text - 1, f) : 0;
    assert_non_null(f);
    fclose(f);
    assert_string_equal(text, wanted);
    assert_int_equal(size, strlen(wanted));
}

static void test_io_files__new_ones_follow_the_umask(void **state)
{
    static const mode_t masks[] = {022, 077, 002, 0};
    const mode_t        before = umask(0);
    (void)state;
    for (int i = 0; i < WRITERS; i++)
        for (size_t k = 0; k < sizeof masks / sizeof *masks; k++) {
            unlink("new");
            umask(masks[k]);
            assert_int_equal(writers[i]("new"), HAUL_OK);
            assert_int_equal(mode_of("new"), 0666 & ~masks[k]);
        }
    umask(before);
}

static void test_io_files__keep_their_permissions(void **state)
{
    static const mode_t modes[] = {0600, 0640, 0666, 0755, 0444, 0400, 0000};
    const mode_t        before = umask(027);
    (void)state;
    for (int i = 0; i < WRITERS; i++)
        for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
            unlink("kept");
            put_text("kept", "before");
            assert_int_equal(chmod("kept", modes[k]), 0);
            assert_int_equal(writers[i]("kept"), HAUL_OK);
            assert_int_equal(mode_of("kept"), modes[k]);
        }
    umask(before);
}

/* The link stays, and the file to which it leads is replaced, with its permissions. */
static void test_io_files__are_found_through_links(void **state)
{
    (void)state;
    put_text("real", "before");
    assert_int_equal(chmod("real", 0600), 0);
    assert_int_equal(symlink("real", "link"), 0);
    assert_int_equal(write_npy("link"), HAUL_OK);
    struct stat info;
    assert_int_equal(lstat("link", &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(mode_of("real"), 0600);
    assert_true(haul_tensor_is_valid(haul_load_npy("real")));
}

/* Another program cannot read what replaces a private file, not even while it is written. */
static void test_io_files__are_private_from_the_beginning(void **state)
{
    (void)state;
    put_text("private", "before");
    assert_int_equal(chmod("private", 0600), 0);
    const mode_t before = umask(0);
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_FILE, nth);
        const haul_status status = write_npy("private");
        haul__fault_plan(0, 0);
        assert_int_equal(access("private.tmp", F_OK), -1);
        assert_int_equal(mode_of("private"), 0600);
        if (!status)
            break;
        assert_int_equal(status, HAUL_IO);
        assert_text("private", "before");
        haul_error_clear();
        assert_true(nth < 100);
    }
    umask(before);
}

/* A temporary file that was left is removed and not written: it may be another file under a second name. */
static void test_io_files__do_not_reuse_what_was_left(void **state)
{
    (void)state;
    put_text("other", "another file");
    assert_int_equal(chmod("other", 0640), 0);
    assert_int_equal(link("other", "linked.tmp"), 0);
    assert_int_equal(write_npy("linked"), HAUL_OK);
    assert_text("other", "another file");
    assert_int_equal(mode_of("other"), 0640);
    assert_int_equal(access("linked.tmp", F_OK), -1);
    put_text("left.tmp", "the beginning of a longer file, whose writer was killed");
    assert_int_equal(chmod("left.tmp", 0600), 0);
    const mode_t before = umask(022);
    assert_int_equal(write_npy("left"), HAUL_OK);
    umask(before);
    assert_int_equal(mode_of("left"), 0644);
    assert_true(haul_tensor_is_valid(haul_load_npy("left")));
}

static void assert_refused(const char *path, const char *words)
{
    assert_int_equal(write_npy(path), HAUL_IO);
    if (!strstr(haul_error_message(), words))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
    assert_int_equal(access(path, F_OK), -1);
}

static void test_io_files__refuse_what_is_not_theirs(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("pipe.tmp", 0600), 0);
    assert_refused("pipe", "something that is not a file has its name");
    assert_int_equal(mkdir("folder.tmp", 0700), 0);
    assert_refused("folder", "something that is not a file has its name");
    put_text("victim", "stays");
    assert_int_equal(symlink("victim", "trap.tmp"), 0);
    assert_refused("trap", "cannot create trap.tmp");
    assert_text("victim", "stays");
    put_text("busy.tmp", "is being written");
    int fd = open("busy.tmp", O_WRONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_refused("busy", "another program is writing");
    assert_text("busy.tmp", "is being written");
    close(fd);
    assert_int_equal(mkfifo("target", 0600), 0);
    assert_int_equal(write_npy("target"), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "target is a device or pipe, not a file"));
    haul_error_clear();
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_io_files__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_ones_follow_the_umask),      TEST(keep_their_permissions),     TEST(are_found_through_links),
        TEST(are_private_from_the_beginning), TEST(do_not_reuse_what_was_left), TEST(refuse_what_is_not_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
