/* Anomaly detection: the setting, and the check of what operations return, which autograd/anomaly.c makes. */
#ifndef HAUL_ENGINE_ANOMALY_H
#define HAUL_ENGINE_ANOMALY_H

#include "engine/operation.h"

/* The bits of the setting HAUL__ANOMALY. */
enum { HAUL__CHECKS_BACKWARD = 1, HAUL__CHECKS_FORWARD = 2 };

/* Fails if a result, or an operand that the operation writes, has a NaN. outs, results: as in haul__asked
 * (engine/follow.h). It runs without the setting. Set with the setting. */
typedef haul_status haul__result_check(const haul__operation *operation, haul_tensor *const *operands, int count,
                                       haul_tensor *const *outs, haul_tensor *const *results);
extern _Atomic(haul__result_check *) haul__check_results;

static inline bool haul__checks(unsigned which)
{
    return __builtin_expect(haul__thread()->words[HAUL__ANOMALY] & which, 0);
}

#endif
