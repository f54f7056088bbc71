/* JSON files: read whole, and written whole or not at all. */
#ifndef CLI_SHARED_JSON_FILE_H
#define CLI_SHARED_JSON_FILE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "files/json.h"

enum { JSON_TREE_DEPTH = 8 };

/* The value of a file of at most 1 GiB, nested up to JSON_TREE_DEPTH deep, to haul__json_free. `operation` is for
 * errors of the library. NULL after a complaint. */
haul__json *json_tree_read(const char *path, const char *operation);

/* Write an object with one line for each member, and for each item of a member that is an array of objects. Takes the
 * object over. False after a complaint. */
bool json_save(const char *path, cJSON *object);

#endif
