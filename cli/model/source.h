/* Where data comes from: "cifar10:DIR", "cifar100:DIR", "mnist:DIR", "fashion-mnist:DIR", "images:DIR", "masks:DIR",
 * "text:FILE", "shapes", "blobs", "scenes", "sentences"; an archive in place of a folder, also without the name. */
#ifndef CLI_MODEL_SOURCE_H
#define CLI_MODEL_SOURCE_H

#include <haul/haul.h>

/* What --help says about --data. */
#define SOURCE_HELP                                                                                                    \
    "cifar10:DIR or cifar100:DIR (CIFAR's binary files); mnist:DIR or fashion-mnist:DIR (MNIST's files, packed or "    \
    "not); images:DIR (JPEG and PNG files in a folder for each class, in DIR or in "                                   \
    "DIR/train and DIR/test); masks:DIR (pictures in DIR/images and a PNG file with the class of each pixel in "       \
    "DIR/masks, or both in DIR/train and DIR/test); text:FILE (a UTF-8 text, whose last tenth is the test part); "     \
    "shapes, blobs, scenes or sentences (built in; shapes:COUNT makes COUNT examples to train on, and a fifth as "     \
    "many to test). In place of DIR, a .tar.gz, .tar or .zip file is read without unpacking it, also from an address " \
    "that begins with http:// or https://; its name or address alone is enough. cifar10, cifar100, mnist and "         \
    "fashion-mnist without DIR are fetched from their publishers, MNIST from PyTorch's mirror"

/* What the examples of a source are: an input, as f32 or, of a text, as class indices, and the wanted output. */
typedef struct data_spec {
    haul_field x, y;
} data_spec;
haul_status source_spec(const haul_dataset *dataset, data_spec *out);

/* What a network has to find for an example. */
typedef enum data_task {
    TASK_ANSWER, /* one class, or values */
    TASK_PIXELS, /* the class of each pixel */
    TASK_TOKENS  /* the character that follows each */
} data_task;
data_task source_task(const data_spec *spec);

/* What the pictures of a folder are resized to. 0 x 0: the size that all have or, if they differ, 64 x 64, which is
 * then filled in, with `mixed`. And the characters of an example of a text, 0: 64. */
typedef struct example_size {
    int64_t height, width;
    bool    mixed;
    int64_t context;
} example_size;

/* The size that examples of this shape had. Sizes that the source cannot have are 0. */
example_size source_size(const char *text, const haul_shape *shape);

/* The source's training or test part, with pictures as they are, u8, or resized. The training part of a folder without
 * parts is all of it. NULL after a complaint. */
haul_dataset *source_open(const char *text, bool test, example_size *size);

/* True if pictures of this source are resized. */
bool source_resizes(const char *text);

/* True if the source has a test part. Only folders of pictures may have none. One that cannot be read counts as one
 * that has; source_open complains about it. */
bool source_has_test(const char *text);

/* True if all examples of one class are followed by all examples of the next. Their order then gives the classes, and
 * no file has to be read for them. */
bool source_is_sorted_by_class(const char *text);

/* True if these two are the same kind of data. The folder may have moved. */
bool source_same_kind(const char *a, const char *b);

/* The names of the sources, from 0 on, NULL after the last; and what follows the colon: "DIR", "FILE", or NULL. */
const char *source_name(int index, const char **needs);

#endif
