#include "cli/shared/progress.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

/* The lock is for ranks that are threads: one of them draws, and each may complain. */
static pthread_mutex_t screen = PTHREAD_MUTEX_INITIALIZER;
static progress_bar   *on_screen; /* the one that is shown */

void progress_init(progress_bar *p, bool wanted)
{
    *p = (progress_bar){.on = wanted && terminal_moves(STDERR_FILENO)};
}

bool progress_due(const progress_bar *p)
{
    if (!p->on)
        return false;
    pthread_mutex_lock(&screen);
    const bool shown = p->shown;
    pthread_mutex_unlock(&screen);
    return !shown || clock_seconds() - p->drawn_at >= 0.1;
}

void progress_hold(void)
{
    pthread_mutex_lock(&screen);
    if (!on_screen)
        return;
    fputs("\r\033[K", stderr);
    on_screen->shown = false;
    on_screen = NULL;
}

void progress_go_on(void)
{
    pthread_mutex_unlock(&screen);
}

void progress_clear(void)
{
    progress_hold();
    progress_go_on();
}

static void show(progress_bar *p, const char *text, int room)
{
    pthread_mutex_lock(&screen);
    p->shown = true;
    on_screen = p;
    fprintf(stderr, "\r%.*s\033[K", room, text);
    pthread_mutex_unlock(&screen);
}

/* ---- a line in parts ---- */

/* Some terminals wrap after the last column, and "^C" that is typed must not: the bar could not be erased. */
enum { MARGIN = 3 };

enum { LEAST_BAR = 6, MOST_BAR = 400 };

/* Texts are ASCII, so a byte is a column, but for the bar where the terminal shows UTF-8. */
typedef struct line {
    char before[256], bar[3 * MOST_BAR + 16], after[512];
} line;

static void append(char *text, size_t size, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", more);
}

enum {
    EPOCH_WORD = 1 << 0,
    BAR = 1 << 1,
    COUNT = 1 << 2,
    PERCENT = 1 << 3,
    LOSS_WORD = 1 << 4,
    LOSS = 1 << 5,
    ACCURACY_WORD = 1 << 6,
    ACCURACY = 1 << 7,
    SPEED = 1 << 8,
    ELAPSED = 1 << 9,
    LEFT = 1 << 10,
    LEFT_WORD = 1 << 11,
    RUN = 1 << 12
};

/* What a line has, from the widest on. The first that fits is taken. */
enum {
    SHORTEST = PERCENT,
    SHORT = PERCENT | LOSS | RUN,
    NARROW = BAR | LOSS | LOSS_WORD | RUN | LEFT_WORD,
    MEDIUM = NARROW | EPOCH_WORD | ACCURACY | LEFT,
    NORMAL = MEDIUM | COUNT,
    WIDE = NORMAL | SPEED
};
static const unsigned layouts[] = {WIDE | ELAPSED | ACCURACY_WORD, WIDE | ELAPSED, WIDE,  NORMAL,  MEDIUM,
                                   MEDIUM & ~(unsigned)LEFT,       NARROW,         SHORT, SHORTEST};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* "0:08", "2:14:05". */
