/* Launches of functions that are worth splitting. */
#include "backends/function.h"

#include "core/pool.h"

typedef struct launch {
    haul_kernel_function *function;
    const void           *params;
    void *const          *buffers;
} launch;

static void run_range(void *context, int64_t first, int64_t last)
{
    const launch *l = context;
    l->function(l->buffers, l->params, first, last);
}

void haul__function_split(haul_kernel_function *function, void *const *buffers, const void *params, int64_t items,
                          int64_t grain)
{
    launch l = {.function = function, .params = params, .buffers = buffers};
    haul__parallel_for(items, grain, run_range, &l);
}
