/* Times for people. */
#ifndef HAUL_BASE_TEXT_DURATION_H
#define HAUL_BASE_TEXT_DURATION_H

#include <stdint.h>

enum { HAUL__DURATION = 24 };

/* "3.1 us", "0.31 ms", "2.0 s". Returns `out`. */
const char *haul__duration_text(int64_t ps, char out[HAUL__DURATION]);

/* In the unit that suits `like`, the largest time of the column or sentence, so that all of them have the same unit. */
const char *haul__duration_text_like(int64_t ps, int64_t like, char out[HAUL__DURATION]);

#endif
