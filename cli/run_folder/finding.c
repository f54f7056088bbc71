#include "cli/run_folder/finding.h"

#include <haul/haul.h>
#include <math.h>
#include <string.h>

#include "cli/run_folder/document.h"

bool finding_is_warm_up(const cJSON *finding)
{
    return !strcmp(document_text(finding, "finding"), haul_finding_name(HAUL_FINDING_COMPILATION));
}

/* Profiles of older versions have only the mean of all steps. */
double finding_step_ms(const cJSON *finding, const cJSON *profile)
{
    const double all = document_number(profile, "step_ms"), steady = document_number(profile, "steady_ms");
    const double ms = steady > 0 && !finding_is_warm_up(finding) ? steady : all;
    return ms > 0 ? ms : (double)NAN;
}
