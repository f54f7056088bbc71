/* Copies between devices on the page: a matrix of devices, and the ledger as a list. Both are sums of the same rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/finding.h"
#include "cli/report/page.h"
#include "cli/report/text.h"

enum { MOST_DEVICES = 16, LISTED = 12, MOST_LISTED = 300 };

typedef struct cell {
    double bytes, count;
} cell;

typedef struct matrix {
    const char  *devices[MOST_DEVICES];
    int          count;
    cell         cells[MOST_DEVICES][MOST_DEVICES], all;
    double       wait_ms, device_ms, overlap_ms;
    double       planned_bytes, planned_ms;
    const cJSON *audit;
    bool         marked; /* a finding is about one of the rows */
    bool         kinds;  /* host memory is known to be pinned or pageable */
} matrix;

/* -1: there are more devices than fit. */
static int device_at(matrix *m, const char *name)
{
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->devices[i], name))
            return i;
    if (m->count == MOST_DEVICES)
        return -1;
    m->devices[m->count] = name;
    return m->count++;
}

static double positive(double value)
{
    return value > 0 ? value : 0;
}

static void add_row(matrix *m, const cJSON *row)
{
    int    from = device_at(m, document_text(row, "from")), to = device_at(m, document_text(row, "to"));
    double bytes = positive(number_of(row, "bytes")), count = positive(number_of(row, "count"));
    if (from >= 0 && to >= 0) {
        m->cells[from][to].bytes += bytes;
        m->cells[from][to].count += count;
    }
    m->all.bytes += bytes;
    m->all.count += count;
    m->marked = m->marked || page_row_marks(NULL, m->audit, row) > 0;
    m->kinds = m->kinds || number_of(row, "pinned_bytes") > 0 || number_of(row, "pageable_bytes") > 0;
    m->wait_ms += positive(number_of(row, "wait_ms"));
    m->planned_bytes += positive(number_of(row, "planned_bytes"));
    m->planned_ms += positive(number_of(row, "planned_ms"));
    m->device_ms += positive(number_of(row, "device_ms"));
    m->overlap_ms += positive(number_of(row, "overlap_ms"));
}

/* ---- the matrix ---- */

static double most_bytes(const matrix *m)
{
    double most = 1;
    for (int i = 0; i < m->count; i++)
        for (int j = 0; j < m->count; j++)
            most = fmax(most, m->cells[i][j].bytes);
    return most;
}

/* A square whose area shows the bytes. */
static void write_cell(html *h, const cell *c, double most)
{
    if (c->count <= 0) {
        html_put(h, "<td>0</td>");
        return;
    }
    html_add(h,
             "<td><svg viewBox=\"0 0 60 60\" width=\"60\" height=\"60\" aria-hidden=\"true\"><rect class=\"moved\" "
             "x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/></svg><b data-bytes=\"%.0f\">%s</b><small>%s "
             "%s</small></td>",
             30 - 30 * sqrt(c->bytes / most), 30 - 30 * sqrt(c->bytes / most), 60 * sqrt(c->bytes / most),
             60 * sqrt(c->bytes / most), c->bytes, say_bytes(c->bytes), say_count(c->count),
             c->count == 1 ? "copy" : "copies");
}

static void write_matrix(html *h, const matrix *m)
{
    html_put(h, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Bytes between devices\"><table "
                "class=\"matrix\"><caption>Bytes from row to column; areas show bytes"
                "</caption><thead><tr><th scope=\"col\">from \xe2\x86\x93 to \xe2\x86\x92</th>");
    for (int i = 0; i < m->count; i++) {
        html_put(h, "<th scope=\"col\">");
        page_device(h, m->devices[i]);
        html_put(h, "</th>");
    }
    html_put(h, "</tr></thead><tbody>");
    for (int i = 0; i < m->count; i++) {
        html_put(h, "<tr><th scope=\"row\">");
        page_device(h, m->devices[i]);
        html_put(h, "</th>");
        for (int j = 0; j < m->count; j++)
            write_cell(h, &m->cells[i][j], most_bytes(m));
        html_put(h, "</tr>\n");
    }
    page_table_end(h);
}

/* ---- by operation ---- */

enum { MOST_OPERATIONS = 64, LISTED_OPERATIONS = 7 };

typedef struct group {
    const char *operation;
    double      bytes, count, wait_ms;
} group;

static int by_group(const void *a, const void *b)
{
    double x = ((const group *)a)->bytes, y = ((const group *)b)->bytes;
    return (x < y) - (x > y);
}

