/* The one clock that durations are measured with. */
#ifndef HAUL_CORE_CLOCK_H
#define HAUL_CORE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some moment; never set back. */
int64_t haul__now_ns(void);

#endif
