/* Files of models, for the module and for the command. */
#ifndef HAUL_ONNX_LOAD_H
#define HAUL_ONNX_LOAD_H

#include <haul/nn.h>

#include "onnx/plan/plan.h"

/* The most bytes of a file, which is protobuf's own limit. */
#define HAUL__ONNX_LIMIT ((uint64_t)1 << 31)

typedef struct haul__onnx_file {
    haul__file       file;
    uint8_t         *data;  /* without the elements of large tensors */
    haul__onnx_model model; /* points into data, and to `file` */
} haul__onnx_file;

/* After a failure there is nothing to close. `out` must stay where it is, and `path` as it is. */
haul_status haul__onnx_read_file(const char *path, const char *operation, haul__onnx_file *out);
void        haul__onnx_close_file(haul__onnx_file *file);

/* The plan of a loaded model; NULL: the module is another one. */
const haul__onnx_plan *haul__onnx_plan_of(const haul_module *module);

#endif
