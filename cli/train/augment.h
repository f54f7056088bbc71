/* Random changes of training pictures: what --augment says, and the library's transforms for it. */
#ifndef CLI_TRAIN_AUGMENT_H
#define CLI_TRAIN_AUGMENT_H

#include "cli/model/source.h"

typedef struct augmentation {
    bool   crop, flip;
    double rotate; /* degrees; 0: no rotation */
    double colour; /* 0: no other colours */
} augmentation;

/* "crop", "flip", "rotate=DEGREES" and "colour=AMOUNT" in any order, each once, the last two also without their number;
 * NULL: none. False after a complaint. */
bool augment_parse(const char *text, augmentation *out);

/* True if examples of this form can be augmented. False after a complaint. */
bool augment_suits(const augmentation *a, const data_spec *spec, const char *data);

/* `dataset` with pictures as they are, u8, and then changed at random. NULL with the library's error. */
haul_dataset *augment_apply(const augmentation *a, haul_dataset *dataset);

#endif
