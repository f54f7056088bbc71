/* JSON files, written whole or not at all. */
#ifndef CLI_SHARED_JSON_FILE_H
#define CLI_SHARED_JSON_FILE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Write an object with one line for each member, and for each item of a member that is an array of objects. Takes the
 * object over. False after a complaint. */
bool json_save(const char *path, cJSON *object);

#endif
