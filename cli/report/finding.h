/* Letters of findings: in the audit, at bars of the timeline, and in the list of transfers. */
#ifndef CLI_REPORT_FINDING_H
#define CLI_REPORT_FINDING_H

#include <cjson/cJSON.h>

#include "cli/report/draw/html.h"

enum { PAGE_MOST_FINDINGS = 50 }; /* so many have letters */

/* The findings that the audit looks for. */
typedef struct page_finding_kind {
    const char *name, *title, *without; /* "A wait in every step"; where there is none, there is not "a wait in ..." */
} page_finding_kind;

enum { PAGE_FINDING_KINDS = 10 };
extern const page_finding_kind page_finding_kinds[PAGE_FINDING_KINDS];

/* What a finding costs in ms a step; 0 if it is not known. */
double page_finding_cost(const cJSON *finding);

/* The dearest one: costs overlap, so there is no sum. NULL: there is none. */
const cJSON *page_dearest(const cJSON *audit);

/* "A" to "Z", and then numbers from "27" on; of a finding by its place in audit.json, from 0. Valid for some calls. */
const char *page_letter(int finding);

/* Its title, or the name of one that is not known. */
const char *page_finding_title(const cJSON *finding);

/* The letter as a link to its finding. */
void page_mark(html *h, const cJSON *audit, int finding);

/* Letters for each number in the member "findings" of a span that is a finding. */
void page_span_marks(html *h, const cJSON *audit, const cJSON *span);

/* Letters of findings that are about that row of the ledger; returns how many. `h` may be NULL. */
int page_row_marks(html *h, const cJSON *audit, const cJSON *row);

/* ---- letters along a track of the timeline ---- */

enum { PAGE_MOST_MARKS = 128 };

typedef struct page_marks {
    struct {
        double at; /* from 0 to 1 */
        int    finding, row;
    } items[PAGE_MOST_MARKS];
    int count, rows;
} page_marks;

/* A letter for each finding of the span, which begins at `at`. Call it in the order of time. A letter is left out where
 * the same one is just before. */
void page_marks_add_span(page_marks *m, const cJSON *audit, const cJSON *span, double at);

/* The same for a span in which a device has no work, which the findings "host-bound" of the device are about. */
void page_marks_add_idle(page_marks *m, const cJSON *audit, const char *device, double at);

/* Finds the rows in which no letter covers another; then writes them. */
void page_marks_place(page_marks *m);
void page_marks_write(html *h, const page_marks *m, const cJSON *audit);

#endif
