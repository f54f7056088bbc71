/* What the benchmark programs share: a table of cases, and a main that measures them.
 *
 * A program without arguments measures its cases and prints a line for each. tools/bench drives several programs at
 * once instead, ours and those of peers, in turns, so that what else the machine does falls on all of them alike:
 *   PROGRAM --list           NAME TAB UNIT TAB AMOUNT TAB PEERS TAB LIMIT, a line for each case
 *   PROGRAM --serve          for each name read, one measurement: "ok WALL CPU", seconds a run, or "out REASON"
 *   PROGRAM NAME ...         only cases whose names begin so
 *   PROGRAM --json [NAME ...]
 *                            an array of objects: "name", "ns" and "cpu_ns" of a run, null for a case left out
 * Cases run on the CPU; BENCH_DEVICE=opencl:0 moves those that leave the device open. */
#ifndef BENCH_H
#define BENCH_H

#include <haul/haul.h>
#include <haul/recording.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct bench_case bench_case;
struct bench_case {
    const char *name;
    const char *unit;   /* "GB/s": AMOUNT a run, divided by the time; "us", "ms", "ns": the time itself */
    double      amount; /* work in one run, in 1e9 units for GB/s and GF/s, 1e12 for TF/s */
    const char *peers;  /* names separated by commas without a space; a name may contain ", ". "torch:NAME" is
                           bench/peer.py's, "NAME" another case here; may be NULL */
    const char *limit;  /* the case of bench/limits.c that shows how fast the machine can do it; may be NULL */

    /* Get ready, in a scope that is open until `close`; false, with a reason, leaves the case out. `run` does the work
     * so many times and waits for the end of it; false when an operation failed. */
    bool (*open)(const bench_case *c);
    bool (*run)(const bench_case *c, int64_t times);
    void (*close)(void); /* may be NULL */

    /* For `open` and `run`; the thread's current device and number of threads are set before. */
    const char *device;
    int         threads; /* 0: one a core */
    int64_t     size;
    const void *context;
    haul_tensor *(*op)(haul_tensor *x);
};

int bench_main(int argc, char **argv, const bench_case *cases, int count);

/* Calls step(NULL) so many times, each in a scope, and waits for the current device. False when a step failed. */
bool bench_steps(haul_status (*step)(void *context), int64_t times);

/* Records step(NULL) and follows it until its chains have become code. The scope of the case owns the recording. NULL
 * on failure. */
haul_recording *bench_follow(haul_status (*step)(void *context));

/* Follows the step so many times, and waits for the current device. False when a step failed. */
bool bench_followed(haul_recording *recording, int64_t times);

/* Say why a case is left out; returns false. */
bool bench_out(const char *reason);

double bench_seconds(void);

#endif
