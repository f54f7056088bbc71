#include "cli/shared/chart.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/shared/axis.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

enum { LEAST_WIDTH = 10, MOST_WIDTH = 300, MOST_HEIGHT = 48, MOST_EPOCHS = 100000000, LABEL = 16 };

static void add(chart_point **points, size_t *count, size_t *room, double x, double y)
{
    if (!isfinite(x) || !isfinite(y) || fabs(y) > 1e300) /* a difference of two must be finite, too */
        return;
    if (*count == *room) {
        size_t       wanted = *room ? 2 * *room : 64;
        chart_point *grown = realloc(*points, wanted * sizeof *grown);
        if (!grown)
            return;
        *points = grown;
        *room = wanted;
    }
    (*points)[(*count)++] = (chart_point){x, y};
}

void chart_add(chart *c, double x, double y)
{
    add(&c->points, &c->point_count, &c->point_room, x, y);
}

void chart_mark(chart *c, double x, double y)
{
    add(&c->marks, &c->mark_count, &c->mark_room, x, y);
}

void chart_free(chart *c)
{
    free(c->points);
    free(c->marks);
    *c = (chart){0};
}

/* Round values from `low` up, `step` apart and every `rows` rows; the highest row is at or above the highest value. */
typedef struct scale {
    double low, step;
    int    rows, height;
    int    decimals; /* of labels; -1: as few digits as %g needs */
} scale;

/* The dots of a braille character: 2 across, 4 down. */
enum { ACROSS = 2, DOWN = 4, MOST_DOTS = ACROSS * (MOST_WIDTH + 1) };

typedef struct canvas {
    scale         y;
    double        x_max;
    int           width;                                  /* of the part right of the first column */
    bool          braille;                                /* else a sign for each cell */
    char          cells[MOST_HEIGHT + 1][MOST_WIDTH + 1]; /* ' ', '.' or 'o' */
    unsigned char dots[MOST_HEIGHT + 1][MOST_WIDTH + 1];  /* of the line, as bits of a braille character */
    double        means[MOST_DOTS];                       /* of the points of a column */
    int           counts[MOST_DOTS];                      /* of these */
} canvas;

/* ---- scales ---- */

/* What fits best into about `height` rows. */
static scale make_scale(double low, double high, int height)
{
    enum { INTERVALS = 4 };
    scale s;
    if (high - low < 1e-6 * fmax(fabs(high), 1e-30)) { /* flat */
        double around = fmax(0.05 * fabs(high), 1e-30);
        low -= around;
        high += around;
    }
    s.step = axis_step((high - low) / INTERVALS);
    s.low = floor(low / s.step) * s.step;
    s.rows = whole_within(round(height * s.step / (high - low)), 2, MOST_HEIGHT);
    s.height = whole_within(ceil((high - s.low) / s.step * s.rows - 1e-6), 1, MOST_HEIGHT);
    s.decimals = s.step >= 1 ? 0 : whole_within(ceil(-log10(s.step) - 1e-9), 0, 400);
    if (s.decimals > 4 || fmax(fabs(low), fabs(high)) >= 1e6)
        s.decimals = -1;
    return s;
}

static int label_text(const scale *s, int tick, char out[LABEL])
{
    double value = s->low + tick * s->step;
    if (fabs(value) < 1e-6 * s->step)
        value = 0; /* and not -0 */
    return s->decimals < 0 ? snprintf(out, LABEL, "%.4g", value) : snprintf(out, LABEL, "%.*f", s->decimals, value);
}

static int label_width(const scale *s)
{
    char text[LABEL];
    int  width = 0;
    for (int tick = 0; tick * s->rows <= s->height; tick++)
        width = label_text(s, tick, text) > width ? (int)strlen(text) : width;
    return width;
}

/* ---- points ---- */

static void include(double *low, double *high, const chart_point *points, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *low = fmin(*low, points[i].y);
        *high = fmax(*high, points[i].y);
    }
}

static int column(const canvas *v, double x)
{
    return whole_within(x / v->x_max * v->width, 0, v->width);
}

static int row(const canvas *v, double y)
{
    return v->y.height - whole_within(round((y - v->y.low) / v->y.step * v->y.rows), 0, v->y.height);
}

/* How many points of the line a cell has from left to right. */
static int fineness(const canvas *v)
{
    return v->braille ? ACROSS : 1;
}

/* `at` counts the points of the line from the left. */
static void draw_dot(canvas *v, int at, double y)
{
    static const unsigned char bits[DOWN][ACROSS] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int                  most = DOWN * (v->y.height + 1) - 1;
    /* a value at the middle of a cell is between its second and its third dot */
    const double from_top = v->y.height + 0.5 - (y - v->y.low) / v->y.step * v->y.rows;
    const int    down = whole_within(floor(from_top * DOWN), 0, most);
    if (v->braille)
        v->dots[down / DOWN][at / ACROSS] |= bits[down % DOWN][at % ACROSS];
    else
        v->cells[row(v, y)][at] = '.';
}

/* The mean of the points of each column, and a line between those. */
static void draw_points(canvas *v, const chart *c)
{
    int       last = -1;
    const int most = fineness(v) * (v->width + 1) - 1;
    for (size_t i = 0; i < c->point_count; i++) {
        int at = whole_within(c->points[i].x / v->x_max * most, 0, most);
        v->means[at] += (c->points[i].y - v->means[at]) / ++v->counts[at];
    }
    for (int at = 0; at <= most; at++) {
        if (!v->counts[at])
            continue;
        for (int between = last < 0 ? at : last; between <= at; between++) {
            double share = at > last && last >= 0 ? (double)(between - last) / (at - last) : 1;
            double y = share < 1 ? v->means[last] + share * (v->means[at] - v->means[last]) : v->means[at];
            draw_dot(v, between, y);
        }
        last = at;
    }
}

