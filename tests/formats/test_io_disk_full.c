/* No room for a file: the error says so and names the file, the old file stays whole, and nothing else is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <haul/haul.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL = 1 << 10, LARGE = 1 << 18 }; /* elements */

/* Everything that writes a file, each to a name of its own in `folder`. */
typedef struct writer {
    const char *operation, *name;
    haul_status (*write)(const char *path, int64_t elements);
} writer;

static haul_status write_npy(const char *path, int64_t elements)
{
    return haul_save_npy(path, haul_zeros(HAUL_F32, HAUL_SHAPE(elements)));
}

static haul_status write_safetensors(const char *path, int64_t elements)
{
    haul_named_tensor tensor = {"a", haul_zeros(HAUL_F32, HAUL_SHAPE(elements)), false};
    return haul_save_safetensors(path, &tensor, 1, NULL, 0);
}

static haul_status write_weights(const char *path, int64_t elements)
{
    return haul_save_weights(path, haul_nn_linear(elements, 1));
}

static haul_status write_checkpoint(const char *path, int64_t elements)
{
    haul_module *net = haul_nn_linear(elements, 1);
    return haul_save_checkpoint(path, net, haul_sgd(net, 0.001), .position = &(haul_training_position){1, 1});
}

static const writer writers[] = {{"haul_save_npy", "x.npy", write_npy},
                                 {"haul_save_safetensors", "x.safetensors", write_safetensors},
                                 {"haul_save_weights", "x.weights", write_weights},
                                 {"haul_save_checkpoint", "x.checkpoint", write_checkpoint}};
enum { WRITERS = sizeof writers / sizeof *writers };

/* ---- files ---- */

typedef struct content {
    char  *data;
    size_t size;
} content;

static content read_file(const char *path)
{
    struct stat info;
    content     b = {0};
    int         fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    b.size = (size_t)info.st_size;
    b.data = malloc(b.size + 1);
    assert_non_null(b.data);
    assert_int_equal(read(fd, b.data, b.size), b.size);
    close(fd);
    return b;
}

static int files_in(const char *folder)
{
    int  count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Small files are there; writing a large one in place of each fails with `reason` and changes nothing. */
static void check_large_ones_fail(const char *folder, const char *reason)
{
    int before = files_in(folder);
    for (int i = 0; i < WRITERS; i++) {
        char        path[256];
        haul_scope *scope = haul_scope_push();
        snprintf(path, sizeof path, "%s/%s", folder, writers[i].name);
        content     old = read_file(path);
        haul_status status = writers[i].write(path, LARGE);
        if (status != HAUL_IO || !strstr(haul_error_message(), reason) || !strstr(haul_error_message(), path))
            fail_msg("%s: %d \"%s\", expected \"%s\"", writers[i].operation, status, haul_error_message(), reason);
        assert_string_equal(haul_error_operation(), writers[i].operation);
        haul_error_clear();
        content now = read_file(path);
        assert_int_equal(old.size, now.size);
        assert_memory_equal(old.data, now.data, old.size);
        assert_int_equal(files_in(folder), before);
        free(old.data);
        free(now.data);
        haul_scope_pop(scope);
    }
}

static void write_small_ones(const char *folder)
{
    for (int i = 0; i < WRITERS; i++) {
        char        path[256];
        haul_scope *scope = haul_scope_push();
        snprintf(path, sizeof path, "%s/%s", folder, writers[i].name);
        if (writers[i].write(path, SMALL))
            fail_msg("%s", haul_error_message());
        haul_scope_pop(scope);
    }
}

/* ---- limits on file sizes ---- */

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* The signal must not come at all: its default action would end the process and leave the temporary file. */
static void test_disk_full__a_limit_on_file_sizes_is_an_error_without_a_signal(void **state)
{
    (void)state;
    struct rlimit    old, limit;
    struct sigaction handler = {.sa_handler = count_signal}, before, after;
    haul_scope      *scope = haul_scope_push();
    assert_int_equal(mkdir("limited", 0777), 0);
    write_small_ones("limited");
    assert_int_equal(sigaction(SIGXFSZ, &handler, &before), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (rlim_t bytes = 0; bytes < 300000; bytes += 50001) {
        limit = (struct rlimit){.rlim_cur = bytes, .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        check_large_ones_fail("limited", "File too large");
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(sigaction(SIGXFSZ, &before, &after), 0);
    assert_true(after.sa_handler == count_signal);
    assert_int_equal(signals, 0);
    write_small_ones("limited");
    haul_scope_pop(scope);
}

/* ---- a file system that is full ---- */

static bool mounted;

/* A file system of 64 pages that only this process sees. Needs the rights to mount, or user namespaces. */
static bool mount_small(void)
{
    if (mkdir("full", 0777) != 0)
        return false;
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    return mount("tmpfs", "full", "tmpfs", 0, "size=256k") == 0;
}

static void test_disk_full__of_a_small_file_system(void **state)
{
    (void)state;
    if (!mounted)
        skip();
    haul_scope *scope = haul_scope_push();
    write_small_ones("full");
    check_large_ones_fail("full", "No space left on device");
    haul_scope_pop(scope);
}

static void test_disk_full__of_a_file_system_without_a_free_page(void **state)
{
    (void)state;
    char page[4096] = {0};
    if (!mounted)
        skip();
    haul_scope *scope = haul_scope_push();
    write_small_ones("full");
    int fd = open("full/rest", O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    while (write(fd, page, sizeof page) > 0)
        ;
    close(fd);
    check_large_ones_fail("full", "No space left on device");
    unlink("full/rest");
    write_small_ones("full");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk_full__a_limit_on_file_sizes_is_an_error_without_a_signal),
        cmocka_unit_test(test_disk_full__of_a_small_file_system),
        cmocka_unit_test(test_disk_full__of_a_file_system_without_a_free_page),
    };
    mounted = mount_small(); /* before there is a second thread */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (mounted)
        umount("full");
    return failed;
}
