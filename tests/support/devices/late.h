/* Devices for tests that run every command as late as they may.
 *
 * Two devices, "late:0" and "late:1", of one backend. A command waits in its stream's queue until a thread waits for
 * it, so a wait that is missing anywhere shows as wrong data, every time. Their memory is not visible to the host, they
 * have no f64 and no kernels. */
#ifndef HAUL_TESTS_LATE_H
#define HAUL_TESTS_LATE_H

#include "device/device.h"

haul_device *late_device(int index); /* 0 or 1 */

/* Bytes that the two devices can hold from now on, in addition to present ones; negative: any number. */
void late_set_room(int64_t bytes);
/* Bytes they hold. */
int64_t late_held(void);
/* The same for pinned host memory. */
void    late_set_pinned_room(int64_t bytes);
int64_t late_pinned_held(void);
/* How many copies there were between a device and host memory that is not pinned. */
int64_t late_pageable(void);
/* Copies and fills that have not run yet. */
int64_t late_pending(void);
/* Run all commands that one device, or both, were given. Waits do not count this. */
void late_run(haul_device *device);
void late_run_all(void);
/* Make the host's next wait report a fault. */
void late_fail_wait(void);
/* A device like late:0 of its own, which may be broken. Never freed. */
haul_device *late_device_new(void);
/* The same, but a handle is not an address, so parts of buffers need handles of their own. A command that uses bytes
 * behind those of the handle fails. */
haul_device *late_device_with_parts(void);
char        *late_address(const haul__storage *s); /* on either device */
/* Handles of parts that there are, and that were ever made. */
int64_t late_parts(void);
int64_t late_parts_made(void);
/* Make the next handle of a part fail. */
void late_fail_part(void);

#endif
