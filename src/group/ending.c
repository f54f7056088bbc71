/* The end of a job that has lost a rank.
 *
 * Without the lost rank no collective can be completed, and a process that waits for one would wait for ever. So the
 * job is ended, as its launcher does when a process dies. The program has a moment in which to report the error
 * (docs/decisions/046-groups.md). */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/text/plain.h"
#include "group/line.h"

#define line  haul__group_line
#define MILLI INT64_C(1000000)

enum {
    REPORT_MS = 2000, /* for the program */
    EXIT_MS = 500,    /* after it has begun to exit: for the other ranks' reports */
    ABORT_MS = 2500   /* for the MPI library to end all processes, this one among them */
};

static void *abort_all(void *unused)
{
    (void)unused;
    atomic_store(&line.aborting, true);
    line.engine->kind->abort(line.engine);
    return NULL;
}

static bool is_exiting(void)
{
    pthread_mutex_lock(&line.lock);
    const bool exiting = line.exiting;
    pthread_mutex_unlock(&line.lock);
    return exiting;
}

static void sleep_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000 * MILLI)}, NULL);
}

/* To standard error by one call, because other processes write there as well. */
static void report(void)
{
    char text[700];
    haul__snprintf(text, sizeof text, "haul: rank %d ends: %s\n", line.engine->rank, line.error.message);
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

_Noreturn void haul__end_job(void)
{
    pthread_t helper;
    while (!is_exiting() && haul__system_ns() - line.lost_ns < REPORT_MS * MILLI)
        sleep_ms(20);
    if (is_exiting())
        sleep_ms(EXIT_MS);
    else
        report();
    if (pthread_create(&helper, NULL, abort_all, NULL) == 0)
        sleep_ms(ABORT_MS);
    _exit(1);
}
