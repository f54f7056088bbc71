/* A plan for people. */
#include "cli/plan/show.h"

#include <math.h>
#include <string.h>

#include "base/numbers.h"
#include "base/text/list.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

static void print_needs(const study *s)
{
    char   text[300];
    size_t used = 0;
    used += (size_t)snprintf(text, sizeof text,
                             "%s at the peak on one device:", text_bytes(s->plan->single[0].peaks[0].bytes));
    for (int i = 0, shown = 0; i < HAUL__PLACE_ROLES; i++)
        if (s->plan->needs[i] && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %s %s", shown++ ? "," : "",
                                     study_role_name(i), text_bytes(s->plan->needs[i]));
    printf("memory  ");
    print_wrapped(text, 8, 8);
}

/* The table of candidates. Peaks of more than two devices have no room in it. A narrow terminal has no waits, and then
 * no peaks and copied bytes. */
typedef struct table {
    int    name, measured; /* widths; measured: 0 if nothing was */
    bool   peaks, copied, waits;
    double longest; /* seconds */
} table;

static table table_of(const study *s)
{
    enum { STEP = 10, PEAK = 11, COPIED = 14, WAITS = 7 };
    table t = {.name = 16, .peaks = haul__plan_device_count(s->plan) == 2};
    for (int i = 0; i < haul__plan_way_count(s->plan); i++) {
        const haul__plan_way *w = &s->plan->ways[i];
        t.measured = isnan(w->measured) ? t.measured : 10;
        t.longest = fmax(t.longest, fmax((double)w->figures.ps * 1e-12, w->measured));
    }
    for (int d = 1; d < haul__plan_device_count(s->plan); d++)
        t.name = (int)larger(t.name, (int64_t)strlen(s->plan->request.names[d]) + 7);
    const int left = output_room() - t.name - STEP - t.measured - (t.peaks ? 2 * PEAK : 0);
    t.waits = left >= COPIED + WAITS;
    t.copied = left >= COPIED;
    t.peaks = t.peaks && t.copied;
    return t;
}

static const char *text_of(const table *t, int64_t ps)
{
    return text_seconds_like((double)ps * 1e-12, t->longest);
}

static void print_candidate(const study *s, const haul__plan_way *w, const table *t)
{
    printf("%-*s %9s%*s", t->name, study_candidate_name(w, "this plan"), text_of(t, w->figures.ps), t->measured,
           t->measured ? text_seconds_like(w->measured, t->longest) : "");
    for (int d = 0; t->peaks && d < haul__plan_device_count(s->plan); d++)
        printf(" %10s", text_bytes(w->figures.peak[d]));
    if (*w->why_not)
        printf("  does not fit");
    else if (t->copied)
        printf(" %10s", text_bytes(w->figures.copied_bytes));
    if (t->waits && !*w->why_not)
        printf(" %9s", w->figures.waits ? text_of(t, w->figures.waits) : "-");
    putchar('\n');
}

static void print_candidates(const study *s)
{
    const table t = table_of(s);
    set_style(STYLE_DIM);
    printf("%-*s %9s%*s", t.name, "", "step", t.measured, t.measured ? "measured" : "");
    for (int d = 0; t.peaks && d < haul__plan_device_count(s->plan); d++)
        printf(" %10s", s->plan->request.names[d]);
    printf("%s%s\n", t.copied ? "     copied" : "", t.waits ? "     waits" : "");
    set_style(STYLE_PLAIN);
    for (int i = 0; i < haul__plan_way_count(s->plan); i++)
        print_candidate(s, &s->plan->ways[i], &t);
}

/* Of the plan, if the table has no room for them. */
static void print_peaks(const study *s)
{
    char        text[900];
    const table t = table_of(s);
    size_t      used = (size_t)snprintf(text, sizeof text, "This plan needs");
    if (t.peaks)
        return;
    for (int d = 0; d < haul__plan_device_count(s->plan) && used < sizeof text; d++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s on %s", d ? "," : "",
                                 text_bytes(s->plan->best->peaks[d].bytes), s->plan->request.names[d]);
    if (used < sizeof text)
        snprintf(text + used, sizeof text - used, ".");
    print_wrapped(text, 0, 0);
}

/* Of the plan; those of one device are its own. */
static void print_bits(const study *s)
{
    char        text[200];
    const char *bits = haul__plan_bits(s->plan, s->plan->best);
    if (*bits)
        snprintf(text, sizeof text, "The results are bit-identical to those on %s alone.", bits);
    else
        snprintf(text, sizeof text, "Products run on %s, which round differently: results have the bits of %s alone.",
                 haul__plan_device_count(s->plan) > 2 ? "several devices" : "both devices",
                 haul__plan_device_count(s->plan) > 2 ? "none" : "neither");
    print_wrapped(text, 0, 0);
}

/* What the plan's operations and copies would take one after the other, if that differs from the step. */
static void print_times(const study *s)
{
    char          text[300];
    const table   t = table_of(s);
    const int64_t cost = s->plan->best->cost, makespan = study_makespan(s);
    if (makespan == cost)
        return;
    snprintf(text, sizeof text, "Devices and links work at the same time; one after the other they would take %s.",
             text_of(&t, cost));
    print_wrapped(text, 0, 0);
}

