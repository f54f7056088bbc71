/* Waits: when the host waits for a device, for how long, and which line of the program caused it.
 *
 * Operations, moves and training steps submit work and return. The host waits in haul_item, haul_read, haul_print,
 * haul_map and haul_device_sync, and where memory or a device leaves no choice. All waits go through one function of
 * the library, so the count is complete, and you can assert on it in tests. Counting is always on. */
#ifndef HAUL_SYNC_H
#define HAUL_SYNC_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>

HAUL_BEGIN

/* The kinds of synchronisation. */
typedef enum haul_sync_kind {
    HAUL_SYNC_WAIT,  /* the host waited for work that was not done */
    HAUL_SYNC_READY, /* the host would have waited, but the work was already done */
    HAUL_SYNC_DRIVER /* a call in which a driver may wait: memory obtained or given back, a kernel compiled */
} haul_sync_kind;

/* One synchronisation. A transfer in many chunks is one. Texts are valid during the call of the sink only.
 *
 * - kind: the kind of synchronisation
 * - stream: "upload" and "download" copy; "ahead" copies the batches of loaders
 * - operation: the function that waited, "haul_item"; a kernel if `action` is "was compiled"
 * - action: "waited" or "found done"; for HAUL_SYNC_DRIVER "obtained memory", "gave memory back", "obtained pinned
 *   memory", "gave pinned memory back", "was compiled", "was compiled for its first run" or "planned a
 *   convolution"
 * - place: the caller of the library: "train.c:42" if the program has debug information and libdw is installed, else
 *   "train_step+0x4f in train"; up to eight addresses joined by " < ", innermost first, if the caller cannot be found;
 *   or "" */
typedef struct haul_sync_event {
    haul_sync_kind     kind;
    const char        *operation;
    const char        *action;
    const haul_device *device;       /* the device that was waited for */
    const char        *stream;       /* "compute", "upload", "download" or "ahead"; "" for a driver's call */
    int64_t            bytes;        /* size of the copy or memory; 0 if there is none */
    double             microseconds; /* how long the host waited */
    const char        *module;       /* path of the module being called, "features.0"; "" outside of modules */
    const char        *place;
    void *const       *frames;      /* return addresses, innermost first, beginning in the library */
    int                frame_count; /* the number of `frames` */
    const char        *line;        /* the whole event as haul_sync_report writes it */
} haul_sync_event;

/* Report each synchronisation of the process. haul_sync_report(true) writes a line for each to standard error, like
 *
 *     haul_item waited 35.2 us for opencl:0 (download, 4 bytes) at train_step+0x4f in ./train
 *
 * and false stops it. haul_sync_report_to passes each event to `sink` instead; NULL stops it.
 *
 * The thread that waited calls `sink`; several threads may do so at the same time. The sink may do what subscribers to
 * events may do (events.h). Once haul_sync_report_to returns, the former sink is not running any more, unless a
 * subscriber or sink called it.
 *
 * The names of functions come from the symbols that the program exports: link it with `-rdynamic` to see its own, or
 * let addr2line turn "train+0x1f3a" into a line. A program that links the static library needs `-rdynamic` in any case,
 * because otherwise its functions cannot be distinguished from the library's.
 *
 * - on: report or stop
 * - context: passed to `sink` */
HAUL_API void haul_sync_report(bool on);
HAUL_API void haul_sync_report_to(void (*sink)(const haul_sync_event *event, void *context), void *context);

/* What a thread has waited for since it began. */
typedef struct haul_sync_stats {
    int64_t waits;        /* synchronisations of HAUL_SYNC_WAIT */
    int64_t ready;        /* synchronisations of HAUL_SYNC_READY */
    int64_t driver_calls; /* synchronisations of HAUL_SYNC_DRIVER */
    double  microseconds; /* time spent in `waits` */
} haul_sync_stats;

/* Fill *out with the calling thread's counts. */
HAUL_API haul_status haul_sync_stats_get(haul_sync_stats *out);

/* The calling thread's `waits` plus `ready`: how often it came to a place where it had to wait, however fast the device
 * was. A test can assert that the difference over a training step is 0. */
HAUL_API int64_t haul_sync_count(void);

HAUL_END

#endif
