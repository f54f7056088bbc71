/* The progress bar: one line on standard error that is drawn over, if that is a terminal. */
#ifndef CLI_SHARED_PROGRESS_H
#define CLI_SHARED_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress_bar {
    bool    on;
    bool    shown;
    double  drawn_at; /* seconds */
    int     layout;   /* of the last line: what has left comes back only in another epoch or another width */
    int     width;
    int64_t epoch;
} progress_bar;

/* Numbers that are not known are NaN and leave no mark. */
typedef struct progress_state {
    int64_t     epoch, epochs;
    const char *pass;        /* "tests", "validates"; NULL: it trains */
    const char *note;        /* shown in place of what follows the epoch, "compiling kernels"; NULL: nothing */
    int64_t     done, total; /* mini-batches */
    double      loss, accuracy;
    double      per_second;              /* examples */
    double      elapsed, left, run_left; /* seconds */
} progress_state;

/* On when it is wanted and standard error is a terminal that can move its cursor. */
void progress_init(progress_bar *p, bool wanted);

/* True if a line would be drawn now: at most ten a second are. */
bool progress_due(const progress_bar *p);

/* Draw at once, a little shorter than the terminal is wide:
 *
 *     Epoch 3/5 [==========>      ] 468/782  loss 1.241  55.4 %  left 0:01, run 0:08
 */
void progress_draw(progress_bar *p, const progress_state *state);

/* Show a text in place of the bar. */
void progress_say(progress_bar *p, const char *text);

/* Take the bar that is shown away, before a line is printed. */
void progress_clear(void);

/* The same, and no thread shows one until progress_go_on. */
void progress_hold(void);
void progress_go_on(void);

#endif
