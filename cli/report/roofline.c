#include "cli/report/roofline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/text.h"
#include "cli/shared/axis.h"

enum { MOST_MARKS = 10 };

typedef struct mark {
    const char *name;
    double      intensity, gflops, share;
} mark;

/* Per cent of the chart. */
typedef struct box {
    double x0, x1, y0, y1;
} box;

typedef struct roofline {
    const char *device;
    double      gflops, gbps;   /* the roof */
    double      x0, x1, y0, y1; /* decades */
    mark        marks[MOST_MARKS];
    int         count;
    box         labels[MOST_MARKS];
    int         label_count;
} roofline;

static int by_share(const void *a, const void *b)
{
    double x = ((const mark *)a)->share, y = ((const mark *)b)->share;
    return (x < y) - (x > y);
}

/* Keeps those that take most time. */
static void add_mark(roofline *r, const mark *m)
{
    if (r->count < MOST_MARKS)
        r->marks[r->count++] = *m;
    else if (m->share > r->marks[MOST_MARKS - 1].share)
        r->marks[MOST_MARKS - 1] = *m;
    qsort(r->marks, (size_t)r->count, sizeof *r->marks, by_share);
}

static double sum_of_shares(const cJSON *operations)
{
    const cJSON *o;
    double       sum = 0;
    cJSON_ArrayForEach(o, operations)
    {
        sum += page_is_operation(o) ? fmax(0, number_of(o, "share")) : 0;
    }
    return sum;
}

/* Operations that take less than a hundredth of the time of all would only widen the axes. */
static void read_marks(roofline *r, const cJSON *operations)
{
    const cJSON *o;
    const double least = 0.01 * sum_of_shares(operations);
    cJSON_ArrayForEach(o, operations)
    {
        mark m = {.name = document_text(o, "name"),
                  .intensity = number_of(o, "flop") / number_of(o, "bytes"),
                  .gflops = number_of(o, "gflops"),
                  .share = number_of(o, "share")};
        if (!strcmp(document_text(o, "device"), r->device) && m.intensity > 1e-6 && m.intensity < 1e9 &&
            m.gflops > 1e-6 && m.gflops < 1e9 && m.share > least)
            add_mark(r, &m);
    }
}

/* Whole decades around the marks and the point where the roof bends. */
static void set_axes(roofline *r)
{
    double bend = r->gflops / r->gbps;
    r->x0 = r->x1 = log10(bend);
    r->y0 = r->y1 = log10(r->gflops);
    for (int i = 0; i < r->count; i++) {
        r->x0 = fmin(r->x0, log10(r->marks[i].intensity));
        r->x1 = fmax(r->x1, log10(r->marks[i].intensity));
        r->y0 = fmin(r->y0, log10(r->marks[i].gflops));
        r->y1 = fmax(r->y1, log10(r->marks[i].gflops));
    }
    r->x0 = floor(r->x0 - 0.1);
    r->x1 = ceil(r->x1 + 0.1);
    r->y0 = floor(r->y0 - 0.1);
    r->y1 = ceil(r->y1 + 0.05);
}

static double across(const roofline *r, double intensity)
{
    return 100 * (log10(intensity) - r->x0) / (r->x1 - r->x0);
}

static double down(const roofline *r, double gflops)
{
    return 100 * (1 - (log10(gflops) - r->y0) / (r->y1 - r->y0));
}

/* From where it enters the chart, by the slope of memory to the bend, and on level. */
static void write_roof(html *h, const roofline *r)
{
    double left = pow(10, fmax(r->x0, r->y0 - log10(r->gbps))), bend = r->gflops / r->gbps;
    html_put(h, "<path class=\"grid\" d=\"");
    for (int i = 0; i < axis_ticks(r->y1 - r->y0, 1); i++)
        html_add(h, "M0 %.2fH1000", 10 * down(r, pow(10, r->y0 + i)));
    html_add(h, "\"/><path class=\"axis\" d=\"M0 1000H1000\"/><path class=\"roof\" d=\"M%.2f %.2fL%.2f %.2fH1000\"/>",
             10 * across(r, left), 10 * down(r, left * r->gbps), 10 * across(r, bend), 10 * down(r, r->gflops));
}

static void write_axes(html *h, const roofline *r)
{
    for (int i = 0; i < axis_ticks(r->y1 - r->y0, 1); i++) {
        const double y = pow(10, r->y0 + i);
        html_add(h, "<span class=\"y\" style=\"top:%.2f%%\">%.4g%s</span>", down(r, y), y < 1e4 ? y : y / 1000,
                 y < 1e4 ? "" : "k");
    }
    for (int i = 0; i < axis_ticks(r->x1 - r->x0, 1); i++) {
        const double x = pow(10, r->x0 + i);
        html_add(h, "<span class=\"x\" style=\"left:%.2f%%\">%.4g</span>", across(r, x), x);
    }
}

static bool is_near(const roofline *r, int i, int j)
{
    const mark *a = &r->marks[i], *b = &r->marks[j];
    return fabs(across(r, a->intensity) - across(r, b->intensity)) < 4 &&
           fabs(down(r, a->gflops) - down(r, b->gflops)) < 9;
}

/* "2, 6-8": dots that are near each other share a label, which is that of the first. "" for the others. */
static void label_text(const roofline *r, int i, char out[64])
{
    size_t used = 0;
    *out = 0;
    for (int j = 0; j < i; j++)
        if (is_near(r, i, j))
            return;
    for (int j = i, last; j < r->count; j = last + 1) {
        for (last = j; last + 1 < r->count && is_near(r, i, last) && is_near(r, i, last + 1);)
            last++;
        if (!is_near(r, i, j))
            continue;
        used += (size_t)snprintf(out + used, 64 - used, "%s%d", used ? ", " : "", j + 1);
        if (last > j)
            used += (size_t)snprintf(out + used, 64 - used, "%s%d", last > j + 1 ? "-" : ", ", last + 1);
    }
}

