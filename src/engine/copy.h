/* Copies of elements and fills, as commands: for the driver, and for `compute` of operations. */
#ifndef HAUL_ENGINE_COPY_H
#define HAUL_ENGINE_COPY_H

#include "core/tensor.h"

/* Copy all elements of `from`, which may broadcast, to `to` on the same device: any layouts, any dtypes. */
haul_status haul__copy_elements(haul_tensor *to, haul_tensor *from, const char *origin);

/* Set all elements of `to`, of any layout, to the value: conversion as in haul_cast, values out of range give the
 * nearest there is, NaN gives 0. */
haul_status haul__fill_elements(haul_tensor *to, double value, const char *origin);

#endif
