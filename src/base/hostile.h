/* What a hostile build does (the CMake preset hostile), so that mistakes show that other builds forgive.
 *
 * Elsewhere all of this is false when the code is compiled. The environment variable HAUL_CALM lists what a program is
 * spared, for example HAUL_CALM=sizes,spills: tests/support/run/bears-all lists the tests that run with all. */
#ifndef HAUL_BASE_HOSTILE_H
#define HAUL_BASE_HOSTILE_H

#include <stdbool.h>

typedef enum haul__hostility {
    HAUL__HOSTILE_SIZES = 1,   /* two sizes of small blocks, so that memory is reused by quite different tensors */
    HAUL__HOSTILE_CACHES = 2,  /* caches keep one entry */
    HAUL__HOSTILE_STAGING = 4, /* copies are staged in chunks of 4 KiB */
    HAUL__HOSTILE_SPILLS = 8,  /* devices with memory of their own spill, and do so again and again */
    HAUL__HOSTILE_COMPILER =
        16, /* every third kernel is refused when it is first compiled; only if a program asks for it */
    HAUL__HOSTILE_LOCALE = 32, /* programs run with a decimal comma; the tests' fixture sets the locale */
    HAUL__HOSTILE_CHECKS = 64, /* all lists of an allocator are walked (memory/allocator_check.h) */
} haul__hostility;

/* By this text of its error the tests' fixture knows a refused kernel. */
#define HAUL__HOSTILE_REFUSAL "as a hostile build does every third time"

#ifdef HAUL_HOSTILE
extern unsigned haul__hostilities;

static inline bool haul__is_hostile(haul__hostility what)
{
    return haul__hostilities & (unsigned)what;
}

/* True for every n-th call, counted over all threads. */
bool haul__hostile_turn(unsigned n);
#else
static inline bool haul__is_hostile(haul__hostility what)
{
    (void)what;
    return false;
}

static inline bool haul__hostile_turn(unsigned n)
{
    (void)n;
    return false;
}
#endif

#endif
