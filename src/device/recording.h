/* Recordings: the commands that a thread submitted between two points, to be submitted again.
 *
 * A recording has fixed buffers: it holds the storages that its commands use, so each replay reads and writes the same
 * memory. Everything except the slots is repeated unchanged. An optimizer's first step allocates its state, so record a
 * later step. A copy that an operation took from a cache (a cast, or a reordered weight, made before the recording) is
 * not made again. */
#ifndef HAUL_DEVICE_RECORDING_H
#define HAUL_DEVICE_RECORDING_H

#include "core/thread.h"
#include "device/device.h"

typedef struct haul__recording haul__recording;

/* The recording that collects the thread's commands; NULL: none. */
extern _Thread_local haul__recording *haul__recording_current HAUL__TLS_MODEL;

/* From here on the thread's commands are collected as well as run. Commands that a replay could not repeat are refused:
 * a copy from or to the caller's memory, and waits of the host for a tensor or a device. A command that fails is not
 * collected. Fails if the thread is already recording. `operation` names the recording in messages; the text must stay
 * valid. */
haul_status haul__recording_begin(const char *operation);

/* Ends the recording and returns it; the caller must free it. The backend may prepare it as a whole here. On failure it
 * returns NULL, and the recording is gone. */
haul__recording *haul__recording_end(void);

void haul__recording_free(haul__recording *recording); /* NULL is ignored */

int                  haul__recording_count(const haul__recording *recording);
const haul__command *haul__recording_command(const haul__recording *recording, int i);
bool                 haul__recording_captured(const haul__recording *recording); /* does the backend run it as one
                                                                                  * list? */

/* Runs all commands again, in order, with these slots; NULL: as recorded. Replays of one recording do not overlap. A
 * replay that fails may have run some of the commands. */
haul_status haul__recording_replay(haul__recording *recording, const haul__slot_values *values);

/* For haul__submit: collects a command that is about to run, or refuses it; drops all commands from the count on. */
haul_status haul__recording_note(const haul__command *command);
void        haul__recording_cut(int count);

/* The error for what cannot be recorded; HAUL_OK if the thread is not recording. */
haul_status haul__recording_refuse(const char *operation, const char *what);

#endif
