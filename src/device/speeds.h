/* The speeds from which times on this computer are predicted, one device at a time.
 *
 * A simulated device has its machine's; while one is in use, the others have those of the machine's host. Other devices
 * have what haul calibrate measured, from the cache on disk, or else speeds that are assumed. A process reads the cache
 * once for each device, when its speeds are first asked for. */
#ifndef HAUL_DEVICE_SPEEDS_H
#define HAUL_DEVICE_SPEEDS_H

#include "core/device.h"
#include "machine/machine.h"

typedef struct haul__speeds {
    const haul__machine *machine; /* lives as long as the process */
    int                  number;  /* the device's place there; the first device is the host */
    bool                 assumed; /* neither measured nor described: a link is PCIe 4 */
} haul__speeds;

haul__speeds haul__speeds_of(const haul_device *device);

/* Picoseconds of a copy of so many bytes from one device to another, from or to pinned host memory or not. Devices of
 * two machines copy through the host; for the price, one way follows the other. */
int64_t haul__speeds_copy_time(const haul_device *from, const haul_device *to, int64_t bytes, bool pinned);

/* Adds times that a profile measured to those that are kept in the cache on disk. In virtual time it does nothing. */
void haul__speeds_learn(const haul_device *device, const haul__machine_learnt *times, int count);

/* Adds the device's learnt times, of its present driver, libraries and number of threads, to its entry of a machine. */
void haul__speeds_add_learnt(const haul_device *device, haul__machine *m);

/* The measurement of the device with its present driver, libraries and number of threads: a machine of the host
 * alone, or of the host and the device, with the learnt times. The caller must haul__free it. NULL: there is no
 * measurement that can be read; the thread's error stays as it is. */
haul__machine *haul__speeds_load(const haul_device *device);

/* Keeps a measurement in the cache on disk. */
void haul__speeds_store(const haul_device *device, const haul__machine *measured);

#endif
