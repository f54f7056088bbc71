/* The calls of modules under way on a thread: who is named in errors and reports. */
#ifndef HAUL_EVENTS_CALL_H
#define HAUL_EVENTS_CALL_H

#include <haul/base.h>
#include <stddef.h>

typedef struct haul__call_frame haul__call_frame;
struct haul__call_frame {
    const haul__call_frame *outer;
    const char             *name; /* NULL: called by itself, not as a child */
    haul_module            *module;
    int                     depth;
    int                     mode; /* of this call and those in it: a haul_mode (haul/nn.h) */
};

/* The thread's innermost call; NULL when none is under way. */
const haul__call_frame *haul__call_now(void);
void                    haul__call_set(const haul__call_frame *frame);

/* "features.0" for the innermost call, "" outside of calls; shortened from the front where it does not fit. Points
 * into the buffer. */
const char *haul__call_path(char *buffer, size_t size);

#endif
