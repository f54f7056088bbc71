/* Profiles: where time, memory and copies went in a part of a program, as tables, as a timeline, and as findings
 * with a cost and a fix.
 *
 *     haul_profile *profile = haul_profile_begin(.everywhere = true);
 *     for (int i = 0; i < 20; i++) {
 *         haul_drop(haul_softmax(x, -1));
 *         haul_profile_step(profile);
 *     }
 *     haul_profile_end(profile);
 *
 *     haul_profile_row rows[8];
 *     int count = haul_profile_rows(profile, rows, 8, .by = HAUL_PROFILE_OPERATION);
 *     for (int i = 0; i < count && i < 8; i++)
 *         printf("%-20s %8.3f ms\n", rows[i].name, rows[i].host_ms);
 *     haul_profile_save(profile, "runs/first");
 *
 * A profile is a subscriber to events (events.h). It records, and the functions that read it compute. `haul train
 * --profile STEPS` writes the same files as haul_profile_save, which `haul profile`, `haul audit` and `haul report`
 * read. */
#ifndef HAUL_PROFILE_H
#define HAUL_PROFILE_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>

HAUL_BEGIN

/* A profile. Belongs to a scope, whose end also ends the recording. */
typedef struct haul_profile haul_profile;

typedef struct HAUL__DESIGNATED haul_profile_options {
    HAUL__GUARD(everywhere)
    bool everywhere; /* record all threads, also the workers of a loader; default: the calling thread */
    bool no_places;  /* do not walk the stack for copies and waits, which takes some microseconds for each */
    int64_t
        most_events; /* stop recording after so many events, each of which takes about 150 bytes; default 4 million */
} haul_profile_options;

/* Wait for all devices, and record from then on: haul_profile_begin(.everywhere = true). The calling thread is the
 * *main thread* of the profile, which divides the profile into steps. Several profiles can record at once. Fails in a
 * subscriber to events. NULL on failure. */
#define haul_profile_begin(...) haul_profile_begin_with(HAUL__OPTIONS(haul_profile_options, __VA_ARGS__))
HAUL_API haul_profile *haul_profile_begin_with(const haul_profile_options *options);

/* A step ends, and the next one begins: call it at the end of each iteration. What comes after the last step belongs to
 * no step. Without a call, the whole profile is one step. */
HAUL_API haul_status haul_profile_step(haul_profile *profile);

/* Stop recording, and wait for all devices: the times of a device come when a thread waits for it. Call it on the main
 * thread, after the last step. */
HAUL_API haul_status haul_profile_end(haul_profile *profile);

/* What a device can do at best, with which the tables compare: measure it, for instance with `haul bench compute`.
 *
 * - flops: floating-point operations a second of a large f32 product; 0 if it is unknown
 * - bytes: bytes a second that a large elementwise operation reads and writes; 0 if it is unknown */
HAUL_API haul_status haul_profile_set_peak(haul_profile *profile, haul_device *device, double flops, double bytes);

/* The profile as a whole. */
typedef struct haul_profile_summary {
    int64_t steps;  /* how many steps ended */
    int64_t events; /* how many events were recorded */
    int64_t lost;   /* how many came after .most_events, or after memory was exhausted */
    /* the time from the beginning to the end of the last step, and of the commands that were submitted until then */
    double wall_ms;
    double
        step_ms; /* the mean time of a step. Times of single steps mean little where the host runs ahead of a device */
    double  median_ms; /* half of the steps took no longer, until the host ended them */
    int64_t warm_ups;  /* how many steps only got the program ready: they compiled kernels, or were the first ones and
                        * took more than four times the median. At most half of the steps */
    double steady_ms;  /* the mean time of the other steps, of which findings are */
    /* the mean energy of a step: of the CPU, for all programs, and of the devices that were in use when the profile
     * began. NaN if none of them has a counter that can be read (haul/usage.h) */
    double step_joules;
    /* how `wall_ms` divides: what the main thread did. `data` is the time in haul_loader_next in which no device had
     * work, `compile` that in which kernels were compiled or read from the cache, `wait` that of waits for devices,
     * also of the loader and after the last step, and `other` that of the program itself; the rest is the library's,
     * outside of waits */
    double data_ms, forward_ms, backward_ms, optimizer_ms, compile_ms, wait_ms, other_ms;
} haul_profile_summary;

/* Fill *out. Fails with HAUL_STATE before haul_profile_end. */
HAUL_API haul_status haul_profile_summary_get(haul_profile *profile, haul_profile_summary *out);

