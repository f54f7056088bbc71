/* Memory on the page: live bytes over the median step, the live memory at its peak, and the end of the run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/page.h"
#include "cli/report/text.h"
#include "cli/shared/axis.h"

enum { MOST_POINTS = 3000, LISTED = 200 };

/* ---- over a step ---- */

typedef struct area {
    const cJSON *points;
    double       ms, low, high, step; /* axes; the low one is 0 */
    double       peak, peak_ms;       /* as the points have it */
} area;

static bool point_of(const cJSON *point, double *ms, double *bytes)
{
    const cJSON *x = cJSON_GetArrayItem(point, 0), *y = cJSON_GetArrayItem(point, 1);
    if (!cJSON_IsNumber(x) || !cJSON_IsNumber(y) || !(x->valuedouble >= 0) || !(y->valuedouble >= 0) ||
        !(x->valuedouble < 1e9) || !(y->valuedouble < 1e18))
        return false;
    *ms = x->valuedouble;
    *bytes = y->valuedouble;
    return true;
}

static bool read_area(const cJSON *memory, double length, area *out)
{
    const cJSON *point;
    double       ms, bytes;
    int          count = 0;
    *out = (area){.points = document_list(memory, "points"), .ms = length > 0 ? length : 0};
    cJSON_ArrayForEach(point, out->points)
    {
        if (!point_of(point, &ms, &bytes))
            continue;
        count++;
        out->ms = fmax(out->ms, ms);
        if (bytes > out->peak) {
            out->peak = bytes;
            out->peak_ms = ms;
        }
    }
    out->step = axis_step_of_bytes(out->peak / 4);
    out->high = ceil(out->peak / out->step) * out->step;
    return count > 1 && out->ms > 0 && out->peak > 0;
}

/* Steps: live bytes stay the same until the next point. */
static void write_path(html *h, const area *a, bool closed)
{
    const cJSON *point;
    double       ms, bytes;
    int          count = 0, every = cJSON_GetArraySize(a->points) / MOST_POINTS + 1;
    html_add(h, closed ? "<path class=\"live\" d=\"" : "<path class=\"edge\" data-line=\"live\" d=\"");
    cJSON_ArrayForEach(point, a->points)
    {
        if (!point_of(point, &ms, &bytes) || (count++ % every && bytes < a->peak))
            continue;
        double x = 1000 * ms / a->ms, y = 1000 * (1 - bytes / a->high);
        if (count == 1)
            html_add(h, "M%.2f %.2f", x, y);
        else
            html_add(h, "H%.2fV%.2f", x, y);
    }
    html_put(h, closed ? "H1000V1000H0z\"/>" : "H1000\"/>");
}

static void write_area(html *h, const area *a, const char *device)
{
    const double step = axis_step(a->ms / 6);
    const int    levels = axis_ticks(a->high, a->step);
    html_add(h,
             "<figure><figcaption><b>Live on %s</b> <small>during the median step</small></figcaption><div "
             "class=\"chart tall\" role=\"img\" aria-label=\"Live memory on %s over %s. The peak is %s, at %s.\"><div "
             "class=\"plot\" data-x=\"0 %.17g\" data-y=\"0 %.17g\" data-scale=\"linear\"><svg viewBox=\"0 0 1000 "
             "1000\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"grid\" d=\"",
             device, device, say_ms(a->ms), say_bytes(a->peak), say_ms(a->peak_ms), a->ms, a->high);
    for (int i = 0; i < levels; i++)
        html_add(h, "M0 %.2fH1000", 1000 * (1 - i * a->step / a->high));
    html_put(h, "\"/>");
    write_path(h, a, true);
    write_path(h, a, false);
    html_add(h, "<path class=\"dots bad-dot\" d=\"M%.2f %.2fh0\"/></svg>", 1000 * a->peak_ms / a->ms,
             1000 * (1 - a->peak / a->high));
    for (int i = 0; i < levels; i++)
        html_add(h, "<span class=\"y\" style=\"top:%.2f%%\">%s</span>", 100 * (1 - i * a->step / a->high),
                 i ? say_bytes(i * a->step) : "0");
    for (int i = 0; i < axis_ticks(a->ms * 1.0001, step); i++)
        html_add(h, "<span class=\"x\" style=\"left:%.2f%%\">%.4g%s</span>", 100 * (i * step / a->ms), i * step,
                 i ? "" : "\xc2\xa0ms");
    html_add(h, "<span class=\"peak%s\" style=\"left:%.2f%%;top:%.2f%%\">peak %s</span></div></div></figure>\n",
             a->peak_ms > 0.6 * a->ms ? " left" : "", 100 * a->peak_ms / a->ms, 100 * (1 - a->peak / a->high),
             say_bytes(a->peak));
}

/* ---- at the peak ---- */

static double bytes_of(const cJSON *item)
{
    double bytes = number_of(item, "bytes");
    return bytes > 0 ? bytes : 0;
}

