/* Numbers as haul top shows them: few columns, one unit a column, "-" for unknown values. Texts are in a ring of
 * buffers, valid for the next few calls. */
#ifndef CLI_TOP_TEXT_H
#define CLI_TOP_TEXT_H

#include <stdbool.h>

#include "cli/top/top.h"

const char *top_number(double value); /* three digits: "8.31", "96.4", "2,656" */
const char *top_loss(double value);
const char *top_percent(double share);         /* "93 %" */
const char *top_bytes(double bytes);           /* "611M", "11.8G", "0" */
const char *top_used(const top_device *d);     /* bytes in use; those of Haul processes where only they are known */
const char *top_of_total(const top_device *d); /* "14.2/22.5G"; "!" after the first if little is left */
const char *top_duration(double seconds);      /* "4s", "5m12s", "2h14m", "3d4h" */

/* Values that need attention: nearly full, nearly too hot, a host that waits. */
bool top_is_full(const top_device *d);
bool top_is_hot(const top_device *d);
bool top_waits(const haul_published *p);

/* The last `columns` values as columns of 8 heights from 0 to `high`; unknown values are spaces. */
const char *top_spark(const top_history *h, int columns, double high, bool utf8);

/* One of `rows` lines of a graph of several lines, from 0 at the top. */
const char *top_graph_row(const top_history *h, int columns, double high, int row, int rows, bool utf8);

/* A bar of memory: allocated and reserved by Haul, used by others, free. */
const char *top_bar(const top_device *d, int columns, bool utf8);

/* The largest value; 0 if there is none. */
double top_history_high(const top_history *h);
double top_history_last(const top_history *h);

#endif
