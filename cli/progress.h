/* The progress bar: one line that is drawn over, on a terminal only. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress_bar {
    bool   on;
    bool   shown;
    double drawn_at; /* seconds */
} progress_bar;

/* Columns of the terminal that standard output is; 80 if it is none. */
int terminal_width(void);

/* On when standard output is a terminal that can move its cursor. */
void progress_init(progress_bar *p, bool wanted);

/* Draw, at most ten times a second: "Epoch 1/2 [====>    ] 412/782 loss 1.402 24,512/s 0:09 left". */
typedef struct progress_state {
    const char *label;
    int64_t     done, total;
    double      loss;       /* NaN: not known yet */
    double      per_second; /* examples; 0: not known yet */
    double      seconds_left;
} progress_state;
void progress_draw(progress_bar *p, const progress_state *state);

/* Take the bar away before a line is printed. */
void progress_clear(progress_bar *p);

#endif
