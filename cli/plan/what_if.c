/* haul what-if: a training step on another machine, against this computer, or on many ranks. Everything is predicted.
 */
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numbers.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/plan/prospect.h"
#include "cli/plan/what_if_ranks.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"
#include "cli/train/one_step.h"
#include "plan/cluster/ranks.h"
#include "plan/here.h"

typedef struct what_if_options {
    one_step      step;
    const char   *machine; /* NULL: none */
    what_if_ranks ranks;
    bool          json;
} what_if_options;

enum { MACHINES = 2, MOST_COLUMNS = 4 };

/* The machines, this computer first, and the columns that compare their devices. */
typedef struct comparison {
    what_if_options *options;
    haul__machine   *machines[MACHINES];
    prospect         columns[MOST_COLUMNS];
    int              count;
    int              first, end; /* the columns that are printed now */
    int64_t          longest_ps; /* of their steps */
} comparison;

/* ---- the columns ---- */

/* With ranks, one machine. */
static bool load(comparison *c)
{
    if (!haul__machine_choose("haul what-if", c->options->machine, &c->machines[1]) &&
        (c->options->ranks.list || !haul__machine_choose("haul what-if", NULL, &c->machines[0])))
        return true;
    complain_error();
    return false;
}

/* The host and the first other device of each machine. */
static haul_status find_columns(comparison *c, const haul_program *program)
{
    haul_status status = HAUL_OK;
    for (int m = 0; m < MACHINES; m++)
        for (int d = 0; d < 2 && d < c->machines[m]->device_count && !status; d++) {
            prospect *p = &c->columns[c->count++];
            status = prospect_find(p, program, c->machines[m], d);
            c->longest_ps = larger(c->longest_ps, p->step_ps);
        }
    return status;
}

/* ---- for people ---- */

enum { LABEL = 14, COLUMN = 16 };

static const char *text_rate_of(int64_t batch, const prospect *p)
{
    return text_count((int64_t)((double)batch / ((double)p->step_ps * 1e-12)));
}

static void print_names(const comparison *c)
{
    set_style(STYLE_DIM);
    printf("%-*s", LABEL, "");
    for (int i = c->first; i < c->end; i++)
        printf("%*s", COLUMN, c->columns[i].machine->name);
    printf("\n%-*s", LABEL, "");
    for (int i = c->first; i < c->end; i++)
        printf("%*s", COLUMN, c->columns[i].device->name);
    set_style(STYLE_PLAIN);
    putchar('\n');
}

/* The member of each column at the offset `at`, as text; "-" for 0. Without `text` it is a time, in the unit of the
 * longest step. */
static void print_line(const comparison *c, const char *label, size_t at, const char *text(int64_t))
{
    printf("%-*s", LABEL, label);
    for (int i = c->first; i < c->end; i++) {
        const int64_t value = *(const int64_t *)(const void *)((const char *)&c->columns[i] + at);
        printf("%*s", COLUMN, !value ? "-" : text ? text(value) : text_ps_like(value, c->longest_ps));
    }
    putchar('\n');
}

static bool has_learnt(const comparison *c)
{
    for (int i = 0; i < c->count; i++)
        if (c->columns[i].learnt)
            return true;
    return false;
}

/* Classes of operations without a rate. */
static void print_unmeasured(const comparison *c)
{
    char text[400];
    for (int i = 0; i < c->count; i++) {
        const prospect *p = &c->columns[i];
        if (!p->unmeasured[0])
            continue;
        snprintf(text, sizeof text, "%s %s has no rate for %s: their times are bytes over bandwidth", p->machine->name,
                 p->device->name, p->unmeasured);
        print_wrapped(text, 0, 2);
    }
}

static void print_columns(const comparison *c, int64_t batch)
{
    putchar('\n');
    print_names(c);
    print_line(c, "step", offsetof(prospect, step_ps), NULL);
    printf("%-*s", LABEL, "examples/s");
    for (int i = c->first; i < c->end; i++)
        printf("%*s", COLUMN, text_rate_of(batch, &c->columns[i]));
    putchar('\n');
    print_line(c, "  computing", offsetof(prospect, compute_ps), NULL);
    print_line(c, "  launching", offsetof(prospect, launch_ps), NULL);
    print_line(c, "  copying", offsetof(prospect, copy_ps), NULL);
    print_line(c, "copied", offsetof(prospect, copied_bytes), text_bytes);
    print_line(c, "peak", offsetof(prospect, peak_bytes), text_bytes);
    print_line(c, "memory", offsetof(prospect, memory_bytes), text_bytes);
    if (has_learnt(c))
        print_line(c, "learnt", offsetof(prospect, learnt), text_count);
}

