/* Published pages: what they say, when they go, and that a damaged one is never trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <haul/haul.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "watch/page.h"

static char folder[1024];

/* The page of a process in the folder; NULL if it is not listed. */
static haul_published *page_of(int64_t pid)
{
    static haul_published all[16];
    int                   count = haul_published_list(all, 16);
    for (int i = 0; i < count && i < 16; i++)
        if (all[i].pid == pid)
            return &all[i];
    return NULL;
}

static int files_in_folder(char last[300])
{
    DIR *d = opendir(folder);
    int  count = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') {
            snprintf(last, 300, "%s", e->d_name);
            count++;
        }
    if (d)
        closedir(d);
    return count;
}

/* The only file of the folder, opened. */
static int open_file(void)
{
    char name[300] = "", path[1400];
    assert_int_equal(files_in_folder(name), 1);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    return file;
}

static void begin(void)
{
    if (haul_publish_begin(.name = "a run"))
        fail_msg("%s", haul_error_message());
}

/* Waits until the next call is one that writes. */
static void progress(int64_t step)
{
    usleep(270000);
    haul_publish_progress(.steps = step, .examples = 64 * step, .epoch = 2, .epochs = 5, .seconds_left = 90);
}

static int teardown(void **state)
{
    (void)state;
    haul_publish_end();
    haul_error_clear();
    return 0;
}

/* ---- what a page says ---- */

static void test_publish__says_how_far_the_work_is(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_memory_stats m;
    haul_zeros(HAUL_F32, HAUL_SHAPE(1000, 1000));
    begin();
    for (int64_t step = 10; step <= 40; step += 10)
        progress(step);
    haul_memory_stats_get(haul_cpu(), &m);
    haul_published *p = page_of(getpid());
    assert_non_null(p);
    assert_string_equal(p->name, "a run");
    assert_string_equal(p->why, "");
    assert_int_equal(p->state, HAUL_PUBLISHED_RUNNING);
    assert_true(p->steps == 40 && p->examples == 2560 && p->epoch == 2 && p->epochs == 5 && p->seconds_left == 90);
    assert_true(p->step_seconds > 0.026 && p->step_seconds < 10);
    assert_true(fabs(p->examples_per_second * p->step_seconds - 64) < 1);
    assert_true(p->copies_per_second == 0 && p->waits_per_second == 0 && p->waiting == 0);
    assert_true(p->age >= 0 && p->age < 10 && p->running >= 1);
    assert_int_equal(p->device_count, 1);
    assert_string_equal(p->devices[0].name, "cpu");
    assert_true(p->devices[0].allocated == m.allocated && m.allocated >= 4000000);
    assert_true(p->devices[0].reserved == m.reserved && p->devices[0].spilled == 0);
    haul_scope_pop(scope);
}

static void test_publish__unknown_is_minus_one_and_the_name_is_the_programs(void **state)
{
    (void)state;
    assert_int_equal(haul_publish_begin(.name = NULL), HAUL_OK);
    haul_published *p = page_of(getpid());
    assert_non_null(p);
    assert_string_equal(p->name, "test_publish");
    assert_string_equal(p->command, "test_publish");
    assert_true(p->steps == -1 && p->epoch == -1 && p->step_seconds == -1 && p->seconds_left == -1);
    assert_true(p->examples_per_second == -1);
}

static void test_publish__a_name_that_is_no_text_is_made_one(void **state)
{
    (void)state;
    assert_int_equal(haul_publish_begin(.name = "caf\xe9 \xc3\xa9"), HAUL_OK);
    assert_string_equal(page_of(getpid())->name, "caf? \xc3\xa9");
}

static void test_publish__writes_at_most_four_times_a_second(void **state)
{
    (void)state;
    haul__page page;
    char       why[200];
    begin();
    int           file = open_file();
    const int64_t began = haul__now_ns();
    for (int64_t step = 1; step <= 100000; step++)
        haul_publish_progress(.steps = step);
    const int64_t periods = (haul__now_ns() - began) / 250000000;
    assert_true(haul__page_read(file, &page, why, sizeof why));
    assert_true((int64_t)page.sequence <= 2 * (periods + 1)); /* two for each update */
    close(file);
}

