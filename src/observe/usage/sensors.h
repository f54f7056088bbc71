/* Sensors: readers of what the hardware of this machine does, one file for each kind. They find devices by themselves,
 * so none has to be opened. haul_device_usage and haul top read them. */
#ifndef HAUL_OBSERVE_USAGE_SENSORS_H
#define HAUL_OBSERVE_USAGE_SENSORS_H

#include <haul/usage.h>
#include <math.h>
#include <stddef.h>

/* Hardware that a reader found. */
typedef struct haul__hardware {
    char       id[32];   /* "cpu", "cuda:0", "card1" */
    char       name[96]; /* the vendor's */
    char       bus[32];  /* PCI address; "" for the CPU */
    char       why[160]; /* why it cannot be read; "" if it can */
    haul_usage now;
} haul__hardware;

/* All numbers unknown. */
void haul__hardware_init(haul__hardware *h, const char *id, const char *name);

/* True for two spellings of one PCI address, "00000000:01:00.0" and "0000:01:00.0". */
bool haul__same_bus(const char *a, const char *b);

/* ---- counts: readers keep them from one reading to the next ---- */

/* A count that grows, for example milliseconds. */
typedef struct haul__sensor_count {
    double value, seconds;
    bool   known;
} haul__sensor_count;

/* Its growth a second since the last reading. NaN at first, and after the count fell. */
double haul__sensor_rate(haul__sensor_count *c, double value, double seconds);

/* Energy: a count that starts again at 0 when it reaches `range`; NaN if it never does. */
typedef struct haul__sensor_energy {
    double joules; /* since the first reading */
    double value;
    bool   known;
} haul__sensor_energy;

/* Takes a reading of the count. Returns the joules since the first reading; NaN for a reading of NaN. */
double haul__sensor_energy_add(haul__sensor_energy *e, double value, double range);

/* ---- the CPU ---- */

enum { HAUL__CPU_PACKAGES = 8 };

typedef struct haul__cpu_sensors {
    double              total, idle; /* of /proc/stat, at the last reading */
    haul__sensor_energy packages[HAUL__CPU_PACKAGES];
    haul__sensor_count  power;
} haul__cpu_sensors;

void haul__cpu_sensors_read(haul__cpu_sensors *c, haul__hardware *out, double seconds);

/* What each core did. */
enum { HAUL__CORES = 1024 };

typedef struct haul__core_sensors {
    double total[HAUL__CORES], idle[HAUL__CORES]; /* of /proc/stat, at the last reading */
} haul__core_sensors;

/* The utilisation of each core since the last reading, from 0 to 1; NaN at first, and for a core that is off. Returns
 * the number of cores, at most HAUL__CORES; 0 if they cannot be read. */
int haul__cores_read(haul__core_sensors *c, double shares[HAUL__CORES]);

/* Joules of all packages since the first reading; NaN if the processor has no counter that can be read. */
double haul__cpu_energy(haul__sensor_energy packages[HAUL__CPU_PACKAGES]);

/* ---- GPUs other than NVIDIA's ---- */

enum { HAUL__CARDS = 16 };

typedef struct haul__card_sensors {
    haul__sensor_energy energy;
    haul__sensor_count  power, idle;
} haul__card_sensors;

/* GPUs as the kernel describes them; returns how many, at most `room`. NVIDIA's are listed without numbers if
 * `with_nvidia`, which is for machines without NVIDIA's library. */
int haul__cards_read(haul__card_sensors cards[HAUL__CARDS], haul__hardware *out, int room, double seconds,
                     bool with_nvidia);

/* Where the energy of a card is counted: the numbers of the card and of its sensor. False if no card has that address
 * or a sensor. */
bool   haul__card_find(const char *bus, int *card, int *sensor);
double haul__card_energy(int card, int sensor, haul__sensor_energy *e);

/* ---- NVIDIA's GPUs, by NVIDIA's management library, which the first reading opens ---- */

typedef struct haul__nvidia_sensors {
    haul__sensor_energy energy;
} haul__nvidia_sensors;

enum { HAUL__NVIDIA_GPUS = 32 };

/* Returns how many there are, at most `room` and HAUL__NVIDIA_GPUS. -1 if the library cannot be used; with the reason,
 * or "" where it is missing. One thread at a time. */
int  haul__nvidia_read(haul__nvidia_sensors gpus[HAUL__NVIDIA_GPUS], haul__hardware *out, int room, char *why,
                       size_t size);
void haul__nvidia_close(void);

/* The same of the energy of one GPU, by its PCI address. */
double haul__nvidia_energy(const char *bus, haul__sensor_energy *e);

/* ---- all GPUs ---- */

enum { HAUL__GPUS = HAUL__NVIDIA_GPUS + HAUL__CARDS };

typedef struct haul__gpu_sensors {
    haul__nvidia_sensors nvidia[HAUL__NVIDIA_GPUS];
    haul__card_sensors   cards[HAUL__CARDS];
} haul__gpu_sensors;

/* NVIDIA's GPUs, or a row "cuda" that says why its library cannot be used; then the others. Returns how many rows there
 * are, at most `room`. */
int haul__gpus_read(haul__gpu_sensors *g, haul__hardware *out, int room, double seconds);

/* ---- meters: the counter of energy of a device, for readings at short intervals ---- */

typedef struct haul__meter {
    const haul_device  *device;
    haul__sensor_energy energy[HAUL__CPU_PACKAGES]; /* of a GPU: the first */
    int                 card, sensor;               /* of a GPU that is not NVIDIA's */
} haul__meter;

/* False if the device has no counter of energy that can be read. An OpenCL device that is a CPU has none: the energy is
 * the CPU's. */
bool haul__meter_find(haul__meter *m, const haul_device *device);

/* Joules since haul__meter_find; NaN if the counter cannot be read now. Threads may read different meters at once. */
double haul__meter_read(haul__meter *m);

/* ---- files below $HAUL_SENSORS_ROOT, which stands for / in tests ---- */

/* The beginning of a small file, without its last newline. False if it cannot be read. */
bool haul__sensor_text(char *out, size_t size, const char *format, ...) HAUL_PRINTF(3, 4);
/* The number at its beginning; NaN if there is none. */
double haul__sensor_number(const char *format, ...) HAUL_PRINTF(1, 2);
void   haul__sensor_path(char *out, size_t size, const char *format, ...) HAUL_PRINTF(3, 4);

#endif
