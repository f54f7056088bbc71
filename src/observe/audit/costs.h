/* What copies cost a step: the time in which they cross the link, or the main thread is in their calls, while no device
 * computes. Time in which a device still runs commands submitted before the copy costs nothing. */
#ifndef HAUL_OBSERVE_AUDIT_COSTS_H
#define HAUL_OBSERVE_AUDIT_COSTS_H

#include "observe/profile/analysis.h"

/* Time that belongs to a copy: of a command, by the number of the copy; of an operation on the CPU, by the number of
 * the event, from 1, of the copy with which its data left a device. */
typedef struct haul__piece {
    uint64_t       copy;
    haul__interval when;
} haul__piece;

typedef struct haul__pieces {
    haul__piece *items;
    size_t       count, room;
} haul__pieces;

/* When all commands submitted until then had been computed. */
typedef struct haul__backlog {
    int64_t submitted, end;
} haul__backlog;

typedef struct haul__costs {
    const haul_profile *profile;
    haul__pieces        commands, operations; /* in the order of copies */
    haul__intervals     computing;            /* when a device computed behind the host */
    haul__intervals     calls;                /* when the main thread was in the library */
    haul__backlog      *backlog;              /* in the order of submissions */
    size_t              backlog_count, backlog_room;
} haul__costs;

/* Fills *out, which the caller must close in any case. All functions here return false without memory. */
bool haul__costs_open(const haul_profile *p, haul__costs *out);
void haul__costs_close(haul__costs *costs);

/* Adds to `to` when the copy held the step up: the calls of the main thread, and with `link` what the device copied. */
bool haul__cost_of_copy(const haul__costs *costs, const haul__profile_event *copy, bool link, haul__intervals *to);

/* The same of data that left a device with the copy `gone` and came back with `back`: both copies, the operations on
 * the CPU between them and, if the program changed the data itself, its own time between them. */
bool haul__cost_of_return(const haul__costs *costs, const haul__profile_event *gone, const haul__profile_event *back,
                          haul__intervals *to);

#endif