static void write_holder(html *h, const cJSON *item, double peak)
{
    html_put(h, "<tr><th scope=\"row\">");
    html_name(h, *document_text(item, "operation") ? document_text(item, "operation") : "(no operation)");
    html_put(h, "</th><td>");
    html_name(h, *document_text(item, "module") ? document_text(item, "module") : "-");
    html_put(h, "</td><td class=\"words\">");
    html_put(h, cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "before")) ? "before the step" : "the step");
    html_add(h, "</td><td class=\"words\">%s</td>", say_count(number_of(item, "count")));
    page_bar(h, bytes_of(item) / peak, "a");
    page_number(h, say_bytes(bytes_of(item)));
    page_number(h, say_share(bytes_of(item) / peak));
    html_put(h, "</tr>\n");
}

/* The rows add up to the peak: what none of them has is a row of its own. */
static void write_peak(html *h, const cJSON *memory, double peak)
{
    const cJSON *item;
    double       sum = 0, listed = 0;
    int          count = 0;
    char         caption[96];
    snprintf(caption, sizeof caption, "What was live at the peak on %s", document_text(memory, "device"));
    page_table(h, caption, "Made by|In module|~Since|~Tensors|=Bytes|#|#Share");
    cJSON_ArrayForEach(item, document_list(memory, "at_peak"))
    {
        sum += bytes_of(item);
        if (count++ >= LISTED)
            continue;
        listed += bytes_of(item);
        write_holder(h, item, peak);
    }
    if (peak - listed >= 1) {
        html_put(h,
                 "<tr><th scope=\"row\">all else</th><td>-</td><td class=\"words\">-</td><td class=\"words\">-</td>");
        page_bar(h, (peak - listed) / peak, "g");
        page_number(h, say_bytes(peak - listed));
        page_number(h, say_share((peak - listed) / peak));
        html_put(h, "</tr>\n");
    }
    html_put(h, "</tbody><tfoot><tr><th scope=\"row\">the peak</th><td></td><td class=\"words\"></td><td "
                "class=\"words\"></td><td class=\"barred\"></td>");
    page_number(h, say_bytes(fmax(peak, sum)));
    page_number(h, say_share(fmax(peak, sum) / peak));
    html_put(h, "</tr></tfoot><tbody>");
    page_table_end(h);
}

/* ---- what it is used for ---- */

enum { MOST_ROLES = 16 };

typedef struct use {
    const char *name;
    double      bytes, count;
} use;

static int by_use(const void *a, const void *b)
{
    const use *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->name, y->name);
}

/* Sums of the list by the text `key`, the largest first; items without it are left out. Returns their number. */
static int sum_uses(const cJSON *list, const char *key, const char *counts, use out[MOST_ROLES])
{
    const cJSON *item;
    int          count = 0;
    cJSON_ArrayForEach(item, list)
    {
        const char *name = document_text(item, key);
        int         at = 0;
        while (at < count && strcmp(out[at].name, name) != 0)
            at++;
        if (!*name || at == MOST_ROLES)
            continue;
        if (at == count)
            out[count++] = (use){.name = name};
        out[at].bytes += bytes_of(item);
        out[at].count += number_of(item, counts);
    }
    qsort(out, (size_t)count, sizeof *out, by_use);
    return count;
}

static void write_uses(html *h, const char *caption, const char *head, const use *uses, int count, double all)
{
    double tensors = 0, bytes = 0;
    if (!count || !(all > 0))
        return;
    page_table(h, caption, head);
    for (int i = 0; i < count; i++) {
        html_add(h, "<tr><th scope=\"row\">%s</th>", uses[i].name);
        page_number(h, say_count(uses[i].count));
        page_bar(h, uses[i].bytes / all, "a");
        page_number(h, say_bytes(uses[i].bytes));
        page_number(h, say_share(uses[i].bytes / all));
        html_put(h, "</tr>\n");
        tensors += uses[i].count;
        bytes += uses[i].bytes;
    }
    html_put(h, "</tbody><tfoot><tr><th scope=\"row\">all</th>");
    page_number(h, say_count(tensors));
    html_put(h, "<td class=\"barred\"></td>");
    page_number(h, say_bytes(bytes));
    page_number(h, say_share(bytes / all));
    html_put(h, "</tr></tfoot><tbody>");
    page_table_end(h);
}

static void write_peak_uses(html *h, const cJSON *memory, double peak)
{
    use       uses[MOST_ROLES];
    const int count = sum_uses(document_list(memory, "at_peak"), "role", "count", uses);
    char      caption[96];
    snprintf(caption, sizeof caption, "What memory was used for at the peak on %s", document_text(memory, "device"));
    write_uses(h, caption, "Used for|#Tensors|=Bytes|#|#Share", uses, count, peak);
}

static void write_points(html *h, const area *a)
{
    const cJSON *point;
    double       ms, bytes;
    int          count = 0;
    page_folded_table(h, "memory over the step", "#Time|#Live");
    cJSON_ArrayForEach(point, a->points)
    {
        if (count++ >= LISTED || !point_of(point, &ms, &bytes))
            continue;
        html_add(h, "<tr><td class=\"n\">%.3f ms</td>", ms);
        page_number(h, say_bytes(bytes));
        html_put(h, "</tr>\n");
    }
    page_table_end(h);
    if (count > LISTED)
        html_add(h, "<p class=\"note\">%s more are in profile.json.</p>", page_plural(count - LISTED, "point"));
    html_put(h, "</details>\n");
}

