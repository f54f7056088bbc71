/* What a device can do, measured now: its peaks, with which the speed of an operation is compared, and its link. */
#ifndef HAUL_PLAN_CALIBRATE_H
#define HAUL_PLAN_CALIBRATE_H

#include <haul/device.h>

typedef struct haul__peaks {
    double flops; /* FLOP/s: the fastest matrix product in f32, at the thread's precision of matrix products */
    double bytes; /* B/s: x + y of large tensors in f32; bytes read and written are counted */
} haul__peaks;

/* While a simulated device is in use they are the machine's. Otherwise measure them on an idle device, for about 0.3 s,
 * and longer where a kernel has to be compiled first. Uses up to 192 MiB of the device's memory, which stays cached
 * (haul_memory_release_cached gives it back). The thread's settings are as before, and its error record is empty.
 * False, with *out unchanged, if the device computes no values or an operation fails: the thread's error names the
 * cause. */
bool haul__measure_peaks(haul_device *device, haul__peaks *out);

/* Bytes a second that are copied between the device and pinned memory, both ways together; NaN: not known. Leaves no
 * error. */
double haul__measure_link(haul_device *device);

#endif
