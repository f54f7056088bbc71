/* What haul top shows, as lines on a canvas: the same for the screen and for --once. */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include "cli/top/canvas.h"
#include "cli/top/top.h"

typedef enum top_sort {
    TOP_BY_SPEED,
    TOP_BY_MEMORY,
    TOP_BY_WAITS,
    TOP_BY_LEFT,
    TOP_BY_NAME,
    TOP_BY_PID,
    TOP_SORTS
} top_sort;

enum { TOP_LEAST_WIDTH = 36, TOP_LEAST_HEIGHT = 8, TOP_FILTER = 40 };

typedef struct top_view {
    int      height; /* lines; 0: as many as it takes, and no keys */
    bool     utf8, colours;
    top_sort sort;
    char     filter[TOP_FILTER]; /* only processes whose name, device or number has this text */
    bool     typing;             /* the filter */
    bool     paused, help, history, others;
    bool     cores;    /* the grid of cores in place of their line */
    int64_t  selected; /* the number of a process; 0: the first of the list */
    int      first;    /* place in the list of the first process that is shown */
    double   interval; /* seconds */
} top_view;

/* Draws on an empty canvas of the right width, and corrects `selected` and `first`. */
void top_view_draw(top_view *v, const top_model *m, top_canvas *c);

/* The places in the model of the processes that the view lists, in order; returns how many. */
int top_view_list(const top_view *v, const top_model *m, int places[TOP_PROCESSES]);

/* Select the process so many places further down the list. */
void top_view_move(top_view *v, const top_model *m, int by);

/* ---- parts ---- */

/* A column of a table. One without a width takes what the others leave. */
typedef struct top_column {
    const char *title, *ascii_title; /* the second where the first is not ASCII; NULL: it is */
    int         width;
    int         from, until; /* columns of the terminal, the second excluded; 0: any */
    bool        left;        /* where the title stands */
    bool        ranks;       /* only while processes are ranks of a launcher */
    void (*put)(top_canvas *c, const top_model *m, int place, int width);
} top_column;

/* A line of titles, and a row at the end of a line that was begun. The margin is the columns before them. */
void top_put_titles(top_canvas *c, int margin, const top_column *columns, int count, const top_model *m);
void top_put_row(top_canvas *c, int margin, const top_column *columns, int count, const top_model *m, int place);

/* Lines of the table of devices: its titles, and one device. */
void top_put_device_titles(top_canvas *c, const top_model *m);
void top_put_device(top_canvas *c, const top_model *m, int place);

/* The same for processes; `selected` marks it. */
void top_put_process_titles(top_canvas *c, const top_model *m);
void top_put_process(top_canvas *c, const top_model *m, int place, bool selected);

/* The cores of the CPU on so many lines: one column for each core, or a grid of bars. top_core_lines says how many it
 * takes; 0 if there is one core, or none is known. */
int  top_core_lines(const top_model *m, int width, bool grid);
void top_put_cores(top_canvas *c, const top_model *m, bool grid, int lines);

/* Graphs of a process on so many lines, the most important ones first. */
void top_put_graphs(top_canvas *c, const top_model *m, int place, int lines);

/* Screens in the place of all else. */
void top_put_help(top_canvas *c);
void top_put_history(top_canvas *c, const top_model *m, int place, int height);

#endif
