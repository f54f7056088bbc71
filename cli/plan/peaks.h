/* The measured peaks of a device, which the speed of an operation is compared with. */
#ifndef CLI_PLAN_PEAKS_H
#define CLI_PLAN_PEAKS_H

#include <haul/haul.h>

typedef struct device_peaks {
    double flops; /* FLOP/s: the fastest matrix product in f32, at the thread's precision of matrix products */
    double bytes; /* B/s: x + y of large tensors in f32; bytes read and written are counted */
} device_peaks;

/* Measure them on an idle device, for about 0.3 s, and longer where a kernel has to be compiled first. Uses up to 192
 * MiB of the device's memory, which stays cached (haul_memory_release_cached gives it back). The thread's
 * settings are as before, and its error record is empty. False, with *out unchanged, if the device computes no values
 * or an operation fails: the thread's error names the cause. */
bool measure_peaks(haul_device *device, device_peaks *out);

#endif
