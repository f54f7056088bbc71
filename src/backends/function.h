/* Kernels that are functions of this process, as the CPU's are: how a launch runs one over its work items. */
#ifndef HAUL_BACKENDS_FUNCTION_H
#define HAUL_BACKENDS_FUNCTION_H

#include <haul/custom.h>

/* Shares the items among threads. */
void haul__function_split(haul_kernel_function *function, void *const *buffers, const void *params, int64_t items,
                          int64_t grain);

/* Fewer items than `grain` stay on the calling thread. */
static inline void haul__function_run(haul_kernel_function *function, void *const *buffers, const void *params,
                                      int64_t items, int64_t grain)
{
    if (items <= grain)
        function(buffers, params, 0, items);
    else
        haul__function_split(function, buffers, params, items, grain);
}

#endif
