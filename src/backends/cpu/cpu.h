/* The functions of the CPU backend's table, by file. */
#ifndef HAUL_BACKENDS_CPU_CPU_H
#define HAUL_BACKENDS_CPU_CPU_H

#include "backends/backend.h"
#include "backends/command.h"
#include "backends/cpu/level.h"
#include "backends/implementation.h"
#include "core/error.h"

/* cpu.c: the fastest first */
extern const haul__implementation haul__cpu_implementations[];

/* False for a device that is only described, for which this processor computes. What memory the processor's algorithms
 * need depends on its instructions and threads. So the host gives it, and not that device. */
bool haul__cpu_is_host(const haul_device *device);

/* memory.c */
/* The memory of the machine that is available, in digits; "" for other descriptions. */
void        haul__cpu_describe(haul_device *device, haul__description what, char *out, size_t size);
haul_status haul__cpu_alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out);
void        haul__cpu_free(haul_device *device, haul__buffer *buffer);
haul_status haul__cpu_write(haul__stream *s, const haul__command *c);
haul_status haul__cpu_read(haul__stream *s, const haul__command *c);
haul_status haul__cpu_copy(haul__stream *s, const haul__command *c);
haul_status haul__cpu_fill(haul__stream *s, const haul__command *c);

/* launch.c */
const char *haul__cpu_level(void);           /* instruction level of the kernels in use: "base", "x86-64-v3" ... */
bool        haul__cpu_has(haul_dtype dtype); /* false: no kernels in a build with HAUL_SMALL */
haul_status haul__cpu_compile(haul_device *device, const haul__unit *unit, haul__kernel *out);
haul_status haul__cpu_submit(haul__stream *s, const haul__command *c);

/* gemm/gemm.c: the implementation "tiles" */
const char *haul__cpu_gemm_refuses(haul_device *device, const void *problem);
size_t      haul__cpu_gemm_scratch(haul_device *device, const void *problem);
haul_status haul__cpu_gemm(haul__stream *s, const void *problem);

/* gemm/gemm_panels.c: its products of many rows, and of f16 and bf16. `alone` finds those that need no scratch memory
 * without a plan, which takes a while for a small product. */
bool        haul__cpu_gemm_panels_alone(const haul__gemm *call);
size_t      haul__cpu_gemm_panels_scratch(const haul__gemm *call);
haul_status haul__cpu_gemm_panels(const haul__gemm *call);

/* The most tiles of rows that read `depth` rows of B in place, `row_bytes` apart. For more of them a panel pays. */
int64_t haul__cpu_tiles_in_place(int64_t depth, int64_t row_bytes);

/* conv2d/winograd.c: the implementation "winograd" */
const char *haul__cpu_winograd_refuses(haul_device *device, const void *problem);
size_t      haul__cpu_winograd_scratch(haul_device *device, const void *problem);
haul_status haul__cpu_winograd(haul__stream *s, const void *problem);

/* conv2d/products.c: the implementation "products" */
const char *haul__cpu_conv2d_products_refuse(haul_device *device, const void *problem);
haul_status haul__cpu_conv2d_products(haul__stream *s, const void *problem);

/* conv2d/depthwise.c: the implementation "depthwise" */
const char *haul__cpu_conv2d_depthwise_refuses(haul_device *device, const void *problem);
haul_status haul__cpu_conv2d_depthwise(haul__stream *s, const void *problem);

/* conv2d/onednn.c: the implementation "onednn" */
const char *haul__cpu_onednn_refuses(haul_device *device, const void *problem);
haul_status haul__cpu_onednn(haul__stream *s, const void *problem);

/* conv2d/panels.c: the implementation "panels" */
const char *haul__cpu_conv2d_panels_refuse(haul_device *device, const void *problem);
haul_status haul__cpu_conv2d_panels(haul__stream *s, const void *problem);

/* conv2d/pixels.c: the implementation "pixels" */
const char *haul__cpu_conv2d_pixels_refuse(haul_device *device, const void *problem);
haul_status haul__cpu_conv2d_pixels(haul__stream *s, const void *problem);

/* conv2d/direct.c: the implementation "direct" */
const char *haul__cpu_conv2d_direct_refuses(haul_device *device, const void *problem);
haul_status haul__cpu_conv2d_direct(haul__stream *s, const void *problem);

/* lapack/spectrum.c: the implementation "lapack" */
const char *haul__cpu_lapack_refuses(haul_device *device, const void *problem);
haul_status haul__cpu_lapack(haul__stream *s, const void *problem);

/* conv2d/choice.c: true if panels are faster than oneDNN, and if pixels are faster than panels. */
bool haul__cpu_conv2d_onednn_is_slower(haul_device *device, const void *problem);
bool haul__cpu_conv2d_panels_are_slower(haul_device *device, const void *problem);

#endif
