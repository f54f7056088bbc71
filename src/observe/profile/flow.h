/* Where copied data come from and go to: data that left a device and come back, and data that are converted just before
 * or after their copy. Data are followed through operations by the memory that holds them. */
#ifndef HAUL_OBSERVE_PROFILE_FLOW_H
#define HAUL_OBSERVE_PROFILE_FLOW_H

#include <haul/events.h>
#include <stdbool.h>
#include <stddef.h>

/* The properties of a copy. Copies have numbers from 1; 0 is none. */
typedef struct haul__flow {
    uint32_t back_from;  /* the copy to the host with which these data left the device */
    uint32_t operations; /* on the CPU since then, and changes by the program itself */
    bool     changed;    /* the program itself changed them */
    int64_t  excess;     /* bytes that crossed only because of the side of a conversion */
} haul__flow;

/* Memory with data that were copied, or that were computed from copied data. */
typedef struct haul__trail {
    const char *begin, *end; /* on the host; or */
    uint64_t    storage;     /* the number of a storage on a device */
    haul__flow  since;       /* back_from: the copy, in either direction */
    uint64_t    sample;      /* a hash of the bytes as they arrived; 0: unknown */
    int64_t     narrow;      /* bytes that the data had before a conversion made them larger; 0: none did */
} haul__trail;

enum { HAUL__TRAILS = 64 };

typedef struct haul__flows {
    haul__trail trails[HAUL__TRAILS];
    int         next; /* the oldest, which makes room for a new one */
    bool        any;
} haul__flows;

/* A copy over a link, with its number. */
haul__flow haul__flow_copied(haul__flows *f, const haul_event *copy, uint32_t number);

/* The properties of an operation, by numbers of copies. */
typedef struct haul__computed {
    uint32_t with;     /* the copy with which the data left the device that it computes with on the CPU */
    uint32_t narrowed; /* the copy whose excess is now known */
    int64_t  excess;   /* of `bytes` that were converted: more than were copied, where elements repeat */
    int64_t  bytes;
} haul__computed;

/* An operation has ended. */
haul__computed haul__flow_computed(haul__flows *f, const haul_event *operation);

/* Memory was allocated: nothing that it held before counts. */
void haul__flow_allocated(haul__flows *f, const haul_event *memory);

#endif
