/* Names of classes: kept with a run, and compared with those of the data that its network meets later. */
#ifndef CLI_MODEL_CLASSES_H
#define CLI_MODEL_CLASSES_H

#include <cjson/cJSON.h>
#include <haul/haul.h>

/* The names as a JSON array, which is empty if there are no classes. NULL if memory is exhausted. */
cJSON *classes_to_json(const haul_dataset *data);

/* True if the names can be kept: they must be UTF-8. False after a complaint. */
bool classes_are_text(const haul_dataset *data);

/* True if the data has the classes of the array `stored`, in the same order. Otherwise complains about the first pair
 * of names that differ. `whose` says in the complaint where the array is from: "runs/first". */
bool classes_agree(const haul_dataset *data, const cJSON *stored, const char *whose);

/* The name of class `index` in the array; NULL if it has none. */
const char *classes_name(const cJSON *stored, int index);

#endif
