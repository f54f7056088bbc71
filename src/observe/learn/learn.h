/* Times of operations from profiles, for predictions. */
#ifndef HAUL_OBSERVE_LEARN_LEARN_H
#define HAUL_OBSERVE_LEARN_LEARN_H

#include "machine/machine.h"
#include "observe/profile/analysis.h"

/* Adds the operations of the main thread to the learnt times of their devices (device/speeds.h): of each operation,
 * dtype and work the median. On a device that computes behind the host an operation takes what its commands take, or
 * the host's time for it if that is longer. Operations of less than 128 KiB and 2^19 FLOP, copies between devices, and
 * operations whose operands and results have several floating dtypes are left out. Without memory nothing is learnt. */
void haul__profile_learn(const haul_profile *p, const haul__analysis *a);

/* The same, with a function that takes the times of each device in place of those that are kept. */
typedef void haul__learn_take(const haul_device *device, const haul__machine_learnt *times, int count, void *context);
void haul__profile_learn_into(const haul_profile *p, const haul__analysis *a, haul__learn_take *take, void *context);

#endif
