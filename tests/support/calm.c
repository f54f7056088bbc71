#include "calm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number of the process's threads that run, this one among them. */
static int running_threads(void)
{
    DIR *threads = opendir("/proc/self/task");
    int  running = 0;
    assert_non_null(threads);
    for (struct dirent *d; (d = readdir(threads)) != NULL;) {
        char path[300], line[300] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", d->d_name);
        FILE *stat = d->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!stat)
            continue;
        if (fgets(line, sizeof line, stat)) {
            const char *name_end = strrchr(line, ')'); /* then the state, S of a thread that sleeps */
            running += name_end && strncmp(name_end, ") S", 3) != 0;
        }
        fclose(stat);
    }
    closedir(threads);
    return running;
}

void wait_for_other_threads(void)
{
    enum { CALM = 5 }; /* looks in a row */
    for (int calm = 0; calm < CALM; usleep(1000))
        calm = running_threads() > 1 ? 0 : calm + 1;
}