/* On a narrow terminal one table below the other. */
static bool show(comparison *c, const train_options *o)
{
    char      title[300];
    const int most = columns_that_fit(LABEL, COLUMN);
    snprintf(title, sizeof title, "one training step of %s, batch %s, %s, %s; predicted%s", o->model,
             text_count(o->batch), o->optimizer, o->precision,
             c->machines[1]->described ? ", by data sheets for the other machine" : "");
    print_wrapped(title, 0, 2);
    for (c->first = 0; c->first < c->count; c->first = c->end) {
        c->end = c->count - c->first < most ? c->count : c->first + most;
        print_columns(c, o->batch);
    }
    for (int i = 0; i < c->count; i++)
        if (c->columns[i].peak_bytes > c->columns[i].memory_bytes)
            printf("It does not fit on %s %s.\n", c->columns[i].machine->name, c->columns[i].device->name);
    print_unmeasured(c);
    return output_works();
}

/* ---- for programs ---- */

static bool show_json(const comparison *c, const train_options *o)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "model", o->model);
    json_number(object, "batch", (double)o->batch);
    cJSON *list = json_array(object, "devices");
    for (int i = 0; i < c->count; i++) {
        const prospect *p = &c->columns[i];
        cJSON          *item = cJSON_CreateObject();
        json_text(item, "machine", p->machine->name);
        json_bool(item, "described", p->machine->described);
        json_text(item, "device", p->device->name);
        json_number(item, "step_ms", (double)p->step_ps * 1e-9);
        json_number(item, "compute_ms", (double)p->compute_ps * 1e-9);
        json_number(item, "launch_ms", (double)p->launch_ps * 1e-9);
        json_number(item, "copy_ms", (double)p->copy_ps * 1e-9);
        json_number(item, "copied_bytes", (double)p->copied_bytes);
        json_number(item, "peak_bytes", (double)p->peak_bytes);
        json_number(item, "memory_bytes", (double)p->memory_bytes);
        json_bool(item, "fits", p->peak_bytes <= p->memory_bytes);
        json_number(item, "learnt_operations", (double)p->learnt);
        json_text(item, "unmeasured", p->unmeasured);
        json_push(list, item);
    }
    return json_print(object);
}

/* ---- the command ---- */

static int compare(const one_training *t, void *context)
{
    comparison  *c = context;
    haul_program program = {0};
    if (c->options->ranks.list)
        return what_if_ranks_show(&c->options->ranks, t, c->machines[1], c->options->json);
    haul_status status = planner_record(t->planner, t->options->batch, false, &program);
    if (!status)
        status = find_columns(c, &program);
    haul_program_free(&program);
    if (status)
        return complain_error();
    return (c->options->json ? show_json(c, t->options) : show(c, t->options)) ? EXIT_OK : EXIT_FAILED;
}

static const option what_if_rows[] = {
    ONE_STEP_MODEL_ROW("Step", what_if_options, "MODEL"),
    ONE_STEP_RUN_ROW("Step", what_if_options, "The step"),
    ONE_STEP_BATCH_ROW("Step", what_if_options),
    {.group = "Machine",
     .name = "machine",
     OPTION_TEXT_AT(what_if_options, machine),
     .argument = "NAME",
     .help = "The other machine: one that haul devices --machines lists, or a file; with --ranks this computer unless "
             "given",
     .complete = COMPLETE_FILE},
    {.group = "Ranks",
     .name = "ranks",
     OPTION_TEXT_AT(what_if_options, ranks.list),
     .argument = "LIST",
     .help = "Numbers of ranks, each with one device of the machine, that train together with data parallelism, for "
             "example 1,8,64; up to 1024"},
    {.group = "Ranks",
     .name = "network",
     OPTION_TEXT_AT(what_if_options, ranks.network),
     .argument = "RATE[,LATENCY]",
     .help = "The interface of a host, in each direction, for example 400gbit,5us or 800mbit,1ms",
     .initial = "100gbit,10us"},
    {.group = "Ranks",
     .name = "per-host",
     OPTION_INTEGER_AT(what_if_options, ranks.per_host),
     .argument = "N",
     .help = "Ranks on each host",
     .initial = "1",
     .low = 1,
     .high = HAUL__MOST_RANKS},
    {.group = "Ranks",
     .name = "pieces",
     OPTION_INTEGER_AT(what_if_options, ranks.pieces),
     .argument = "N",
     .help = "Pieces of the global batch, a power of two that divides it; auto: 8, or with more ranks the next power "
             "of two",
     .initial = "auto",
     .word = "auto",
     .low = 1,
     .high = HAUL__MOST_PIECES},
    {.group = "Ranks",
     .name = "overlap",
     OPTION_FLAG_AT(what_if_options, ranks.overlap),
     .help = "Exchange gradients in buckets of 4 MiB while the backward pass computes, as haul train does. Without it "
             "they are exchanged after the pass"},
    {.group = "Output", .name = "json", OPTION_FLAG_AT(what_if_options, json), .help = "Print one JSON object instead"},
};

