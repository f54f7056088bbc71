/* The page that `haul report` writes. Each section is a function in a file of its own; it adds nothing if the runs have
 * nothing for it, and names missing files. */
#ifndef CLI_REPORT_PAGE_H
#define CLI_REPORT_PAGE_H

#include "cli/report/draw/html.h"
#include "cli/report/run.h"

enum { PAGE_MOST_RUNS = 100 };

typedef struct page {
    page_run *runs; /* the first is the page's; others are compared with it */
    int       run_count;
    html      head, links, sections, missing;
    html      unprofiled; /* names of sections that need a profile */
    bool      failed;     /* something was complained of */
} page;

/* ---- sections, in their order on the page ---- */

void page_head(page *p);        /* what ran and how it ended, in a sentence and in figures */
void page_curves(page *p);      /* loss, accuracy, learning rate, examples per second */
void page_compare(page *p);     /* several runs as a table */
void page_step(page *p);        /* where the time of a step goes, and its timeline */
void page_audit(page *p);       /* findings */
void page_operations(page *p);  /* time by operation, module and kernel */
void page_memory(page *p);      /* over a step, and at its peak */
void page_arena(page *p);       /* of a followed step */
void page_transfers(page *p);   /* as a matrix of devices, and as a list */
void page_network(page *p);     /* layers with shapes */
void page_predictions(page *p); /* pictures and confusion matrix, by the trained network */
void page_options(page *p);     /* how the run was started */

/* ---- what sections are made of ---- */

/* A section: its title, sentences that say what there is to see, and after page_body the charts and tables. */
html *page_begin(page *p, const char *id, const char *title);
void  page_body(page *p);
void  page_end(page *p);

/* A line that names what the report lacks, and the option that adds it. */
void page_lacks(page *p, const char *what, const char *why);

/* The same for what --profile makes: one line for all of them. */
void page_lacks_profile(page *p, const char *what);

/* A table that is shown on demand, or at once; it scrolls sideways where it is wider than the page. `heads` are
 * separated by '|'; those that begin with '#' are of numbers, those that begin with '=' of bars, and those with '~',
 * which comes first, are left out on narrow screens. */
void page_table(html *h, const char *caption, const char *heads);
void page_folded_table(html *h, const char *caption, const char *heads);
void page_table_end(html *h);
void page_folded_end(html *h);

/* A cell of a number. */
void page_number(html *h, const char *text);

/* A bar in a cell, from 0 to 1; of class `kind`. */
void page_bar(html *h, double share, const char *kind);

/* "a" for accelerators, "c" for the CPU: the class that colours a device. */
const char *page_device_class(const char *device);
void        page_device(html *h, const char *device);

/* In a sentence: "1 epoch", "8 epochs". */
const char *page_plural(double count, const char *one);

/* "validation" or "test": what epochs were measured on. */
const char *page_measured(const page_run *run);

#endif
