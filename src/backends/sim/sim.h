/* Simulated devices: the functions of the backend's table, by file, and the times of commands.
 *
 * A simulated device is a device of a machine (machine/machine.h). Its memory is host memory, limited to the machine's.
 * A command computes at once, on the CPU; it takes its time on a virtual clock. Each stream has the time at which its
 * last command ends. A command begins when it is submitted, when the command before it ends, and when the events that
 * its stream waits for are reached, whichever is last. The host's time is the process's clock, which waits and the
 * CPU's commands advance. */
#ifndef HAUL_BACKENDS_SIM_SIM_H
#define HAUL_BACKENDS_SIM_SIM_H

#include "backends/backend.h"
#include "backends/command.h"
#include "machine/machine.h"

/* device->impl of a simulated device. */
typedef struct haul__sim_device {
    const haul__machine *machine; /* lives as long as the process */
    int                  number;  /* the device's place in it */
    atomic_llong         used;    /* bytes */
} haul__sim_device;

/* ---- times: time.c ---- */

/* The machine from which the device takes its times, and its place there: its own of a simulated device; for others the
 * host of the machine that was opened first. NULL: no simulated device is in use. */
const haul__machine *haul__sim_machine(const haul_device *device, int *number);
void                 haul__sim_machine_begin(const haul__machine *machine);

/* The calling thread computes an operation that takes `ps` in addition to its commands' launches: its first command
 * that computes takes them. After the end, commands take what their bytes take. */
void haul__sim_operation_begin(int64_t ps);
bool haul__sim_within_operation(void);
void haul__sim_operation_end(void);

/* Picoseconds of a command. `copied`: bytes of the same copy that the commands before it moved. */
int64_t haul__sim_time(const haul__command *c, int64_t copied);

/* A command of a device that computes on the calling thread was done: the process's clock advances. */
void haul__sim_host_done(const haul__command *c);

/* ---- queue.c ---- */

haul_status haul__sim_stream_open(haul_device *device, void **queue);
void        haul__sim_stream_close(haul_device *device, void *queue);
haul_status haul__sim_submit(haul__stream *s, const haul__command *c);
haul_status haul__sim_sync(haul__stream *s, void *event);
haul_status haul__sim_event_record(haul__stream *s, void **event);
haul_status haul__sim_event_wait(haul__stream *s, void *event);
haul_status haul__sim_event_query(haul_device *device, void *event, bool *reached);
void        haul__sim_event_free(haul_device *device, void *event);
haul_status haul__sim_timing_begin(haul__stream *s, void **timing);
haul_status haul__sim_timing_end(haul__stream *s, void *timing);
haul_status haul__sim_timing_read(haul_device *device, void *timing, void *origin, int64_t *after, int64_t *duration);
void        haul__sim_timing_free(haul_device *device, void *timing);

#endif
