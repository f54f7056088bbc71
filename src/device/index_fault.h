/* Indices out of range on asynchronous devices.
 *
 * Each device has a record in its memory (backends/index_check.h). When the host makes a point to wait for, and a
 * kernel that checks indices was submitted since the last one, a copy of the record to the host is submitted before
 * that point. Whoever waits for the point then has the copy without another wait. The next function that returns values
 * to the host, or that waits for the device, turns the fault into an error and clears the record. */
#ifndef HAUL_DEVICE_INDEX_FAULT_H
#define HAUL_DEVICE_INDEX_FAULT_H

#include "device/device.h"

/* The operation of the commands that copy and clear the record. They do not count as transfers and emit no events. */
extern const char haul__index_fault_operation[];

/* A kernel that checks indices was submitted as `ticket` of the device's compute stream, whose lock the caller
 * holds. */
void haul__index_faults_launched(haul_device *device, uint64_t ticket);

/* Submits a copy of the record, if one is due, before a point of s, whose lock the caller holds. */
void haul__index_faults_read(haul__stream *s);

/* How far the compute stream of s's device is done once everything submitted to s is done. The caller holds the lock of
 * s. */
uint64_t haul__index_faults_behind(haul__stream *s);

/* The host knows that the device's compute stream is done up to the ticket. */
void haul__index_faults_reached(haul_device *device, uint64_t ticket);

#endif
