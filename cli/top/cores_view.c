/* The cores of the CPU: a line with a column for each core, or a grid with a bar and a number for each. */
#include <stdio.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/top/text.h"
#include "cli/top/view.h"

/* LABEL: "CORES"; CELL: the least columns of a core in the grid, MOST: those that it has use for. */
enum { LABEL = 10, CELL = 18, MOST = 40, NUMBER = 4, PERCENT = 6 };

static int line_room(int width)
{
    return width > LABEL + 1 ? width - LABEL : 1;
}

/* Cores in a line of the grid. */
static int across(const top_model *m, int width)
{
    const int fit = width > CELL ? width / CELL : 1;
    return fit < m->core_count ? fit : m->core_count;
}

int top_core_lines(const top_model *m, int width, bool grid)
{
    const int each = grid ? across(m, width) : line_room(width);
    return m->core_count < 2 ? 0 : (m->core_count + each - 1) / each;
}

static void put_line(top_canvas *c, const top_model *m, int first)
{
    static top_history cores; /* as a graph of one line has its columns; cleared for each line */
    const int          room = line_room(c->width) < TOP_HISTORY ? line_room(c->width) : TOP_HISTORY;
    const int          left = m->core_count - first, count = left < room ? left : room;
    cores.count = 0;
    for (int i = 0; i < count; i++)
        top_history_add(&cores, m->cores[first + i]);
    canvas_line(c);
    canvas_left(c, TOP_DIM, LABEL, first ? "" : "cores");
    canvas_put(c, TOP_LINE, top_spark(&cores, count, 1, c->utf8));
}

/* "  3 ######.... 61 %" */
static void put_cell(top_canvas *c, const top_model *m, int core, int width)
{
    const double share = m->cores[core];
    const int    room = width - NUMBER - 1 - PERCENT, full = whole_within(share * room + 0.5, 0, room);
    char         number[16], bar[3 * MOST + 1] = "";
    snprintf(number, sizeof number, "%3d ", core);
    canvas_right(c, TOP_DIM, NUMBER, number);
    for (int i = 0; i < room; i++)
        strcat(bar, c->utf8 ? (i < full ? "█" : "·") : i < full ? "#" : ".");
    canvas_put(c, TOP_LINE, bar);
    canvas_right(c, TOP_PLAIN, PERCENT, top_percent(share));
    canvas_put(c, TOP_PLAIN, " ");
}

/* The numbers run from left to right. */
static void put_grid(top_canvas *c, const top_model *m, int lines)
{
    const int each = across(m, c->width), width = c->width / each < MOST ? c->width / each : MOST;
    for (int line = 0; line < lines; line++) {
        canvas_line(c);
        for (int i = line * each; i < (line + 1) * each && i < m->core_count; i++)
            put_cell(c, m, i, width);
    }
}

void top_put_cores(top_canvas *c, const top_model *m, bool grid, int lines)
{
    const int wanted = top_core_lines(m, c->width, grid), shown = lines < wanted ? lines : wanted;
    if (grid)
        put_grid(c, m, shown);
    for (int line = 0; !grid && line < shown; line++)
        put_line(c, m, line * line_room(c->width));
}
