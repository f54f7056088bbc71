/* Speeds: how fast devices and links are, as `haul calibrate` measured them.
 *
 * The measurements are in the user's cache folder. The functions here read them and measure nothing themselves. They
 * belong to this computer with its present drivers, libraries and number of threads: after a change of those, `haul
 * calibrate` has to run again.
 *
 *     haul_device_speeds cpu;
 *     if (!haul_device_speed(haul_cpu(), HAUL_F32, &cpu))
 *         printf("%.0f GFLOP/s\n", 1e-9 * cpu.flops_per_second); */
#ifndef HAUL_SPEED_H
#define HAUL_SPEED_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/dtype.h>
#include <haul/error.h>

HAUL_BEGIN

/* How fast a device computes. */
typedef struct haul_device_speeds {
    double flops_per_second; /* floating point operations of large matrix products in the dtype; 0: not measured */
    double bytes_per_second; /* bytes of its memory, read and written, in large elementwise operations */
    double launch;           /* seconds that the smallest operation takes */
} haul_device_speeds;

/* Fill *out with the speeds of a device. Fails with HAUL_STATE if there is no measurement for the device with its
 * present driver, libraries and number of threads, and with HAUL_DEVICE for a device that cannot be used or has no
 * speed. On failure *out is unchanged. */
HAUL_API haul_status haul_device_speed(haul_device *device, haul_dtype dtype, haul_device_speeds *out);

/* How fast copies in one direction are. */
typedef struct haul_link_speeds {
    double latency;                   /* seconds of a copy of few bytes */
    double pinned_bytes_per_second;   /* from or to pinned host memory */
    double pageable_bytes_per_second; /* from or to other host memory */
    bool   overlap;                   /* true if copies run while the device computes */
} haul_link_speeds;

/* Fill *out with the speeds of copies from one device to another, as haul_device_speed does. One of the two devices is
 * the CPU; copies between two others go through it. Fails with HAUL_INVALID_ARGUMENT if the devices are the same, or if
 * neither is the CPU. */
HAUL_API haul_status haul_link_speed(haul_device *from, haul_device *to, haul_link_speeds *out);

HAUL_END

#endif
