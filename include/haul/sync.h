/* Synchronisations: when the host waits for a device, for how long, and which place of the program made it.
 *
 * Operations, moves and training steps submit work and go on; the host waits in haul_item, haul_read, haul_print,
 * haul_map and haul_device_sync, and where memory or a device leaves no choice. All waits go through one function of
 * the library, so what is counted and reported here is all there is. Counting is always on. */
#ifndef HAUL_SYNC_H
#define HAUL_SYNC_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>

HAUL_BEGIN

typedef enum haul_sync_kind {
    HAUL_SYNC_WAIT,  /* the host waited for work that was not done */
    HAUL_SYNC_READY, /* it would have waited, but the device said that the work was done */
    HAUL_SYNC_DRIVER /* a call in which a driver may wait by itself: memory obtained or given back, a kernel compiled */
} haul_sync_kind;

/* One synchronisation. Texts are valid during the call of the sink only. A transfer in many chunks is one. `action` is
 * "waited" or "found done"; of HAUL_SYNC_DRIVER "obtained memory", "gave memory back", "obtained pinned memory", "gave
 * pinned memory back", "was compiled" (`operation` is a kernel then) or "planned a convolution". `place` is who called
 * the library; where that cannot be told, up to eight addresses joined by " < ", innermost first; or "". */
typedef struct haul_sync_event {
    haul_sync_kind     kind;
    const char        *operation; /* what waited: "haul_item" */
    const char        *action;
    const haul_device *device;
    const char        *stream; /* "compute", "upload", "download"; "" for a driver's call */
    int64_t            bytes;  /* of the copy or memory in question; 0 where there is none */
    double             microseconds;
    const char        *module; /* of the haul_call under way: "features.0"; "" outside of modules */
    const char        *place;  /* "train_step+0x4f in ./train" */
    void *const       *frames; /* return addresses, innermost first, beginning in the library */
    int                frame_count;
    const char        *line; /* all of it, as haul_sync_report writes it */
} haul_sync_event;

/* Report each synchronisation: haul_sync_report(true) writes lines like "haul_item waited 35.2 us for opencl:0
 * (download, 4 bytes) at train_step+0x4f in ./train" to standard error, false stops; haul_sync_report_to hands them to
 * `sink`, NULL to stop. For the whole process; `sink` is called by one thread at a time, on the thread that waited. It
 * may do what subscribers to events may do (events.h), but must not call these two. Once haul_sync_report_to returns
 * the former sink is not running any more.
 * Names of functions come from the symbols that the program exports: link it with -rdynamic to see its own, else
 * addr2line turns "train+0x1f3a" into a line. A program with the static library needs -rdynamic, too, for its caller to
 * be told from the library. */
HAUL_API void haul_sync_report(bool on);
HAUL_API void haul_sync_report_to(void (*sink)(const haul_sync_event *event, void *context), void *context);

/* What the calling thread has waited for since it began. */
typedef struct haul_sync_stats {
    int64_t waits;        /* HAUL_SYNC_WAIT */
    int64_t ready;        /* HAUL_SYNC_READY */
    int64_t driver_calls; /* HAUL_SYNC_DRIVER */
    double  microseconds; /* in waits */
} haul_sync_stats;

HAUL_API haul_status haul_sync_stats_get(haul_sync_stats *out);

/* waits + ready of the calling thread: how often it came to a place where it had to wait, however fast the device was.
 * The difference over a step of training is what a test can assert to be 0. */
HAUL_API int64_t haul_sync_count(void);

HAUL_END

#endif
