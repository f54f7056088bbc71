/* The JSON files that a run leaves in its folder. */
#ifndef CLI_RUN_FOLDER_DOCUMENT_H
#define CLI_RUN_FOLDER_DOCUMENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* The object, or the array, in FOLDER/NAME, to delete. NULL after a complaint, which says with `maker` what makes the
 * file ("haul train --run DIR"). */
cJSON *run_document(const char *folder, const char *name, bool array, const char *maker);

/* Members of an object from a file: 0, "" and NULL, which cJSON takes for an empty array, where they are missing or of
 * another type. */
double       document_number(const cJSON *object, const char *name);
const char  *document_text(const cJSON *object, const char *name);
const cJSON *document_list(const cJSON *object, const char *name);

#endif
