/* Spans of time as a list: joined, measured, and without others. */
#ifndef HAUL_OBSERVE_PROFILE_INTERVALS_H
#define HAUL_OBSERVE_PROFILE_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds since the beginning of a profile. */
typedef struct haul__interval {
    int64_t begin, end;
} haul__interval;

typedef struct haul__intervals {
    haul__interval *items; /* for haul__free */
    size_t          count, room;
} haul__intervals;

/* Adds nothing if it is empty. False without memory. */
bool haul__intervals_add(haul__intervals *all, int64_t begin, int64_t end);

/* Puts them in order and joins those that touch. The functions below expect lists that were joined. */
void haul__intervals_join(haul__intervals *all);

/* How much of the time from begin to end they cover. */
int64_t haul__intervals_covered(const haul__intervals *all, int64_t begin, int64_t end);

/* Adds the parts of the time from begin to end that `without` does not cover. False without memory. */
bool haul__intervals_add_rest(haul__intervals *to, int64_t begin, int64_t end, const haul__intervals *without);

/* The time that they cover. */
int64_t haul__intervals_length(const haul__intervals *all);

#endif
