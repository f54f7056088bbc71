/* The examples of a training: those it learns from, those each epoch is measured on, and those of the test. */
#ifndef CLI_TRAIN_TRAINING_DATA_H
#define CLI_TRAIN_TRAINING_DATA_H

#include "cli/model/input_form.h"
#include "cli/model/source.h"
#include "cli/train/augment.h"

typedef struct training_data {
    haul_dataset *train;      /* augmented, normalised */
    haul_dataset *validation; /* normalised; NULL: none is wanted */
    haul_dataset *test;       /* normalised; NULL: the source has none */
    haul_dataset *raw,
        *raw_test; /* as the source has them: all training examples, and those of the test; may be NULL */
    data_spec    spec;
    input_form   input; /* what all of them were given */
    example_size size;  /* what pictures were resized to; 0 x 0: nothing */
} training_data;

typedef struct training_data_plan {
    const char  *source;
    double       validation; /* the fraction of the training examples that is kept from training; 0: none */
    uint64_t     seed;       /* draws them */
    augmentation augment;
    example_size size;
} training_data_plan;

/* False after a complaint, also if there is nothing to measure an epoch on. */
bool training_data_open(const training_data_plan *plan, training_data *out);

#endif
