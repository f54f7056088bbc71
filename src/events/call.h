/* The module calls in progress on a thread, which errors and reports name. */
#ifndef HAUL_EVENTS_CALL_H
#define HAUL_EVENTS_CALL_H

#include <haul/base.h>
#include <stddef.h>

typedef struct haul__call_frame haul__call_frame;
struct haul__call_frame {
    const haul__call_frame *outer;
    const char             *name; /* NULL: called directly, not as a child */
    haul_module            *module;
    int                     depth;
    int                     mode; /* the mode of this call and of those inside it: a haul_mode (haul/nn.h) */
};

/* The thread's innermost call; NULL outside of calls. */
const haul__call_frame *haul__call_now(void);
void                    haul__call_set(const haul__call_frame *frame);

/* Writes "features.0" for the innermost call, or "" outside of calls; if it does not fit, it is shortened at the front.
 * Returns a pointer into the buffer. */
const char *haul__call_path(char *buffer, size_t size);

#endif
