/* Recordings: the commands that a thread submitted between two points, to be submitted again.
 *
 * A recording has fixed buffers: it keeps the storages that its commands name, so that each replay reads and writes the
 * same memory. Everything else is repeated as it was, apart from the slots: an optimizer's first step makes its state,
 * so the step to record is a later one. A copy that an operation took from a cache (a cast or reordered weight that was
 * made before the recording) is not made again. */
#ifndef HAUL_DEVICE_RECORDING_H
#define HAUL_DEVICE_RECORDING_H

#include "core/thread.h"
#include "device/device.h"

typedef struct haul__recording haul__recording;

/* The one that collects the thread's commands; NULL: none. */
extern _Thread_local haul__recording *haul__recording_current HAUL__TLS_MODEL;

/* From here on the thread's commands run and are collected too. What a replay could not repeat is refused: a copy from
 * or to memory of the caller's, and the host's waiting for a tensor or a device. A command that fails is not collected.
 * An error if the thread records already. `operation` names the recording in messages and must stay. */
haul_status haul__recording_begin(const char *operation);

/* The recording, which the caller frees; it begins to exist as a whole here, so that the backend may prepare it. NULL,
 * with nothing recorded any more, on failure. */
haul__recording *haul__recording_end(void);

void haul__recording_free(haul__recording *recording); /* NULL is ignored */

int                  haul__recording_count(const haul__recording *recording);
const haul__command *haul__recording_command(const haul__recording *recording, int i);
bool                 haul__recording_captured(const haul__recording *recording); /* by the backend, as one list */

/* Run all commands again, in order, with these slots; NULL: as recorded. Replays of one recording do not overlap. One
 * that fails may have run some of the commands. */
haul_status haul__recording_replay(haul__recording *recording, const haul__slot_values *values);

/* For haul__submit: collect a command that is about to run, or refuse it; forget all from the count on. */
haul_status haul__recording_note(const haul__command *command);
void        haul__recording_cut(int count);

/* The error of what cannot be recorded; HAUL_OK where the thread does not record. */
haul_status haul__recording_refuse(const char *operation, const char *what);

#endif
