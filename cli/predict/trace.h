/* One example followed through a network: where each stage ran, what shape it gave, how long it took. */
#ifndef CLI_PREDICT_TRACE_H
#define CLI_PREDICT_TRACE_H

#include <haul/haul.h>

/* Move x (on the CPU) to the device, through each layer of the network and back, printing a line for each stage, or
 * JSON lines. Returns the result on the CPU; NULL with the library's error. */
haul_tensor *trace_call(haul_module *net, haul_tensor *x, haul_device *device, bool json);

#endif
