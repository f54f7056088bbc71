#include "chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"

enum { LEAST_WIDTH = 20, MOST_WIDTH = 120, AROUND = 18, HEIGHT = 12 }; /* AROUND: columns left and right of it */

static void add(chart_point **points, size_t *count, size_t *room, double x, double y)
{
    if (!isfinite(y))
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

typedef struct canvas {
    double low, high, x_max;
    int    width;
    char   cells[HEIGHT][MOST_WIDTH + 1];
} canvas;

static void include(canvas *v, const chart_point *points, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        v->low = fmin(v->low, points[i].y);
        v->high = fmax(v->high, points[i].y);
    }
}

static int column(const canvas *v, double x)
{
    int at = (int)(x / v->x_max * v->width);

    return at < 0 ? 0 : at >= v->width ? v->width - 1 : at;
}

static int row(const canvas *v, double y)
{
    int at = (int)lround((v->high - y) / (v->high - v->low) * (HEIGHT - 1));

    return at < 0 ? 0 : at >= HEIGHT ? HEIGHT - 1 : at;
}

/* The mean of the points of each column. */
static void draw_points(canvas *v, const chart *c)
{
    double sums[MOST_WIDTH] = {0};
    int    counts[MOST_WIDTH] = {0};

    for (size_t i = 0; i < c->point_count; i++) {
        int at = column(v, c->points[i].x);
        sums[at] += c->points[i].y;
        counts[at]++;
    }
    for (int at = 0; at < v->width; at++)
        if (counts[at])
            v->cells[row(v, sums[at] / counts[at])][at] = '*';
}

static void print_axis(const canvas *v)
{
    char line[MOST_WIDTH + 16];
    int  epochs = (int)ceil(v->x_max), last_end = -2;

    memset(line, ' ', sizeof line);
    for (int epoch = 0; epoch <= epochs; epoch++) {
        char label[16];
        int  length = snprintf(label, sizeof label, "%d", epoch);
        int  at = epoch == epochs ? v->width - length : column(v, epoch) - (epoch ? length / 2 : 0);
        if (at < last_end + 2 || (epoch < epochs && at + length + 6 > v->width && epoch))
            continue;
        memcpy(line + at, label, (size_t)length);
        last_end = at + length;
    }
    line[v->width] = 0;
    printf("         %s  epochs\n", line);
}

void chart_print(const chart *c, double x_max, const char *title)
{
    canvas v = {.low = INFINITY, .high = -INFINITY, .x_max = x_max > 0 ? x_max : 1};

    if (c->point_count < 2)
        return;
    v.width = terminal_width() - AROUND;
    v.width = v.width < LEAST_WIDTH ? LEAST_WIDTH : v.width > MOST_WIDTH ? MOST_WIDTH : v.width;
    include(&v, c->points, c->point_count);
    include(&v, c->marks, c->mark_count);
    if (v.high - v.low < 1e-12)
        v.high = v.low + 1e-12;
    memset(v.cells, ' ', sizeof v.cells);
    draw_points(&v, c);
    for (size_t i = 0; i < c->mark_count; i++)
        v.cells[row(&v, c->marks[i].y)][column(&v, c->marks[i].x)] = 'o';
    printf("\n         %s\n", title);
    for (int i = 0; i < HEIGHT; i++) {
        double value = v.high - (v.high - v.low) * i / (HEIGHT - 1);
        int    length = v.width;
        while (length && v.cells[i][length - 1] == ' ')
            length--;
        v.cells[i][length] = 0;
        if (i % 4 == 0 || i == HEIGHT - 1)
            printf("%7.3f |%s\n", value, v.cells[i]);
        else
            printf("        |%s\n", v.cells[i]);
    }
    printf("        +");
    for (int i = 0; i < v.width; i++)
        putchar('-');
    putchar('\n');
    print_axis(&v);
}
