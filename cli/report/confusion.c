/* The confusion matrix of the page: a table whose cells have the counts. */
#include <math.h>
#include <stdlib.h>

#include "cli/model/answer.h"
#include "cli/report/answers.h"
#include "cli/report/page.h"
#include "cli/report/text.h"

enum { MOST_COLUMNS = 20, MOST_PAIRS = 20 };

static double count_at(const confusion *c, int wanted, int predicted)
{
    return (double)c->counts[(size_t)wanted * (size_t)c->classes + (size_t)predicted];
}

static double examples_of(const confusion *c, int wanted)
{
    double sum = 0;
    for (int i = 0; i < c->classes; i++)
        sum += count_at(c, wanted, i);
    return sum;
}

static double predictions_of(const confusion *c, int predicted)
{
    double sum = 0;
    for (int i = 0; i < c->classes; i++)
        sum += count_at(c, i, predicted);
    return sum;
}

static const char *part_text(double part, double whole)
{
    return whole > 0 ? say_share(part / whole) : "-";
}

/* Without a sign, which the heads of narrow columns have. */
static const char *whole_percent(double part, double whole)
{
    return whole > 0 ? say_count(floor(100 * part / whole + 0.5)) : "-";
}

/* ---- few classes: the matrix ---- */

/* Right answers and wrong ones differ in colour and by a frame; the shade is the share of the class. */
static void write_cell(html *h, const confusion *c, int wanted, int predicted)
{
    double count = count_at(c, wanted, predicted), examples = examples_of(c, wanted);
    double share = examples > 0 ? count / examples : 0;
    html_put(h, wanted == predicted ? "<td class=\"right\"" : "<td");
    if (count > 0 && wanted == predicted)
        html_add(h, " style=\"background:rgba(var(--heat),%.2f)\"", 0.06 + 0.44 * share);
    else if (count > 0)
        html_add(h, " style=\"background:rgba(var(--heat-bad),%.2f)\"", 0.04 + 0.46 * fmin(2 * share, 1));
    html_add(h, ">%.0f</td>", count);
}

static void write_head(html *h, const page_answers *a)
{
    html_add(h, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\"><table "
                "class=\"confusion\"><caption>Counts by class (rows) and by the answer (columns); the shade is "
                "the share of the row</caption><thead><tr><th scope=\"col\">class</th>");
    for (int i = 0; i < a->confusion.classes; i++) {
        html_put(h, "<th scope=\"col\" class=\"up\"><span>");
        html_name(h, answer_name(a->network.classes, i));
        html_put(h, "</span></th>");
    }
    html_put(h, "<th scope=\"col\" class=\"n\">Recall, %</th></tr></thead>\n<tbody>");
}

static void write_matrix(html *h, const page_answers *a)
{
    const confusion *c = &a->confusion;
    write_head(h, a);
    for (int i = 0; i < c->classes; i++) {
        html_put(h, "<tr><th scope=\"row\">");
        html_name(h, answer_name(a->network.classes, i));
        html_put(h, "</th>");
        for (int j = 0; j < c->classes; j++)
            write_cell(h, c, i, j);
        page_number(h, whole_percent(count_at(c, i, i), examples_of(c, i)));
        html_put(h, "</tr>\n");
    }
    html_put(h, "</tbody><tfoot><tr><th scope=\"row\"><span class=\"words\">Precision</span><span "
                "class=\"phone\">Prec.</span>, %</th>");
    for (int i = 0; i < c->classes; i++)
        html_add(h, "<td>%s</td>", whole_percent(count_at(c, i, i), predictions_of(c, i)));
    html_put(h, "<td></td></tr></tfoot><tbody>");
    page_table_end(h);
}

/* ---- many classes ---- */

typedef struct pair {
    int    wanted, predicted;
    double count;
} pair;

static int by_count(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : x->wanted - y->wanted;
}

/* The pairs that are confused most; the least of those that were found so far gives way. */
static int find_pairs(const confusion *c, pair *out)
{
    int count = 0;
    for (int i = 0; i < c->classes; i++)
        for (int j = 0; j < c->classes; j++) {
            pair p = {i, j, count_at(c, i, j)};
            if (i == j || p.count < 1 || (count == MOST_PAIRS && p.count <= out[count - 1].count))
                continue;
            out[count < MOST_PAIRS ? count++ : count - 1] = p;
            qsort(out, (size_t)count, sizeof *out, by_count);
        }
    return count;
}

static void write_pairs(html *h, const page_answers *a)
{
    const confusion *c = &a->confusion;
    pair             pairs[MOST_PAIRS];
    int              count = find_pairs(c, pairs);
    if (!count)
        return;
    page_table(h, "Classes that are confused most", "Class|Taken for|#Examples|#Of the class|=Share");
    for (int i = 0; i < count; i++) {
        html_put(h, "<tr><th scope=\"row\">");
        html_name(h, answer_name(a->network.classes, pairs[i].wanted));
        html_put(h, "</th><td>");
        html_name(h, answer_name(a->network.classes, pairs[i].predicted));
        html_put(h, "</td>");
        page_number(h, say_count(pairs[i].count));
        page_number(h, part_text(pairs[i].count, examples_of(c, pairs[i].wanted)));
        page_bar(h, pairs[i].count / examples_of(c, pairs[i].wanted), "x");
        html_put(h, "</tr>\n");
    }
    page_table_end(h);
}

static void write_classes(html *h, const page_answers *a)
{
    const confusion *c = &a->confusion;
    page_folded_table(h, "classes", "Class|#Examples|#Right|#Recall|#Precision");
    for (int i = 0; i < c->classes && i < 1000; i++) {
        html_put(h, "<tr><th scope=\"row\">");
        html_name(h, answer_name(a->network.classes, i));
        html_put(h, "</th>");
        page_number(h, say_count(examples_of(c, i)));
        page_number(h, say_count(count_at(c, i, i)));
        page_number(h, part_text(count_at(c, i, i), examples_of(c, i)));
        page_number(h, part_text(count_at(c, i, i), predictions_of(c, i)));
        html_put(h, "</tr>\n");
    }
    page_folded_end(h);
}

void page_confusion(html *h, const page_answers *a)
{
    if (!a->confusion.classes) {
        html_put(
            h, "<p class=\"note\">The targets of this data are not classes, so a confusion matrix does not apply.</p>");
        return;
    }
    html_put(h, "<h3 id=\"confusion\">Confusion matrix</h3>\n");
    if (a->confusion.classes <= MOST_COLUMNS) {
        write_matrix(h, a);
        return;
    }
    write_pairs(h, a);
    write_classes(h, a);
}
