/* Places of the program, for reports. */
#ifndef HAUL_CORE_PLACE_H
#define HAUL_CORE_PLACE_H

#include <stddef.h>

/* The return addresses on the stack, innermost first; how many. 0 where the system cannot tell. */
int haul__take_frames(void **frames, int capacity);

/* Who called the library, given such frames and the operation: "train_step+0x4f in ./train". Where that cannot be
 * told, up to eight addresses joined by " < ", innermost first; or "". Returns `out`. */
const char *haul__describe_place(void *const *frames, int count, const char *operation, char *out, size_t size);

#endif
