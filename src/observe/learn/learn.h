/* Times of operations from profiles, for predictions. */
#ifndef HAUL_OBSERVE_LEARN_LEARN_H
#define HAUL_OBSERVE_LEARN_LEARN_H

#include "observe/profile/analysis.h"

/* Adds the operations of the main thread to the learnt times of their devices (device/speeds.h): of each operation,
 * dtype and work the median. On a device that computes behind the host an operation takes what its commands take, or
 * the host's time for it if that is longer. Operations of less than 128 KiB and 2^19 FLOP, copies between devices, and
 * operations whose operands and results have several floating dtypes are left out. Without memory nothing is learnt. */
void haul__profile_learn(const haul_profile *p, const haul__analysis *a);

#endif
