/* Findings of the audit on the page, with their cost and fix, and the kinds of findings that were looked for and not
 * found. */
#include <string.h>

#include "cli/report/finding.h"
#include "cli/report/page.h"
#include "cli/report/text.h"
#include "cli/run_folder/finding.h"

static bool is_found(const cJSON *audit, const char *name)
{
    const cJSON *finding;
    cJSON_ArrayForEach(finding, audit)
    {
        if (!strcmp(document_text(finding, "finding"), name))
            return true;
    }
    return false;
}

static void write_finding(html *h, const cJSON *finding, int number, const cJSON *profile)
{
    const double step = finding_step_ms(finding, profile);
    double       cost = page_finding_cost(finding), bytes = number_of(finding, "bytes_per_step");
    html_add(h, "<li id=\"finding-%s\"><span class=\"letter\">%s</span>", page_letter(number), page_letter(number));
    html_add(h, "<div><h3>%s</h3><p><code>", page_finding_title(finding));
    html_name(h, document_text(finding, "place"));
    html_put(h, "</code> ");
    html_name(h, document_text(finding, "what"));
    html_put(h, "</p>");
    if (*document_text(finding, "fix"))
        html_add(h, "<pre tabindex=\"0\"><code>%s</code></pre>", document_text(finding, "fix"));
    html_add(h, "</div><p class=\"cost\"><b>%s</b> a step", say_time(cost));
    if (step > 0)
        html_add(h, "<small>%s of the step</small>", say_share(cost / step));
    if (bytes > 0)
        html_add(h, "<small>%s a step</small>", say_bytes(bytes));
    html_put(h, "</p></li>\n");
}

static void write_clean(html *h, const cJSON *audit)
{
    bool begun = false;
    for (int i = 0; i < PAGE_FINDING_KINDS; i++) {
        if (is_found(audit, page_finding_kinds[i].name))
            continue;
        if (!begun)
            html_put(h, "<div class=\"keep\"><h3>Looked for and not found</h3><ul class=\"clean\">");
        begun = true;
        html_add(h, "<li>%s</li>", page_finding_kinds[i].without);
    }
    html_put(h, begun ? "</ul></div>\n" : "");
}

static void write_lead(html *h, const cJSON *audit, const cJSON *profile)
{
    const cJSON *dearest = page_dearest(audit);
    const double step = finding_step_ms(dearest, profile);
    const int    count = cJSON_GetArraySize(audit);
    if (!count) {
        html_put(h, "<p>No findings.</p>");
        return;
    }
    html_add(h, "<p>%s. %s costs %s a step", page_plural(count, "finding"), count == 1 ? "It" : "The most expensive",
             say_time(page_finding_cost(dearest)));
    if (step > 0)
        html_add(h, ", %s of a step", say_share(page_finding_cost(dearest) / step));
    html_put(h, ".</p><p class=\"note\">Costs are measured. They overlap: fixing one finding may also reduce the cost "
                "of another.</p>");
}

void page_audit(page *p)
{
    const cJSON *audit = p->runs[0].audit, *finding;
    int          number = 0;
    if (!audit) {
        page_lacks_profile(p, "Audit");
        return;
    }
    html *h = page_begin(p, "audit", "Audit");
    write_lead(h, audit, p->runs[0].profile);
    page_body(p);
    if (cJSON_GetArraySize(audit))
        html_put(h, "<ol class=\"findings\">\n");
    cJSON_ArrayForEach(finding, audit)
    {
        if (number++ < PAGE_MOST_FINDINGS)
            write_finding(h, finding, number - 1, p->runs[0].profile);
    }
    if (number)
        html_put(h, "</ol>\n");
    if (number > PAGE_MOST_FINDINGS)
        html_add(h, "<p class=\"note\">%s more are in audit.json.</p>",
                 page_plural(number - PAGE_MOST_FINDINGS, "finding"));
    write_clean(h, audit);
    page_end(p);
}
