#include "base/hostile.h"

#ifdef HAUL_HOSTILE
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

unsigned haul__hostilities;

/* Before main: HAUL_CALM lists what this program is spared. */
__attribute__((constructor(101))) static void begin(void)
{
    static const struct {
        const char     *name;
        haul__hostility what;
    } names[] = {{"sizes", HAUL__HOSTILE_SIZES},   {"caches", HAUL__HOSTILE_CACHES}, {"staging", HAUL__HOSTILE_STAGING},
                 {"spills", HAUL__HOSTILE_SPILLS}, {"locale", HAUL__HOSTILE_LOCALE}, {"checks", HAUL__HOSTILE_CHECKS}};
    const char *calm = getenv("HAUL_CALM");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!calm || (!strstr(calm, names[i].name) && strcmp(calm, "all") != 0))
            haul__hostilities |= (unsigned)names[i].what;
}

bool haul__hostile_turn(unsigned n)
{
    static atomic_uint turns;
    return atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed) % n == n - 1;
}
#endif
