/* Weights to start from, and the part of the network that is trained: --init, --head and --freeze. */
#ifndef CLI_TRAIN_INIT_H
#define CLI_TRAIN_INIT_H

#include "cli/train/trainer.h"

/* True if these options of a new training fit each other; false after a complaint. */
bool init_is_consistent(const train_options *o);

/* With an ONNX model as --init: the network is "onnx", from that file or, of a run that goes on, from the run's. False
 * after a complaint. */
bool init_choose_model(const trainer *t);

/* The run has this model in its folder, with which it can be resumed. False after a complaint. */
bool init_keep_model(const trainer *t);

/* True if they fit the network and the data: a new last layer has as many outputs as the data has classes. False after
 * a complaint. */
bool init_suits(const trainer *t);

/* Turns off the gradients of what --freeze leaves as it is, in the network that was just made. */
haul_status init_freeze(const trainer *t);

/* Loads the weights of --init, those of the last layer only if it is not a new one. A training that goes on has its
 * weights from its checkpoint. Also for dry runs. */
haul_status init_load(const trainer *t);

/* The number of parameters that are trained. */
int64_t init_trained(const trainer *t);

/* The file's tensors that were left out for a new last layer: "fc.weight [1000,512], fc.bias [1000]"; else "". */
void init_left_out(const trainer *t, char *out, size_t size);

#endif
