/* The end of a job that has lost a rank.
 *
 * Without the lost rank no collective can be completed, and a process that waits for one would wait for ever. So the
 * job is ended, as its launcher does when a process dies. The program has a moment in which to report the error
 * (docs/decisions/046-groups.md). */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/system/clock.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "group/line.h"
#include "group/thread.h"

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

/* To standard error by one call, because other processes write there as well. */
static void report(int rank)
{
    char text[700];
    haul__snprintf(text, sizeof text, "haul: rank %d ends: %s\n", rank, line.error.message);
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

/* ---- the end of the library ---- */

/* Ends the process if the library is not closed within the limit. */
static void *watch_close(void *rank)
{
    const int64_t until = haul__system_ns() + (int64_t)(haul__group_limit() * 1e9);
    pthread_mutex_lock(&line.lock);
    while (!line.closed && haul__system_ns() < until) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_sec++;
        pthread_cond_timedwait(&line.finished, &line.lock, &at);
    }
    const bool closed = line.closed;
    pthread_mutex_unlock(&line.lock);
    if (closed)
        return NULL;
    haul__fail(HAUL_STATE, "haul_group_get", NULL,
               "all ranks have ended their programs, but the library does not finish: one has stopped, has died or is "
               "cut off");
    haul__error_save(&line.error);
    report((int)(intptr_t)rank);
    _exit(1);
}

void haul__line_close(void)
{
    pthread_t  watch;
    const bool watched = pthread_create(&watch, NULL, watch_close, (void *)(intptr_t)line.engine->rank) == 0;
    HAUL__ASSERT(line.engine && !line.closed);
    line.engine->kind->close(line.engine);
    pthread_mutex_lock(&line.lock);
    line.closed = true;
    pthread_cond_broadcast(&line.finished);
    pthread_mutex_unlock(&line.lock);
    if (watched)
        pthread_join(watch, NULL);
}

/* ---- the end of the job ---- */

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

_Noreturn void haul__end_job(void)
{
    pthread_t helper;
    HAUL__ASSERT(line.lost);
    while (!is_exiting() && haul__system_ns() - line.lost_ns < REPORT_MS * MILLI)
        sleep_ms(20);
    if (line.lost_at_exit || !is_exiting())
        report(line.engine->rank);
    if (is_exiting())
        sleep_ms(EXIT_MS);
    if (pthread_create(&helper, NULL, abort_all, NULL) == 0)
        sleep_ms(ABORT_MS);
    _exit(1);
}
