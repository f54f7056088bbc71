/* How long copies and computing ran at the same time on a device, from the times of their commands, in any order. */
#ifndef HAUL_OBSERVE_WATCH_OVERLAP_H
#define HAUL_OBSERVE_WATCH_OVERLAP_H

#include <haul/device.h>
#include <stdint.h>

typedef struct haul__span {
    int64_t  begin, end; /* nanoseconds */
    uint64_t copy;       /* the number of the copy; 0 for computing */
} haul__span;

/* The lanes of a device. Spans of one lane come in the order of their ends, as those of a stream do. */
typedef enum haul__lane { HAUL__COMPUTING, HAUL__UPLOADING, HAUL__AHEAD, HAUL__DOWNLOADING, HAUL__LANES } haul__lane;

/* All zero is one without spans. */
typedef struct haul__overlaps {
    struct haul__tracks *tracks;
} haul__overlaps;

/* Adds a span and calls `found` for each earlier span of the other kind that it overlaps, with the number of the copy
 * of the two and the nanoseconds. The last few thousand spans of each lane are known; without memory for them nothing
 * is found. */
void haul__overlap_add(haul__overlaps *o, const haul_device *device, haul__lane lane, haul__span span,
                       void (*found)(void *context, uint64_t copy, int64_t ns), void *context);
void haul__overlap_free(haul__overlaps *o);

#endif
