/* Time by operation, module and kernel on the page, and how near they come to what the device can do. */
#include <math.h>
#include <string.h>

#include "cli/report/page.h"
#include "cli/report/roofline.h"
#include "cli/report/text.h"

enum { LISTED = 12, MOST = 300 };

/* The share of a step from which an operation leads the section: in cold steps, compilation has nearly all. */
static const double LEAST_LEAD = 0.01;

static double positive(double value)
{
    return value > 0 ? value : 0;
}

static double steps_of(const cJSON *profile)
{
    double steps = number_of(profile, "steps");
    return steps >= 1 ? steps : 1;
}

static double sum_of(const cJSON *list, const char *name)
{
    const cJSON *item;
    double       sum = 0;
    cJSON_ArrayForEach(item, list)
    {
        sum += positive(number_of(item, name));
    }
    return sum;
}

static double most_of(const cJSON *list, const char *name)
{
    const cJSON *item;
    double       most = 0;
    cJSON_ArrayForEach(item, list)
    {
        most = fmax(most, positive(number_of(item, name)));
    }
    return most > 0 ? most : 1;
}

/* The measured peak of a device: "gflops" or "gbps"; NaN if it is not known. */
static double peak_of(const cJSON *profile, const char *device, const char *what)
{
    const cJSON *peak;
    cJSON_ArrayForEach(peak, document_list(profile, "peaks"))
    {
        if (!strcmp(document_text(peak, "device"), device))
            return number_of(peak, what);
    }
    return NAN;
}

/* Where no device had a counter of energy, the tables have no column for it. */
static bool has_energy(const cJSON *profile)
{
    return isfinite(number_of(profile, "step_joules"));
}

static void write_energy(html *h, const cJSON *profile, double joules)
{
    if (has_energy(profile))
        page_number(h, joules > 0 ? say_joules(joules / steps_of(profile)) : "-");
}

/* ---- operations ---- */

/* Of the roof that is nearer: arithmetic, or memory. */
static double of_roof(const cJSON *profile, const cJSON *operation)
{
    const char *device = document_text(operation, "device");
    double      compute = number_of(operation, "gflops") / peak_of(profile, device, "gflops");
    double      memory = number_of(operation, "gbps") / peak_of(profile, device, "gbps");
    return isfinite(compute) && isfinite(memory) ? fmax(compute, memory) : isfinite(compute) ? compute : memory;
}

static bool is_above(const cJSON *profile, const cJSON *list, const char *what)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, list)
    {
        if (number_of(o, what) > 1.05 * peak_of(profile, document_text(o, "device"), what))
            return true;
    }
    return false;
}

static const char *rate_or_dash(double giga)
{
    return giga > 0 ? say_rate(giga) : "-";
}

static void write_operation(html *h, const cJSON *profile, const cJSON *o, double most)
{
    const char *device = document_text(o, "device"), *bound = document_text(o, "bound");
    double      steps = steps_of(profile), roof = of_roof(profile, o);
    html_put(h, "<tr><th scope=\"row\">");
    html_name(h, document_text(o, "name"));
    html_put(h, "</th><td class=\"words\">");
    page_device(h, device);
    html_put(h, "</td>");
    html_add(h, "<td class=\"n words\">%s</td>", say_number(number_of(o, "calls") / steps));
    page_bar(h, number_of(o, "share") / most, *device ? page_device_class(device) : "g");
    page_number(h, say_share(number_of(o, "share")));
    page_number(h, say_time(number_of(o, "host_ms") / steps));
    page_number(h, say_time(number_of(o, "device_ms") / steps));
    page_number(h, rate_or_dash(number_of(o, "gflops")));
    page_number(h, rate_or_dash(number_of(o, "gbps")));
    page_number(h, roof > 0 ? say_share(roof) : "-");
    write_energy(h, profile, number_of(o, "joules"));
    html_add(h, "<td>%s</td></tr>\n", *bound ? bound : "-");
}

static const char *operation_heads(const cJSON *profile)
{
#define HEADS "Operation|~Device|~#Calls|=Share of the time|#|#Host time|#Device time|#GFLOP/s|#GB/s|#Of the roof"
    return has_energy(profile) ? HEADS "|#Energy|Bound by" : HEADS "|Bound by";
#undef HEADS
}

