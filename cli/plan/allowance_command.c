/* The command that trains as haul plan --allow chose. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/allowance.h"
#include "cli/shared/cli.h"

/* ---- the training ---- */

/* The options of haul train that were planned, without those that the plan decides on. NULL when memory is exhausted.
 */
static char *given_options(const allowance *a)
{
    enum { ALWAYS = 11 };
    const haul__chosen *c = &a->chosen;
    const char         *without[ALWAYS + 5] = {"device",     "devices",   "place", "plan",     "memory-limit", "batch",
                                               "accumulate", "recompute", "spill", "estimate", "offload"};
    int                 count = ALWAYS;
    if (c->bf16)
        without[count++] = "precision";
    if (!(c->used & HAUL__ALLOW_SPILL)) {
        without[count++] = "spill-host";
        without[count++] = "spill-folder";
        without[count++] = "spill-file";
    }
    return one_step_words(a->t, without);
}

/* ---- the plan ---- */

/* An option that the plan turns on, or off if a file has it on. */
static void put_switch(char *out, size_t size, const char *name, bool on, const char *value, bool stored)
{
    const size_t used = strlen(out);
    if (on || stored)
        snprintf(out + used, size - used, " --%s %s", name, on ? value : "off");
}

static void put_number(char *out, size_t size, const char *name, int64_t number)
{
    const size_t used = strlen(out);
    snprintf(out + used, size - used, " --%s %" PRId64, name, number);
}

static void put_plan(const allowance *a, char *out, size_t size)
{
    const haul__chosen  *c = &a->chosen;
    const option_values *given = a->t->values;
    snprintf(out, size, " --device %s", a->request->plan.names[1]);
    put_number(out, size, "batch", c->batch / c->accumulate);
    if (c->accumulate > 1)
        put_number(out, size, "accumulate", c->accumulate);
    if (c->bf16)
        put_switch(out, size, "precision", true, "bf16", false);
    put_switch(out, size, "recompute", haul__segments_count_on(&c->keep.segments), "auto",
               train_options_recompute(a->t->options) && !option_given(given, "recompute"));
    if (c->offload || !strcmp(a->t->options->offload, "optimizer"))
        put_switch(out, size, "offload", true, "optimizer", false);
    put_switch(out, size, "spill", c->used & HAUL__ALLOW_SPILL, "on", a->spilled && !option_given(given, "spill"));
    put_number(out, size, "memory-limit", a->limit);
}

/* What comes before the options of the training and after them. A placement on both devices is kept in a file first,
 * which haul train --plan reads. */
static void put_placement(const allowance *a, char *before, char *after, size_t size)
{
    const haul__plan_request *p = &a->request->plan;
    after[0] = '\0';
    if (a->chosen.keep.peak)
        snprintf(before, size, "plan --devices %s,%s --memory-limit %" PRId64 " --certificate plan.json --",
                 p->names[0], p->names[1], a->limit);
    else
        snprintf(after, size, " --device %s", p->names[0]);
    put_number(after, size, "batch", a->chosen.batch);
}

char *allowance_command(const allowance *a)
{
    enum { SIZE = 400 };
    char  before[SIZE] = "train", after[SIZE], *given = given_options(a);
    char *out = given ? malloc(strlen(given) + 2 * SIZE + 8) : NULL;
    if (a->split)
        put_placement(a, before, after, SIZE);
    else
        put_plan(a, after, SIZE);
    if (out)
        snprintf(out, strlen(given) + 2 * SIZE + 8, "haul %s%s%s", before, given, after);
    free(given);
    return out;
}
