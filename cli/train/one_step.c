#include "cli/train/one_step.h"

#include <stdlib.h>

#include "cli/options/commands.h"
#include "cli/options/config.h"
#include "cli/shared/cli.h"

bool one_step_is_named(const one_step *s, const char *both, const char *how)
{
    if (!s->model != !s->run)
        return true;
    if (s->run)
        complain("%s were given; one of them is expected", both);
    else
        complain("which step? Give %s", how);
    return false;
}

/* The options of haul train that decide on a step. */
static bool take_options(const one_step *s, const char *subcommand, trainer *t, option_values *values, cJSON **stored)
{
    train_options *o = t->options;
    char          *train[] = {"train"};
    if (options_parse(values, &train_command, o, 1, train) >= 0)
        return false;
    complain_as(subcommand);
    if (s->run) {
        *stored = run_look(&t->run) == RUN_NONE ? NULL : config_read(t->run.config);
        if (!*stored || !options_from_json(values, *stored, t->run.config))
            return false;
    }
    o->model = s->model ? s->model : o->model;
    o->device = s->device ? s->device : o->device;
    o->precision = s->precision ? s->precision : o->precision;
    o->batch = s->batch_given || !s->run ? s->batch : o->batch;
    o->threads = s->threads;
    o->place = o->plan = NULL;
    o->workers = 0;
    if (!o->batch && !s->finds_batch)
        complain("the run finds its batch by itself (--batch auto); give --batch N");
    return o->batch || s->finds_batch;
}

static int open_and_use(const one_step *s, const char *subcommand, trainer *t, one_step_use *use, void *context)
{
    option_values values = {.values = t->options};
    cJSON        *stored = NULL; /* has the texts of the options as long as they are used */
    int           code = EXIT_FAILED;
    if (run_name(&t->run, s->run) && take_options(s, subcommand, t, &values, &stored) &&
        memory_limit_parse(t->options->memory_limit, &t->plans.limit) && trainer_open_data(t))
        code = use(t, context);
    cJSON_Delete(stored);
    return code;
}

int one_step_open(const one_step *s, const char *subcommand, one_step_use *use, void *context)
{
    train_options options = {0};
    trainer      *t = calloc(1, sizeof *t); /* too large for small stacks */
    if (!t)
        return complain("memory is exhausted");
    t->options = &options;
    haul_scope *scope = haul_scope_push();
    const int   code = scope ? open_and_use(s, subcommand, t, use, context) : complain_error();
    trainer_close(t);
    free(t);
    haul_scope_pop(scope);
    return code;
}

haul_status one_step_build(trainer *t, const haul_batch **batch)
{
    haul_status status = trainer_build(t);
    if (!status)
        status = haul_loader_start(t->loader, 1);
    *batch = status ? NULL : haul_loader_next(t->loader);
    return *batch ? HAUL_OK : haul_error_status();
}

static const haul_step_part whole = {.first = true, .last = true, .weight = 1};

haul_status one_step_make(trainer *t, const haul_batch *batch)
{
    return trainer_step(t, batch, &whole);
}

haul_status one_step_follow(trainer *t, const haul_batch *batch)
{
    return trainer_follow(t, batch, &whole);
}