static void write_operations(html *h, const cJSON *profile, const cJSON *list)
{
    const cJSON *o;
    double       steps = steps_of(profile), most = most_of(list, "share");
    int          count = 0;
    page_table(h, "Time by operation, mean of a step", operation_heads(profile));
    cJSON_ArrayForEach(o, list)
    {
        if (count++ < LISTED)
            write_operation(h, profile, o, most);
    }
    html_add(h, "</tbody><tfoot><tr><th scope=\"row\">%s</th><td class=\"words\"></td>",
             page_plural(count, "operation"));
    html_add(h, "<td class=\"n words\">%s</td>", say_number(sum_of(list, "calls") / steps));
    html_put(h, "<td class=\"barred\"></td>");
    html_put(h, "<td></td>"); /* shares overlap: a device computes while the host goes on */
    page_number(h, say_time(sum_of(list, "host_ms") / steps));
    page_number(h, say_time(sum_of(list, "device_ms") / steps));
    html_put(h, "<td></td><td></td><td></td>");
    write_energy(h, profile, sum_of(list, "joules"));
    html_put(h, "<td></td></tr></tfoot><tbody>");
    page_table_end(h);
    if (count <= LISTED)
        return;
    page_folded_table(h, "the other operations", operation_heads(profile));
    count = 0;
    cJSON_ArrayForEach(o, list)
    {
        if (count++ >= LISTED && count <= MOST)
            write_operation(h, profile, o, most);
    }
    page_folded_end(h);
}

/* ---- modules ---- */

/* Forward and backward as two parts of a bar. */
static void write_halves(html *h, const cJSON *m, double most)
{
    double forward = positive(number_of(m, "forward_ms")) / most,
           backward = positive(number_of(m, "backward_ms")) / most;
    html_add(h,
             "<td class=\"barred\"><span class=\"bar\"><i class=\"a\" style=\"width:%.2f%%\"></i><i class=\"a pale\" "
             "style=\"left:%.2f%%;width:%.2f%%\"></i></span></td>",
             100 * fmin(forward, 1), 100 * fmin(forward, 1), 100 * fmin(backward, 1));
}

static void write_module(html *h, const cJSON *profile, const cJSON *m, double most)
{
    const double steps = steps_of(profile);
    html_put(h, "<tr><th scope=\"row\">");
    html_name(h, *document_text(m, "name") ? document_text(m, "name") : "(no module)");
    html_add(h, "</th><td class=\"words\">%s</td>", document_text(m, "kind"));
    page_number(h, say_number(number_of(m, "calls") / steps));
    write_halves(h, m, most);
    page_number(h, say_time(number_of(m, "forward_ms") / steps));
    page_number(h, say_time(number_of(m, "backward_ms") / steps));
    page_number(h, say_share(number_of(m, "share")));
    page_number(h, say_bytes(number_of(m, "made_bytes") / steps));
    page_number(h, say_bytes(number_of(m, "peak_bytes")));
    write_energy(h, profile, number_of(m, "joules"));
    html_put(h, "</tr>\n");
}

static double slowest(const cJSON *list)
{
    const cJSON *m;
    double       most = 0;
    cJSON_ArrayForEach(m, list)
    {
        most = fmax(most, positive(number_of(m, "forward_ms")) + positive(number_of(m, "backward_ms")));
    }
    return most > 0 ? most : 1;
}

#define MODULE_HEADS "Module|~Kind|#Calls|=Time, pale: backward|#Forward|#Backward|#Share|#Made|#Live at the peak"

