/* Numbers as the page writes them: one format for each quantity, a no-break space before the unit, and "-" for unknown
 * values. The texts are in a ring of buffers: valid for the next few calls. */
#ifndef CLI_REPORT_TEXT_H
#define CLI_REPORT_TEXT_H

#include <cjson/cJSON.h>

#include "cli/run_folder/document.h"

const char *say_ms(double ms);           /* "5.55 ms" */
const char *say_time(double ms);         /* in sentences: "5.55 ms", "36.9 s" */
const char *say_seconds(double seconds); /* "36.9 s", "3 min 5 s" */
const char *say_bytes(double bytes);     /* "7.70 MiB": three digits */
const char *say_rate(double giga);       /* "17.3": three digits; GB/s and GFLOP/s stand in the head of the table */
const char *say_flop(double flop);       /* "1.20 GFLOP" */
const char *say_joules(double joules);   /* "1.20 mJ" */
const char *say_share(double share);     /* "27.1 %" */
const char *say_percent(double share);   /* "27 %": 100 only for certainty, "<1 %" for anything above 0 */
const char *say_loss(double loss);       /* "1.016" */
const char *say_count(double count);     /* "11,524" */
const char *say_number(double number);   /* as short as it comes back */
const char *say_join(const char *before, const char *after);

/* A number in an object from a file, as document_number; NaN where it is missing or of another type. */
double number_of(const cJSON *object, const char *name);

/* True for a row of an operation. Rows whose names are in brackets stand for other time: the program's own, waits,
 * compilation. */
bool page_is_operation(const cJSON *row);

#endif
