/* Places of the program, for reports. */
#ifndef HAUL_WATCH_PLACE_H
#define HAUL_WATCH_PLACE_H

#include <stddef.h>

/* Who called the library, given an event's frames and operation: "train_step+0x4f in ./train". Where that cannot be
 * told, up to eight addresses joined by " < ", innermost first; or "". Returns `out`. */
const char *haul__describe_place(void *const *frames, int count, const char *operation, char *out, size_t size);

#endif
