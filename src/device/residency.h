/* Memory whose elements were moved away to make room (memory/spill/spill.c), and the commands that use it.
 *
 * A command may use memory only while that is present. The thread that submits it keeps the memory of all devices in
 * place from the moment at which it found it present until the command is marked as a use. Commands of synchronous
 * devices use host memory, of which only the elements that another process has are away (memory/spill/elsewhere.h). */
#ifndef HAUL_DEVICE_RESIDENCY_H
#define HAUL_DEVICE_RESIDENCY_H

#include "device/device.h"

/* Waits until the memory of the command's buffers is present, and keeps all memory in place until
 * haul__residency_leave. Fails if there is no room for it. */
haul_status haul__residency_enter(const haul__command *c);
void        haul__residency_leave(void);

/* Brings back what a command that runs at once on the calling thread uses, or an access of the host. */
haul_status haul__residency_bring(const haul__command *c);

/* Brings back what the command uses. It is called under the lock, and may move other memory away. */
typedef haul_status haul__bring_back(const haul__command *c);
void                haul__residency_use(haul__bring_back *bring_back);

/* Takes the lock that everything needs which moves memory away or back; the calling thread's events are held back until
 * it is given. In a thread that has it this does nothing and returns false: then do not give it. */
bool haul__residency_take(void);
void haul__residency_give(void);
bool haul__residency_is_taken(void); /* by the calling thread */

/* Waits until no thread is submitting a command; none begins until the lock is given. The caller has the lock. */
void haul__residency_stop(void);

/* In a dry run, `plan` learns of each command that would be submitted. */
void        haul__residency_plan_with(haul__bring_back *plan);
haul_status haul__residency_plan(const haul__command *c);

/* When memory was last used: grows with each command. */
extern atomic_ullong haul__residency_clock;

#endif