/* What a row stands for.
 *
 * - HAUL_PROFILE_OPERATION: an operation on a device. The time that haul_call, haul_backward, haul_optimizer_step and
 *   haul_loader_next take themselves has rows of these names. Waits are the row "(waiting)", compiled kernels the row
 *   "(compilation)" of their device, and the program's own time is "(program)": the `host_ms` of all rows are wall_ms
 * - HAUL_PROFILE_MODULE: the operations called in a module, and their gradients
 * - HAUL_PROFILE_KERNEL: a kernel, or a library's implementation, of an operation on a stream of a device */
typedef enum haul_profile_key {
    HAUL_PROFILE_OPERATION = 1,
    HAUL_PROFILE_MODULE = 2,
    HAUL_PROFILE_KERNEL = 3
} haul_profile_key;

/* What limits an operation: the roof of its device that is lower for it (S. Williams et al., "Roofline", 2009).
 *
 * - HAUL_BOUND_UNKNOWN: the peaks of the device are not known, or nothing was computed
 * - HAUL_BOUND_COMPUTE: arithmetic
 * - HAUL_BOUND_MEMORY: reading and writing memory
 * - HAUL_BOUND_OVERHEAD: neither: it reached less than a tenth of its roof */
typedef enum haul_bound {
    HAUL_BOUND_UNKNOWN = 0,
    HAUL_BOUND_COMPUTE = 1,
    HAUL_BOUND_MEMORY = 2,
    HAUL_BOUND_OVERHEAD = 3
} haul_bound;

/* A row of a table. Members that a table does not use are 0, "" or NULL. */
typedef struct haul_profile_row {
    char               name[96];      /* operation "haul_conv2d"; path of a module "features.0"; kernel "softmax_f32" */
    char               kind[24];      /* the kind of a module, "conv2d"; the stream of a kernel, "compute" */
    char               operation[48]; /* the operation that a kernel was for */
    const haul_device *device;        /* where it was computed; NULL for rows that are not about a device */
    int64_t            calls; /* how often it was called or run; of "(waiting)" how often the main thread waited, of
                                 "(compilation)" how many kernels */
    double host_ms;           /* time of the main thread, without that of other rows: of operations */
    double device_ms;         /* time of its commands on the device */
    double forward_ms;        /* of modules: time of the forward passes, on the device that computed */
    double backward_ms;       /* the same of the backward passes */
    double share;             /* its share of wall_ms, from 0 to 1: of host_ms or device_ms, the longer one; of
                               * modules that of forward_ms and backward_ms together */
    double flops;             /* floating-point operations, by the rules of haul_estimate */
    double bytes;             /* bytes that it read and wrote */
    double joules;            /* energy of the CPU in host_ms, of modules in the time of operations on the CPU, and
                               * of the device in the time of its commands, without copies; NaN as step_joules.
                               * The counters are read every 5 ms, so for shorter calls this is their share of
                               * the time between two readings */
    haul_bound bound;         /* what limits it */
    int64_t    made_bytes;    /* bytes allocated for it during the profile */
    int64_t    peak_bytes;    /* bytes it allocated (before or during the profile) that were live at the peak */
} haul_profile_row;

typedef struct HAUL__DESIGNATED haul_profile_rows_options {
    int capacity; /* rows that fit in `out`; positional */
    HAUL__GUARD(by)
    haul_profile_key by; /* the table; default HAUL_PROFILE_OPERATION */
} haul_profile_rows_options;

/* A table, those with the largest share first: haul_profile_rows(profile, rows, 16, .by = HAUL_PROFILE_KERNEL). Fills
 * at most `capacity` rows of `out`, which may be NULL for 0, and returns how many there are; -1 on failure. Fails with
 * HAUL_STATE before haul_profile_end. */
#define haul_profile_rows(profile, out, ...)                                                                           \
    haul_profile_rows_with(profile, out, HAUL__OPTIONS(haul_profile_rows_options, .capacity = __VA_ARGS__))
HAUL_API int haul_profile_rows_with(haul_profile *profile, haul_profile_row *out,
                                    const haul_profile_rows_options *options);

