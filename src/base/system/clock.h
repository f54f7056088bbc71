/* The clock for all durations. */
#ifndef HAUL_BASE_SYSTEM_CLOCK_H
#define HAUL_BASE_SYSTEM_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary moment; never decreases. */
int64_t haul__now_ns(void);

#endif
