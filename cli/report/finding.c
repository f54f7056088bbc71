#include "cli/report/finding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/text.h"

/* A letter is this wide, as a share of the narrowest track; the same one is not repeated within NEAR. */
static const double WIDE = 0.03, NEAR = 0.05;

const page_finding_kind page_finding_kinds[PAGE_FINDING_KINDS] = {
    {"ping-pong", "A tensor goes back and forth", "a tensor that goes back and forth"},
    {"wait-per-step", "A wait in every step", "a wait in every step"},
    {"pageable", "Pageable copies that could be pinned", "pageable copies that could be pinned"},
    {"unchanged", "Unchanged data is sent again", "unchanged data that is sent again"},
    {"many-small", "Many small copies that could be one", "many small copies that could be one"},
    {"cpu-island", "The CPU computes between two device operations", "the CPU between two device operations"},
    {"wrong-side", "A conversion on the wrong side of the link", "a conversion on the wrong side of the link"},
    {"loader-bound", "The loader starves the device", "a loader that starves the device"},
    {"host-bound", "The device idles behind the host", "a device that idles behind the host"},
    {"compilation", "Kernels are compiled during the profile", "the compilation of kernels"},
};

double page_finding_cost(const cJSON *finding)
{
    double ms = number_of(finding, "ms_per_step");
    return ms > 0 ? ms : 0;
}

const cJSON *page_dearest(const cJSON *audit)
{
    const cJSON *finding, *dearest = NULL;
    cJSON_ArrayForEach(finding, audit)
    {
        if (!dearest || page_finding_cost(finding) > page_finding_cost(dearest))
            dearest = finding;
    }
    return dearest;
}

const char *page_letter(int finding)
{
    static char ring[4][8];
    static int  at;
    at = (at + 1) % 4;
    if (finding < 26)
        snprintf(ring[at], sizeof ring[at], "%c", 'A' + finding);
    else
        snprintf(ring[at], sizeof ring[at], "%d", finding % 1000 + 1);
    return ring[at];
}

const char *page_finding_title(const cJSON *finding)
{
    const char *name = document_text(finding, "finding");
    for (int i = 0; i < PAGE_FINDING_KINDS; i++)
        if (!strcmp(page_finding_kinds[i].name, name))
            return page_finding_kinds[i].title;
    return name;
}

static int count_of(const cJSON *audit)
{
    const int count = cJSON_GetArraySize(audit);
    return count < PAGE_MOST_FINDINGS ? count : PAGE_MOST_FINDINGS;
}

/* What follows in the tag. */
static void write_rest(html *h, const cJSON *audit, int finding)
{
    const char *letter = page_letter(finding);
    html_add(h, " href=\"#finding-%s\" aria-label=\"Finding %s: %s\">%s</a>", letter, letter,
             page_finding_title(cJSON_GetArrayItem(audit, finding)), letter);
}

void page_mark(html *h, const cJSON *audit, int finding)
{
    html_put(h, "<a class=\"mark\"");
    write_rest(h, audit, finding);
}

/* -1 if the number names no finding. */
static int finding_of(const cJSON *audit, const cJSON *number)
{
    const double value = cJSON_IsNumber(number) ? number->valuedouble : -1;
    return value >= 0 && value < count_of(audit) && value == floor(value) ? (int)value : -1;
}

void page_span_marks(html *h, const cJSON *audit, const cJSON *span)
{
    const cJSON *number;
    cJSON_ArrayForEach(number, document_list(span, "findings"))
    {
        if (finding_of(audit, number) >= 0)
            page_mark(h, audit, finding_of(audit, number));
    }
}

/* ---- rows of the ledger ---- */

static bool same(const cJSON *copy, const cJSON *row, const char *member)
{
    return !strcmp(document_text(copy, member), document_text(row, member));
}

/* What a wait was for has no name. */
static bool is_about(const cJSON *copy, const cJSON *row)
{
    return same(copy, row, "from") && same(copy, row, "to") && same(copy, row, "operation") &&
           same(copy, row, "module") && same(copy, row, "label") &&
           (!cJSON_GetObjectItemCaseSensitive(copy, "tensor") || same(copy, row, "tensor"));
}

int page_row_marks(html *h, const cJSON *audit, const cJSON *row)
{
    int marks = 0;
    for (int i = 0; i < count_of(audit); i++) {
        const cJSON *copy;
        bool         about = false;
        cJSON_ArrayForEach(copy, document_list(cJSON_GetArrayItem(audit, i), "copies"))
        {
            about = about || is_about(copy, row);
        }
        if (about && h)
            page_mark(h, audit, i);
        marks += about;
    }
    return marks;
}

/* ---- along a track ---- */

static void add(page_marks *m, int finding, double at)
{
    for (int i = m->count; i-- > 0;)
        if (m->items[i].finding == finding) {
            if (at - m->items[i].at < NEAR)
                return;
            break;
        }
    if (m->count == PAGE_MOST_MARKS)
        return;
    m->items[m->count].at = at;
    m->items[m->count++].finding = finding;
}

void page_marks_add_span(page_marks *m, const cJSON *audit, const cJSON *span, double at)
{
    const cJSON *number;
    cJSON_ArrayForEach(number, document_list(span, "findings"))
    {
        if (finding_of(audit, number) >= 0)
            add(m, finding_of(audit, number), at);
    }
}

void page_marks_add_idle(page_marks *m, const cJSON *audit, const char *device, double at)
{
    for (int i = 0; i < count_of(audit); i++) {
        const cJSON *finding = cJSON_GetArrayItem(audit, i);
        if (!strcmp(document_text(finding, "finding"), "host-bound") &&
            !strcmp(document_text(finding, "device"), device))
            add(m, i, at);
    }
}

static int by_place(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b; /* the first member */
    return (x > y) - (x < y);
}

void page_marks_place(page_marks *m)
{
    enum { MOST_ROWS = 3 };
    double free_from[MOST_ROWS] = {0};
    qsort(m->items, (size_t)m->count, sizeof *m->items, by_place);
    for (int i = 0; i < m->count; i++) {
        double at = fmin(m->items[i].at, 1 - WIDE);
        int    row = 0;
        for (int k = 1; k < MOST_ROWS && free_from[row] > at; k++)
            row = free_from[k] <= at || free_from[k] < free_from[row] ? k : row;
        at = fmax(at, free_from[row]);
        free_from[row] = at + WIDE;
        m->items[i].at = at;
        m->items[i].row = row;
        m->rows = row + 1 > m->rows ? row + 1 : m->rows;
    }
}

void page_marks_write(html *h, const page_marks *m, const cJSON *audit)
{
    for (int i = 0; i < m->count; i++) {
        html_add(h, "<a class=\"mark\" style=\"left:%.2f%%;top:%dpx\"", 100 * m->items[i].at, 2 + 17 * m->items[i].row);
        write_rest(h, audit, m->items[i].finding);
    }
}
