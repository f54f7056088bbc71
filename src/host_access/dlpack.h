/* The structs of DLPack 1.0 with their layout in memory (https://dmlc.github.io/dlpack/latest/c_api.html). */
#ifndef HAUL_HOST_ACCESS_DLPACK_H
#define HAUL_HOST_ACCESS_DLPACK_H

#include <stdint.h>

enum { HAUL__DL_CPU = 1, HAUL__DL_CUDA_HOST = 3 };                                            /* devices */
enum { HAUL__DL_INT, HAUL__DL_UINT, HAUL__DL_FLOAT, HAUL__DL_BFLOAT = 4, HAUL__DL_BOOL = 6 }; /* dtypes */
enum { HAUL__DL_READ_ONLY = 1, HAUL__DL_MAJOR = 1, HAUL__DL_MINOR = 0 };                      /* flags, version */

typedef struct haul__dl_tensor {
    void    *data;
    int32_t  device_type, device_id;
    int32_t  ndim;
    uint8_t  code, bits; /* of the dtype */
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements; strides == NULL: row-major */
    uint64_t byte_offset;     /* of the first element from `data` */
} haul__dl_tensor;

typedef struct DLManagedTensor haul__dl_legacy;
struct DLManagedTensor {
    haul__dl_tensor tensor;
    void           *context;
    void (*deleter)(haul__dl_legacy *self);
};

/* Of other major versions, members up to `flags` are the same. */
typedef struct DLManagedTensorVersioned haul__dl_versioned;
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void    *context;
    void (*deleter)(haul__dl_versioned *self);
    uint64_t        flags;
    haul__dl_tensor tensor;
};

#endif