static bool overlap(const box *a, const box *b)
{
    return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1;
}

/* The roof at a place of the chart. */
static double roof_at(const roofline *r, double x)
{
    return down(r, fmin(r->gflops, r->gbps * pow(10, r->x0 + x / 100 * (r->x1 - r->x0))));
}

static bool is_free(const roofline *r, const box *b, bool of_roof)
{
    if (b->x0 < 0 || b->x1 > 100 || b->y0 < 0 || b->y1 > 100)
        return false;
    if (of_roof && roof_at(r, b->x0) > b->y0 - 1 && roof_at(r, b->x1) < b->y1 + 1)
        return false;
    for (int i = 0; i < r->count; i++) {
        double    x = across(r, r->marks[i].intensity), y = down(r, r->marks[i].gflops);
        const box dot = {x - 1.2, x + 1.2, y - 1.9, y + 1.9};
        if (overlap(&dot, b))
            return false;
    }
    for (int i = 0; i < r->label_count; i++)
        if (overlap(&r->labels[i], b))
            return false;
    return true;
}

enum { SIDES = 8 };

/* The first side where a label covers no dot, no label and not the roof; or where it covers only the roof; or 0. */
static int free_side(const roofline *r, const box boxes[SIDES])
{
    for (int i = 0; i < 2 * SIDES; i++)
        if (is_free(r, &boxes[i % SIDES], i < SIDES))
            return i % SIDES;
    return 0;
}

/* Boxes have the size of labels in the smallest chart, 240 by 160 pixels. */
static void write_number(html *h, roofline *r, int i)
{
    static const char *const sides[SIDES] = {
        "", " left", " above", " below", " above right", " above left", " below right", " below left"};
    char text[64];
    label_text(r, i, text);
    if (!*text)
        return;
    const double x = across(r, r->marks[i].intensity), y = down(r, r->marks[i].gflops);
    const double wide = 3 * (double)strlen(text), high = 9, gap = 1.3, far = gap + 2 + wide, off = 2, low = off + high;
    const box    boxes[SIDES] = {
           {x + gap, x + far, y - high / 2, y + high / 2}, {x - far, x - gap, y - high / 2, y + high / 2},
           {x - wide / 2, x + wide / 2, y - low, y - off}, {x - wide / 2, x + wide / 2, y + off, y + low},
           {x + gap, x + far, y - low, y - off},           {x - far, x - gap, y - low, y - off},
           {x + gap, x + far, y + off, y + low},           {x - far, x - gap, y + off, y + low}};
    const int side = free_side(r, boxes);
    r->labels[r->label_count++] = boxes[side];
    html_add(h, "<span class=\"number%s\" style=\"left:%.2f%%;top:%.2f%%\">%s</span>", sides[side], x, y, text);
}

static void write_dots(html *h, const roofline *r)
{
    for (int i = 0; i < r->count; i++)
        html_add(h, "<path class=\"dots r0\" data-operation=\"%s\" d=\"M%.2f %.2fh0\"/>", r->marks[i].name,
                 10 * across(r, r->marks[i].intensity), 10 * down(r, r->marks[i].gflops));
}

static void write_names(html *h, const roofline *r)
{
    html_put(h, "<div class=\"ends\">");
    for (int i = 0; i < r->count; i++) {
        html_add(h, "<span class=\"r0\" style=\"top:%.1f%%\"><em>%d</em><b>", 3 + 9.8 * i, i + 1);
        html_name(h, r->marks[i].name);
        html_put(h, "</b></span>");
    }
    html_put(h, "</div></div></figure>\n");
}

static void write_roofline(html *h, roofline *r)
{
    html_add(h,
             "<figure class=\"rooflines\"><figcaption><b>Roofline of %s</b> <small>GFLOP/s by FLOP for each byte, both "
             "logarithmic; %s GFLOP/s and %s GB/s are the roof</small></figcaption><div class=\"chart\" role=\"img\" "
             "aria-label=\"Roofline of %s: %d operations, whose figures are in the table of operations. The roof is %s "
             "GFLOP/s and %s GB/s.\"><div class=\"plot\" data-x=\"%.17g "
             "%.17g\" data-y=\"%.17g %.17g\" data-scale=\"log10 both\"><svg viewBox=\"0 0 1000 1000\" "
             "preserveAspectRatio=\"none\" "
             "aria-hidden=\"true\">",
             r->device, say_rate(r->gflops), say_rate(r->gbps), r->device, r->count, say_rate(r->gflops),
             say_rate(r->gbps), r->x0, r->x1, r->y0, r->y1);
    write_roof(h, r);
    write_dots(h, r);
    html_put(h, "</svg>");
    write_axes(h, r);
    for (int i = 0; i < r->count; i++)
        write_number(h, r, i);
    html_put(h, "</div>");
    write_names(h, r);
}

void page_rooflines(html *h, const cJSON *profile)
{
    const cJSON *peak;
    cJSON_ArrayForEach(peak, document_list(profile, "peaks"))
    {
        roofline r = {.device = document_text(peak, "device"),
                      .gflops = number_of(peak, "gflops"),
                      .gbps = number_of(peak, "gbps")};
        if (!(r.gflops > 1e-3 && r.gflops < 1e9 && r.gbps > 1e-3 && r.gbps < 1e9))
            continue;
        read_marks(&r, document_list(profile, "operations"));
        if (!r.count)
            continue;
        set_axes(&r);
        write_roofline(h, &r);
    }
}
