/* Times of predictions: whole picoseconds, at most HAUL__MACHINE_MOST_PS, which is also the time of what takes longer.
 */
#ifndef HAUL_MACHINE_PICOSECONDS_H
#define HAUL_MACHINE_PICOSECONDS_H

#include <stdint.h>

int64_t haul__ps_add(int64_t a, int64_t b);

/* Of `count` things that take as long as this. */
int64_t haul__ps_times(int64_t ps, int64_t count);

/* Of `count` waits of so many nanoseconds. */
int64_t haul__ps_of_waits(int64_t ns, int64_t count);

/* Of work at that rate per second. */
int64_t haul__ps_at_rate(int64_t work, int64_t rate);

/* whole * part / of, for part <= of <= 1e18, without a product that overflows. */
int64_t haul__share(int64_t whole, int64_t part, int64_t of);

#endif
