/* Facts about the library's own state: sizes, states and ownership.
 *
 *     HAUL__ASSERT(stats->allocated <= stats->reserved);
 *
 * In debug, sanitizer and hostile builds a fact that does not hold prints its text and place, and ends the process at
 * the fault, before what follows from it. Release builds compile the fact and never evaluate it, so it has no effects.
 * What a user or a system can cause is an error of Haul and never a fact. */
#ifndef HAUL_BASE_ASSERT_H
#define HAUL_BASE_ASSERT_H

/* Not in release builds. */
_Noreturn void haul__assert_failed(const char *fact, const char *file, int line);

#ifdef NDEBUG
#define HAUL__ASSERT(fact) ((void)(0 && (fact)))
#else
#define HAUL__ASSERT(fact) ((fact) ? (void)0 : haul__assert_failed(#fact, __FILE__, __LINE__))
#endif

/* For a fact that needs statements of its own, for example a loop over a list: 1 where facts are evaluated. */
#ifdef NDEBUG
#define HAUL__ASSERTS 0
#else
#define HAUL__ASSERTS 1
#endif

#endif