static void write_modules(html *h, const cJSON *profile, const cJSON *list)
{
    const cJSON *m;
    double       steps = steps_of(profile), most = slowest(list);
    int          count = 0;
    if (!cJSON_GetArraySize(list))
        return;
    page_table(h, "Time by module, mean of a step", has_energy(profile) ? MODULE_HEADS "|#Energy" : MODULE_HEADS);
    cJSON_ArrayForEach(m, list)
    {
        if (count++ < MOST)
            write_module(h, profile, m, most);
    }
    html_add(h,
             "</tbody><tfoot><tr><th scope=\"row\">%s</th><td class=\"words\"></td><td></td><td "
             "class=\"barred\"></td>",
             page_plural(count, "module"));
    page_number(h, say_time(sum_of(list, "forward_ms") / steps));
    page_number(h, say_time(sum_of(list, "backward_ms") / steps));
    page_number(h, say_share(sum_of(list, "share")));
    html_put(h, "<td></td><td></td>");
    write_energy(h, profile, sum_of(list, "joules"));
    html_put(h, "</tr></tfoot><tbody>");
    page_table_end(h);
}

/* ---- kernels ---- */

static void write_kernels(html *h, const cJSON *profile, const cJSON *list)
{
    const cJSON *k;
    double       steps = steps_of(profile), most = most_of(list, "share");
    int          count = 0;
    if (!cJSON_GetArraySize(list))
        return;
    page_folded_table(h, "kernels", "Kernel|Device|Stream|Operation|#Calls|=Share of the time|#|#Time|#GB/s");
    cJSON_ArrayForEach(k, list)
    {
        if (count++ >= MOST)
            continue;
        html_put(h, "<tr><th scope=\"row\">");
        html_name(h, document_text(k, "name"));
        html_put(h, "</th><td>");
        page_device(h, document_text(k, "device"));
        html_add(h, "</td><td>%s</td><td>%s</td>", document_text(k, "stream"), document_text(k, "operation"));
        page_number(h, say_number(number_of(k, "calls") / steps));
        page_bar(h, number_of(k, "share") / most, page_device_class(document_text(k, "device")));
        page_number(h, say_share(number_of(k, "share")));
        page_number(h, say_time(number_of(k, "ms") / steps));
        page_number(h, rate_or_dash(number_of(k, "gbps")));
        html_put(h, "</tr>\n");
    }
    page_folded_end(h);
}

/* ---- the section ---- */

static const cJSON *first_by_share(const cJSON *list)
{
    const cJSON *item, *first = NULL;
    cJSON_ArrayForEach(item, list)
    {
        if (page_is_operation(item) &&
            (!first || positive(number_of(item, "share")) > positive(number_of(first, "share"))))
            first = item;
    }
    return first;
}

static void write_lead(html *h, const cJSON *profile, const cJSON *list)
{
    const cJSON *first = first_by_share(list), *peak;
    if (first && number_of(first, "share") >= LEAST_LEAD) {
        html_put(h, "<p>");
        html_name(h, document_text(first, "name"));
        html_add(h, " takes the most time: %s.</p>", say_share(number_of(first, "share")));
    }
    html_put(h, "<p class=\"note\">Host time: the calling thread itself. Device time: commands. ");
    if (sum_of(list, "share") > 1.005)
        html_put(h, "They overlap, so the shares have no sum. ");
    cJSON_ArrayForEach(peak, document_list(profile, "peaks"))
    {
        html_name(h, document_text(peak, "device"));
        html_add(h, " reaches %s GFLOP/s and %s GB/s, as measured: its roof. ", say_rate(number_of(peak, "gflops")),
                 say_rate(number_of(peak, "gbps")));
    }
    if (is_above(profile, list, "gbps"))
        html_put(h, "More than 100 % of the memory roof: the data was in caches. ");
    if (is_above(profile, list, "gflops"))
        html_put(h, "More than 100 % of the compute roof: the measured peak is too low.");
    html_put(h, "</p>");
}

void page_operations(page *p)
{
    const cJSON *profile = p->runs[0].profile, *list = document_list(profile, "operations");
    if (!cJSON_GetArraySize(list)) {
        page_lacks_profile(p, "Time by operation, module and kernel");
        return;
    }
    html *h = page_begin(p, "operations", "Operations");
    write_lead(h, profile, list);
    page_body(p);
    write_operations(h, profile, list);
    page_rooflines(h, profile);
    write_modules(h, profile, document_list(profile, "modules"));
    write_kernels(h, profile, document_list(profile, "kernels"));
    page_end(p);
}
