/* A chart of numbers as text. */
#ifndef CLI_SHARED_CHART_H
#define CLI_SHARED_CHART_H

#include <stddef.h>

typedef struct chart_point {
    double x, y;
} chart_point;

/* A line of points, and marks that stand out from it. */
typedef struct chart {
    chart_point *points, *marks;
    size_t       point_count, point_room, mark_count, mark_room;
} chart;

/* Points that are not finite, and those for which memory does not suffice, are left out. */
void chart_add(chart *c, double x, double y);
void chart_mark(chart *c, double x, double y);

/* Draw it on standard output, as wide as the terminal, x running from 0 to x_max epochs: values at round numbers on the
 * left, epochs below. Nothing is drawn for less than two points. `marks` says what the marks are: "test". */
void chart_print(const chart *c, double x_max, const char *marks);
void chart_free(chart *c);

#endif
