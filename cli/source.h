/* Where data comes from: "cifar10:DIR", "images:DIR", "shapes", "blobs". */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include <haul/haul.h>

/* What --help says about --data. */
#define SOURCE_HELP                                                                                                    \
    "cifar10:DIR (CIFAR-10's binary files), images:DIR (DIR/train and DIR/test, in each a folder of JPEG and PNG "     \
    "files for each class), shapes or blobs (built in; shapes:COUNT makes COUNT examples)"

/* What the examples of a source are: an input, as f32, and what is wanted for it. */
typedef struct data_spec {
    haul_field x, y;
} data_spec;
haul_status source_spec(const haul_dataset *dataset, data_spec *out);

/* The dataset's training or test split, with pictures normalised. NULL after a complaint. */
haul_dataset *source_open(const char *text, bool test);

/* Are these two the same kind of data (the folder may have moved)? */
bool source_same_kind(const char *a, const char *b);

#endif
