/* Waiting and marking, shared by the files of src/device; device.h has what the layers above need. */
#ifndef HAUL_DEVICE_STREAM_H
#define HAUL_DEVICE_STREAM_H

#include "device/device.h"

/* What comes next must not run before `uses` allow a read, or a write, of the memory. waiter == NULL or a synchronous
 * stream: the host waits, for the sake of `origin`, an operation or NULL. uses == NULL: nothing to wait for. */
haul_status haul__uses_wait(haul__uses *uses, haul__stream *waiter, bool write, const char *origin);

/* Note that `use` reads or writes the memory; it was waited for before. */
void haul__uses_mark(haul__uses *uses, haul__use use, bool write);

/* Count the command just submitted; the stream is locked. Returns the point at which it is done. */
haul__use haul__stream_advance(haul__stream *s);

#endif
