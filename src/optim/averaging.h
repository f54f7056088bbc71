/* What averages of parameters do on a device. */
#ifndef HAUL_OPTIM_AVERAGING_H
#define HAUL_OPTIM_AVERAGING_H

#include <haul/average.h>
#include <haul/tensor.h>

/* Is it an average that exists? Records what is wrong. */
haul_status haul__average_check(const haul_average *average, const char *operation);

/* An average and its parameter: of one shape, layout, floating dtype and device. */
typedef struct haul__averaged {
    haul_tensor *average, *parameter;
} haul__averaged;

/* Compile what the next two launch, so that they have nothing left that commonly fails. */
haul_status haul__averaging_prepare(const haul_tensor *parameter);

/* average += weight (parameter - average), of up to HAUL__MAX_UPDATES pairs of one device and dtype. */
haul_status haul__average_update(const haul__averaged *pairs, int count, double weight);

/* The two exchange their values. */
haul_status haul__average_exchange(const haul__averaged *pairs, int count);

#endif
