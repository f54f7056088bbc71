/* The link between the host and a device, measured. */
#ifndef HAUL_PLAN_LINK_RATES_H
#define HAUL_PLAN_LINK_RATES_H

#include <haul/device.h>

#include "machine/machine.h"

/* Measures latency and rates in both directions, within about 0.3 s. The ends of the links are left as they are. Fails
 * if the device cannot copy; the thread's settings are as before. */
haul_status haul__links_measure(haul_device *device, haul__machine_link *up, haul__machine_link *down);

#endif
