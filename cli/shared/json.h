/* JSON lines. Writing goes through cJSON, so that quoting is never ours. */
#ifndef CLI_SHARED_JSON_H
#define CLI_SHARED_JSON_H

#include <cjson/cJSON.h>
#include <haul/haul.h>
#include <stdbool.h>
#include <stdio.h>

/* An object {"event": name}. What cannot be added because memory is exhausted, also to NULL, is noted: the next call of
 * json_compact, json_line or json_print finds it. */
cJSON *json_event(const char *name);
void   json_number(cJSON *object, const char *name, double value); /* null for NaN and infinity */
void   json_text(cJSON *object, const char *name, const char *value);
void   json_bool(cJSON *object, const char *name, bool value);
void   json_shape(cJSON *object, const char *name, const haul_shape *shape);
cJSON *json_object(cJSON *object, const char *name); /* a new one in the object */
cJSON *json_array(cJSON *object, const char *name);  /* likewise */
void   json_push(cJSON *array, cJSON *item);         /* takes the item over */

/* True if nothing was noted. */
bool json_is_complete(void);

/* The object as text without spaces, for cJSON_free. NULL when memory is exhausted. Deletes the object. */
char *json_compact(cJSON *object);

/* The object as one line with its newline, for cJSON_free. NULL when memory is exhausted. Deletes the object. */
char *json_line(cJSON *object);

/* Print that line on standard output. False after a complaint. */
bool json_print(cJSON *object);

#endif
