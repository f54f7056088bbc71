/* haul train --group local:cpu,opencl:0: the ranks are threads of this process, and each runs the training. What a
 * process has once, for example its signals and its place in haul top, belongs to rank 0. */
#ifndef CLI_TRAIN_PIECES_THREADS_H
#define CLI_TRAIN_PIECES_THREADS_H

#include <stdbool.h>

#include "cli/options/options.h"
#include "cli/train/train_options.h"

/* True if the options go with ranks that are threads. Otherwise complains. */
bool threads_suit(const option_values *values, const train_options *o);

/* The same for options that may come from a run. */
bool threads_suit_devices(const train_options *o);

/* The training of a rank, with options of its own. Returns an exit code. */
typedef int threads_function(option_values *values, train_options *o);

/* Runs the training in a thread for each device. Returns the exit code of the process. */
int threads_train(const option_values *values, const train_options *o, threads_function *train);

#endif