static void test_publish__keeps_the_error_of_the_thread(void **state)
{
    (void)state;
    int64_t value;
    begin();
    haul_stat_get("no.such.statistic", &value);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    progress(1);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
}

/* ---- where it is, and whose ---- */

static void test_publish__only_the_user_may_read_it(void **state)
{
    (void)state;
    struct stat s;
    umask(0);
    begin();
    int file = open_file();
    assert_int_equal(fstat(file, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(stat(folder, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    close(file);
    umask(022);
}

static void test_publish__refuses_a_folder_that_others_may_read(void **state)
{
    (void)state;
    mkdir(folder, 0700);
    chmod(folder, 0755);
    assert_int_equal(haul_publish_begin(.name = "a"), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "is not private to this user"));
    assert_null(page_of(getpid()));
    chmod(folder, 0700);
    begin();
    chmod(folder, 0770);
    assert_int_equal(haul_published_list(NULL, 0), 0);
    chmod(folder, 0700);
    assert_int_equal(haul_published_list(NULL, 0), 1);
}

static void test_publish__refuses_a_link_as_folder(void **state)
{
    (void)state;
    char other[1100];
    snprintf(other, sizeof other, "%s-link", folder);
    mkdir(folder, 0700);
    assert_int_equal(symlink(folder, other), 0);
    setenv("HAUL_PUBLISH", other, 1);
    assert_int_equal(haul_publish_begin(.name = "a"), HAUL_IO);
    setenv("HAUL_PUBLISH", "here", 1);
    assert_int_equal(haul_publish_begin(.name = "a"), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "absolute path"));
    setenv("HAUL_PUBLISH", folder, 1);
    unlink(other);
}

static void test_publish__off_publishes_nothing(void **state)
{
    (void)state;
    char name[300];
    setenv("HAUL_PUBLISH", "off", 1);
    assert_int_equal(haul_publish_begin(.name = "a"), HAUL_OK);
    haul_publish_progress(.steps = 1);
    assert_int_equal(haul_published_list(NULL, 0), 0);
    setenv("HAUL_PUBLISH", folder, 1);
    assert_int_equal(files_in_folder(name), 0);
}

static void test_publish__refuses_wrong_calls(void **state)
{
    (void)state;
    begin();
    assert_int_equal(haul_publish_begin(.name = "again"), HAUL_STATE);
    haul_error_clear();
    assert_int_equal(haul_publish_begin_with(NULL), HAUL_INVALID_ARGUMENT);
    haul_publish_progress_with(NULL);
    assert_int_equal(haul_published_list(NULL, 3), -1);
    haul_published one;
    assert_int_equal(haul_published_list(&one, -1), -1);
    assert_int_equal(haul_published_list(&one, 1), 1);
}

/* Where files may not grow, nothing is published, and no signal ends the process. */
static void test_publish__respects_the_limit_on_file_sizes(void **state)
{
    (void)state;
    const struct rlimit small = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
    struct rlimit       before;
    char                name[300];
    getrlimit(RLIMIT_FSIZE, &before);
    begin();
    setrlimit(RLIMIT_FSIZE, &small);
    progress(1);
    const int left = files_in_folder(name);
    const int status = haul_publish_begin(.name = "again");
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(left, 0);
    assert_int_equal(status, HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "File too large"));
    assert_int_equal(files_in_folder(name), 0);
}

/* ---- when it goes ---- */

/* A child that publishes and then ends as `how` says; waits until it publishes. */
static pid_t publishing_child(void (*how)(void))
{
    int   ready[2];
    char  byte;
    pid_t child;
    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (!child) {
        close(ready[0]);
        bool began = !haul_publish_begin(.name = "child");
        if (write(ready[1], "x", 1) != 1 || !began)
            _exit(9);
        how();
        _exit(8);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void sleep_long(void)
{
    sleep(60);
}

/* When it is told to. */
static void exit_well(void)
{
    sigset_t set;
    int      number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &number);
    exit(0);
}

static void block_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void test_publish__the_page_goes_with_its_process(void **state)
{
    (void)state;
    char name[300];
    int  status;
    block_signal();
    pid_t child = publishing_child(exit_well);
    assert_non_null(page_of(child));
    kill(child, SIGUSR1);
#ifndef __SANITIZE_ADDRESS__ /* LeakSanitizer may wait for the parent's threads in a child that exits */
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(files_in_folder(name), 0);
#else
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    (void)name;
#endif
}

static void test_publish__a_killed_process_is_cleaned_up_by_readers(void **state)
{
    (void)state;
    char  name[300];
    pid_t child = publishing_child(sleep_long);
    assert_non_null(page_of(child));
    kill(child, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT); /* a zombie is dead, too */
    assert_int_equal(files_in_folder(name), 1);
    assert_null(page_of(child));
    assert_int_equal(files_in_folder(name), 0);
    waitpid(child, NULL, 0);
}

static void test_publish__a_stopped_process_is_shown_as_stopped(void **state)
{
    (void)state;
    pid_t child = publishing_child(sleep_long);
    int   status;
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    assert_int_equal(page_of(child)->state, HAUL_PUBLISHED_STOPPED);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

static void test_publish__pages_of_reused_numbers_go_and_others_stay(void **state)
{
    (void)state;
    char          path[1400], file[HAUL__PAGE_PATH], name[300];
    haul__process self;
    mkdir(folder, 0700);
    assert_true(haul__process_look(getpid(), &self));
    haul__page_id id = {haul__process_space(), getpid(), self.started + 1};
    for (int i = 0; i < 2; i++, id.space++) { /* the second is of another container */
        haul__page_file(&id, file);
        snprintf(path, sizeof path, "%s/%s", folder, file);
        close(open(path, O_CREAT | O_RDWR, 0600));
    }
    snprintf(path, sizeof path, "%s/notes.page", folder);
    close(open(path, O_CREAT | O_RDWR, 0600));
    assert_int_equal(haul_published_list(NULL, 0), 0);
    assert_int_equal(files_in_folder(name), 2);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(unlink(path), 0);
}

static void leave_well(void)
{
    haul_publish_progress(.steps = 3);
    haul_publish_end();
    _exit(0);
}

static void test_publish__a_child_of_a_fork_leaves_the_parents_page_alone(void **state)
{
    (void)state;
    begin();
    pid_t child = fork();
    if (!child) {
        haul_publish_progress(.steps = 77);
        haul_publish_end();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_int_equal(page_of(getpid())->steps, -1);
    child = publishing_child(leave_well);
    waitpid(child, NULL, 0);
    progress(5);
    assert_int_equal(page_of(getpid())->steps, 5);
    assert_int_equal(haul_published_list(NULL, 0), 1);
}

/* ---- damage ---- */

static void write_whole(int file, haul__page *page, bool sum)
{
    if (sum)
        page->checksum = haul__page_checksum(page);
    assert_int_equal(pwrite(file, page, sizeof *page, 0), (ssize_t)sizeof *page);
}

static void assert_unreadable(const char *reason)
{
    haul_published *p = page_of(getpid());
    assert_non_null(p);
    assert_int_equal(p->state, HAUL_PUBLISHED_UNREADABLE);
    if (!strstr(p->why, reason))
        fail_msg("\"%s\" does not say \"%s\"", p->why, reason);
    assert_true(!*p->name && p->steps == -1 && p->device_count == 0);
}

#define DAMAGE(reason, sum, change)                                                                                    \
    do {                                                                                                               \
        haul__page page = good;                                                                                        \
        change;                                                                                                        \
        write_whole(file, &page, sum);                                                                                 \
        assert_unreadable(reason);                                                                                     \
    } while (0)

static void test_publish__a_damaged_page_is_unreadable_with_its_reason(void **state)
{
    (void)state;
    haul__page good;
    char       why[200];
    begin();
    int file = open_file();
    assert_true(haul__page_read(file, &good, why, sizeof why));
    DAMAGE("not a page", true, page.magic[0] = 'h');
    DAMAGE("version 3, this haul reads 2", true, page.version = 3);
    DAMAGE("bytes", true, page.size--);
    DAMAGE("not finished", true, page.sequence++);
    DAMAGE("checksum", false, page.steps++);
    DAMAGE("pid", true, page.pid = -2);
    DAMAGE("another process", true, page.pid++);
    DAMAGE("another process", true, page.started++);
    DAMAGE("steps", true, page.steps = INT64_MIN);
    DAMAGE("step_seconds", true, page.step_seconds = NAN);
    DAMAGE("waiting", true, page.waiting = 1.5);
    DAMAGE("seconds_left", true, page.seconds_left = INFINITY);
    DAMAGE("device_count", true, page.device_count = 9);
    DAMAGE("device_count", true, page.device_count = -1);
    DAMAGE("name", true, memset(page.name, 'x', sizeof page.name));
    DAMAGE("name", true, memcpy(page.name, "\xff\xfe", 3));
    DAMAGE("name of a device", true, (page.device_count = 1, memset(page.devices[0].name, 'x', 32)));
    DAMAGE("name of a device", true, (page.device_count = 1, memset(page.devices[0].bus, 'x', 32)));
    DAMAGE("name of a device", true, (page.device_count = 1, memset(page.devices[0].model, 'x', 64)));
    DAMAGE("spilled", true, (page.device_count = 8, page.devices[7].spilled = -2));
    assert_int_equal(ftruncate(file, 100), 0);
    assert_unreadable("bytes");
    assert_int_equal(ftruncate(file, 0), 0);
    assert_unreadable("not a page");
    assert_int_equal(ftruncate(file, 1 << 22), 0);
    assert_unreadable("not a page");
    write_whole(file, &good, true);
    assert_unreadable("bytes");
    assert_int_equal(ftruncate(file, sizeof good), 0);
    write_whole(file, &good, true);
    assert_int_equal(page_of(getpid())->state, HAUL_PUBLISHED_RUNNING);
    fchmod(file, 0644);
    assert_unreadable("not private");
    close(file);
}

static bool is_sound(const haul_published *p)
{
    const double numbers[] = {p->step_seconds,     p->examples_per_second, p->copies_per_second,
                              p->bytes_per_second, p->waits_per_second,    p->waiting,
                              p->seconds_left,     (double)p->steps};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i]) || numbers[i] < -1)
            return false;
    for (int i = 0; i < p->device_count; i++)
        if (!memchr(p->devices[i].name, 0, 32) || !memchr(p->devices[i].bus, 0, 32) ||
            !memchr(p->devices[i].model, 0, 64))
            return false;
    return p->device_count >= 0 && p->device_count <= HAUL_PUBLISHED_DEVICES && memchr(p->name, 0, sizeof p->name);
}

/* Bytes at random, with a good checksum, so that each check behind it has to hold. */
static void test_publish__random_bytes_are_never_trusted(void **state)
{
    (void)state;
    haul__page good;
    char       why[200];
    int        readable = 0, unreadable = 0;
    unsigned   seed = 15;
    begin();
    int file = open_file();
    assert_true(haul__page_read(file, &good, why, sizeof why));
    for (int round = 0; round < 4000; round++) {
        haul__page     page = good;
        unsigned char *bytes = (unsigned char *)&page.began;
        const size_t   size = sizeof page - offsetof(haul__page, began);
        for (int i = 0; i < 1 + round % 8; i++)
            bytes[(size_t)rand_r(&seed) % size] = (unsigned char)rand_r(&seed);
        write_whole(file, &page, true);
        haul_published *p = page_of(getpid());
        assert_non_null(p);
        assert_true(is_sound(p));
        *(p->state == HAUL_PUBLISHED_UNREADABLE ? &unreadable : &readable) += 1;
    }
    assert_true(readable > 100 && unreadable > 100);
    for (int round = 0; round < 400; round++) {
        unsigned char noise[sizeof good];
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)rand_r(&seed);
        assert_int_equal(pwrite(file, noise, sizeof noise, 0), (ssize_t)sizeof noise);
        assert_int_equal(page_of(getpid())->state, HAUL_PUBLISHED_UNREADABLE);
    }
    close(file);
}

