#include "cli/report/draw/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/axis.h"
#include "cli/shared/cli.h"

enum { UNITS = 1000, MOST_POINTS = 800 };

/* ---- lines ---- */

plot_line *plot_line_new(plot *p, int run, plot_form form, const char *what, const char *name)
{
    plot_line *line = &p->lines[p->line_count++];
    *line = (plot_line){.run = run, .form = form, .what = what, .name = name};
    return line;
}

void plot_point(plot *p, plot_line *line, double x, double y)
{
    if (line->count == line->room) {
        size_t       wanted = line->room ? 2 * line->room : 64;
        chart_point *grown = realloc(line->points, wanted * sizeof *grown);
        p->failed = p->failed || !grown;
        if (!grown)
            return;
        line->points = grown;
        line->room = wanted;
    }
    line->points[line->count++] = (chart_point){x, fabs(y) < 1e300 ? y : (double)NAN};
}

static void free_lines(plot *p)
{
    for (int i = 0; i < p->line_count; i++)
        free(p->lines[i].points);
    p->line_count = 0;
}

/* ---- axes ---- */

typedef struct axis {
    double low, high, step; /* of a logarithmic one: decades */
    bool   logarithmic;
    int    decimals;
} axis;

typedef struct range {
    double low, high;
    size_t count;
} range;

static range range_of(const plot *p)
{
    range r = {INFINITY, -INFINITY, 0};
    for (int i = 0; i < p->line_count; i++)
        for (size_t j = 0; j < p->lines[i].count; j++)
            if (isfinite(p->lines[i].points[j].y)) {
                r.low = fmin(r.low, p->lines[i].points[j].y);
                r.high = fmax(r.high, p->lines[i].points[j].y);
                r.count++;
            }
    return r;
}

bool plot_has_values(const plot *p)
{
    return range_of(p).count > 0;
}

static axis logarithmic_axis(double low, double high)
{
    enum { DECADES = 5 };
    axis a = {.logarithmic = true, .low = floor(log10(low)), .high = ceil(log10(high) - 1e-9)};
    a.step = ceil((a.high - a.low) / DECADES);
    a.high = a.low + ceil((a.high - a.low) / a.step) * a.step;
    return a;
}

static axis linear_axis(double low, double high, bool per_cent)
{
    enum { INTERVALS = 4 };
    axis a;
    if (high - low < 1e-4 * fmax(fabs(high), 1e-30)) { /* flat: labels have no room for the digits that differ */
        double around = fmax(0.05 * fabs(high), 1e-30);
        low -= low == 0 ? 0 : around;
        high += around;
    }
    a = (axis){.step = axis_step((high - low) / INTERVALS)};
    a.low = floor(low / a.step + 1e-9) * a.step;
    a.high = ceil(high / a.step - 1e-9) * a.step;
    if (per_cent) {
        a.low = fmax(a.low, 0);
        a.high = fmin(a.high, 100);
    }
    a.decimals = a.step >= 1 ? 0 : whole_within(ceil(-log10(a.step) - 1e-9), 0, 400);
    return a;
}

static axis axis_of(const plot *p)
{
    range r = range_of(p);
    if (!p->from_zero && !p->per_cent && r.low > 0 && r.high / r.low > 200)
        return logarithmic_axis(r.low, r.high);
    if (p->from_zero || (r.low > 0 && r.low < 0.5 * r.high))
        r.low = fmin(r.low, 0);
    return linear_axis(r.low, r.high, p->per_cent);
}

/* From 0, at the upper edge, to UNITS. */
static double place(const axis *a, double y)
{
    double at = a->logarithmic ? log10(y) : y;
    return UNITS * (1 - (at - a->low) / (a->high - a->low));
}

/* Of a label without a fixed number of decimals: as many as neighbours differ in. */
static int digits_of(const axis *a)
{
    enum { LEAST = 3, MOST = 6 };
    return whole_within(1 + ceil(log10(fmax(fabs(a->low), fabs(a->high)) / a->step)), LEAST, MOST);
}

