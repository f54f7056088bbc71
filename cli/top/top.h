/* What haul top knows: devices, and the Haul processes on them. Readers fill it in, one file for each kind of device;
 * views turn it into a screen, JSON or metrics. Numbers that are not known are NaN. */
#ifndef CLI_TOP_TOP_H
#define CLI_TOP_TOP_H

#include <haul/haul.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum { TOP_DEVICES = 24, TOP_USES = 16, TOP_HISTORY = 120, TOP_PROCESSES = 256 };

/* ---- devices ---- */

/* A process that the driver of a device lists. */
typedef struct top_use {
    int64_t pid;
    double  bytes;
    char    name[32];
} top_use;

typedef struct top_device {
    char   id[32];                        /* "cpu", "cuda:0", "card1" */
    char   name[96];                      /* the vendor's */
    char   bus[32];                       /* PCI address; "" for the CPU */
    double utilisation;                   /* 0 to 1 */
    double used, total;                   /* bytes of memory, of all processes */
    double allocated, reserved;           /* of those: by Haul processes; where `used` is not known, all that is */
    double celsius, celsius_limit;        /* the limit: where the hardware slows down */
    double watts, watts_limit, megahertz; /* power and clock */
    double to_device, from_device;        /* bytes a second on its link */
    char   why[160];                      /* why it cannot be read; "" if it can */

    top_use uses[TOP_USES];
    int     use_count, uses_left_out;
    bool    tells_uses; /* without it, which processes use the device is not known */
    bool    published;  /* known from pages alone */
} top_device;

/* All unknown. */
void top_device_init(top_device *d, const char *id, const char *name);

/* ---- readers: they keep what they need from one reading to the next ---- */

/* A count that grows, for example microjoules: its growth a second since the last reading. NaN at first. */
typedef struct top_counter {
    double value, seconds;
    bool   known;
} top_counter;

double top_counter_rate(top_counter *c, double value, double seconds);

typedef struct top_cpu {
    double      total, idle; /* of /proc/stat, at the last reading */
    top_counter energy;
} top_cpu;

void top_cpu_read(top_cpu *c, top_device *out, double seconds);

enum { TOP_CARDS = 16 };

typedef struct top_card {
    top_counter energy, idle;
} top_card;

/* GPUs other than NVIDIA's, as the kernel describes them; returns how many, at most `room`. NVIDIA's are listed without
 * numbers if `with_nvidia`, which is for machines without NVIDIA's library. */
int top_cards_read(top_card cards[TOP_CARDS], top_device *out, int room, double seconds, bool with_nvidia);

/* NVIDIA's GPUs by its management library, opened with the first reading; returns how many, at most `room`. -1 if that
 * cannot be used; with the reason, or "" where the library is missing. */
int  top_nvidia_read(top_device *out, int room, char *why, size_t size);
void top_nvidia_close(void);

/* ---- files below $HAUL_TOP_ROOT, which stands for / in tests ---- */

/* The beginning of a small file, without its last newline. False if it cannot be read. */
bool top_file_text(char *out, size_t size, const char *format, ...) HAUL_PRINTF(3, 4);
/* The number at its beginning; NaN if there is none. */
double top_file_number(const char *format, ...) HAUL_PRINTF(1, 2);
void   top_file_path(char *out, size_t size, const char *format, ...) HAUL_PRINTF(3, 4);

/* ---- Haul processes ---- */

typedef enum top_measure { TOP_EXAMPLES, TOP_STEP, TOP_ALLOCATED, TOP_WAITS, TOP_MEASURES } top_measure;

/* A value for each of the last readings, the newest last. */
typedef struct top_history {
    float values[TOP_HISTORY];
    int   count;
} top_history;

typedef struct top_process {
    haul_published page; /* the last one that was read */
    char           device[32];
    double         allocated, reserved, spilled; /* on all its devices */
    double         ended;                        /* when its page was found gone; NaN while it lives */
    double         stopped;                      /* since when it is stopped; NaN if it is not */
    top_history    history[TOP_MEASURES];
} top_process;

/* ---- everything ---- */

typedef struct top_model {
    top_cpu     cpu;
    top_card    cards[TOP_CARDS];
    char        host[64];
    double      seconds; /* of clock_seconds(), at the last reading */
    int         readings;
    top_device  devices[TOP_DEVICES];
    top_history busy[TOP_DEVICES]; /* utilisation of each, by its place */
    int         device_count;
    top_process processes[TOP_PROCESSES]; /* those that live, then those that ended less than ten seconds ago */
    int         process_count, processes_left_out;

    haul_published pages[TOP_PROCESSES]; /* as they were read */
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
