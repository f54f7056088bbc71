/* What the tests of published pages share: the folder of pages and its contents. For a test program's one source file.
 */
#ifndef HAUL_TESTS_PUBLISH_H
#define HAUL_TESTS_PUBLISH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[1024];

/* The page of a process in the folder; NULL if it is not listed. */
static inline haul_published *page_of(int64_t pid)
{
    static haul_published all[16];
    int                   count = haul_published_list(all, 16);
    for (int i = 0; i < count && i < 16; i++)
        if (all[i].pid == pid)
            return &all[i];
    return NULL;
}

static inline int files_in_folder(char last[300])
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
static inline int open_file(void)
{
    char name[300] = "", path[1400];
    assert_int_equal(files_in_folder(name), 1);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    return file;
}

static inline void begin(void)
{
    if (haul_publish_begin(.name = "a run"))
        fail_msg("%s", haul_error_message());
}

static inline int teardown(void **state)
{
    (void)state;
    haul_publish_end();
    haul_error_clear();
    return 0;
}

/* Pages are in a folder of the test's own. */
static inline int run_publishing(const char *name, const struct CMUnitTest *tests, size_t count)
{
    char here[900];
    if (!getcwd(here, sizeof here))
        return 1;
    snprintf(folder, sizeof folder, "%s/pages", here);
    setenv("HAUL_PUBLISH", folder, 1);
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

#endif
