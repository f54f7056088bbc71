/* haul inspect of an ONNX model. */
#ifndef CLI_SHOW_INSPECT_ONNX_H
#define CLI_SHOW_INSPECT_ONNX_H

#include <stdbool.h>

/* Returns the exit code. */
int inspect_onnx(const char *path, bool json);

#endif
