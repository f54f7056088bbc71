/* What the CUDA driver itself does, without Haul in between: what benchmarks of the CUDA backend are measured against.
 * Cases for tables; bench_case.size is in bytes. They are left out where there is no CUDA driver, and run on the GPU
 * that BENCH_DEVICE names. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "support/bench.h"

bool raw_open(const bench_case *c);
void raw_close(void);

bool raw_run_up(const bench_case *c, int64_t times);   /* from pinned memory to the GPU, each waited for */
bool raw_run_down(const bench_case *c, int64_t times); /* back */
bool raw_run_copy(const bench_case *c, int64_t times); /* on the GPU, from one place to another, one after the other */

/* Launches of an empty kernel, waited for at the end. */
bool raw_open_launch(const bench_case *c);
bool raw_run_launch(const bench_case *c, int64_t times);

#define RAW(label, what, mib, passes)                                                                                  \
    {                                                                                                                  \
        .name = label, .unit = "GB/s", .amount = (double)(passes) * (mib)*1048576e-9, .peers = "", .open = raw_open,   \
        .run = what, .close = raw_close, .size = (int64_t)(mib) << 20                                                  \
    }
#define RAW_UP(mib)   RAW("raw up " #mib " MiB", raw_run_up, mib, 1)
#define RAW_DOWN(mib) RAW("raw down " #mib " MiB", raw_run_down, mib, 1)
#define RAW_COPY(mib) RAW("raw copy " #mib " MiB", raw_run_copy, mib, 2) /* read and written */

#endif
