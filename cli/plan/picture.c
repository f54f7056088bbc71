/* A plan as an SVG: a box for each row, coloured by device, and the tensors between them. */
#include <errno.h>
#include <string.h>

#include "base/numbers.h"
#include "cli/plan/show.h"
#include "cli/shared/cli.h"

enum {
    ROW = 46,    /* from one box to the next */
    BOX = 26,    /* height of a box */
    LEFT = 330,  /* of the boxes: arcs to the left of them */
    WIDTH = 250, /* of a box */
    TOP = 92,    /* of the first box */
    RIGHT = 520, /* for reasons */
    ARC = 22     /* from one arc to the next */
};

static const char *const fills[HAUL__PLACE_DEVICES] = {"#dbe9f6", "#fde3c8", "#d9efd9", "#ece0f5", "#f9dcdc",
                                                       "#dff3f3", "#f4f0d0", "#ead9cf", "#e4e4e4"};
static const char *const lines[HAUL__PLACE_DEVICES] = {"#3b78b5", "#d9822b", "#3f9142", "#8257a8", "#c0504d",
                                                       "#2a9d9d", "#a89b2c", "#8c5a3c", "#777777"};

static void put_text(FILE *file, const char *text)
{
    char shown[400];
    visible_text(shown, sizeof shown, text);
    for (const char *c = shown; *c; c++)
        if (*c == '<' || *c == '>' || *c == '&')
            fprintf(file, "&#%d;", *c);
        else
            putc(*c, file);
}

static void put_label(FILE *file, int x, int y, const char *class, const char *text)
{
    fprintf(file, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
    put_text(file, text);
    fprintf(file, "</text>\n");
}

static int row_y(size_t row)
{
    return TOP + (int)row * ROW;
}

static void put_row(FILE *file, const study *s, size_t i, int64_t longest)
{
    const plan_row *r = &s->rows[i];
    char            reason[300];
    haul__plan_reason(s->plan, &r->why, reason, sizeof reason);
    fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"%s\" stroke=\"%s\"/>\n", LEFT,
            row_y(i), WIDTH, BOX, fills[r->device], lines[r->device]);
    put_label(file, LEFT + 10, row_y(i) + 17, "name", r->label);
    put_label(file, LEFT + WIDTH - 10, row_y(i) + 17, "end", r->ps ? text_ps_like(r->ps, longest) : "");
    put_label(file, LEFT + WIDTH + 14, row_y(i) + 17, "note", reason);
}

/* The bytes in both directions between two rows. */
static void bytes_between(const study *s, size_t a, size_t b, int64_t bytes[2])
{
    bytes[0] = bytes[1] = 0;
    for (size_t i = 0; i < s->edge_count; i++) {
        const plan_edge *e = &s->edges[i];
        if ((e->from == a && e->to == b) || (e->from == b && e->to == a))
            bytes[e->from != a] += e->bytes;
    }
}

static void bytes_label(const int64_t bytes[2], char *out, size_t size)
{
    if (bytes[0] && bytes[1])
        snprintf(out, size, "%s, back %s", text_bytes(bytes[0]), text_bytes(bytes[1]));
    else
        snprintf(out, size, "%s%s", bytes[0] ? "" : "back ", text_bytes(bytes[0] + bytes[1]));
}

static void put_neighbours(FILE *file, const study *s, size_t i)
{
    int64_t    bytes[2];
    char       label[80];
    const bool copied = s->rows[i].device != s->rows[i + 1].device;
    const int  x = LEFT + 40, y = row_y(i) + BOX;
    bytes_between(s, i, i + 1, bytes);
    if (!bytes[0] && !bytes[1])
        return;
    bytes_label(bytes, label, sizeof label);
    fprintf(file, "<path d=\"M%d %dV%d\" class=\"%s\"/>\n", x, y, y + ROW - BOX, copied ? "copy" : "edge");
    put_label(file, x + 8, y + 14, copied ? "copied" : "bytes", label);
}