static bool has_limit(const study *s)
{
    const haul__place_graph *g = &s->plan->graph;
    bool                     limited = false;
    for (int d = 0; d < g->device_count; d++)
        limited = limited || g->limit[d] > 0;
    return limited;
}

static void print_proof(const study *s)
{
    char          text[300];
    const table   t = table_of(s);
    const int64_t cost = s->plan->best->cost, bound = s->plan->best->proof.bound;
    if (bound == cost)
        snprintf(text, sizeof text, "No other placement takes less, if operations and copies follow each other.");
    else if (plan_gap(cost, bound) < 0.001)
        snprintf(text, sizeof text, "No placement takes 0.1 %% less, if operations and copies follow each other.");
    else
        snprintf(text, sizeof text,
                 "%s placement takes less than %s (%.1f %% less), if operations and copies follow each other.",
                 has_limit(s) ? "Within the limits no" : "No", text_of(&t, bound), 100 * plan_gap(cost, bound));
    print_wrapped(text, 0, 0);
}

static void print_rows(const study *s)
{
    char reason[300], text[500];
    for (size_t i = 0; i < s->row_count; i++) {
        const plan_row *r = &s->rows[i];
        size_t          used;
        haul__plan_reason(s->plan, &r->why, reason, sizeof reason);
        used = (size_t)snprintf(text, sizeof text, "%s stays on %s: %s", r->label, s->plan->request.names[r->device],
                                reason);
        if (r->aside && used < sizeof text)
            snprintf(text + used, sizeof text - used, "; %s of it run on %s", text_ps(r->aside),
                     haul__plan_device_count(s->plan) > 2 ? "other devices" : s->plan->request.names[!r->device]);
        print_wrapped(text, 0, 4);
    }
}

/* "cuda:0, cuda:1": the devices but the host. */
static const char *others_of(const study *s, char *out, size_t size)
{
    *out = 0;
    for (int d = 1; d < haul__plan_device_count(s->plan); d++)
        haul__list_add(out, size, "%s", s->plan->request.names[d]);
    return out;
}

static void print_batches(const study *s)
{
    char        text[700], devices[400];
    const bool  several = haul__plan_device_count(s->plan) > 2;
    const char *pays = several ? "pay" : "pays";
    others_of(s, devices, sizeof devices);
    if (!s->pays_some)
        snprintf(text, sizeof text, "%s %s not pay with any batch up to 1,024.", devices, several ? "do" : "does");
    else if (!s->pays_all)
        snprintf(text, sizeof text, "%s %s from batch %s on for a part of the network, with no batch for all of it.",
                 devices, pays, text_count(s->pays_some));
    else if (s->pays_all == s->pays_some)
        snprintf(text, sizeof text, "%s %s from batch %s on, for the whole network.", devices, pays,
                 text_count(s->pays_all));
    else
        snprintf(text, sizeof text, "%s %s from batch %s on; for the whole network from batch %s on.", devices, pays,
                 text_count(s->pays_some), text_count(s->pays_all));
    print_wrapped(text, 0, 0);
}

/* "A step has 3.1 ms of work on cuda:0, ...": what micro-batches can overlap. */
static void print_stages(const study *s)
{
    char    text[700];
    int64_t longest = 0;
    size_t  used = (size_t)snprintf(text, sizeof text, "A step has");
    for (int d = 0; d < haul__plan_device_count(s->plan); d++)
        longest = larger(longest, study_work_of(s, d));
    for (int d = 0; d < haul__plan_device_count(s->plan) && used < sizeof text; d++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s of work on %s", d ? "," : "",
                                 text_ps_like(study_work_of(s, d), longest), s->plan->request.names[d]);
    if (used < sizeof text)
        snprintf(text + used, sizeof text - used, "; with haul train --pipeline N they work at the same time.");
    print_wrapped(text, 0, 0);
}

/* For a machine that was measured: profiles were made on it, or can be. */
static void print_learnt(const study *s)
{
    char   text[900];
    size_t used;
    if (s->plan->request.machine->described)
        return;
    used = (size_t)snprintf(text, sizeof text, "Of %s operations, profiles measured the times", text_count(s->timed));
    for (int d = 0; d < haul__plan_device_count(s->plan) && used < sizeof text; d++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s of %s on %s",
                                 !d                                         ? ""
                                 : d + 1 < haul__plan_device_count(s->plan) ? ","
                                                                            : " and",
                                 text_count(s->learnt[d]), s->plan->request.names[d]);
    if (used < sizeof text)
        snprintf(text + used, sizeof text - used, ".");
    print_wrapped(text, 0, 0);
}

bool show_plan(const study *s, const char *title)
{
    print_wrapped(title, 0, 2);
    print_needs(s);
    putchar('\n');
    print_candidates(s);
    putchar('\n');
    print_peaks(s);
    print_times(s);
    print_proof(s);
    print_bits(s);
    if (s->plan->request.stages)
        print_stages(s);
    else
        print_batches(s);
    print_learnt(s);
    putchar('\n');
    print_rows(s);
    return output_works();
}
