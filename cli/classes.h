/* Names of classes: kept with a run, and compared with those of the data that its network meets later. */
#ifndef CLI_CLASSES_H
#define CLI_CLASSES_H

#include <cjson/cJSON.h>
#include <haul/haul.h>

/* The names as a JSON array, empty where there are no classes. NULL when memory is exhausted. */
cJSON *classes_to_json(const haul_dataset *data);

/* Can the names be kept? They must be UTF-8. False after a complaint. */
bool classes_are_text(const haul_dataset *data);

/* Has the data the classes that `stored`, such an array, names in this order? False after a complaint that names one of
 * each. `whose` begins the stored names' part of it: "runs/first". */
bool classes_agree(const haul_dataset *data, const cJSON *stored, const char *whose);

/* The name of a class of such an array; NULL where there is none. */
const char *classes_name(const cJSON *stored, int index);

#endif
