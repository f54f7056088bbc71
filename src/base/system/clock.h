/* The clock for all durations: a value of the process. It is the system's, or, once a simulated device is in use, a
 * virtual one that only commands advance. */
#ifndef HAUL_BASE_SYSTEM_CLOCK_H
#define HAUL_BASE_SYSTEM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds since an arbitrary moment; never decreases. */
int64_t haul__now_ns(void);

/* The same of the system's clock, for waits that must end, and for times that processes share. */
int64_t haul__system_ns(void);

/* The clock stands still from now on. It stays virtual for the life of the process. */
void haul__clock_begin_virtual(void);
bool haul__clock_is_virtual(void);

/* Of a virtual clock: picoseconds since it began; that many more; at least that many. */
int64_t haul__clock_ps(void);
void    haul__clock_advance(int64_t ps);
void    haul__clock_reach(int64_t ps);

#endif
