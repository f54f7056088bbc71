/* Rows of the tables of haul top, in columns that fit the screen. */
#include <stdio.h>
#include <string.h>

#include "cli/top/text.h"
#include "cli/top/view.h"

static bool has_ranks(const top_model *m)
{
    for (int i = 0; i < m->process_count; i++)
        if (m->processes[i].page.ranks > 1)
            return true;
    return false;
}

static bool is_shown(const top_column *column, int width, bool ranks)
{
    return width >= column->from && (!column->until || width < column->until) && (ranks || !column->ranks);
}

/* The columns that the one without a width takes. */
static int rest_of(const top_column *columns, int count, int width, bool ranks)
{
    int rest = width;
    for (int i = 0; i < count; i++)
        if (is_shown(&columns[i], width, ranks))
            rest -= columns[i].width;
    return rest;
}

void top_put_titles(top_canvas *c, int margin, const top_column *columns, int count, const top_model *m)
{
    const bool ranks = has_ranks(m);
    const int  rest = rest_of(columns, count, c->width, ranks) - margin;
    canvas_line(c);
    canvas_tab(c, margin);
    for (int i = 0; i < count; i++) {
        if (!is_shown(&columns[i], c->width, ranks))
            continue;
        const char *title = !c->utf8 && columns[i].ascii_title ? columns[i].ascii_title : columns[i].title;
        (columns[i].left ? canvas_left : canvas_right)(c, TOP_DIM, columns[i].width ? columns[i].width : rest, title);
    }
}

void top_put_row(top_canvas *c, int margin, const top_column *columns, int count, const top_model *m, int place)
{
    const bool ranks = has_ranks(m);
    const int  rest = rest_of(columns, count, c->width, ranks) - margin;
    for (int i = 0; i < count; i++)
        if (is_shown(&columns[i], c->width, ranks))
            columns[i].put(c, m, place, columns[i].width ? columns[i].width : rest);
}
