/* A plan for people. */
#include "cli/plan/show.h"

#include <math.h>
#include <string.h>

#include "base/numbers.h"
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

static void print_candidates(const study *s)
{
    bool measured = false;
    for (int i = 0; i < HAUL__PLAN_CANDIDATES; i++)
        measured = measured || !isnan(s->plan->ways[i].measured);
    const int room = measured ? 10 : 0, width = (int)larger(16, (int64_t)strlen(s->plan->request.names[1]) + 7);
    set_style(STYLE_DIM);
    printf("%-*s %9s%*s %10s %10s  %-9s %9s\n", width, "", "step", room, measured ? "measured" : "",
           s->plan->request.names[0], s->plan->request.names[1], "copied", "waits");
    set_style(STYLE_PLAIN);
    for (int i = 0; i < HAUL__PLAN_CANDIDATES; i++) {
        const haul__plan_way *c = &s->plan->ways[i];
        printf("%-*s %9s%*s %10s %10s  ", width, study_candidate_name(c, "this plan"), text_ps(c->figures.ps), room,
               measured ? text_seconds(c->measured) : "", text_bytes(c->figures.peak[0]),
               text_bytes(c->figures.peak[1]));
        if (*c->why_not)
            printf("does not fit\n");
        else
            printf("%-9s %9s\n", text_bytes(c->figures.copied_bytes),
                   c->figures.waits ? text_ps(c->figures.waits) : "-");
    }
}

/* Of the plan; those of one device are its own. */
static void print_bits(const study *s)
{
    char        text[200];
    const char *bits = haul__plan_bits(s->plan, s->plan->best);
    if (*bits)
        snprintf(text, sizeof text, "The plan gives the same bits as %s alone.", bits);
    else
        snprintf(text, sizeof text,
                 "Products run on both devices, which round differently: results have the bits of neither alone.");
    print_wrapped(text, 0, 0);
}

static void print_proof(const study *s)
{
    char          text[300];
    const int64_t cost = s->plan->best->cost, bound = s->plan->best->proof.bound;
    if (bound == cost)
        snprintf(text, sizeof text, "No other placement takes less, if operations and copies follow each other.");
    else
        snprintf(
            text, sizeof text,
            "Within the limits no placement takes less than %s (%.1f %% less), if operations and copies follow each "
            "other.",
            text_ps(bound), 100 * plan_gap(cost, bound));
    print_wrapped(text, 0, 0);
}

static void print_rows(const study *s)
{
    char reason[300], text[500];
    for (size_t i = 0; i < s->row_count; i++) {
        const plan_row *r = &s->rows[i];
        size_t          used;
        haul__plan_reason(s->plan, r->device, &r->why, reason, sizeof reason);
        used = (size_t)snprintf(text, sizeof text, "%s stays on %s: %s", r->label, s->plan->request.names[r->device],
                                reason);
        if (r->aside && used < sizeof text)
            snprintf(text + used, sizeof text - used, "; %s of it run on %s", text_ps(r->aside),
                     s->plan->request.names[!r->device]);
        print_wrapped(text, 0, 4);
    }
}

static void print_batches(const study *s)
{
    char        text[200];
    const char *device = s->plan->request.names[1];
    if (!s->pays_some)
        snprintf(text, sizeof text, "%s does not pay with any batch up to 1,024.", device);
    else if (!s->pays_all)
        snprintf(text, sizeof text, "%s pays from batch %s on for a part of the network, with no batch for all of it.",
                 device, text_count(s->pays_some));
    else if (s->pays_all == s->pays_some)
        snprintf(text, sizeof text, "%s pays from batch %s on, for the whole network.", device,
                 text_count(s->pays_all));
    else
        snprintf(text, sizeof text, "%s pays from batch %s on; for the whole network from batch %s on.", device,
                 text_count(s->pays_some), text_count(s->pays_all));
    print_wrapped(text, 0, 0);
}

/* For a machine that was measured: profiles were made on it, or can be. */
static void print_learnt(const study *s)
{
    char text[200];
    if (s->plan->request.machine->described)
        return;
    snprintf(text, sizeof text, "Of %s operations, profiles measured the times of %s on %s and of %s on %s.",
             text_count(s->timed), text_count(s->learnt[0]), s->plan->request.names[0], text_count(s->learnt[1]),
             s->plan->request.names[1]);
    print_wrapped(text, 0, 0);
}

bool show_plan(const study *s, const char *title)
{
    print_wrapped(title, 0, 2);
    print_needs(s);
    putchar('\n');
    print_candidates(s);
    putchar('\n');
    print_proof(s);
    print_bits(s);
    print_batches(s);
    print_learnt(s);
    putchar('\n');
    print_rows(s);
    return output_works();
}
