/* The timeline of the median step on the page: threads and streams as tracks. */
#ifndef CLI_REPORT_TIMELINE_H
#define CLI_REPORT_TIMELINE_H

#include <cjson/cJSON.h>

#include "cli/report/draw/html.h"

bool page_timeline_is_there(const cJSON *profile);

/* Sentences on how busy the devices are. */
void page_timeline_lead(html *h, const cJSON *profile);

/* The tracks, with the letters of findings that they are about, and their spans as a table. `audit` may be NULL. */
void page_timeline(html *h, const cJSON *profile, const cJSON *audit);

#endif
