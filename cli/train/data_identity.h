/* The identity of the data of a training: kept in each checkpoint, so that a run goes on with the examples with which
 * it began. Names and sizes of files count, their contents do not: nothing is read. */
#ifndef CLI_TRAIN_DATA_IDENTITY_H
#define CLI_TRAIN_DATA_IDENTITY_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/train/training_data.h"

/* For each part of the source its number of examples, their form, and its files: how many, their bytes, a hash of their
 * names and sizes in order and, where they are few, all of these. NULL after a complaint. */
cJSON *data_identity_new(const training_data *data);

/* What differs between two identities, in words; "" if nothing does. */
void data_identity_compare(const cJSON *before, const cJSON *now, char *out, size_t size);

/* True if the run has been, or may have been, trained on other data before. */
bool data_identity_varied(const cJSON *identity);
void data_identity_set_varied(cJSON *identity);

#endif
