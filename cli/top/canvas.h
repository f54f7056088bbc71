/* Lines of text in cells of fixed width, with styles, for any kind of output. */
#ifndef CLI_TOP_CANVAS_H
#define CLI_TOP_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

/* Styles only repeat what the text says. TOP_LINE and TOP_MARK are the two colours of graphs: of speed and memory, and
 * of learning. */
typedef enum top_style { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_ALERT, TOP_SELECTED, TOP_LINE, TOP_MARK } top_style;

enum { TOP_LINE_BYTES = 2048, TOP_SPANS = 48, TOP_LINES = 512 };

typedef struct top_span {
    size_t    from, to; /* bytes of the line */
    top_style style;
} top_span;

typedef struct top_line {
    char     text[TOP_LINE_BYTES]; /* what a terminal would obey is made visible */
    size_t   used;
    int      columns;
    top_span spans[TOP_SPANS];
    int      span_count;
} top_line;

typedef struct top_canvas {
    int      width; /* columns */
    bool     utf8;  /* else everything beyond ASCII is a question mark */
    int      count;
    top_line lines[TOP_LINES];
} top_canvas;

/* Columns that a text takes on the canvas. */
int canvas_columns(const top_canvas *c, const char *text);

/* Begin another line; the last one is overwritten where there are too many. */
void canvas_line(top_canvas *c);

/* Add a text, cut at the line's end. */
void canvas_put(top_canvas *c, top_style style, const char *text);

/* Add a text in exactly so many columns, cut with "~", at the left or (canvas_right) at the right of them. */
void canvas_left(top_canvas *c, top_style style, int columns, const char *text);
void canvas_right(top_canvas *c, top_style style, int columns, const char *text);

/* Spaces up to a column. */
void canvas_tab(top_canvas *c, int column);

/* The line is selected as a whole. */
void canvas_select(top_canvas *c);

#endif