/* ---- a writer and a reader at once ---- */

typedef struct writing {
    int         file;
    haul__page  page;
    atomic_bool stop;
} writing;

static void *write_on(void *context)
{
    writing *w = context;
    for (int64_t i = 1; !atomic_load(&w->stop); i++) {
        w->page.steps = w->page.examples = w->page.copies = w->page.waits = i;
        w->page.devices[HAUL_PUBLISHED_DEVICES - 1].spilled = i;
        if (!haul__page_write(w->file, &w->page))
            return "a page could not be written";
        usleep(20);
    }
    return NULL;
}

static void test_publish__a_reader_never_sees_half_an_update(void **state)
{
    (void)state;
    static writing w;
    pthread_t      thread;
    char           why[200];
    void          *failure;
    int            read = 0;
    int64_t        last = 0, different = 0;
    begin();
    w.file = open_file();
    assert_true(haul__page_read(w.file, &w.page, why, sizeof why));
    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);
    const int64_t began = haul__now_ns();
    while ((read < 5000 || different < 500) && haul__now_ns() - began < 60000000000) {
        haul__page page;
        if (!haul__page_read(w.file, &page, why, sizeof why))
            continue;
        read++;
        different += page.steps != last;
        last = page.steps;
        if (page.steps == -1)
            continue;
        assert_true(page.examples == last && page.copies == last && page.waits == last);
        assert_true(page.devices[HAUL_PUBLISHED_DEVICES - 1].spilled == last);
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, &failure);
    assert_null(failure);
    assert_true(read >= 5000 && different >= 500);
    close(w.file);
}

