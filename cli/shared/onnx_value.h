/* Inputs and results of ONNX models as text. */
#ifndef CLI_SHARED_ONNX_VALUE_H
#define CLI_SHARED_ONNX_VALUE_H

#include "formats/onnx/model.h"

enum { ONNX_TEXT = 256 };

/* "[n,3,32,32]": sizes that are not known have their names, or "?". */
const char *onnx_shape_text(const haul__onnx_value *v, char out[ONNX_TEXT]);
/* "f32"; of a dtype that Haul does not have its name in ONNX. */
const char *onnx_dtype_text(const haul__onnx_value *v);

#endif