/* True after a complaint about an option that needs --ranks. */
static bool lacks_ranks(const what_if_options *o, const option_values *values)
{
    static const char *const names[] = {"network", "per-host", "pieces", "overlap"};
    for (size_t i = 0; !o->ranks.list && i < sizeof names / sizeof *names; i++)
        if (option_given(values, names[i])) {
            complain("--%s needs --ranks LIST", names[i]);
            return true;
        }
    return false;
}

/* True after a complaint about pieces that would not count. */
static bool has_other_pieces(const what_if_options *o)
{
    static const char pieces[] = "--pieces";
    for (int i = 0; i < o->step.train.count; i++)
        if (!strncmp(o->step.train.items[i], pieces, sizeof pieces - 1)) {
            complain("--pieces is an option of haul what-if, too; give it before --");
            return true;
        }
    return false;
}

static int check(what_if_options *o, const option_values *values)
{
    if (!o->machine && !o->ranks.list)
        complain("--machine NAME or --ranks LIST is missing; haul devices --machines lists the machines");
    else if (one_step_is_named(&o->step, ONE_STEP_BOTH, "--model M, --run DIR, or -- and options of haul train"))
        return lacks_ranks(o, values) || has_other_pieces(o) || (o->ranks.list && !what_if_ranks_parse(&o->ranks))
                   ? EXIT_USAGE
                   : -1;
    return EXIT_USAGE;
}

static int what_if_main(int argc, char **argv)
{
    what_if_options o = {.step.device = "cpu"};
    comparison      c = {.options = &o};
    option_values   values;
    int             code = options_parse(&values, &what_if_command, &o, argc, argv);
    if (code < 0)
        code = check(&o, &values);
    if (code < 0 && !load(&c))
        code = EXIT_FAILED;
    o.step.batch_given = option_given(&values, "batch");
    if (code < 0)
        code = one_step_open(&o.step, "what-if", compare, &c);
    for (int m = 0; m < MACHINES; m++)
        haul__free(c.machines[m]);
    return code;
}

static const help_example what_if_lines[] = {
    {"haul what-if --machine h200 --model resnet18 --batch 256", NULL},
    {"haul what-if --machine laptop-4g --run runs/first", NULL},
    {"haul what-if --machine h200 --model resnet50 --batch 8192 --ranks 1,8,64", NULL},
    {NULL, NULL}};

const command what_if_command = {
    .name = "what-if",
    .summary = "Predict a training step on another machine, or on many ranks",
    .usage = "--machine NAME|--ranks LIST [OPTION...] [-- TRAIN_OPTION...]",
    .description =
        "Predicts the time, the memory and the copies of a training step on each device of another machine, and on "
        "those of this computer. Nothing is computed, but this computer is measured first, in some seconds, if haul "
        "calibrate was never run. Operations and copies count one after the other; the data are copied while the step "
        "before computes. With --ranks, of data parallel training on so many ranks of the machine.",
    .options = what_if_rows,
    .option_count = sizeof what_if_rows / sizeof *what_if_rows,
    .operand = {.name = "TRAIN_OPTION",
                .help = "Options of haul train, whose step is predicted, instead of --model and --run",
                .offset = offsetof(what_if_options, step.train),
                .several = true,
                .options_of = &train_command},
    .examples = what_if_lines,
    .run = what_if_main,
};
