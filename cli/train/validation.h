/* Validation examples: which of the training examples are kept from training. */
#ifndef CLI_TRAIN_VALIDATION_H
#define CLI_TRAIN_VALIDATION_H

#include <haul/haul.h>

/* Split `all` at random into parts[0], for training, and parts[1], about `fraction` of each class, for validation. Both
 * keep the order of `all`, and are the same for the same seed. If the examples are not sorted by class, each is read
 * for its class. */
haul_status validation_split(haul_dataset *all, double fraction, uint64_t seed, bool sorted_by_class,
                             haul_dataset *parts[2]);

#endif
