/* What a profile records: its events as events, with their texts as numbers. */
#ifndef HAUL_OBSERVE_PROFILE_RECORD_H
#define HAUL_OBSERVE_PROFILE_RECORD_H

#include <haul/dtype.h>
#include <haul/memory.h>
#include <haul/profile.h>

#include "core/object.h"
#include "events/events.h"
#include "observe/profile/energy.h"
#include "observe/profile/flow.h"
#include "observe/profile/repeated_copies.h"
#include "observe/profile/stacks.h"
#include "observe/profile/texts.h"

/* An event. Times are nanoseconds since the beginning of the profile. */
typedef struct haul__profile_event {
    haul_event_kind    kind;
    int                thread, depth, step;
    uint32_t           operation, module, label, text; /* as in the event */
    uint32_t           name;                           /* the kernel of a command; the tensor of a copy */
    uint32_t           detail;    /* the stream of a command or wait; the conversion of a copy; the role of memory */
    uint32_t           stack;     /* where in the program; of copies and waits */
    bool               unchanged; /* of a copy: the same bytes went to the device before */
    const haul_device *device, *other;
    int64_t            begin, end, submitted;
    int64_t            gap; /* of a span: time that the program took before it, if `stack` says where */
    int64_t            bytes;
    int64_t            planned; /* of a copy: ns that HAUL_PLACE_AUTO counted; 0: the program asked for it */
    uint64_t           number;  /* of the command, storage or node */
    uint64_t           copy;
    union {
        struct { /* of an operation */
            double     flops;
            haul_dtype dtype; /* by which rates are listed; HAUL_DTYPE_END: of operands and results it differs */
            uint32_t   computed_with; /* the event, from 1, of the copy with which its data left a device; 0: none */
        };
        haul__flow flow; /* of a copy */
    };
} haul__profile_event;

/* Memory of a device that was there when the profile began. */
typedef struct haul__earlier {
    const haul_device *device;
    haul_memory_block *blocks;
    int                count;
    int64_t            bytes;
} haul__earlier;

typedef struct haul__peak {
    const haul_device *device;
    double             flops, bytes; /* a second; 0: unknown */
} haul__peak;

struct haul__analysis;
struct haul__findings;

/* Guarded by the lock of process-wide subscribers while it records; afterwards nothing is added. */
struct haul_profile {
    haul__object           object;
    haul__subscriber       subscriber;
    bool                   everywhere, call_sites, ended;
    int                    thread;         /* the main one */
    int64_t                began, stopped; /* ns */
    haul__profile_event   *events;
    size_t                 count, room, most;
    int64_t                lost;
    int64_t               *steps; /* when each ended */
    size_t                 step_count, step_room;
    haul__texts            texts;
    haul__stacks           stacks;
    haul__flows            flows;
    haul__copy_history    *copied;
    haul__energy           energy;
    haul__earlier         *earlier;
    size_t                 earlier_count, earlier_room;
    haul__peak            *peaks;
    size_t                 peak_count, peak_room;
    int64_t                last_end; /* of a span of the main thread */
    struct haul__analysis *analysis; /* NULL until the profile is read */
    struct haul__findings *findings;
};

static inline const char *haul__profile_text(const haul_profile *p, uint32_t number)
{
    return haul__texts_at(&p->texts, number);
}

/* HAUL_OK if it is a profile that has ended. */
haul_status haul__profile_check(const haul_profile *profile, const char *operation);

/* The peak of a device; zeros if it is not known. */
haul__peak haul__profile_peak(const haul_profile *profile, const haul_device *device);

#endif