static void draw_marks(canvas *v, const chart *c)
{
    for (size_t i = 0; i < c->mark_count; i++)
        v->cells[row(v, c->marks[i].y)][column(v, c->marks[i].x)] = 'o';
}

/* ---- printing ---- */

/* Epochs between two labels, so that these do not touch. */
static int epoch_step(const canvas *v)
{
    char text[LABEL];
    int  room = snprintf(text, sizeof text, "%.0f", v->x_max) + 3;
    return whole_within(axis_step(v->x_max * room / v->width), 1, MOST_EPOCHS);
}

static void print_epochs(const canvas *v, int margin)
{
    static const char unit[] = "epochs";
    char              axis[MOST_WIDTH + 3], labels[MOST_WIDTH + LABEL + sizeof unit];
    int               step = epoch_step(v), last = whole_within(v->x_max, 0, MOST_EPOCHS) / step * step;
    memset(axis, '-', sizeof axis);
    memset(labels, ' ', sizeof labels);
    for (int epoch = 0; epoch <= last; epoch += step) {
        char text[LABEL];
        int  length = snprintf(text, sizeof text, "%d", epoch);
        int  at = epoch ? 1 + column(v, epoch) : 0; /* 0 is the corner */
        int  begin = at - (epoch ? length / 2 : 0);
        axis[at] = '+';
        memcpy(labels + begin, text, (size_t)length);
        labels[begin + length] = 0;
        if (epoch + step <= last)
            labels[begin + length] = ' ';
    }
    axis[v->width + 2] = 0;
    printf("%*s %s\n%*s %s %s\n", margin, "", axis, margin, "", labels, unit);
}

/* A character of three bytes from U+2800 on, for the dots; a filled circle for a mark. */
static void print_cell(const canvas *v, int line, int at)
{
    const unsigned dots = v->dots[line][at];
    if (v->cells[line][at] == 'o') {
        set_style(STYLE_MARK);
        fputs("\xe2\x97\x8f", stdout);
    } else if (dots) {
        set_style(STYLE_LINE);
        printf("\xe2%c%c", (int)(0xa0 + (dots >> 6)), (int)(0x80 + (dots & 0x3f)));
    } else {
        putchar(' ');
        return;
    }
    set_style(STYLE_PLAIN);
}

static bool is_blank(const canvas *v, int line, int at)
{
    return v->cells[line][at] == ' ' && !v->dots[line][at];
}

static void print_canvas(canvas *v, int margin)
{
    for (int i = 0; i <= v->y.height; i++) {
        char label[LABEL] = "";
        int  length = v->width + 1;
        if ((v->y.height - i) % v->y.rows == 0)
            label_text(&v->y, (v->y.height - i) / v->y.rows, label);
        while (length && is_blank(v, i, length - 1))
            length--;
        printf("%*s |%.*s", margin, label, v->braille ? 0 : length, v->cells[i]);
        for (int at = 0; v->braille && at < length; at++)
            print_cell(v, i, at);
        putchar('\n');
    }
    print_epochs(v, margin);
}

static void print_sign(const canvas *v, text_style style, const char *braille, const char *plain)
{
    if (v->braille)
        set_style(style);
    fputs(v->braille ? braille : plain, stdout);
    if (v->braille)
        set_style(STYLE_PLAIN);
}

/* NULL: there are no marks. */
static void print_key(const canvas *v, const char *marks)
{
    fputs("  ", stdout);
    print_sign(v, STYLE_LINE, "\xe2\xa0\xa4\xe2\xa0\xa4", ".");
    fputs(" training", stdout);
    if (!marks)
        return;
    fputs("   ", stdout);
    print_sign(v, STYLE_MARK, "\xe2\x97\x8f", "o");
    printf(" %s", marks);
}

static void print_chart(canvas *v, const chart *c, const char *marks)
{
    double    low = INFINITY, high = -INFINITY;
    const int columns = terminal_width(STDOUT_FILENO);
    include(&low, &high, c->points, c->point_count);
    include(&low, &high, c->marks, c->mark_count);
    v->y = make_scale(low, high, columns < 60 ? 8 : columns < 120 ? 12 : 16);
    int margin = label_width(&v->y);
    margin = margin < 4 ? 4 : margin;
    int last = snprintf(NULL, 0, "%.0f", v->x_max) / 2; /* what stands right of the axis of its label */
    v->width = columns - margin - last - (int)sizeof " |  epochs";
    v->width = v->width < LEAST_WIDTH ? LEAST_WIDTH : v->width > MOST_WIDTH ? MOST_WIDTH : v->width;
    memset(v->cells, ' ', sizeof v->cells);
    draw_points(v, c);
    draw_marks(v, c);
    printf("\n%*s", margin, "loss");
    if (columns >= 40)
        print_key(v, c->mark_count ? marks : NULL);
    putchar('\n');
    print_canvas(v, margin);
}

void chart_print(const chart *c, double x_max, const char *marks)
{
    canvas *v = c->point_count < 2 ? NULL : calloc(1, sizeof *v); /* too large for a small stack */
    if (!v)
        return;
    v->x_max = x_max >= 1 ? x_max : 1;
    v->braille = terminal_shows_utf8(STDOUT_FILENO);
    print_chart(v, c, marks);
    free(v);
}
