/* The kind of data in an archive, by the names of its members. */
#ifndef CLI_MODEL_ARCHIVE_KIND_H
#define CLI_MODEL_ARCHIVE_KIND_H

#include "formats/archive/archive.h"

/* "cifar10", "cifar100", "mnist", "fashion-mnist", "images" or "masks". NULL if the path is not an archive, or there
 * are none of these; with the library's error if it cannot be read. */
const char *archive_kind(const char *path);

/* True if it has folders in a folder named test. One that cannot be read counts as one that has. */
bool archive_has_test(const char *path);

#endif
