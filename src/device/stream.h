/* Waiting and marking, shared by the files of src/device; device.h has what the layers above need. */
#ifndef HAUL_DEVICE_STREAM_H
#define HAUL_DEVICE_STREAM_H

#include "device/device.h"

/* What comes next must not run before `uses` allow a read, or a write, of the memory. waiter == NULL or a synchronous
 * stream: the host waits, for the sake of `origin`, an operation or NULL. uses == NULL: nothing to wait for. */
haul_status haul__uses_wait(haul__uses *uses, haul__stream *waiter, bool write, const char *origin);

/* Note that `use` reads or writes the memory; it was waited for before. */
void haul__uses_mark(haul__uses *uses, haul__use use, bool write);

/* Raise a ticket that others may raise at the same time. */
void haul__raise_to(atomic_ullong *value, uint64_t least);

/* Count the command just submitted; the stream is locked. Returns the point at which it is done. */
haul__use haul__stream_advance(haul__stream *s);

/* "compute", "upload" or "download", as events say. */
const char *haul__stream_name(const haul__stream *s);

/* Ask the device, without waiting, how far it got from `ticket` on; what it answers is known from then on. Events are
 * there for points that somebody waited for; `anew` makes one behind all that was submitted, for who asks next time. */
void haul__stream_ask(haul__stream *s, uint64_t ticket, bool anew);

#endif
