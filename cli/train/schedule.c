#include "cli/train/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"

/* ---- what the option says ---- */

/* A plain decimal number, up to a colon or the end; what follows it, NULL if there is none. */
static const char *take_number(const char *text, double *out)
{
    size_t length = strcspn(text, ":");
    char  *end;
    if (!length || strspn(text, "0123456789.") < length)
        return NULL;
    *out = strtod(text, &end);
    return end == text + length && isfinite(*out) ? end : NULL;
}

static bool parse_nothing(const char *parameters, schedule_plan *plan)
{
    (void)plan;
    return !*parameters;
}

static bool parse_step(const char *parameters, schedule_plan *plan)
{
    double      every, factor;
    const char *next = *parameters == ':' ? take_number(parameters + 1, &every) : NULL;
    const char *end = next && *next == ':' ? take_number(next + 1, &factor) : NULL;
    if (!end || *end || every < 1 || every > 1e6 || every != floor(every) || !(factor > 0 && factor <= 1))
        return false;
    plan->every = (int64_t)every;
    plan->factor = factor;
    return true;
}

static bool parse_cosine(const char *parameters, schedule_plan *plan)
{
    if (!*parameters)
        return true;
    const char *end = *parameters == ':' ? take_number(parameters + 1, &plan->warm_up) : NULL;
    return end && !*end && plan->warm_up <= 1e6;
}

typedef struct form {
    const char   *name;
    schedule_kind kind;
    bool (*parse)(const char *parameters, schedule_plan *plan);
    const char *expected;
} form;

static const form forms[] = {
    {"constant", SCHEDULE_CONSTANT, parse_nothing, "constant takes no parameters: --schedule constant"},
    {"step", SCHEDULE_STEP, parse_step,
     "step:EVERY:FACTOR is expected, with EVERY a whole number of epochs of at least 1 and FACTOR above 0 and at most "
     "1, for example step:30:0.1"},
    {"cosine", SCHEDULE_COSINE, parse_cosine,
     "cosine or cosine:WARMUP is expected, with WARMUP a number of epochs, for example cosine:0.5"},
    {"onecycle", SCHEDULE_ONE_CYCLE, parse_nothing, "onecycle takes no parameters: --schedule onecycle"},
};
enum { FORM_COUNT = sizeof forms / sizeof *forms };

static bool complain_unknown(const char *text, size_t length)
{
    const char *names[FORM_COUNT + 1] = {NULL};
    char        name[64];
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    for (int i = 0; i < FORM_COUNT; i++)
        names[i] = forms[i].name;
    const char *near = did_you_mean(name, names);
    complain("--schedule %s: constant, step:EVERY:FACTOR, cosine, cosine:WARMUP or onecycle is expected, for example "
             "cosine:0.5%s%s%s",
             text, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return false;
}

bool schedule_parse(const char *text, schedule_plan *out)
{
    size_t length = strcspn(text, ":");
    for (int i = 0; i < FORM_COUNT; i++) {
        const form *f = &forms[i];
        if (strlen(f->name) != length || memcmp(f->name, text, length) != 0)
            continue;
        *out = (schedule_plan){.kind = f->kind};
        if (f->parse(text + length, out))
            return true;
        complain("--schedule %s: %s", text, f->expected);
        return false;
    }
    return complain_unknown(text, length);
}

bool schedule_is_laid_over_epochs(const schedule_plan *plan)
{
    return plan->kind == SCHEDULE_COSINE || plan->kind == SCHEDULE_ONE_CYCLE;
}

bool schedule_fits(const schedule_plan *plan, int64_t epochs)
{
    if (plan->kind != SCHEDULE_COSINE || plan->warm_up < (double)epochs)
        return true;
    complain("--schedule cosine:%g warms up for %g epochs, but the training has %lld; give a WARMUP below --epochs",
             plan->warm_up, plan->warm_up, (long long)epochs);
    return false;
}

/* ---- the library's schedule ---- */

/* Rounding may fill all epochs with the warm-up: one step is left for the cosine. */
static haul_schedule *make_cosine(double warm_up, const schedule_span *span, haul_optimizer *optimizer)
{
    int64_t total = span->epochs * span->steps, steps = llround(warm_up * (double)span->steps);
    if (steps >= total)
        steps = total - 1;
    if (steps < 1)
        return haul_schedule_cosine(optimizer, total);
    haul_schedule *parts[] = {haul_schedule_warm_up(optimizer, steps), haul_schedule_cosine(optimizer, total - steps)};
    return parts[0] && parts[1] ? haul_schedule_chain(parts, &steps, 2) : NULL;
}

haul_status schedule_make(const schedule_plan *plan, const schedule_span *span, haul_optimizer *optimizer,
                          haul_schedule **out)
{
    *out = NULL;
    switch (plan->kind) {
    case SCHEDULE_CONSTANT: return HAUL_OK;
    case SCHEDULE_STEP:
        *out = haul_schedule_staircase(optimizer, plan->every * span->steps, .factor = plan->factor);
        break;
    case SCHEDULE_COSINE: *out = make_cosine(plan->warm_up, span, optimizer); break;
    case SCHEDULE_ONE_CYCLE:
        *out = haul_schedule_one_cycle(optimizer, span->lr, span->epochs * span->steps,
                                       .fixed_momentum = span->fixed_momentum);
        break;
    }
    return *out ? HAUL_OK : haul_error_status();
}
