#include "cli/top/canvas.h"

#include <string.h>
#include <wchar.h>

#include "base/text/utf8.h"

/* The bytes of the character at `text`, and its columns; what cannot be shown takes the one of a question mark. */
static size_t character(const top_canvas *c, const char *text, int *columns, bool *shown)
{
    const size_t bytes = haul__utf8_length((const uint8_t *)text, strnlen(text, 4));
    wchar_t      wide = 0;
    *columns = 1;
    *shown = true;
    if ((unsigned char)*text >= ' ' && (unsigned char)*text < 0x7f)
        return 1;
    *shown = false;
    if (!bytes)
        return 1;
    mbstate_t state = {0};
    if (c->utf8 && bytes > 1 && mbrtowc(&wide, text, bytes, &state) == bytes) {
        const int wanted = wcwidth(wide);
        *shown = wanted == 1 || wanted == 2;
        *columns = *shown ? wanted : 1;
    }
    return bytes;
}

int canvas_columns(const top_canvas *c, const char *text)
{
    int  sum = 0, columns;
    bool shown;
    while (*text) {
        text += character(c, text, &columns, &shown);
        sum += columns;
    }
    return sum;
}

void canvas_line(top_canvas *c)
{
    if (c->count < TOP_LINES)
        c->count++;
    top_line *line = &c->lines[c->count - 1];
    line->used = 0;
    line->columns = line->span_count = 0;
    line->text[0] = 0;
}

static void add_span(top_line *line, size_t from, top_style style)
{
    if (style != TOP_PLAIN && from < line->used && line->span_count < TOP_SPANS)
        line->spans[line->span_count++] = (top_span){from, line->used, style};
}

/* At most `room` columns of the text; returns how many. */
static int put(top_canvas *c, top_line *line, const char *text, int room)
{
    int  taken = 0, columns;
    bool shown;
    while (*text) {
        const size_t bytes = character(c, text, &columns, &shown);
        if (taken + columns > room || line->used + bytes + 1 > sizeof line->text)
            break;
        memcpy(line->text + line->used, shown ? text : "?", shown ? bytes : 1);
        line->used += shown ? bytes : 1;
        taken += columns;
        text += bytes;
    }
    line->text[line->used] = 0;
    line->columns += taken;
    return taken;
}

static void spaces(top_canvas *c, top_line *line, int count)
{
    for (; count > 0 && line->columns < c->width && line->used + 1 < sizeof line->text; count--) {
        line->text[line->used++] = ' ';
        line->columns++;
    }
    line->text[line->used] = 0;
}

void canvas_put(top_canvas *c, top_style style, const char *text)
{
    top_line    *line = &c->lines[c->count - 1];
    const size_t from = line->used;
    put(c, line, text, c->width - line->columns);
    add_span(line, from, style);
}

static void cell(top_canvas *c, top_style style, int columns, const char *text, bool right)
{
    top_line *line = &c->lines[c->count - 1];
    const int there = canvas_columns(c, text), end = line->columns + columns;
    if (columns <= 0 || line->columns >= c->width)
        return;
    if (right)
        spaces(c, line, columns - there);
    const size_t from = line->used;
    put(c, line, text, there > columns ? columns - 1 : columns);
    if (there > columns)
        put(c, line, "~", 1);
    add_span(line, from, style);
    spaces(c, line, end - line->columns);
}

void canvas_left(top_canvas *c, top_style style, int columns, const char *text)
{
    cell(c, style, columns, text, false);
}

void canvas_right(top_canvas *c, top_style style, int columns, const char *text)
{
    cell(c, style, columns, text, true);
}

void canvas_tab(top_canvas *c, int column)
{
    top_line *line = &c->lines[c->count - 1];
    spaces(c, line, column - line->columns);
}

void canvas_select(top_canvas *c)
{
    top_line *line = &c->lines[c->count - 1];
    line->spans[0] = (top_span){0, line->used, TOP_SELECTED};
    line->span_count = 1;
}
