/* The parts of cuDNN 9's graph interface that Haul uses: its own declarations, made and checked like those of
 * ../api.h. */
#ifndef HAUL_BACKENDS_CUDA_CUDNN_API_H
#define HAUL_BACKENDS_CUDA_CUDNN_API_H

#include <stdint.h>

#include "backends/cuda/api.h"

#ifdef HAUL_CUDA_HEADERS
#include <cudnn.h>
#else

/* Enums of the original headers are ints here, which is the same in calls and has the same size in attributes. */
typedef int                  cudnnStatus_t, cudnnDataType_t, cudnnBackendDescriptorType_t;
typedef int                  cudnnBackendAttributeName_t, cudnnBackendAttributeType_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef void                *cudnnBackendDescriptor_t;

enum haul__cudnn_constants {
#define X(name, value) name = value,
#include "backends/cuda/cudnn/constants.def"
#undef X
};
#endif

/* The library's functions, set when it is opened. */
typedef struct haul__cudnn_functions {
#define X(name, symbol, arguments)       cudnnStatus_t(*name) arguments;
#define Y(type, name, symbol, arguments) type(*name) arguments;
#include "backends/cuda/cudnn/cudnn.def"
#undef X
} haul__cudnn_functions;

#endif
