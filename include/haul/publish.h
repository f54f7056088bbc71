/* Publishing: what a process is doing now, for other programs of the same user.
 *
 * A process that publishes keeps a small page in memory that others can read. It has the process's name, how far its
 * work is, its memory on each device, and how often it copies and waits. The command `haul top` shows the pages of all
 * processes, and haul_published_list reads them.
 *
 *     haul_publish_begin(.name = "my training");
 *     for (int64_t step = 1; step <= 1000; step++)
 *         haul_publish_progress(.steps = step, .examples = 64 * step);
 *     haul_publish_end();
 *
 * The page is a file that only its user can read and write. It is in the folder `haul` of `$XDG_RUNTIME_DIR`; without
 * that, in /dev/shm/haul-UID or /tmp/haul-UID. It is removed by haul_publish_end, when the process exits, or, if the
 * process was killed, by the next program that looks. `HAUL_PUBLISH=off` in the environment publishes nothing, and
 * `HAUL_PUBLISH=FOLDER` uses that folder only. */
#ifndef HAUL_PUBLISH_H
#define HAUL_PUBLISH_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_publish_options {
    HAUL__GUARD(name)
    const char *name; /* what the process is shown as; default the name of its program */
} haul_publish_options;

/* Publish from now on: haul_publish_begin(.name = "runs/first"). A process has one page, whatever thread begins it. The
 * child of a fork does not publish until it calls this itself. If `$HAUL_PUBLISH` is `off`, succeeds and does nothing.
 *
 * Fails with HAUL_STATE if the process publishes already, and with HAUL_IO if no page can be made; the message names
 * the folder and the reason. A training should go on then. */
#define haul_publish_begin(...) haul_publish_begin_with(HAUL__OPTIONS(haul_publish_options, __VA_ARGS__))
HAUL_API haul_status haul_publish_begin_with(const haul_publish_options *options);

typedef struct HAUL__DESIGNATED haul_publish_progress_options {
    HAUL__GUARD(steps)
    int64_t steps;        /* steps done since the start */
    int64_t examples;     /* examples seen since the start */
    int64_t epoch;        /* the present epoch, from 1 */
    int64_t epochs;       /* how many there will be */
    double  seconds_left; /* until the work is done */
    double  loss;         /* in training, the mean of this epoch; more than 0 */
    double  accuracy;     /* in training, the share of this epoch's answers that are right; more than 0, at most 1 */
} haul_publish_progress_options;

/* Say how far the work is: haul_publish_progress(.steps = 12, .epoch = 1, .epochs = 5). Omitted values are published as
 * unknown. Call it after each step: most calls only read the clock, and at most four times a second one writes the page
 * and with it the statistics of memory, copies and waits. The waits are those of the calling thread. Does nothing if
 * the process does not publish. Never fails, and keeps the thread's error. */
#define haul_publish_progress(...) haul_publish_progress_with(HAUL__OPTIONS(haul_publish_progress_options, __VA_ARGS__))
HAUL_API void haul_publish_progress_with(const haul_publish_progress_options *options);

/* Remove the page. Does nothing if there is none. */
HAUL_API void haul_publish_end(void);

/* The most devices that a page has room for. */
#define HAUL_PUBLISHED_DEVICES 8

/* Memory of a published process on a device, in bytes, as in haul_memory_stats. */
typedef struct haul_published_device {
    char    name[32];        /* "cuda:0" */
    char    bus[32];         /* its address, "0000:01:00.0", by which other tools name a GPU; "" if unknown */
    char    model[64];       /* the vendor's name, "cpu-skylake-avx512-..."; "" if unknown */
    int64_t allocated;       /* bytes that tensors hold */
    int64_t reserved;        /* bytes obtained from the device, in use or cached */
    int64_t spilled;         /* bytes moved to host memory or to a file */
    int64_t spilled_to_file; /* of these: to a file */
} haul_published_device;

/* The state of a published process.
 *
 * - HAUL_PUBLISHED_RUNNING: it runs
 * - HAUL_PUBLISHED_STOPPED: it was stopped by a signal or a debugger
 * - HAUL_PUBLISHED_UNREADABLE: it runs or is stopped, but its page cannot be used */
typedef enum haul_published_state {
    HAUL_PUBLISHED_RUNNING,
    HAUL_PUBLISHED_STOPPED,
    HAUL_PUBLISHED_UNREADABLE
} haul_published_state;

/* A process that publishes. Numbers that are not known are -1. Texts are UTF-8. */
typedef struct haul_published {
    int64_t               pid;                 /* the process */
    int64_t               started;             /* when it began, in clock ticks since the system started */
    haul_published_state  state;               /* what it does */
    char                  command[32];         /* the system's name of the process, "haul" */
    char                  name[96];            /* as given to haul_publish_begin; "" if the page is unreadable */
    char                  why[160];            /* why the page is unreadable; "" if it is readable */
    double                age;                 /* seconds since the page was written */
    double                running;             /* seconds since haul_publish_begin */
    int64_t               steps, examples;     /* steps: done; examples: seen */
    int64_t               epoch, epochs;       /* epoch: the present one; epochs: how many there will be */
    double                step_seconds;        /* of the last steps, on average */
    double                examples_per_second; /* in the last seconds, as all rates */
    double                copies_per_second;   /* copies between devices */
    double                bytes_per_second;    /* what they copied */
    double                waits_per_second;    /* waits for a device */
    double                waiting;             /* share of the time that was spent in waits, 0 to 1 */
    double                seconds_left;        /* until the work is done */
    double                loss, accuracy;      /* loss: in training, in this epoch; accuracy: the same, 0 to 1 */
    int64_t               copies;              /* copies since the start */
    int64_t               copied_bytes;        /* what they copied */
    int64_t               waits;               /* waits since the start */
    int64_t               rank, ranks;         /* rank: its number; -1 if its threads are the ranks. ranks: how many */
    int64_t               sent_bytes;          /* what it sent to other ranks since the start */
    double                sent_per_second;     /* bytes that it sends to other ranks */
    int                   device_count;        /* entries of `devices` */
    int                   devices_left_out;    /* devices for which there was no room */
    haul_published_device devices[HAUL_PUBLISHED_DEVICES]; /* devices on which it has memory */
} haul_published;

/* List the processes of this user that publish, in no particular order. Fills at most `capacity` rows of `out`, which
 * may be NULL for 0, and returns how many there are; -1 on failure. Pages of processes that have ended are removed. A
 * page is checked before anything in it is used: one that is damaged, or of another version, is
 * HAUL_PUBLISHED_UNREADABLE with the reason. Processes of other users and of other containers are not listed. */
HAUL_API int haul_published_list(haul_published *out, int capacity);

HAUL_END

#endif
