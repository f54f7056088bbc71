/* Calls of the program's functions: forward, hooks, functions of datasets, of custom operations, subscribers.
 *
 *     haul__guest before = haul__guest_begin();
 *     status = haul__guest_end(&before, function(context), operation);
 *
 * In between, the thread refuses to close the scopes that were open before: they own what the library and the caller
 * of the library still use. */
#ifndef HAUL_CORE_GUEST_H
#define HAUL_CORE_GUEST_H

#include "core/thread.h"

/* Records that a function of the program is missing, and returns the status. */
haul_status haul__fail_no_function(const char *operation, const char *argument);

/* Returns what haul__guest_end restores. Both are called by the C function that calls the program's, or by one of its
 * callers. */
haul__guest haul__guest_begin(void);

/* Returns `status`, which the function returned. If it is HAUL_OK, but the function tried to close a scope that it had
 * not opened, fails and names `operation`. */
haul_status haul__guest_end(const haul__guest *before, haul_status status, const char *operation);

/* Calls a function that frees memory of the program, for example a deleter. NULL is ignored. Keeps the thread's error.
 */
void haul__guest_free(void (*function)(void *context), void *context);

/* HAUL_OK if the running function may close the scopes from `depth` on. Else records an error for `operation`. */
haul_status haul__guest_may_close(int depth, const char *operation);

#endif
