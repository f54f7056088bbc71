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
    enum { ALWAYS = 10 };
    const haul__chosen *c = &a->chosen;
    const char         *without[ALWAYS + 5] = {"device", "devices",    "place",     "plan",  "memory-limit",
                                               "batch",  "accumulate", "recompute", "spill", "estimate"};
    int                 count = ALWAYS;
    if (c->bf16)
        without[count++] = "precision";
    if (!c->keep.schedule.count) {
        without[count++] = "spill-host";
        without[count++] = "spill-folder";
        without[count++] = "spill-file";
    }
    return options_line(a->t->values, without);
}

/* What --model and --run stand for. */
static char *named_options(const allowance *a)
{
    const char  *config = a->t->run.config, *model = a->t->options->model;
    const size_t size = 4 * strlen(config ? config : model) + 20;
    char        *out = malloc(size), *quoted = malloc(size);
    if (out && quoted)
        snprintf(out, size, config ? " --config %s" : " --model %s",
                 shell_text(quoted, size - 16, config ? config : model));
    free(quoted);
    return out;
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
               trainer_recomputes(a->t) && !option_given(given, "recompute"));
    put_switch(out, size, "spill", c->keep.schedule.count, "on", a->spilled && !option_given(given, "spill"));
    put_number(out, size, "memory-limit", a->limit);
}

char *allowance_command(const allowance *a)
{
    char plan[400], *given, *out = NULL;
    if (a->split)
        return NULL;
    put_plan(a, plan, sizeof plan);
    given = a->t->values->given ? given_options(a) : named_options(a);
    if (given)
        out = malloc(strlen(given) + sizeof plan + 16);
    if (out)
        snprintf(out, strlen(given) + sizeof plan + 16, "haul train%s%s", given, plan);
    free(given);
    return out;
}
