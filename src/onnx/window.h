/* The attributes of windows, in one to three dimensions. */
#ifndef HAUL_ONNX_WINDOW_H
#define HAUL_ONNX_WINDOW_H

#include "onnx/operation.h"

enum { HAUL__ONNX_WINDOW = 3 }; /* the most dimensions */

typedef struct haul__onnx_window {
    int     ndim; /* axes after the channels */
    int64_t size[HAUL__ONNX_WINDOW], stride[HAUL__ONNX_WINDOW], dilation[HAUL__ONNX_WINDOW];
    int64_t before[HAUL__ONNX_WINDOW], after[HAUL__ONNX_WINDOW], groups;
    bool    even; /* the same padding before and after */
} haul__onnx_window;

/* The window of a node whose first input has `size` as its window, or the attribute kernel_shape if `size` is NULL. */
haul_status haul__onnx_read_window(haul__onnx_call *c, haul__onnx_window *w, const int64_t *size);

/* A list of whole numbers from 0 to INT32_MAX, or `otherwise` for each axis. */
haul_status haul__onnx_window_list(haul__onnx_call *c, const char *name, int count, int64_t otherwise, int64_t *out);

/* x with the window's padding around it, which the window then no longer has. */
haul_tensor *haul__onnx_pad_window(haul_tensor *x, haul__onnx_window *w, double value);

/* The convolution of a node: of x, which has the shape of its first input, with a weight of the shape of input i. */
haul_tensor *haul__onnx_convolve(haul__onnx_call *c, haul_tensor *x, int i, haul_tensor *weight, haul_tensor *bias);

/* Options read 0 as the default, which is 1 for strides; HAUL_ZERO stands for 0. */
int64_t haul__onnx_padding(const haul__onnx_window *w, int d);

#endif