/* Operations with what they moved; those that do not fit are one group. */
static int group_rows(const cJSON *rows, group *out)
{
    const cJSON *row;
    int          count = 0;
    cJSON_ArrayForEach(row, rows)
    {
        const char *name = document_text(row, "operation");
        int         at = 0;
        while (at < count && strcmp(out[at].operation, name) != 0)
            at++;
        if (at == count && count < MOST_OPERATIONS)
            out[count++] = (group){.operation = name};
        at = at < count ? at : count - 1;
        out[at].bytes += positive(number_of(row, "bytes"));
        out[at].count += positive(number_of(row, "count"));
        out[at].wait_ms += positive(number_of(row, "wait_ms"));
    }
    qsort(out, (size_t)count, sizeof *out, by_group);
    return count;
}

static void write_group(html *h, const group *g, const char *name, double all)
{
    html_put(h, "<tr><th scope=\"row\">");
    html_name(h, name);
    html_put(h, "</th>");
    page_number(h, say_count(g->count));
    page_bar(h, g->bytes / all, "x");
    page_number(h, say_bytes(g->bytes));
    page_number(h, say_share(g->bytes / all));
    page_number(h, say_ms(g->wait_ms));
    html_put(h, "</tr>\n");
}

static void write_groups(html *h, const cJSON *rows, const matrix *m)
{
    group groups[MOST_OPERATIONS], rest = {0};
    int   count = group_rows(rows, groups);
    page_table(h, "By operation", "Operation|#Copies|=Bytes|#|#Share|#Host waits");
    for (int i = 0; i < count; i++) {
        if (i < LISTED_OPERATIONS) {
            write_group(h, &groups[i], groups[i].operation, m->all.bytes);
            continue;
        }
        rest.bytes += groups[i].bytes;
        rest.count += groups[i].count;
        rest.wait_ms += groups[i].wait_ms;
    }
    if (rest.count > 0)
        write_group(h, &rest, "all others", m->all.bytes);
    page_table_end(h);
}

/* ---- the list ---- */

static int by_bytes(const void *a, const void *b)
{
    double x = number_of(*(const cJSON *const *)a, "bytes"), y = number_of(*(const cJSON *const *)b, "bytes");
    return (x < y) - (x > y);
}

static void write_what(html *h, const cJSON *row, const matrix *m)
{
    const char *tensor = document_text(row, "tensor"), *conversion = document_text(row, "conversion");
    html_put(h, "<tr><th scope=\"row\">");
    html_name(h, *tensor ? tensor : "(no name)");
    page_row_marks(h, m->audit, row);
    if (*conversion)
        html_add(h, "<small>%s</small>", conversion);
    html_put(h, "</th><td>");
    page_device(h, document_text(row, "from"));
    html_put(h, " \xe2\x86\x92 ");
    page_device(h, document_text(row, "to"));
    html_put(h, "</td><td>");
    html_name(h, document_text(row, "operation"));
    if (*document_text(row, "module") || *document_text(row, "label"))
        html_add(h, "<small>%s%s%s</small>", document_text(row, "module"),
                 *document_text(row, "module") && *document_text(row, "label") ? ", " : "",
                 document_text(row, "label"));
    html_put(h, "</td>");
}

static const char *memory_kind(const cJSON *row)
{
    double pinned = number_of(row, "pinned_bytes"), pageable = number_of(row, "pageable_bytes");
    return pinned > 0 && pageable > 0 ? "both" : pinned > 0 ? "pinned" : pageable > 0 ? "pageable" : "-";
}

static void write_row(html *h, const cJSON *row, const matrix *m)
{
    double device = number_of(row, "device_ms");
    write_what(h, row, m);
    page_number(h, say_count(number_of(row, "count")));
    page_number(h, say_bytes(number_of(row, "bytes")));
    if (m->kinds)
        html_add(h, "<td>%s</td>", memory_kind(row));
    page_number(h, say_ms(number_of(row, "wait_ms")));
    page_number(h, say_ms(device));
    page_number(h, device > 0 ? say_share(number_of(row, "overlap_ms") / device) : "-");
    html_put(h, "</tr>\n");
}

static void write_total(html *h, const matrix *m)
{
    html_put(h, "</tbody><tfoot><tr><th scope=\"row\">all copies</th><td></td><td></td>");
    page_number(h, say_count(m->all.count));
    page_number(h, say_bytes(m->all.bytes));
    html_put(h, m->kinds ? "<td></td>" : "");
    page_number(h, say_ms(m->wait_ms));
    page_number(h, say_ms(m->device_ms));
    page_number(h, m->device_ms > 0 ? say_share(m->overlap_ms / m->device_ms) : "-");
    html_put(h, "</tr></tfoot><tbody>");
}

