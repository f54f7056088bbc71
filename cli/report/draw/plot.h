/* Line charts of the page: geometry in an SVG that scales, and labels as text that does not. The element with the
 * class plot has the ranges of its axes in data-x, data-y and data-scale, and each path says in data-run and data-line
 * whose it is, so that every drawn value can be read back: the SVG is 1000 units wide and high. */
#ifndef CLI_REPORT_DRAW_PLOT_H
#define CLI_REPORT_DRAW_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/report/draw/html.h"
#include "cli/shared/chart.h"

enum { PLOT_RUNS = 4, PLOT_LINES = 3 * PLOT_RUNS };

typedef enum plot_form {
    PLOT_RAW,  /* thin: single mini-batches */
    PLOT_SOFT, /* in the middle: the trained network */
    PLOT_MAIN  /* thick, with a dot for each point: measured values */
} plot_form;

typedef struct plot_line {
    chart_point *points; /* y may be NaN: the line has a gap there, and a mark at the upper edge */
    size_t       count, room;
    int          run; /* colour and dashes */
    plot_form    form;
    const char  *name; /* at the end of the line, with the last value; NULL: none */
    const char  *what; /* in data-line: "batch", "train", "measured" */
} plot_line;

typedef struct plot {
    const char *title, *unit;      /* "Loss", "by epoch" */
    const char *(*say)(double y);  /* a value at the end of a line */
    double    x_max;               /* epochs, from 0 */
    bool      from_zero, per_cent; /* per_cent: y from 0 to 100 at most */
    plot_line lines[PLOT_LINES];
    int       line_count;
    bool      failed; /* memory is exhausted */
} plot;

plot_line *plot_line_new(plot *p, int run, plot_form form, const char *what, const char *name);
void       plot_point(plot *p, plot_line *line, double x, double y);

/* True if there is a finite value. */
bool plot_has_values(const plot *p);

/* Draw it, and free the points. `sentence` says in words what there is to see. */
void plot_write(html *h, plot *p, const char *sentence);

#endif
