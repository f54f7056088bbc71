/* Places in the program, for reports. */
#ifndef HAUL_BASE_SYSTEM_CALL_SITE_H
#define HAUL_BASE_SYSTEM_CALL_SITE_H

#include <stdbool.h>
#include <stddef.h>

/* Stores the return addresses on the stack, innermost first, and returns how many; 0 if the system does not know. */
int haul__take_frames(void **frames, int capacity);

/* True if the address is in the shared library. False if the program holds the library: nothing shows what belongs to
 * whom there. */
bool haul__is_in_library(const void *address);

/* The number of the frame that called the library for the operation; -1 if nothing shows it. */
int haul__caller_frame(void *const *frames, int count, const char *operation);

/* The caller of the library, from these frames and the operation: "train_step+0x4f in ./train". If it is unknown, up to
 * eight addresses joined by " < ", innermost first, or "". Returns `out`. */
const char *haul__describe_call_site(void *const *frames, int count, const char *operation, char *out, size_t size);

#endif