static void write_tick(html *h, const axis *a, double tick)
{
    if (a->logarithmic)
        html_add(h, fabs(tick) < 4 ? "%.4g" : "1e%.0f", fabs(tick) < 4 ? pow(10, tick) : tick);
    else if (fabs(a->high) >= 1e4 && a->step >= 100 && a->high < 1e6)
        html_add(h, tick > 0 ? "%.4gk" : "%.0f", tick / 1000);
    else if (a->decimals > 4 || fabs(a->high) >= 1e6)
        html_add(h, "%.*g", digits_of(a), fabs(tick) < 1e-6 * a->step ? 0 : tick);
    else
        html_add(h, "%.*f", a->decimals, fabs(tick) < 1e-6 * a->step ? 0 : tick);
}

static int tick_count(const axis *a)
{
    return axis_ticks(a->high - a->low + 0.5 * a->step, a->step);
}

static void write_grid(html *h, const axis *a)
{
    html_put(h, "<path class=\"grid\" d=\"");
    for (int i = 0; i < tick_count(a); i++)
        html_add(h, "M0 %.2fH%d", UNITS * (1 - (double)i * a->step / (a->high - a->low)), UNITS);
    html_put(h, "\"/><path class=\"axis\" d=\"M0 1000H1000\"/>");
}

static double x_step(const plot *p)
{
    return fmax(1, axis_step(p->x_max / 8));
}

static void write_ticks(html *h, const plot *p, const axis *a)
{
    for (int i = 0; i < tick_count(a); i++) {
        html_add(h, "<span class=\"y\" style=\"top:%.2f%%\">", 100 * (1 - (double)i * a->step / (a->high - a->low)));
        write_tick(h, a, a->low + (double)i * a->step);
        html_put(h, "</span>");
    }
    const double step = x_step(p);
    for (int i = 0; i < axis_ticks(p->x_max * 1.0001, step); i++)
        html_add(h, "<span class=\"x\" style=\"left:%.2f%%\">%.0f</span>", 100 * (i * step / p->x_max), i * step);
}

/* ---- paths ---- */

/* Points of a line that are drawn: all, or the least and the greatest of each of some sections. */
static bool is_drawn(const plot_line *line, size_t at)
{
    if (line->count <= MOST_POINTS)
        return true;
    size_t section = line->count / (MOST_POINTS / 2) + 1, first = at / section * section, low = first, high = first;
    for (size_t i = first; i < first + section && i < line->count; i++) {
        if (!isfinite(line->points[i].y))
            return at == i || isfinite(line->points[at].y);
        low = line->points[i].y < line->points[low].y ? i : low;
        high = line->points[i].y > line->points[high].y ? i : high;
    }
    return at == low || at == high;
}

static void begin_path(html *h, const plot_line *line, const char *form)
{
    html_add(h, "<path class=\"%s r%d\" data-run=\"%d\" data-line=\"%s\" d=\"", form, line->run, line->run, line->what);
}

static void write_line(html *h, const plot *p, const axis *a, const plot_line *line)
{
    static const char *const forms[] = {"raw", "soft", "main"};
    bool                     drawn = false;
    begin_path(h, line, forms[line->form]);
    for (size_t i = 0; i < line->count; i++) {
        const chart_point *point = &line->points[i];
        if (!is_drawn(line, i))
            continue;
        bool fits = isfinite(point->y);
        if (fits)
            html_add(h, "%s%.2f %.2f", drawn ? "L" : "M", UNITS * point->x / p->x_max, place(a, point->y));
        drawn = fits;
    }
    html_put(h, "\"/>");
}

/* A line from a point to itself with round ends: a dot of the same size however the SVG is scaled. */
static void write_dots(html *h, const plot *p, const axis *a, const plot_line *line)
{
    enum { MOST_DOTS = 50 };
    bool dense = line->count > MOST_DOTS || p->x_max > MOST_DOTS || line->form == PLOT_SOFT;
    if (line->form == PLOT_RAW || (dense && line->count > 1))
        return;
    begin_path(h, line, "dots");
    for (size_t i = 0; i < line->count; i++)
        if (isfinite(line->points[i].y))
            html_add(h, "M%.2f %.2fh0", UNITS * line->points[i].x / p->x_max, place(a, line->points[i].y));
    html_put(h, "\"/>");
}

/* What a pointer over a point says. */
static void write_titles(html *h, const plot *p, const axis *a, const plot_line *line)
{
    enum { MOST_TITLES = 200 };
    for (size_t i = 0; i < line->count && line->count <= MOST_TITLES; i++) {
        const chart_point *point = &line->points[i];
        if (!isfinite(point->y))
            continue;
        html_add(h, "<path class=\"hit\" d=\"M%.2f %.2fh0\"><title>%s, epoch %.4g: %s</title></path>",
                 UNITS * point->x / p->x_max, place(a, point->y), line->name ? line->name : line->what, point->x,
                 p->say(point->y));
    }
}

