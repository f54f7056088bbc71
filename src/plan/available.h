/* The memory that is available to a training. */
#ifndef HAUL_PLAN_AVAILABLE_H
#define HAUL_PLAN_AVAILABLE_H

#include <haul/memory.h>

/* The bytes of host memory that this program can still get; 0: not known. */
int64_t haul__available_on_host(void);

/* The part of `bytes` for which nine tenths of that have no room. */
int64_t haul__missing_on_host(int64_t bytes);

/* The bytes of the device's memory; 0: not known. */
int64_t haul__device_memory(const haul_device *device);

/* The bytes that a training may allocate without a limit: nine tenths of the free memory, and `start`, the memory that
 * is allocated already. 0: not known. */
int64_t haul__available_to_training(haul_device *device, int64_t start);

/* A limit for the memory of a training: a size, or a share of what it needs. */
typedef struct haul__training_limit {
    int64_t bytes;    /* 0: none */
    int64_t overhead; /* of these, what the device takes for other things than tensors */
    double  percent;  /* of the training's peak without recomputation; 0: the limit is `bytes` */
} haul__training_limit;

/* The limit in bytes for the tensors of a training with that peak; 0: none. */
int64_t haul__training_limit_bytes(const haul__training_limit *limit, int64_t peak);

#endif
