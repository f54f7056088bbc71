/* A clock that is the same on every machine: the monotonic one goes on by a millisecond whenever it is read, so what a
 * program does within a time limit does not depend on how long it takes. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_llong ticks = 1000000;

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, out);
    const long long ms = atomic_fetch_add(&ticks, 1);
    *out = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    return 0;
}