static void write_list(html *h, const cJSON **sorted, int count, const matrix *m)
{
    const char *heads = m->kinds
                            ? "Tensor|Direction|Operation|#Copies|#Bytes|Host memory|#Host waits|#On the link|#Hidden"
                            : "Tensor|Direction|Operation|#Copies|#Bytes|#Host waits|#On the link|#Hidden";
    page_table(h, count > LISTED ? "The largest of the run" : "Copies of the run", heads);
    for (int i = 0; i < count && i < LISTED; i++)
        write_row(h, sorted[i], m);
    write_total(h, m);
    page_table_end(h);
    if (count <= LISTED)
        return;
    page_folded_table(h, "the other copies", heads);
    for (int i = LISTED; i < count && i < MOST_LISTED; i++)
        write_row(h, sorted[i], m);
    page_table_end(h);
    if (count > MOST_LISTED)
        html_add(h, "<p class=\"note\">%s more are in ledger.json.</p>", page_plural(count - MOST_LISTED, "row"));
    html_put(h, "</details>\n");
}

/* ---- the section ---- */

static void write_lead(html *h, const cJSON *ledger, const matrix *m, const cJSON *largest)
{
    html_add(h, "<p>The run moved %s in %s %s.", say_bytes(m->all.bytes), say_count(m->all.count),
             m->all.count == 1 ? "copy" : "copies");
    html_add(h, " %s of the bytes are ", say_share(number_of(largest, "bytes") / m->all.bytes));
    html_name(h, *document_text(largest, "tensor") ? document_text(largest, "tensor")
                                                   : document_text(largest, "operation"));
    html_add(h, ", from %s to %s.", document_text(largest, "from"), document_text(largest, "to"));
    html_add(h, " The host waited %s for copies.</p>", say_time(m->wait_ms));
    if (m->device_ms > 0)
        html_add(h, "<p>%s of their time on the link was hidden behind computing.</p>",
                 say_share(m->overlap_ms / m->device_ms));
    if (m->planned_bytes > 0)
        html_add(h, "<p>The plan asked for %s of them, and counted %s for that.</p>", say_bytes(m->planned_bytes),
                 say_time(m->planned_ms));
    if (isfinite(number_of(ledger, "bytes")) && number_of(ledger, "bytes") != m->all.bytes)
        html_add(h, "<p class=\"bad\">ledger.json says %s bytes, and its rows add up to %s.</p>",
                 say_count(number_of(ledger, "bytes")), say_count(m->all.bytes));
    html_put(h, "<p class=\"note\">Counts cover only the last process of the run; a resumed run "
                "starts at zero.</p>");
}

static void write_section(page *p, const cJSON *rows, const cJSON **sorted, matrix *m)
{
    const cJSON *row;
    int          count = 0;
    m->audit = p->runs[0].audit;
    device_at(m, "cpu");
    cJSON_ArrayForEach(row, rows)
    {
        add_row(m, row);
        sorted[count++] = row;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, by_bytes);
    html *h = page_begin(p, "transfers", "Transfers");
    if (m->all.bytes > 0)
        write_lead(h, p->runs[0].ledger, m, sorted[0]);
    else
        html_put(h, "<p>The run moved nothing between devices.</p>");
    page_body(p);
    if (m->all.bytes > 0) {
        html_put(h, m->count <= 4 ? "<div class=\"beside\">" : "<div>");
        write_matrix(h, m);
        html_put(h, "<div>");
        write_groups(h, rows, m);
        html_put(h, "</div></div>\n");
        if (m->marked)
            html_put(h, "<p class=\"note\">Letters are <a href=\"#audit\">findings of the audit</a>.</p>\n");
        write_list(h, sorted, count, m);
    }
    page_end(p);
}

void page_transfers(page *p)
{
    const cJSON *rows = document_list(p->runs[0].ledger, "rows");
    if (!rows) {
        page_lacks(p, "Transfers", "a training with --run writes ledger.json at its end");
        return;
    }
    const cJSON **sorted = calloc((size_t)cJSON_GetArraySize(rows) + 1, sizeof *sorted);
    matrix       *m = calloc(1, sizeof *m);
    if (sorted && m)
        write_section(p, rows, sorted, m);
    p->sections.failed = p->sections.failed || !sorted || !m;
    free(sorted);
    free(m);
}
