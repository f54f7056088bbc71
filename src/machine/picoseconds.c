#include "machine/picoseconds.h"

#include "base/assert.h"
#include "machine/machine.h"

static const int64_t ps_of_ns = 1000, ps_of_second = INT64_C(1000000000000);

int64_t haul__ps_add(int64_t a, int64_t b)
{
    return a > HAUL__MACHINE_MOST_PS - b ? HAUL__MACHINE_MOST_PS : a + b;
}

int64_t haul__ps_times(int64_t ps, int64_t count)
{
    return count > 0 && ps > HAUL__MACHINE_MOST_PS / count ? HAUL__MACHINE_MOST_PS : ps * count;
}

int64_t haul__ps_of_waits(int64_t ns, int64_t count)
{
    if (count <= 0 || ns <= 0)
        return 0;
    return ns > HAUL__MACHINE_MOST_PS / ps_of_ns / count ? HAUL__MACHINE_MOST_PS : ns * ps_of_ns * count;
}

int64_t haul__share(int64_t whole, int64_t part, int64_t of)
{
    int64_t quotient = 0, rest = 0;
    HAUL__ASSERT(whole >= 0 && 0 <= part && part <= of);
    HAUL__ASSERT(0 < of && of <= INT64_C(1000000000000000000));
    for (int bit = 62; bit >= 0; bit--) {
        rest = 2 * rest;
        quotient = 2 * quotient + (rest >= of);
        rest -= rest >= of ? of : 0;
        if (!(whole >> bit & 1))
            continue;
        rest += part;
        quotient += rest >= of;
        rest -= rest >= of ? of : 0;
    }
    HAUL__ASSERT(rest < of && quotient <= whole);
    return quotient;
}

int64_t haul__ps_at_rate(int64_t work, int64_t rate)
{
    if (work <= 0)
        return 0;
    HAUL__ASSERT(rate > 0);
    if (work / rate >= HAUL__MACHINE_MOST_PS / ps_of_second)
        return HAUL__MACHINE_MOST_PS;
    return work / rate * ps_of_second + haul__share(ps_of_second, work % rate, rate);
}
