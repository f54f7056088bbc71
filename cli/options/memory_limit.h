/* Sizes of options, and --memory-limit: a size, or a share of what the training needs. */
#ifndef CLI_OPTIONS_MEMORY_LIMIT_H
#define CLI_OPTIONS_MEMORY_LIMIT_H

#include "plan/available.h"

/* "3000000", "1.5G", "512Mi", "50%"; NULL and "0" mean no limit. False after a complaint. */
bool memory_limit_parse(const char *text, haul__training_limit *out);

/* False, after a complaint, for a percentage with a batch of 0, which is one that is still to be found. */
bool memory_limit_suits_batch(double percent, int64_t batch);

/* "3000000", "1.5G", "512Mi"; NULL is 0. False after a complaint that names the option. */
bool size_parse(const char *option, const char *text, int64_t *out);

#endif