/* Where a value is not finite, a mark at the upper edge; at most so many. */
static void write_gaps(html *h, const plot *p)
{
    enum { MOST_GAPS = 60 };
    int count = 0;
    for (int i = 0; i < p->line_count; i++)
        for (size_t j = 0; j < p->lines[i].count && count < MOST_GAPS; j++)
            if (!isfinite(p->lines[i].points[j].y) && ++count)
                html_add(h, "<span class=\"gap\" style=\"left:%.2f%%\">\xc3\x97</span>",
                         100 * p->lines[i].points[j].x / p->x_max);
}

/* ---- labels at the ends ---- */

typedef struct label {
    const plot_line *line;
    double           at, value; /* per cent of the height */
} label;

static int by_place(const void *a, const void *b)
{
    double x = ((const label *)a)->at, y = ((const label *)b)->at;
    return (x > y) - (x < y);
}

static int collect_labels(const plot *p, const axis *a, label *out)
{
    int count = 0;
    for (int i = 0; i < p->line_count; i++) {
        const plot_line *line = &p->lines[i];
        size_t           last = line->count;
        while (last && !isfinite(line->points[last - 1].y))
            last--;
        if (line->name && last)
            out[count++] = (label){line, place(a, line->points[last - 1].y) / (UNITS / 100), line->points[last - 1].y};
    }
    qsort(out, (size_t)count, sizeof *out, by_place);
    return count;
}

/* Move labels apart, so that none covers another; from the top, and those that leave the chart back up. */
static void spread(label *labels, int count)
{
    const double apart = 9.5;
    for (int i = 1; i < count; i++)
        labels[i].at = fmax(labels[i].at, labels[i - 1].at + apart);
    for (int i = count - 1; i >= 0; i--) {
        double most = i == count - 1 ? 100 : labels[i + 1].at - apart;
        labels[i].at = fmin(labels[i].at, most);
    }
}

static void write_labels(html *h, const plot *p, const axis *a)
{
    static const char *const forms[] = {"raw", "soft", "main"};
    label                    labels[PLOT_LINES];
    int                      count = collect_labels(p, a, labels);
    spread(labels, count);
    html_put(h, "<div class=\"ends\">");
    for (int i = 0; i < count; i++) {
        const plot_line *line = labels[i].line;
        html_add(h, "<span class=\"r%d\" style=\"top:%.1f%%\"><i class=\"%s\"></i><b>", line->run, labels[i].at,
                 forms[line->form]);
        html_name(h, line->name);
        html_add(h, "</b> %s</span>", p->say(labels[i].value));
    }
    html_put(h, "</div>");
}

/* ---- all of it ---- */

void plot_write(html *h, plot *p, const char *sentence)
{
    h->failed = h->failed || p->failed;
    if (!plot_has_values(p)) {
        html_add(h, "<p class=\"note\">%s: no value is finite.</p>", p->title);
        free_lines(p);
        return;
    }
    axis a = axis_of(p);
    html_add(h,
             "<figure><figcaption><b>%s</b> <small>%s%s</small></figcaption>"
             "<div class=\"chart\" role=\"img\" aria-label=\"%s\"><div class=\"plot\" data-x=\"0 %.17g\" "
             "data-y=\"%.17g %.17g\" data-scale=\"%s\">",
             p->title, p->unit, a.logarithmic ? ", logarithmic" : "", sentence, p->x_max, a.low, a.high,
             a.logarithmic ? "log10" : "linear");
    html_put(h, "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    write_grid(h, &a);
    for (int form = PLOT_RAW; form <= PLOT_MAIN; form++)
        for (int i = p->line_count; i-- > 0;)
            if (p->lines[i].form == (plot_form)form) {
                write_line(h, p, &a, &p->lines[i]);
                write_dots(h, p, &a, &p->lines[i]);
                write_titles(h, p, &a, &p->lines[i]);
            }
    html_put(h, "</svg>");
    write_ticks(h, p, &a);
    write_gaps(h, p);
    html_put(h, "</div>");
    write_labels(h, p, &a);
    html_put(h, "</div></figure>");
    free_lines(p);
}
