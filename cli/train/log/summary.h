/* The network's layers as a table: what they give, hold and compute. */
#ifndef CLI_TRAIN_LOG_SUMMARY_H
#define CLI_TRAIN_LOG_SUMMARY_H

#include "cli/train/fit.h"

/* On standard output, in about 20 lines: large networks by their parts. Then what a step takes, and whether it fits
 * into the device's memory. */
void summary_print(const dry_run *d, const haul_device *device);
void summary_print_memory(const dry_run *d, const haul_device *device);

/* The limit and what is recomputed, if there are any. */
void summary_print_parts(const dry_run *d);

#endif
