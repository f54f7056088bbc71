/* The roofline of a device on the page: how fast operations compute by how much they compute for each byte (Williams,
 * Waterman and Patterson, "Roofline", Communications of the ACM 52, 2009). */
#ifndef CLI_REPORT_ROOFLINE_H
#define CLI_REPORT_ROOFLINE_H

#include <cjson/cJSON.h>

#include "cli/report/draw/html.h"

/* For each device whose peaks are known and that has operations with both figures. */
void page_rooflines(html *h, const cJSON *profile);

#endif
