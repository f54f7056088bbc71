/* Findings of an audit, as audit.json has them. */
#ifndef CLI_RUN_FOLDER_FINDING_H
#define CLI_RUN_FOLDER_FINDING_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* True if the finding is about the warm-up. The others are about the steps after it. */
bool finding_is_warm_up(const cJSON *finding);

/* Milliseconds of the step of which a finding takes a part, from profile.json: the mean of all steps for one about the
 * warm-up, and for the others, and for NULL, that of the steps after it. NaN if it is not known. */
double finding_step_ms(const cJSON *finding, const cJSON *profile);

#endif
