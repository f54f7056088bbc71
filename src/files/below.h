/* Files that another file names. */
#ifndef HAUL_FILES_BELOW_H
#define HAUL_FILES_BELOW_H

#include "files/file.h"

/* Opens the file `name`, a relative path, in the folder of the file `owner`, or in a folder below. Fails if the name
 * has "..", is absolute, or leads through a link. The file's path for messages is `name`. */
haul_status haul__file_open_below(haul__file *file, const char *owner, const char *name, const char *operation);

#endif
