/* What operations take on a machine. */
#ifndef HAUL_ENGINE_PRICE_H
#define HAUL_ENGINE_PRICE_H

#include "engine/operation.h"
#include "machine/machine.h"

/* A call whose results are described, as a machine predicts it; the number of its commands is not known. */
haul__machine_work haul__price_work(const haul__call *c);

/* While a simulated device is in use: gives the commands of the call's `compute` the time that the machine predicts.
 * False, and nothing is to be ended, if the call is a part of another one, or moves tensors between devices. */
bool haul__price_begin(const haul__call *c);
void haul__price_end(void);

#endif