static void *progress_on(void *context)
{
    const int64_t began = haul__now_ns();
    for (int64_t step = 1; haul__now_ns() - began < 900000000; step++)
        haul_publish_progress(.steps = step, .examples = 2 * step);
    return context;
}

static void test_publish__many_threads_may_report_progress(void **state)
{
    (void)state;
    pthread_t threads[4];
    int       seen = 0;
    begin();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, progress_on, NULL), 0);
    for (int i = 0; i < 100; i++) {
        haul_published *p = page_of(getpid());
        assert_non_null(p);
        assert_true(p->steps < 0 ? p->examples < 0 : p->examples == 2 * p->steps);
        seen += p->steps > 0;
        usleep(10000);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(seen > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_publish__says_how_far_the_work_is, teardown),
        cmocka_unit_test_teardown(test_publish__unknown_is_minus_one_and_the_name_is_the_programs, teardown),
        cmocka_unit_test_teardown(test_publish__a_name_that_is_no_text_is_made_one, teardown),
        cmocka_unit_test_teardown(test_publish__writes_at_most_four_times_a_second, teardown),
        cmocka_unit_test_teardown(test_publish__keeps_the_error_of_the_thread, teardown),
        cmocka_unit_test_teardown(test_publish__only_the_user_may_read_it, teardown),
        cmocka_unit_test_teardown(test_publish__refuses_a_folder_that_others_may_read, teardown),
        cmocka_unit_test_teardown(test_publish__refuses_a_link_as_folder, teardown),
        cmocka_unit_test_teardown(test_publish__off_publishes_nothing, teardown),
        cmocka_unit_test_teardown(test_publish__refuses_wrong_calls, teardown),
        cmocka_unit_test_teardown(test_publish__respects_the_limit_on_file_sizes, teardown),
        cmocka_unit_test_teardown(test_publish__the_page_goes_with_its_process, teardown),
        cmocka_unit_test_teardown(test_publish__a_killed_process_is_cleaned_up_by_readers, teardown),
        cmocka_unit_test_teardown(test_publish__a_stopped_process_is_shown_as_stopped, teardown),
        cmocka_unit_test_teardown(test_publish__pages_of_reused_numbers_go_and_others_stay, teardown),
        cmocka_unit_test_teardown(test_publish__a_child_of_a_fork_leaves_the_parents_page_alone, teardown),
        cmocka_unit_test_teardown(test_publish__a_damaged_page_is_unreadable_with_its_reason, teardown),
        cmocka_unit_test_teardown(test_publish__random_bytes_are_never_trusted, teardown),
        cmocka_unit_test_teardown(test_publish__a_reader_never_sees_half_an_update, teardown),
        cmocka_unit_test_teardown(test_publish__many_threads_may_report_progress, teardown),
    };
    char here[900];
    if (!getcwd(here, sizeof here))
        return 1;
    snprintf(folder, sizeof folder, "%s/pages", here);
    setenv("HAUL_PUBLISH", folder, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
