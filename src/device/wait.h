/* Every wait of the host for a device, counted and reported. */
#ifndef HAUL_DEVICE_WAIT_H
#define HAUL_DEVICE_WAIT_H

#include "device/device.h"

/* Waits on the host for an event of s or, if it is NULL, for everything that was submitted to s. The only caller of the
 * backends' sync, so every wait is reported. */
haul_status haul__wait(haul__stream *s, void *event, const char *operation);

/* True if the event is known to be reached. Never waits; returns false if the backend does not know. */
bool haul__event_reached(haul_device *device, void *event);

#endif
