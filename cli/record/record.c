/* haul record: a training step as a program, without computing it. */
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/record/show.h"
#include "cli/shared/cli.h"
#include "cli/train/one_step.h"

typedef struct record_options {
    one_step    step;
    const char *dot; /* NULL: none */
    bool        json, memory;
} record_options;

static int check(const record_options *o)
{
    if (!one_step_is_named(&o->step, "a model and --run DIR", "a model, such as simplecnn, or --run DIR"))
        return EXIT_USAGE;
    if (o->json && o->memory) {
        complain("--json has the memory, too; leave --memory out");
        return EXIT_USAGE;
    }
    return -1;
}

static const char *title_of(const one_training *t, char *out, size_t size)
{
    const train_options *o = t->options;
    snprintf(out, size, "one training step of %s on %s, batch %s, %s, %s", o->model, haul_device_name(t->device),
             text_count(o->batch), o->optimizer, o->precision);
    return out;
}

static bool show(const record_options *o, const one_training *t, const haul_program *p)
{
    char                text[200];
    const program_title title = {title_of(t, text, sizeof text), t->device};
    if (o->dot && !write_program_dot(p, o->dot))
        return false;
    if (o->json)
        return show_program_json(p, t->device);
    return o->dot && !o->memory ? true : show_program(p, &title, o->memory);
}

/* The dry runs of the step. */
static bool plan(const one_training *t, haul_program *out)
{
    if (!planner_choose_segments(t->planner) && !planner_record(t->planner, t->options->batch, true, out))
        return true;
    complain_error();
    return false;
}

static int record(const one_training *t, void *context)
{
    haul_program p;
    if (!plan(t, &p))
        return EXIT_FAILED;
    const bool shown = show(context, t, &p);
    haul_program_free(&p);
    return shown ? EXIT_OK : EXIT_FAILED;
}

static const option record_rows[] = {
    ONE_STEP_RUN_ROW("Options", record_options, "The step"),
    ONE_STEP_BATCH_ROW("Options", record_options),
    {.group = "Options",
     .name = "device",
     OPTION_TEXT_AT(record_options, step.device),
     .argument = "SPEC",
     .help = DEVICE_HELP,
     .complete = COMPLETE_DEVICE},
    {.group = "Options",
     .name = "memory",
     OPTION_FLAG_AT(record_options, memory),
     .help = "Print the stores instead: their bytes, the operations between which they are needed, and their offsets "
             "in one arena"},
    {.group = "Options",
     .name = "dot",
     OPTION_TEXT_AT(record_options, dot),
     .argument = "FILE",
     .help = "Write the operations as a graph for Graphviz",
     .complete = COMPLETE_FILE},
    {.group = "Options",
     .name = "json",
     OPTION_FLAG_AT(record_options, json),
     .help = "Print one JSON object instead: operations, stores, arena_bytes and eager_peak_bytes"}};

static int record_main(int argc, char **argv)
{
    record_options o = {0};
    option_values  values;
    int            code = options_parse(&values, &record_command, &o, argc, argv);
    if (code < 0)
        code = check(&o);
    if (code >= 0)
        return code;
    o.step.batch_given = option_given(&values, "batch");
    return one_step_open(&o.step, "record", record, &o);
}

static const help_example record_lines[] = {{"haul record simplecnn --batch 64", NULL},
                                            {"haul record resnet18 --memory", NULL},
                                            {"haul record --run runs/first --json", NULL},
                                            {"haul record simplecnn --dot step.dot", NULL},
                                            {NULL, NULL}};

const command record_command = {
    .name = "record",
    .summary = "List the operations and the memory of a training step",
    .usage = "[OPTION...] [MODEL]",
    .description =
        "Lists what one training step does, without computing it: the operations in their order, the memory that they "
        "read and write, how long each part of it is needed, and how little memory one arena for all of it takes. The "
        "step is the third of a training; the two before make gradients and the optimizer's state.",
    .options = record_rows,
    .option_count = sizeof record_rows / sizeof *record_rows,
    .operand = {.name = "MODEL",
                .help = ONE_STEP_MODEL_HELP,
                .offset = offsetof(record_options, step.model),
                .choices = NETWORK_CHOICES},
    .examples = record_lines,
    .run = record_main,
};