static void write_device(html *h, const cJSON *memory, double length)
{
    area   a;
    double peak = number_of(memory, "peak_bytes");
    bool   drawn = read_area(memory, length, &a);
    peak = peak > 0 ? peak : a.peak;
    if (drawn)
        write_area(h, &a, document_text(memory, "device"));
    if (peak > 0)
        write_peak_uses(h, memory, peak);
    if (peak > 0 && cJSON_GetArraySize(document_list(memory, "at_peak")))
        write_peak(h, memory, peak);
    if (drawn)
        write_points(h, &a);
}

/* ---- the end of the run ---- */

static void write_end(html *h, const cJSON *memory, bool folded)
{
    const cJSON *item, *list = document_list(memory, "by_operation");
    double       all = number_of(memory, "allocated");
    if (!cJSON_GetArraySize(list))
        return;
    if (folded)
        html_put(h, "<details><summary>Table: what the run still held at its end</summary>");
    use       uses[MOST_ROLES];
    const int count = sum_uses(document_list(memory, "by_role"), "name", "blocks", uses);
    write_uses(h, "What it still held, by use", "Used for|#Blocks|=Bytes|#|#Share", uses, count, all);
    page_table(h, "What the run still held at its end", "Made by|#Blocks|=Bytes|#|#Share");
    cJSON_ArrayForEach(item, list)
    {
        html_put(h, "<tr><th scope=\"row\">");
        html_name(h, document_text(item, "name"));
        html_put(h, "</th>");
        page_number(h, say_count(number_of(item, "blocks")));
        page_bar(h, bytes_of(item) / all, "a");
        page_number(h, say_bytes(bytes_of(item)));
        page_number(h, all > 0 ? say_share(bytes_of(item) / all) : "-");
        html_put(h, "</tr>\n");
    }
    page_table_end(h);
    html_put(h, folded ? "</details>\n" : "");
}

static const cJSON *largest_of(const cJSON *list)
{
    const cJSON *item, *largest = NULL;
    cJSON_ArrayForEach(item, list)
    {
        if (!largest || bytes_of(item) > bytes_of(largest))
            largest = item;
    }
    return largest;
}

/* The log counts from the first step on; the file counts earlier measurements, too. */
static double peak_of(const page_run *run)
{
    double peak = number_of(run->done, "peak_bytes");
    return peak > 0 ? peak : number_of(run->memory, "peak_allocated");
}

static void write_lead(html *h, const cJSON *list, const page_run *run)
{
    const cJSON *end = run->memory;
    const double limit = number_of(end, "limit");
    const cJSON *memory;
    cJSON_ArrayForEach(memory, list)
    {
        const cJSON *list_of = document_list(memory, "at_peak"), *first = largest_of(list_of);
        double       peak = number_of(memory, "peak_bytes");
        use          uses[MOST_ROLES];
        const int    count = sum_uses(list_of, "role", "count", uses);
        html_put(h, "<p>A step needs at most ");
        html_add(h, "%s on %s.", say_bytes(peak), document_text(memory, "device"));
        if (count && peak > 0)
            html_add(h, " %s of it is for %s.", say_share(uses[0].bytes / peak), uses[0].name);
        if (first && peak > 0) {
            html_add(h, " The largest part, %s, is from ", say_share(bytes_of(first) / peak));
            html_name(h, document_text(first, "operation"));
            html_put(h, *document_text(first, "module") ? " in " : "");
            html_name(h, document_text(first, "module"));
            html_put(h, ".");
        }
        if (limit > 0 && peak > limit && !strcmp(document_text(memory, "device"), document_text(end, "device")))
            html_add(h, " The part beyond the limit of %s was in host memory.", say_bytes(limit));
        html_put(h, "</p>");
    }
    if (end)
        html_add(h, "<p>The run allocated at most %s on %s, and reserved %s from the device%s%s.</p>",
                 say_bytes(peak_of(run)), document_text(end, "device"), say_bytes(number_of(end, "reserved")),
                 limit > 0 ? "; its limit was " : "", limit > 0 ? say_bytes(limit) : "");
}

void page_memory(page *p)
{
    const cJSON *list = document_list(p->runs[0].profile, "memory"), *end = p->runs[0].memory, *memory;
    double       length = number_of(cJSON_GetObjectItemCaseSensitive(p->runs[0].profile, "timeline"), "ms");
    if (!cJSON_GetArraySize(list))
        page_lacks_profile(p, "Memory over a step, and its peak");
    if (!end)
        page_lacks(p, "Memory of the run", "a training with --run writes memory.json at its end");
    if (!cJSON_GetArraySize(list) && !end)
        return;
    html *h = page_begin(p, "memory", "Memory");
    write_lead(h, list, &p->runs[0]);
    page_body(p);
    cJSON_ArrayForEach(memory, list)
    {
        write_device(h, memory, length);
    }
    if (end)
        write_end(h, end, cJSON_GetArraySize(list) > 0);
    page_end(p);
}
