/* Recognises data that were sent to a device before, by their bytes. */
#ifndef HAUL_OBSERVE_PROFILE_REPEATED_COPIES_H
#define HAUL_OBSERVE_PROFILE_REPEATED_COPIES_H

#include <haul/events.h>

/* Data that were sent. Large data are compared by samples first, and by all bytes from the second time on. */
typedef struct haul__copied_data {
    const haul_device *device;
    int64_t            bytes;
    uint64_t           sample, all; /* hashes; all: 0 until it was needed */
} haul__copied_data;

enum { HAUL__COPY_HISTORY = 1024 };

typedef struct haul__copy_history {
    haul__copied_data data[HAUL__COPY_HISTORY]; /* the last ones, by their samples */
} haul__copy_history;

/* A hash of all bytes, or of samples of many; never 0. */
uint64_t haul__sample(const void *bytes, size_t count);

/* Notes the data of a copy to a device; returns true if the same were sent to it before. */
bool haul__was_copied(haul__copy_history *s, const haul_event *copy);

#endif
