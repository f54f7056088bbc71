/* What haul top knows: devices, and the Haul processes on them. The sensors of the library fill in the devices; views
 * turn it into a screen, JSON or metrics. Numbers that are not known are NaN. */
#ifndef CLI_TOP_TOP_H
#define CLI_TOP_TOP_H

#include <haul/haul.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "observe/usage/sensors.h"

enum { TOP_DEVICES = 24, TOP_HISTORY = 200, TOP_PROCESSES = 256 };

/* ---- devices ---- */

typedef struct top_device {
    haul__hardware hardware;
    double         allocated, reserved; /* by Haul processes; where `used` is not known, all that is */
    bool           published;           /* known from pages alone */
} top_device;

/* ---- Haul processes ---- */

typedef enum top_measure {
    TOP_LOSS,
    TOP_ACCURACY,
    TOP_EXAMPLES,
    TOP_STEP,
    TOP_ALLOCATED,
    TOP_WAITS,
    TOP_MEASURES
} top_measure;

/* A value for each of the last readings, the newest last. */
typedef struct top_history {
    float values[TOP_HISTORY];
    int   count;
} top_history;

typedef struct top_process {
    haul_published page; /* the last one that was read */
    char           device[32];
    double         allocated, reserved, spilled, spilled_to_file; /* on all its devices */
    double         ended;                                         /* when its page was found gone; NaN while it lives */
    double         stopped;                                       /* since when it is stopped; NaN if it is not */
    top_history    history[TOP_MEASURES];
} top_process;

/* ---- everything ---- */

typedef struct top_model {
    haul__cpu_sensors  cpu;
    haul__core_sensors core_sensors;
    double             cores[HAUL__CORES]; /* utilisation, from 0 to 1; NaN: unknown */
    int                core_count;
    haul__gpu_sensors  gpus;
    char               host[64];
    double             seconds; /* of clock_seconds(), at the last reading */
    int                readings;
    top_device         devices[TOP_DEVICES];
    top_history        busy[TOP_DEVICES]; /* utilisation of each, by its place */
    int                device_count;
    top_process        processes[TOP_PROCESSES]; /* those that live, then those that ended less than ten seconds ago */
    int                process_count, processes_left_out;

    haul__hardware hardware[TOP_DEVICES]; /* as it was read */
    haul_published pages[TOP_PROCESSES];
} top_model;

/* NULL after a complaint. */
top_model *top_model_new(void);
void       top_model_free(top_model *m);

/* Read everything anew. False if that fails; the library's error says why. */
bool top_model_read(top_model *m);

/* The device of the model that a page means; NULL if there is none. */
top_device *top_device_of(top_model *m, const haul_published_device *d);

void top_history_add(top_history *h, double value);

#endif
