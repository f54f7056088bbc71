/* Published pages: what they say, when they go, and whose they are.
 *
 * ctest: labels=threads */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "observe/watch/published_page.h"
#include "support/publish.h"

/* Until a call is one that writes, or takes the page away. */
static void progress(int64_t step)
{
    const haul_published *p;
    do {
        haul_publish_progress(.steps = step, .examples = 64 * step, .epoch = 2, .epochs = 5, .seconds_left = 90,
                              .loss = 0.5, .accuracy = 0.75);
        usleep(1000);
        p = page_of(getpid());
    } while (p && p->steps != step);
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
    assert_true(p->loss == 0.5 && p->accuracy == 0.75);
    assert_true(p->step_seconds > 0.024);
    assert_true(fabs(p->examples_per_second * p->step_seconds - 64) < 1);
    assert_true(p->copies_per_second == 0 && p->waits_per_second == 0 && p->waiting == 0);
    assert_true(p->age >= 0 && p->running >= 1);
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
    assert_true(p->loss == -1 && p->accuracy == -1);
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
    haul__page    page;
    char          why[200];
    const int64_t began = haul__now_ns();
    begin();
    int file = open_file();
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

/* No folder can be made in /proc. A later one of the list is used. */
static void test_publish__a_folder_that_cannot_be_made_is_no_error_if_another_can(void **state)
{
    (void)state;
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char        before[1024] = "";
    if (runtime)
        snprintf(before, sizeof before, "%s", runtime);
    unsetenv("HAUL_PUBLISH");
    setenv("XDG_RUNTIME_DIR", "/proc", 1);
    haul_status status = haul_publish_begin(.name = "a");
    haul_status error = haul_error_status();
    haul_publish_end();
    setenv("HAUL_PUBLISH", folder, 1);
    if (*before)
        setenv("XDG_RUNTIME_DIR", before, 1);
    else
        unsetenv("XDG_RUNTIME_DIR");
    assert_int_equal(status, HAUL_OK);
    assert_int_equal(error, HAUL_OK);
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
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if the test fails */
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
    pause();
}

/* When the pipe says so. */
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

static void *progress_on(void *context)
{
    for (int64_t step = 1; !atomic_load((atomic_bool *)context); step++)
        haul_publish_progress(.steps = step, .examples = 2 * step);
    return NULL;
}

static void test_publish__many_threads_may_report_progress(void **state)
{
    (void)state;
    pthread_t   threads[4];
    atomic_bool stop = false;
    int64_t     last = -1;
    begin();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, progress_on, &stop), 0);
    for (int updates = 0; updates < 4; usleep(1000)) {
        haul_published *p = page_of(getpid());
        assert_non_null(p);
        assert_true(p->steps < 0 ? p->examples < 0 : p->examples == 2 * p->steps);
        updates += p->steps != last;
        last = p->steps;
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_publish__says_how_far_the_work_is, teardown),
        cmocka_unit_test_teardown(test_publish__unknown_is_minus_one_and_the_name_is_the_programs, teardown),
        cmocka_unit_test_teardown(test_publish__a_name_that_is_no_text_is_made_one, teardown),
        cmocka_unit_test_teardown(test_publish__writes_at_most_four_times_a_second, teardown),
        cmocka_unit_test_teardown(test_publish__keeps_the_error_of_the_thread, teardown),
        cmocka_unit_test_teardown(test_publish__a_folder_that_cannot_be_made_is_no_error_if_another_can, teardown),
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
        cmocka_unit_test_teardown(test_publish__many_threads_may_report_progress, teardown),
    };
    return run_publishing("publish", tests, sizeof tests / sizeof *tests);
}
