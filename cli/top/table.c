/* Rows of the tables of haul top, in columns that fit the screen. */
#include <stdio.h>
#include <string.h>

#include "cli/top/text.h"
#include "cli/top/view.h"

static bool is_shown(const top_column *column, int width)
{
    return width >= column->from && (!column->until || width < column->until);
}

/* The columns that the one without a width takes. */
static int rest_of(const top_column *columns, int count, int width)
{
    int rest = width;
    for (int i = 0; i < count; i++)
        if (is_shown(&columns[i], width))
            rest -= columns[i].width;
    return rest;
}

void top_put_titles(top_canvas *c, int margin, const top_column *columns, int count)
{
    const int rest = rest_of(columns, count, c->width) - margin;
    canvas_line(c);
    canvas_tab(c, margin);
    for (int i = 0; i < count; i++) {
        if (!is_shown(&columns[i], c->width))
            continue;
        const char *title = !c->utf8 && columns[i].ascii_title ? columns[i].ascii_title : columns[i].title;
        (columns[i].left ? canvas_left : canvas_right)(c, TOP_DIM, columns[i].width ? columns[i].width : rest, title);
    }
}

void top_put_row(top_canvas *c, int margin, const top_column *columns, int count, const top_model *m, int place)
{
    const int rest = rest_of(columns, count, c->width) - margin;
    for (int i = 0; i < count; i++)
        if (is_shown(&columns[i], c->width))
            columns[i].put(c, m, place, columns[i].width ? columns[i].width : rest);
}
