/* oneDNN's convolutions, for shapes where its blocked layouts pay: many channels.
 *
 * The library is opened at run time; where it is not there, or was not known to the build, every call is
 * HAUL_UNSUPPORTED with nothing recorded. All of it runs on one thread at a time for each piece of the batch, and
 * pieces are cut by shape, because its own weight gradients depend on the number of threads. */
#ifndef HAUL_BACKENDS_CPU_ONEDNN_H
#define HAUL_BACKENDS_CPU_ONEDNN_H

#include "backends/backend.h"

typedef enum haul__onednn_kind {
    HAUL__ONEDNN_FORWARD,
    HAUL__ONEDNN_BACKWARD_DATA,
    HAUL__ONEDNN_BACKWARD_WEIGHT
} haul__onednn_kind;

haul_status haul__cpu_onednn_conv2d(haul__onednn_kind kind, const haul__conv2d *call);

#endif
