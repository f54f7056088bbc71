/* Options in a file: config.json in the folder of a run, and what --config reads. */
#ifndef CLI_OPTIONS_CONFIG_H
#define CLI_OPTIONS_CONFIG_H

#include "cli/options/options.h"

/* The JSON object in a file, to delete; NULL after a complaint. */
cJSON *config_read(const char *path);

/* The options that are kept, one per line. The file is either the old or the new one. False after a complaint. */
bool config_write(const char *path, const option_values *values);

#endif
