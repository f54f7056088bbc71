/* Indices out of range on devices whose commands are asynchronous.
 *
 * Each device has a record in its memory (backends/index_check.h). When the host makes a point to wait for, and a
 * kernel that checks indices was submitted since the last one, the record is copied to the host in front of that point:
 * whoever waits for the point has the copy, without a wait of its own. The next function that gives the host values, or
 * that waits for the device, makes an error of what is noted and clears the record. */
#ifndef HAUL_DEVICE_INDEX_FAULT_H
#define HAUL_DEVICE_INDEX_FAULT_H

#include "device/device.h"

/* The operation of the commands that copy and clear the record. They do not count as transfers and make no events. */
extern const char haul__index_fault_operation[];

/* A kernel that checks indices was submitted as `ticket` of the device's compute stream, which is locked. */
void haul__index_faults_launched(haul_device *device, uint64_t ticket);

/* Copy the record, if that is due, in front of a point of s, which is locked. */
void haul__index_faults_read(haul__stream *s);

/* How far the compute stream of s's device is done when what was submitted to s, which is locked, is done. */
uint64_t haul__index_faults_behind(haul__stream *s);

/* The host knows that the device's compute stream is done up to the ticket. */
void haul__index_faults_reached(haul_device *device, uint64_t ticket);

#endif
