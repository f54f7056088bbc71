/* What a profile shows: which spans enclose which, phases, tables, memory. */
#ifndef HAUL_OBSERVE_PROFILE_ANALYSIS_H
#define HAUL_OBSERVE_PROFILE_ANALYSIS_H

#include "observe/profile/intervals.h"
#include "observe/profile/record.h"

/* What the main thread was doing. LOADING is work of a loader's threads. */
typedef enum haul__phase {
    HAUL__PHASE_OTHER,
    HAUL__PHASE_DATA,
    HAUL__PHASE_FORWARD,
    HAUL__PHASE_BACKWARD,
    HAUL__PHASE_OPTIMIZER,
    HAUL__PHASE_COMPILE,
    HAUL__PHASE_WAIT,
    HAUL__PHASE_LOADING,
    HAUL__PHASES
} haul__phase;

/* The properties of an event that is a span of a thread: an operation, a call, work, or a wait. */
typedef struct haul__span_info {
    int64_t     self;   /* ns, without the spans that it encloses; 0 for events that are not spans */
    double      joules; /* of the CPU in that time; 0 without a counter */
    uint32_t    parent; /* the event that encloses it, from 1; 0: none */
    haul__phase phase;
} haul__span_info;

typedef struct haul__table {
    haul_profile_row *rows;
    int               count;
} haul__table;

/* When the device that computes most behind the host has no work, in order; no device: none works behind the host. */
typedef struct haul__idle {
    const haul_device *device;
    haul__intervals    times;
} haul__idle;

/* The steps. Those of the warm-up compiled kernels, or came first and were slow; they are at most half of all. */
typedef struct haul__steps {
    bool   *warm_up; /* of each step, and false for what comes after the last one */
    size_t  warm_ups;
    size_t  compiling;  /* steps in which kernels were compiled */
    size_t  typical;    /* the step that takes the median time */
    int64_t median;     /* ns */
    int64_t steady_ns;  /* of the other steps together, until their commands are done */
    int64_t compile_ns; /* time in which the main thread compiled kernels */
    int     kernels;    /* how many it compiled */
} haul__steps;

/* Live memory at a device's peak: of one operation, module and role. */
typedef struct haul__holding {
    uint32_t    operation, module; /* numbers of texts; or */
    const char *named, *where;     /* of memory from before the profile; else NULL */
    const char *role;              /* what it is used for; "" if that is not known */
    int64_t     bytes;
    int         count;
} haul__holding;

/* The memory of a device. */
typedef struct haul__curve {
    const haul_device   *device;
    const haul__earlier *earlier;      /* NULL: nothing was there */
    int64_t              before, peak; /* live bytes when the profile began; the most */
    size_t               peak_at;      /* how many events had come by then */
    haul__holding       *held;         /* at the peak, the largest first */
    int                  held_count;
} haul__curve;

typedef struct haul__analysis {
    int64_t              host_end; /* ns: the end of the last step */
    int64_t              wall;     /* the end of all commands submitted in the steps */
    haul__steps          steps;
    haul__span_info     *spans; /* of each event */
    haul__idle           idle;
    haul_profile_summary summary;
    haul__table          tables[4];  /* by haul_profile_key */
    uint32_t            *call_sites; /* of each stack, a text: "train.c:42", or its functions; 0 for stack 0 */
    haul__curve         *curves;
    int                  curve_count;
} haul__analysis;

/* Made once; NULL, with the error recorded, without memory. */
const haul__analysis *haul__profile_analysis(haul_profile *profile, const char *operation);
void                  haul__analysis_free(haul__analysis *analysis);

/* ---- parts of it ---- */

bool haul__is_span(const haul__profile_event *m);

/* True if it is a part of the steps. Commands that are done later are, if they were submitted in a step. */
bool haul__is_in_stretch(const haul__analysis *a, const haul__profile_event *m);

/* Fills in a->steps, a->spans ... False without memory, as with all of these. */
bool haul__find_steps(const haul_profile *p, haul__analysis *a);
bool haul__find_call_sites(haul_profile *p, haul__analysis *a);
bool haul__find_spans(const haul_profile *p, haul__analysis *a);
bool haul__find_idle(const haul_profile *p, haul__analysis *a);
bool haul__find_memory(const haul_profile *p, haul__analysis *a);
bool haul__find_tables(haul_profile *p, haul__analysis *a);

/* The part of a span in which that device had no work; all of it where none works behind the host. */
int64_t haul__starved(const haul__analysis *a, const haul__profile_event *m);

/* The steps: when step i, from 0, begins and ends, in ns. Without steps the whole section is one. */
size_t  haul__step_count(const haul_profile *p);
int64_t haul__step_begin(const haul_profile *p, size_t i);
int64_t haul__step_end(const haul_profile *p, size_t i);

/* True if it is a part of a step that does not belong to the warm-up. */
bool haul__is_steady(const haul__analysis *a, const haul__profile_event *m);

static inline size_t haul__steady_count(const haul_profile *p, const haul__analysis *a)
{
    return haul__step_count(p) - a->steps.warm_ups;
}

/* Bytes of a device's memory that the event adds or, negative, takes away; 0 for other events, and for pinned memory,
 * which is the host's. */
int64_t haul__memory_change(const haul_profile *p, const haul__profile_event *m);

/* Gives allocations their roles, once the profile has ended. Without memory for it they have none. */
void haul__note_roles(haul_profile *p);

#endif