/* What the audit looks for, with the text of haul_finding_name and what `ms_per_step` is the time of. Steps of the
 * warm-up (haul_profile_summary) are left out, apart from HAUL_FINDING_COMPILATION. A copy takes time
 * while it crosses the link and while the main thread is in its call. Time in which a device computes, or still runs
 * earlier commands, does not count: the copy costs the step nothing then. Copies at once count once.
 *
 * - HAUL_FINDING_PING_PONG: "ping-pong", a tensor goes to the host and comes back unchanged: both copies
 * - HAUL_FINDING_WAIT_PER_STEP: "wait-per-step", the host waits for a device in every step, as haul_item does: the wait
 * - HAUL_FINDING_PAGEABLE: "pageable", copies from or to ordinary memory, where pinned memory would not hold the host
 *   up: the main thread in the calls
 * - HAUL_FINDING_UNCHANGED: "unchanged", the same data are sent to a device again: the copies
 * - HAUL_FINDING_MANY_SMALL: "many-small", many small copies where one would do: all copies of a step but one, which
 *   have their mean time
 * - HAUL_FINDING_CPU_ISLAND: "cpu-island", data leave a device, are computed with on the CPU, and go back: both copies,
 *   the operations between them and, if the program changed the data itself, its own time between them
 * - HAUL_FINDING_WRONG_SIDE: "wrong-side", a conversion makes what crosses the link larger: of the copies, the share of
 *   the bytes that would not cross
 * - HAUL_FINDING_LOADER_BOUND: "loader-bound", the steps wait for the loader: the time in haul_loader_next in which the
 *   device has no work
 * - HAUL_FINDING_HOST_BOUND: "host-bound", a device has nothing to do because the host does not keep up: the time in
 *   which neither the device has work nor the main thread waits
 * - HAUL_FINDING_COMPILATION: "compilation", kernels are compiled, or read from the cache, during the profile: that
 *   time, divided by the number of all steps
 * - HAUL_FINDING_END: one more than the last kind */
typedef enum haul_finding_kind {
    HAUL_FINDING_PING_PONG = 0,
    HAUL_FINDING_WAIT_PER_STEP = 1,
    HAUL_FINDING_PAGEABLE = 2,
    HAUL_FINDING_UNCHANGED = 3,
    HAUL_FINDING_MANY_SMALL = 4,
    HAUL_FINDING_CPU_ISLAND = 5,
    HAUL_FINDING_WRONG_SIDE = 6,
    HAUL_FINDING_LOADER_BOUND = 7,
    HAUL_FINDING_HOST_BOUND = 8,
    HAUL_FINDING_COMPILATION = 9,
    HAUL_FINDING_END = 10
} haul_finding_kind;

/* "ping-pong"; "invalid" for any other value. */
HAUL_API const char *haul_finding_name(haul_finding_kind kind);

/* A finding: what costs time, where, how much, and what to do. */
typedef struct haul_finding {
    haul_finding_kind kind; /* the kind of the finding */
    /* "train.c:42" if the program has debug information and libdw is installed; else the function, "train_step+0x4f in
     * train", or the operation */
    char    place[160];
    char    what[320];      /* one sentence */
    char    fix[480];       /* code; may have several lines */
    int64_t count_per_step; /* copies, waits or operations a step, rounded */
    int64_t bytes_per_step; /* bytes that cross the link for it, in a step */
    double  ms_per_step;    /* time that it costs in a step; haul_finding_kind says which */
    /* what HAUL_PLACE_AUTO counted in a step for these copies, which a plan or their price asked for; 0: the program
     * asked for them */
    double planned_ms_per_step;
} haul_finding;

/* Find what costs time, the most expensive first. Fills at most `capacity` of `out`, which may be NULL for 0, and
 * returns how many there are; -1 on failure. A finding happens in at least half of the steps. It costs at least 1% of a
 * step, or moves at least 64 KiB in a step; HAUL_FINDING_LOADER_BOUND costs at least a quarter of a step, and
 * HAUL_FINDING_HOST_BOUND a fifth. HAUL_FINDING_COMPILATION is a finding if it takes a tenth of the profile. Fails with
 * HAUL_STATE before haul_profile_end. */
HAUL_API int haul_profile_audit(haul_profile *profile, haul_finding *out, int capacity);

/* Write trace.json, profile.json and audit.json into `folder`, which is made with those around it: the timeline in the
 * trace event format of Chrome, which Perfetto (ui.perfetto.dev) shows; the tables and a typical step; the findings.
 * docs/profile.md describes them. Each file is written whole or not at all. The times of operations on the main thread
 * are kept in the user's cache folder, too: predictions for this computer prefer them (docs/guide.md, Machines). */
HAUL_API haul_status haul_profile_save(haul_profile *profile, const char *folder);

HAUL_END

#endif
