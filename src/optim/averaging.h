/* The device side of parameter averages. */
#ifndef HAUL_OPTIM_AVERAGING_H
#define HAUL_OPTIM_AVERAGING_H

#include <haul/average.h>
#include <haul/tensor.h>

/* Checks that it is a live average; records an error if not. */
haul_status haul__average_check(const haul_average *average, const char *operation);

/* An average and its parameter, which have one shape, layout, floating dtype and device. */
typedef struct haul__averaged {
    haul_tensor *average, *parameter;
} haul__averaged;

/* Compiles the kernels of the next two functions, so that launching them does not usually fail. */
haul_status haul__averaging_prepare(const haul_tensor *parameter);

/* average += weight (parameter - average), of up to HAUL__MAX_UPDATES pairs of one device and dtype. */
haul_status haul__average_update(const haul__averaged *pairs, int count, double weight);

/* Exchanges the values of both. */
haul_status haul__average_exchange(const haul__averaged *pairs, int count);

#endif
