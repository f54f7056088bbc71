/* The network's layers as a table: what they give, hold and compute. */
#ifndef CLI_TRAIN_LOG_SUMMARY_H
#define CLI_TRAIN_LOG_SUMMARY_H

#include "plan/fit.h"
#include "plan/spill_cost.h"

/* On standard output, in about 20 lines: large networks by their parts. Then what a step takes, and whether it fits
 * into the device's memory. */
void summary_print(const haul__fit_result *d, const haul_device *device);
void summary_print_memory(const haul__fit_result *d, const haul_device *device);

/* The limit and the recomputed layers, if there are any. */
void summary_print_parts(const haul__fit_result *d);

/* "177.0 MiB to host memory and 150.0 MiB back in each step, about 40 ms". */
const char *spill_cost_text(char *out, size_t size, const haul__spill_cost *c);

#endif
