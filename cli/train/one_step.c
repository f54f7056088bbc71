#include "cli/train/one_step.h"

#include <stdlib.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/config.h"
#include "cli/shared/cli.h"
#include "cli/train/trainer.h"

bool one_step_is_named(const one_step *s, const char *both, const char *how)
{
    const int named = (s->model != NULL) + (s->run != NULL) + (s->train.count > 0);
    if (named == 1)
        return true;
    if (s->train.count && named)
        complain("%s leaves no room for options of haul train, which begin with '%s'; name the model or the run there",
                 s->model ? "--model" : "--run", s->train.items[0]);
    else if (named)
        complain("%s were given; one of them is expected", both);
    else
        complain("which step? Give %s", how);
    return false;
}

/* Options of haul train, as given. -1, or an exit code. */
static int parse_train(const one_step *s, option_values *values, train_options *o)
{
    char     *none[] = {"train"};
    const int code = s->train.count ? options_parse(values, &train_command, o, s->train.count + 1, s->train.items - 1)
                                    : options_parse(values, &train_command, o, 1, none);
    if (code >= 0 || !o->resume || o->run)
        return code;
    complain("--resume needs --run DIR, the folder of the run to continue");
    return EXIT_USAGE;
}

/* Options that were not given come from the run or from --config. False after a complaint. */
static bool take_stored(const one_step *s, trainer *t, option_values *values, cJSON **stored)
{
    const train_options *o = t->options;
    const char          *folder = s->run ? s->run : o->resume ? o->run : NULL, *file = o->config;
    if (!run_name(&t->run, folder))
        return false;
    if (folder)
        file = run_look(&t->run) == RUN_NONE ? NULL : t->run.config;
    if (folder && !file)
        return false;
    *stored = file ? config_read(file) : NULL;
    return !file || (*stored && options_from_json(values, *stored, file));
}

/* The options of haul train that decide on a step. -1, or an exit code. */
static int take_options(const one_step *s, const char *subcommand, trainer *t, option_values *values, cJSON **stored)
{
    train_options *o = t->options;
    const int      code = parse_train(s, values, o);
    if (code >= 0)
        return code;
    complain_as(subcommand);
    if (!take_stored(s, t, values, stored))
        return EXIT_FAILED;
    o->model = s->model ? s->model : o->model;
    o->device = s->device ? s->device : o->device;
    o->precision = s->precision ? s->precision : o->precision;
    o->batch = s->batch_given || s->model ? s->batch : o->batch;
    o->threads = s->threads;
    o->place = o->plan = o->devices = o->init = NULL;
    o->workers = 0;
    o->pieces = 0; /* the step of one batch: its program has no pieces */
    if (o->batch || s->finds_batch)
        return -1;
    return complain("the training finds its batch by itself (--batch auto); give --batch N");
}

static int use_training(trainer *t, one_step_use *use, void *context)
{
    const one_training training = {.trainer = t,
                                   .planner = t->planner,
                                   .options = t->options,
                                   .values = t->values,
                                   .config = t->run.config,
                                   .device = t->device,
                                   .data = t->data.train};
    return use(&training, context);
}

static int open_and_use(const one_step *s, const char *subcommand, trainer *t, one_step_use *use, void *context)
{
    option_values values = {.values = t->options};
    cJSON        *stored = NULL; /* has the texts of the options as long as they are used */
    int           code = take_options(s, subcommand, t, &values, &stored);
    t->values = &values;
    if (code < 0)
        code = memory_limit_parse(t->options->memory_limit, &t->plans.limit) && trainer_open_data(t) && planner_open(t)
                   ? use_training(t, use, context)
                   : EXIT_FAILED;
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

/* What --model and --run stand for. */
static char *named_options(const one_training *t)
{
    const char  *config = t->config, *model = t->options->model;
    const size_t size = 4 * strlen(config ? config : model) + 20;
    char        *out = malloc(size), *quoted = malloc(size);
    if (out && quoted)
        snprintf(out, size, config ? " --config %s" : " --model %s",
                 shell_text(quoted, size - 16, config ? config : model));
    free(quoted);
    return out;
}

char *one_step_words(const one_training *t, const char *const *without)
{
    return t->values->given ? options_line(t->values, without) : named_options(t);
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
