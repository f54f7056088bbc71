/* Data from the network: addresses, and data sets that have names. */
#ifndef CLI_MODEL_REMOTE_H
#define CLI_MODEL_REMOTE_H

#include <stdbool.h>

bool remote_is_address(const char *text);

/* The path of the file at an address, which is fetched if it is not in the cache. "#sha256=DIGITS" may follow the
 * address. NULL with the library's error. Valid until the next call. */
const char *remote_file(const char *address);

/* The folder or archive of the data set of this name, fetched if it is not in the cache. NULL with the library's error,
 * or, without one, if there is no data set of this name. */
const char *remote_set(const char *name);
bool        remote_has_set(const char *name);

#endif
