/* Usage: what a device's hardware does now, for all processes of the machine: how busy it is, its memory, temperature,
 * power, clock and energy. `haul top` shows the same numbers.
 *
 *     haul_usage now;
 *     if (!haul_device_usage(haul_device_get("gpu"), &now) && now.celsius > 85)
 *         printf("hot: %.0f degrees, %.0f of %.0f W\n", now.celsius, now.watts, now.watts_limit);
 *
 * The numbers of NVIDIA's GPUs come from NVIDIA's management library, those of other GPUs and of the CPU from the files
 * of the kernel in /sys and /proc. Each costs a few system calls: read them once a second, not in each operation. */
#ifndef HAUL_USAGE_H
#define HAUL_USAGE_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>

HAUL_BEGIN

/* The most processes that haul_usage lists. */
#define HAUL_USAGE_PROCESSES 16

/* A process that the driver of a device lists. */
typedef struct haul_usage_process {
    int64_t pid;      /* its number */
    double  bytes;    /* memory of the device that it has; NaN if that is unknown */
    char    name[32]; /* its program; "?" if that is unknown, for example outside of a container */
} haul_usage_process;

/* What a device does. Numbers that the machine does not report are NaN. Differences are taken from one reading of the
 * device in this process to the next, so the first one does not have them. */
typedef struct haul_usage {
    double utilisation;   /* share of the time in which the device was busy, 0 to 1; of the CPU, of all its cores' time
                           * since the last reading */
    double used;          /* bytes of its memory that are in use, by all processes */
    double total;         /* bytes of its memory */
    double celsius;       /* temperature */
    double celsius_limit; /* temperature from which the hardware slows down */
    double watts;         /* power; where the hardware counts energy only, the mean since the last reading */
    double watts_limit;   /* power that it may draw */
    double joules;        /* energy since the first reading in this process, in which it is 0 */
    double megahertz;     /* clock; of the CPU, the mean of its cores */
    double to_device;     /* bytes a second that the device receives over its link */
    double from_device;   /* bytes a second that it sends */

    haul_usage_process processes[HAUL_USAGE_PROCESSES]; /* those that use the device */
    int                process_count;                   /* how many are listed */
    int                processes_left_out;              /* how many there was no room for */
    bool               processes_known;                 /* the driver lists processes: only NVIDIA's does */
} haul_usage;

/* Fill *out with what a device does now. An OpenCL device that is a CPU has the numbers of the CPU. A number that
 * cannot be read is NaN and no error. Fails with HAUL_DEVICE for an invalid device, and with HAUL_UNSUPPORTED for one
 * without hardware ("meta", simulated devices) or whose hardware is not found; the message says why. On failure *out is
 * unchanged. Threads may call this at once. */
HAUL_API haul_status haul_device_usage(haul_device *device, haul_usage *out);

HAUL_END

#endif
