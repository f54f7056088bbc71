/* What sections of the page are made of. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/page.h"
#include "cli/report/text.h"

html *page_begin(page *p, const char *id, const char *title)
{
    html_add(&p->links, "<li><a href=\"#%s\">%s</a></li>", id, title);
    html_add(&p->sections, "<section id=\"%s\"><header><h2>%s</h2>\n", id, title);
    return &p->sections;
}

void page_body(page *p)
{
    html_put(&p->sections, "</header><div class=\"body\">\n");
}

void page_end(page *p)
{
    html_put(&p->sections, "</div></section>\n");
}

void page_lacks(page *p, const char *what, const char *why)
{
    if (!p->runs[0].program) /* a program has no run */
        html_add(&p->missing, "<li><b>%s</b>: %s</li>\n", what, why);
}

void page_lacks_profile(page *p, const char *what)
{
    html_add(&p->unprofiled, "%s<b>%s</b>", p->unprofiled.text ? ", " : "", what);
}

/* ---- tables ---- */

/* Where bars are hidden, the numbers get the heading of the bars. */
static void write_heads(html *h, const char *heads)
{
    char head[80] = "", bars[80] = "";
    html_put(h, "<thead><tr>");
    while (*heads) {
        size_t length = strcspn(heads, "|");
        bool   words = *heads == '~', number = heads[words] == '#', bar = *heads == '=';
        snprintf(head, sizeof head, "%.*s", (int)length - number - words - bar, heads + number + words + bar);
        html_add(h, "<th scope=\"col\" class=\"%s%s%s\">", number ? "n" : "", words ? " words" : "", bar ? "bars" : "");
        html_add(h, *head ? "%s</th>" : "<span class=\"phone\">%s</span></th>", *head ? head : bars);
        snprintf(bars, sizeof bars, "%s", bar ? head : "");
        heads += length + (heads[length] == '|');
    }
    html_put(h, "</tr></thead>\n<tbody>");
}

/* Tables of many columns have no bars on windows of medium width. */
void page_table(html *h, const char *caption, const char *heads)
{
    enum { MANY = 8 };
    int columns = 1;
    for (const char *s = heads; *s; s++)
        columns += *s == '|';
    html_add(h,
             "<div class=\"scroll%s\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table>"
             "<caption>%s</caption>",
             columns >= MANY ? " wide" : "", caption, caption);
    write_heads(h, heads);
}

void page_folded_table(html *h, const char *caption, const char *heads)
{
    html_add(h, "<details><summary>Table: %s</summary>", caption);
    page_table(h, caption, heads);
}

void page_table_end(html *h)
{
    html_put(h, "</tbody></table></div>\n");
}

void page_folded_end(html *h)
{
    page_table_end(h);
    html_put(h, "</details>\n");
}

void page_number(html *h, const char *text)
{
    html_add(h, "<td class=\"n\">%s</td>", text);
}

void page_bar(html *h, double share, const char *kind)
{
    share = share > 0 ? fmin(share, 1) : 0;
    html_add(h, "<td class=\"barred\"><span class=\"bar\"><i class=\"%s\" style=\"width:%.2f%%\"></i></span></td>",
             kind, 100 * share);
}

/* ---- words ---- */

const char *page_device_class(const char *device)
{
    return !strcmp(device, "cpu") || !*device ? "c" : "a";
}

void page_device(html *h, const char *device)
{
    if (*device)
        html_add(h, "<span class=\"dev %s\">%s</span>", page_device_class(device), device);
    else
        html_put(h, "-");
}

const char *page_plural(double count, const char *one)
{
    static char ring[6][80];
    static int  at;
    at = (at + 1) % 6;
    snprintf(ring[at], sizeof ring[at], "%s %s%s", say_count(count), one, count == 1 ? "" : "s");
    return ring[at];
}

const char *page_measured(const page_run *run)
{
    return run->validation ? "validation" : "test";
}
