/* haul train --device auto, and --devices: where the training runs, by a plan and short runs. */
#ifndef CLI_TRAIN_PLACE_CHOOSE_H
#define CLI_TRAIN_PLACE_CHOOSE_H

#include "cli/train/trainer.h"

/* The first option that is given with which nothing is chosen, "--spill"; NULL: none is. */
const char *choose_excluded(const train_options *o);

/* True if the options say where the training runs, or there is only one device to run on. */
bool choose_is_decided(const trainer *t);

/* Unless it is decided: sets the trainer's device, or its places to a plan, and the text of the choice. A plan is
 * chosen if its steps were measured to be shorter by more than noise than those on each device alone. False after a
 * complaint. */
bool choose_devices(trainer *t);

#endif
