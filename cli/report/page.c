/* haul report: runs as one HTML file that needs nothing else. */
#include <stdlib.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/report/page.h"
#include "cli/shared/cli.h"
#include "files/file.h"

typedef struct page_values {
    operand_list runs;
    const char  *output;
} page_values;

static const char *const style[] = {
#include "page_style.inc"
};

/* ---- the file ---- */

static void write_document_head(html *h, const page *p)
{
    html_put(h, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
                "img-src data:\">\n");
    html_add(h, "<meta name=\"generator\" content=\"haul %s\">\n<title>%s: Haul report</title>\n<style>\n",
             haul_version(), p->runs[0].name);
    for (size_t i = 0; i < sizeof style / sizeof *style; i++) {
        html_put(h, style[i]);
        html_put(h, "\n");
    }
    html_put(h,
             "</style></head>\n<body><a class=\"skip\" href=\"#main\">Skip to the content</a>\n<div class=\"page\">\n");
}

static void put_part(html *h, const html *part)
{
    h->failed = h->failed || part->failed;
    if (part->text)
        html_put(h, part->text);
}

static void write_unprofiled(html *h, const page *p)
{
    if (!p->unprofiled.text)
        return;
    html_put(h, "<li>");
    put_part(h, &p->unprofiled);
    html_put(h, ": train with <code>haul train --profile 20 --run DIR</code>, which measures 20 steps</li>\n");
}

static void assemble(html *h, const page *p)
{
    write_document_head(h, p);
    html_put(h, "<div class=\"top\">");
    put_part(h, &p->head);
    html_put(h, "</div>\n<nav aria-label=\"Sections\"><ul>");
    put_part(h, &p->links);
    html_put(h, "</ul></nav>\n<main id=\"main\">\n");
    put_part(h, &p->sections);
    if (p->missing.text || p->unprofiled.text) {
        html_put(h, "<section id=\"missing\"><header><h2>Not in this report</h2></header><div class=\"body\"><ul>\n");
        write_unprofiled(h, p);
        put_part(h, &p->missing);
        html_put(h, "</ul></div></section>\n");
    }
    html_add(h,
             "</main>\n<footer>Written by haul %s from the files of the run. The page contains everything that it "
             "shows: it loads nothing and runs no script.</footer>\n</div></body></html>\n",
             haul_version());
}

static bool save(const char *path, const html *h)
{
    if (!haul__file_write_all(path, "report", h->text, h->length))
        return true;
    complain_error();
    return false;
}

/* ---- the page ---- */

static void write_sections(page *p)
{
    page_head(p);
    page_compare(p);
    page_curves(p);
    page_step(p);
    page_audit(p);
    page_operations(p);
    page_memory(p);
    page_arena(p);
    page_transfers(p);
    page_network(p);
    page_predictions(p);
    page_options(p);
}

static bool write_page(page *p, const char *path)
{
    html document = {0};
    write_sections(p);
    assemble(&document, p);
    bool saved = !document.failed && save(path, &document);
    if (document.failed)
        complain("memory is exhausted");
    if (saved) {
        print_visible(path, 0);
        printf(" (%s), %s", text_bytes((int64_t)document.length), p->run_count == 1 ? "run " : "");
        print_visible(p->run_count == 1 ? p->runs[0].name : page_plural(p->run_count, "run"), 0);
        putchar('\n');
    }
    html_free(&document);
    return saved;
}

static void page_free(page *p)
{
    for (int i = 0; i < p->run_count; i++)
        page_run_free(&p->runs[i]);
    free(p->runs);
    html_free(&p->head);
    html_free(&p->links);
    html_free(&p->sections);
    html_free(&p->missing);
    html_free(&p->unprofiled);
}

/* A run without a log is complained of, and the others are compared. */
static bool read_runs(page *p, const operand_list *paths)
{
    p->runs = calloc((size_t)paths->count, sizeof *p->runs);
    if (!p->runs) {
        complain("memory is exhausted");
        return false;
    }
    for (int i = 0; i < paths->count; i++) {
        page_run *run = &p->runs[p->run_count];
        bool      there = page_run_read(run, paths->items[i]);
        p->failed = p->failed || !there || run->damaged;
        if (there)
            p->run_count++;
        else
            page_run_free(run);
    }
    return p->run_count > 0;
}

/* FOLDER/report.html, for free; NULL after a complaint. */
static char *default_path(const char *folder)
{
    static const char name[] = "/report.html";
    size_t            size = strlen(folder) + sizeof name;
    char             *path = malloc(size);
    if (path)
        snprintf(path, size, "%s%s", folder, name);
    else
        complain("memory is exhausted");
    return path;
}

static int report_runs(const page_values *o)
{
    page  p = {0};
    char *path = read_runs(&p, &o->runs) ? (o->output ? strdup(o->output) : default_path(p.runs[0].path)) : NULL;
    bool  done = path && write_page(&p, path);
    done = done && !p.failed;
    free(path);
    page_free(&p);
    return done ? EXIT_OK : EXIT_FAILED;
}

/* ---- the command ---- */

static const option page_rows[] = {{.group = "Output",
                                    .name = "output",
                                    .letter = 'o',
                                    OPTION_TEXT_AT(page_values, output),
                                    .argument = "FILE",
                                    .help = "Where the page is written; by default report.html in the folder of the "
                                            "first run",
                                    .complete = COMPLETE_FILE}};

static int page_main(int argc, char **argv)
{
    page_values   o = {0};
    option_values values;
    int           code = options_parse(&values, &report_command, &o, argc, argv);
    if (code >= 0)
        return code;
    if (o.runs.count > PAGE_MOST_RUNS) {
        complain("%d runs are too many for a page; name at most %d", o.runs.count, PAGE_MOST_RUNS);
        return EXIT_USAGE;
    }
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = report_runs(&o);
    haul_scope_pop(scope);
    return code;
}

static const help_example page_lines[] = {
    {"haul report runs/first", "runs/first/report.html"},
    {"haul report runs/first runs/second --output both.html", "both runs, drawn into the same charts"},
    {NULL, NULL}};

const command report_command = {
    .name = "report",
    .summary = "Write an HTML report on one or more runs",
    .usage = "[--output FILE] RUN...",
    .description =
        "Writes one HTML file about a run: its curves, where the time of a step goes, memory, copies between devices, "
        "the network, predictions and the confusion matrix. The file loads nothing and has no script. Of a folder that "
        "a "
        "program wrote with haul_profile_save it shows what the profile has. Several runs are "
        "drawn into the same charts; the other sections are about the first. A section whose file is missing is left "
        "out, and the page says which option makes the file.",
    .options = page_rows,
    .option_count = sizeof page_rows / sizeof *page_rows,
    .operand = {.name = "RUN",
                .help = "Folders of runs",
                .offset = offsetof(page_values, runs),
                .several = true,
                .required = true,
                .complete = COMPLETE_FOLDER},
    .examples = page_lines,
    .run = page_main,
};