static const char *clock_text(double seconds, char out[32])
{
    int s = whole_within(seconds + 0.5, 0, 360000000);
    if (s < 3600)
        snprintf(out, 32, "%d:%02d", s / 60, s % 60);
    else
        snprintf(out, 32, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
    return out;
}

/* A part of what follows the bar. A line without a bar has no room for wide gaps. */
static void HAUL_PRINTF(3, 4) add(line *l, unsigned parts, const char *format, ...)
{
    char    part[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof part, format, arguments);
    va_end(arguments);
    append(l->after, sizeof l->after, parts & BAR && *l->after ? "  " : " ");
    append(l->after, sizeof l->after, part);
}

static void add_place(line *l, unsigned parts, const progress_state *s)
{
    if (parts & COUNT)
        add(l, parts, "%lld/%lld", (long long)s->done, (long long)s->total);
    if (parts & PERCENT)
        add(l, parts, "%.0f %%", s->total > 0 ? floor(100 * (double)s->done / (double)s->total) : 0);
}

static void add_quality(line *l, unsigned parts, const progress_state *s)
{
    if (parts & LOSS && !isnan(s->loss))
        add(l, parts, fabs(s->loss) < 1e4 ? "%s%.3f" : "%s%.3g", parts & LOSS_WORD ? "loss " : "", s->loss);
    if (parts & ACCURACY && !isnan(s->accuracy))
        add(l, parts, "%s%.1f %%", parts & ACCURACY_WORD ? "accuracy " : "", 100 * s->accuracy);
    if (parts & SPEED && !isnan(s->per_second))
        add(l, parts, "%s/s", text_count(whole_number(s->per_second)));
}

static void add_times(line *l, unsigned parts, const progress_state *s)
{
    char left[32], run[32];
    if (parts & ELAPSED && !isnan(s->elapsed))
        add(l, parts, "elapsed %s", clock_text(s->elapsed, left));
    if (isnan(s->left) || isnan(s->run_left))
        return;
    clock_text(s->left, left);
    clock_text(s->run_left, run);
    if (parts & LEFT)
        add(l, parts, "left %s, run %s", left, run);
    else if (parts & RUN)
        add(l, parts, "%s%s", parts & LEFT_WORD ? "left " : "", run);
}

static void make_before(line *l, unsigned parts, const progress_state *s)
{
    bool names_pass = s->pass && !(parts & BAR); /* else the bar names it */
    snprintf(l->before, sizeof l->before, "%s%lld/%lld%s%s", parts & EPOCH_WORD ? "Epoch " : "", (long long)s->epoch,
             (long long)s->epochs, names_pass ? " " : "", names_pass ? s->pass : "");
}

static void make_after(line *l, unsigned parts, const progress_state *s)
{
    *l->after = 0;
    add_place(l, parts, s);
    add_quality(l, parts, s);
    add_times(l, parts, s);
}

/* The cells of a bar. The edge of the part that is done has several signs, from little to much. */
typedef struct bar_signs {
    const char *done, *left, *edge[8];
    int         edges;
} bar_signs;

/* " [=====>    ]" or, in another pass than training, " [tests ###---]", with so many columns between the brackets. */
static void make_bar(line *l, const progress_state *s, int columns)
{
    static const bar_signs ascii[] = {{"=", " ", {">"}, 1}, {"#", "-", {"-"}, 1}};
    static const bar_signs utf8[] = {{"█", " ", {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}, 8}, {"▒", "·", {"·"}, 1}};
    const bar_signs *b = &(terminal_shows_utf8(STDERR_FILENO) ? utf8 : ascii)[s->pass != NULL];
    const int        word = s->pass ? (int)strlen(s->pass) + 1 : 0, cells = columns - word;
    const double     done = s->total > 0 ? (double)s->done / (double)s->total * cells : 0;
    const int        full = whole_within(done, 0, cells);
    const int        edge = whole_within((done - full) * b->edges, 0, b->edges - 1);
    int              at = snprintf(l->bar, sizeof l->bar, " [%s%s", s->pass ? s->pass : "", s->pass ? " " : "");
    for (int i = 0; i < cells; i++)
        at += snprintf(l->bar + at, sizeof l->bar - (size_t)at, "%s",
                       i < full    ? b->done
                       : i == full ? b->edge[edge]
                                   : b->left);
    snprintf(l->bar + at, sizeof l->bar - (size_t)at, "]");
}

/* Fills the line. False if it does not fit. */
static bool lay_out(line *l, unsigned parts, const progress_state *s, int width)
{
    enum { FRAME = 3 }; /* " [" and "]" */
    *l->bar = 0;
    make_before(l, parts, s);
    make_after(l, parts, s);
    int left = width - (int)strlen(l->before) - (int)strlen(l->after);
    if (!(parts & BAR))
        return left >= 0;
    left -= FRAME;
    if (left < LEAST_BAR + (s->pass ? (int)strlen(s->pass) + 1 : 0))
        return false;
    make_bar(l, s, left < MOST_BAR ? left : MOST_BAR);
    return true;
}

/* What waits has no numbers. */
static void make_note(line *l, const progress_state *s)
{
    make_before(l, EPOCH_WORD | BAR, s);
    *l->bar = 0;
    *l->after = 0;
    add(l, BAR, "%s", s->note);
    add_times(l, BAR | ELAPSED, s);
}

/* ---- drawing ---- */

/* Add at most *room columns of the text, in a style. Only ASCII texts are cut: the bar was made to fit. */
static void put(char *out, size_t size, const char *text, text_style style, int *room)
{
    const char *code = style_code(STDERR_FILENO, style), *end = *code ? style_code(STDERR_FILENO, STYLE_PLAIN) : "";
    const int   columns = text_columns(text), bytes = columns <= *room ? (int)strlen(text) : *room;
    size_t      used = strlen(out);
    snprintf(out + used, size - used, "%s%.*s%s", code, bytes, text, end);
    *room -= columns < *room ? columns : *room;
}

static void choose_layout(progress_bar *p, line *l, const progress_state *s, int width)
{
    if (p->epoch != s->epoch || p->width != width)
        p->layout = 0;
    p->epoch = s->epoch;
    p->width = width;
    while (!lay_out(l, layouts[p->layout], s, width) && p->layout + 1 < LAYOUTS)
        p->layout++;
}

void progress_say(progress_bar *p, const char *text)
{
    if (!p->on)
        return;
    show(p, text, terminal_width(STDERR_FILENO) - MARGIN);
}

void progress_draw(progress_bar *p, const progress_state *s)
{
    char out[4096] = "";
    line l;
    int  room = terminal_width(STDERR_FILENO) - MARGIN;
    if (!p->on)
        return;
    p->drawn_at = clock_seconds();
    if (s->note)
        make_note(&l, s);
    else
        choose_layout(p, &l, s, room);
    fflush(stdout);
    put(out, sizeof out, l.before, STYLE_BOLD, &room);
    put(out, sizeof out, l.bar, STYLE_GOOD, &room);
    put(out, sizeof out, l.after, STYLE_PLAIN, &room);
    show(p, out, (int)sizeof out);
}
