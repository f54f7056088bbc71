/* Waiting and marking, shared by the files of src/device; device.h declares what the layers above need. */
#ifndef HAUL_DEVICE_STREAM_H
#define HAUL_DEVICE_STREAM_H

#include "device/device.h"

/* The next command must not run before `uses` allow a read, or a write, of the memory. waiter == NULL or a synchronous
 * stream: the host waits, on behalf of `origin`, an operation or NULL. uses == NULL: nothing to wait for. */
haul_status haul__uses_wait(haul__uses *uses, haul__stream *waiter, bool write, const char *origin);

/* Records that `use` reads or writes the memory. The caller has waited for earlier uses. */
void haul__uses_mark(haul__uses *uses, haul__use use, bool write);

/* Raises a ticket that other threads may raise at the same time. */
void haul__raise_to(atomic_ullong *value, uint64_t least);

/* Counts the command that was just submitted; the caller holds the stream's lock. Returns the point at which it is
 * done. */
haul__use haul__stream_advance(haul__stream *s);

/* The stream's name in events: "compute", "upload", "download" or "ahead". */
const char *haul__stream_name(const haul__stream *s);

/* Asks the device, without waiting, how far it is from `ticket` on, and remembers the answer. Only copy streams, and
 * points with a waiter, have events. `anew` records one after everything submitted, for the next query. */
void haul__stream_ask(haul__stream *s, uint64_t ticket, bool anew);

#endif