/* An arc on the left, in a lane of its own. */
static void put_arc(FILE *file, const study *s, size_t a, size_t b, int lane)
{
    int64_t    bytes[2];
    char       label[80];
    const bool copied = s->rows[a].device != s->rows[b].device;
    const int  x = LEFT - 14 - lane * ARC, from = row_y(a) + BOX / 2, to = row_y(b) + BOX / 2;
    bytes_between(s, a, b, bytes);
    bytes_label(bytes, label, sizeof label);
    fprintf(file, "<path d=\"M%d %dH%dV%dH%d\" class=\"%s\"><title>", LEFT, from - 4 + 2 * (lane % 5), x,
            to - 4 + 2 * (lane % 5), LEFT, copied ? "copy" : "edge");
    put_text(file, s->rows[a].label);
    fprintf(file, " to ");
    put_text(file, s->rows[b].label);
    fprintf(file, ": %s</title></path>\n", label);
    fprintf(file, "<text class=\"%s\" transform=\"translate(%d %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
            copied ? "copied" : "bytes", x - 4, (from + to) / 2, label);
}

/* Arcs for copies first; there is room for so many. */
static void put_arcs(FILE *file, const study *s)
{
    enum { LANES = (LEFT - 30) / ARC };
    int lane = 0;
    for (int copied = 1; copied >= 0; copied--)
        for (size_t length = 2; length < s->row_count; length++)
            for (size_t a = 0; a + length < s->row_count && lane < LANES; a++) {
                int64_t bytes[2];
                bytes_between(s, a, a + length, bytes);
                if ((s->rows[a].device != s->rows[a + length].device) == copied && (bytes[0] || bytes[1]))
                    put_arc(file, s, a, a + length, lane++);
            }
}

static void put_legend(FILE *file, const study *s, const char *title)
{
    enum { NAME = 7, SWATCH = 36 }; /* widths: a character, and the space around a name */
    const int devices = haul__plan_device_count(s->plan);
    int       x = 20;
    char      text[700];
    put_label(file, 20, 28, "title", title);
    int64_t longest = s->plan->best->cost;
    for (int d = 0; d < devices; d++)
        longest = larger(longest, s->plan->single[d].cost);
    size_t used = (size_t)snprintf(text, sizeof text, "%s a step", text_ps_like(s->plan->best->cost, longest));
    for (int d = 0; d < devices && used < sizeof text; d++)
        used += (size_t)snprintf(text + used, sizeof text - used, ", %s all on %s%s",
                                 text_ps_like(s->plan->single[d].cost, longest), s->plan->request.names[d],
                                 haul__place_fits(&s->plan->graph, s->plan->single[d].peaks) ? "" : " (does not fit)");
    put_label(file, 20, 48, "note", text);
    for (int d = 0; d < devices; d++) {
        const int width = SWATCH + NAME * (int)strlen(s->plan->request.names[d]);
        fprintf(file, "<rect x=\"%d\" y=\"60\" width=\"14\" height=\"14\" rx=\"3\" fill=\"%s\" stroke=\"%s\"/>\n", x,
                fills[d], lines[d]);
        put_label(file, x + 20, 71, "note", s->plan->request.names[d]);
        x += width < 110 ? 110 : width;
    }
    fprintf(file, "<path d=\"M%d 67H%d\" class=\"copy\"/>\n", x, x + 26);
    put_label(file, x + 32, 71, "note", "copied between the devices");
}

static void put_picture(FILE *file, const study *s, const char *title)
{
    const int width = LEFT + WIDTH + RIGHT, height = row_y(s->row_count) + 10;
    int64_t   longest = 0;
    for (size_t i = 0; i < s->row_count; i++)
        longest = larger(longest, s->rows[i].ps);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
            "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}.note{fill:#555}"
            ".end{text-anchor:end}.bytes{fill:#777;font-size:10px}.copied{fill:#c0392b;font-size:10px}"
            ".edge,.copy{fill:none;stroke:#999}.copy{stroke:#c0392b;stroke-width:2}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            width, height, width, height, width, height);
    put_legend(file, s, title);
    put_arcs(file, s);
    for (size_t i = 0; i < s->row_count; i++) {
        put_row(file, s, i, longest);
        if (i + 1 < s->row_count)
            put_neighbours(file, s, i);
    }
    fprintf(file, "</svg>\n");
}

bool write_plan_svg(const study *s, const char *title, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file)
        put_picture(file, s, title);
    const bool failed = file && ferror(file);
    const bool closed = file && !fclose(file) && !failed;
    if (!closed)
        complain("%s cannot be written: %s", path, strerror(errno));
    return closed;
}
