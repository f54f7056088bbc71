/* Rates of a device, measured by operations of each class in a few sizes. */
#ifndef HAUL_PLAN_RATES_H
#define HAUL_PLAN_RATES_H

#include <haul/device.h>

#include "machine/machine.h"

/* Measures launch_ns, bytes_per_second and the rates of out, within some seconds, and longer where kernels have to
 * be compiled first. A size whose operation fails is left out, as is a class of which all do. Fails if the device
 * cannot even add. The thread's settings, random numbers and error are as before, except for that failure's. */
haul_status haul__rates_measure(haul_device *device, haul__machine_device *out);

#endif
