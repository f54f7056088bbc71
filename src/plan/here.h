/* This computer as a machine: what haul calibrate measured, kept in the user's cache folder. */
#ifndef HAUL_PLAN_HERE_H
#define HAUL_PLAN_HERE_H

#include <haul/device.h>

#include "machine/machine.h"

typedef enum haul__here_mode {
    HAUL__HERE_CACHED,  /* fails with HAUL_STATE if a device was not measured */
    HAUL__HERE_MISSING, /* measures those that were not */
    HAUL__HERE_ANEW     /* measures all */
} haul__here_mode;

/* The machine of the CPU and these devices, which may contain the CPU. Each is kept by its hardware, driver, number of
 * threads and Haul's version: one that was measured with others is measured again, and so is one whose file is damaged
 * or old. The caller must haul__free *out, which is NULL on failure. */
haul_status haul__machine_here(const char *operation, haul_device *const *devices, int count, haul__here_mode mode,
                               haul__machine **out);

/* The devices that a calibration measures: those that can be used and compute. Returns how many there are, at most
 * `room`; the CPU is the first. */
int haul__here_devices(haul_device **out, int room);

/* The machine of the CPU and all other devices that can be used and compute. A device that fails while it is measured,
 * for example because its compiler refuses the kernels, is left out; `left_out`, which may be NULL, is called with its
 * name and the reason. */
typedef void haul__left_out(const char *device, const char *why);
haul_status  haul__machine_of_all(const char *operation, haul__here_mode mode, haul__left_out *left_out,
                                  haul__machine **out);

/* The machine of that name or in that file, as haul__machine_load. NULL: this computer with all devices that a
 * calibration measures; those that were not measured are. */
haul_status haul__machine_choose(const char *operation, const char *name, haul__machine **out);

#endif
