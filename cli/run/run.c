/* haul run: an ONNX model on arrays from npy files, or on random ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/shared/onnx_value.h"
#include "cli/shared/terminal.h"
#include "onnx/load.h"

typedef struct run_options {
    const char  *path, *device;
    option_texts inputs, outputs;
    int64_t      repeat;
} run_options;

typedef struct run {
    const run_options     *o;
    haul_device           *device;
    haul_module           *net;
    const haul__onnx_plan *plan;
    haul_call_options      call;
    haul_tensor           *y[HAUL_MAX_ARGUMENTS];
    const char            *files[HAUL_MAX_ARGUMENTS];   /* of inputs; NULL: random */
    const char            *targets[HAUL_MAX_ARGUMENTS]; /* of results; NULL: they are not written */
    double                 load, first, fastest, mean;  /* seconds */
} run;

static double seconds(void)
{
    return 1e-9 * (double)haul__now_ns();
}

static const char *input_name(const run *r, int i)
{
    return r->plan->input_infos[i]->name;
}

static const char *result_name(const run *r, int i)
{
    return r->plan->model.graph.outputs[i].name;
}

/* ---- files ---- */

/* The value that "NAME=FILE" names; -1 after a complaint. `file` gets what follows the name. */
static int find_value(const run *r, const char *text, const char *(*name)(const run *, int), int count,
                      const char *flag, const char **file)
{
    const char *names[HAUL_MAX_ARGUMENTS + 1] = {NULL};
    char        list[600], wanted[200];
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(name(r, i));
        names[i] = name(r, i);
        if (!strncmp(text, names[i], length) && text[length] == '=' && text[length + 1]) {
            *file = text + length + 1;
            return i;
        }
    }
    const char *equals = strchr(text, '=');
    if (count == 1 && !equals) { /* there is only one */
        *file = text;
        return 0;
    }
    snprintf(wanted, sizeof wanted, "%.*s", equals ? (int)(equals - text) : 0, text);
    const char *near = equals ? did_you_mean(wanted, names) : NULL;
    complain("--%s wants NAME=FILE.npy with one of these names: %s%s%s%s", flag,
             list_text(list, sizeof list, names, "", "or"), near ? "; did you mean " : "", near ? near : "",
             near ? "?" : "");
    return -1;
}

static bool match_files(run *r)
{
    const char *file = NULL;
    for (int k = 0; k < r->o->inputs.count; k++) {
        const int i = find_value(r, r->o->inputs.items[k], input_name, r->plan->input_count, "input", &file);
        if (i < 0)
            return false;
        r->files[i] = file;
    }
    for (int k = 0; k < r->o->outputs.count; k++) {
        const int i = find_value(r, r->o->outputs.items[k], result_name, r->plan->output_count, "output", &file);
        if (i < 0)
            return false;
        r->targets[i] = file;
    }
    return true;
}

/* ---- inputs ---- */

/* Normal numbers, or 0 and 1, in the declared shape. A size that is not declared is 1. */
static haul_tensor *draw(const haul__onnx_value *v)
{
    haul_shape shape = {.ndim = v->ndim < 0 ? 0 : v->ndim};
    if (v->dtype == HAUL_DTYPE_NONE || v->ndim < 0 || v->ndim > HAUL_MAX_DIMS) {
        complain("the input %s has no declared shape, or a dtype that Haul does not have; give it a file with --input",
                 v->name);
        return NULL;
    }
    for (int d = 0; d < shape.ndim; d++)
        shape.dims[d] = v->dims[d] < 0 ? 1 : v->dims[d];
    return haul_dtype_is_float(v->dtype) ? haul_normal(v->dtype, shape, 0, 1)
                                         : haul_cast(haul_randint(HAUL_I64, shape, 0, 2), v->dtype);
}

static bool prepare_inputs(run *r)
{
    for (int i = 0; i < r->plan->input_count; i++) {
        r->call.x[i] = r->files[i] ? haul_load_npy(r->files[i]) : draw(r->plan->input_infos[i]);
        if (!r->call.x[i])
            return false;
        if (!haul_tensor_is_valid(r->call.x[i])) {
            complain_error();
            return false;
        }
    }
    for (int i = 1; i < r->plan->output_count; i++)
        r->call.more[i - 1] = &r->y[i];
    return true;
}

/* ---- calls ---- */

static bool call(run *r, double *time)
{
    const double begin = seconds();
    r->y[0] = haul_call_with(r->net, &r->call);
    if (!haul_tensor_is_valid(r->y[0]) || haul_device_sync(r->device)) {
        complain_error();
        return false;
    }
    *time = seconds() - begin;
    return true;
}

/* The results of the last call stay. */
static bool repeat(run *r)
{
    double time, sum = 0;
    if (!call(r, &r->first))
        return false;
    r->fastest = r->first;
    for (int64_t i = 1; i < r->o->repeat; i++) {
        for (int k = 0; k < r->plan->output_count; k++)
            haul_drop(r->y[k]);
        if (!call(r, &time))
            return false;
        sum += time;
        r->fastest = i == 1 || time < r->fastest ? time : r->fastest;
    }
    r->mean = r->o->repeat > 1 ? sum / (double)(r->o->repeat - 1) : r->first;
    return true;
}

static bool write_results(const run *r)
{
    for (int i = 0; i < r->plan->output_count; i++)
        if (r->targets[i] && haul_save_npy(r->targets[i], haul_to(r->y[i], haul_cpu()))) {
            complain_error();
            return false;
        }
    return true;
}

/* ---- the report ---- */

static void print_value(const char *name, haul_tensor *t, int width, const char *word, const char *file)
{
    const haul_shape shape = haul_tensor_shape(t);
    printf("  ");
    print_fitted(name, width);
    printf("  %-5s  %s%s%s", haul_dtype_name(haul_tensor_dtype(t)), text_shape(&shape), *word ? "  " : "", word);
    print_visible(file ? file : "", 0);
    printf("\n");
}

static void print_run(const run *r)
{
    haul_memory_stats memory;
    const double      longest = r->o->repeat > 1 ? fmax(r->first, r->mean) : r->first;
    int               width = 0;
    for (int i = 0; i < r->plan->input_count; i++)
        width = text_columns(input_name(r, i)) > width ? text_columns(input_name(r, i)) : width;
    for (int i = 0; i < r->plan->output_count; i++)
        width = text_columns(result_name(r, i)) > width ? text_columns(result_name(r, i)) : width;
    width = width < 40 ? width : 40;
    print_visible(r->o->path, 0);
    printf(": %s nodes on %s, loaded in %s\ninputs:\n", text_count(r->plan->step_count), haul_device_name(r->device),
           text_seconds(r->load));
    for (int i = 0; i < r->plan->input_count; i++)
        print_value(input_name(r, i), r->call.x[i], width, r->files[i] ? "from " : "random", r->files[i]);
    printf("results:\n");
    for (int i = 0; i < r->plan->output_count; i++)
        print_value(result_name(r, i), r->y[i], width, r->targets[i] ? "to " : "", r->targets[i]);
    printf("time: first call %s", text_seconds_like(r->first, longest));
    if (r->o->repeat > 1)
        printf("; then %s, %s on average, %s the fastest", text_count(r->o->repeat - 1),
               text_seconds_like(r->mean, longest), text_seconds_like(r->fastest, longest));
    printf("\n");
    if (haul_memory_stats_get(r->device, &memory))
        return;
    printf("memory: %s at the peak", text_bytes(memory.peak_allocated));
    if (r->plan->mapped_bytes)
        printf(", and %s of the mapped file", text_bytes(r->plan->mapped_bytes));
    printf("\n");
}

/* ---- the command ---- */

static int run_model(const run_options *o)
{
    run r = {.o = o, .device = device_use(o->device)};
    if (!r.device || !computes_values(r.device, "computed", ""))
        return EXIT_FAILED;
    const double begin = seconds();
    r.net = haul_load_onnx(o->path, .map = true);
    if (!r.net)
        return complain_error();
    r.load = seconds() - begin;
    r.plan = haul__onnx_plan_of(r.net);
    haul_set_grad_enabled(false);
    if (!match_files(&r))
        return EXIT_USAGE;
    if (!prepare_inputs(&r) || !repeat(&r) || !write_results(&r))
        return EXIT_FAILED;
    print_run(&r);
    return output_works() ? EXIT_OK : EXIT_FAILED;
}

static const option run_rows[] = {
    {.group = "Options",
     .name = "input",
     OPTION_TEXTS_AT(run_options, inputs),
     .argument = "NAME=FILE",
     .help = "Read an input from an npy file; repeat for several. NAME= may be left out if there is only one input. "
             "Other inputs are random, in the declared shape, with 1 for sizes that are not declared"},
    {.group = "Options",
     .name = "output",
     OPTION_TEXTS_AT(run_options, outputs),
     .argument = "NAME=FILE",
     .help = "Write a result to an npy file; repeat for several. NAME= may be left out if there is only one result"},
    {.group = "Options",
     .name = "device",
     OPTION_TEXT_AT(run_options, device),
     .argument = "DEVICE",
     .help = DEVICE_HELP,
     .initial = "auto",
     .complete = COMPLETE_DEVICE},
    {.group = "Options",
     .name = "repeat",
     OPTION_INTEGER_AT(run_options, repeat),
     .argument = "N",
     .help = "Call the model N times, and print how long the calls take",
     .initial = "1",
     .low = 1,
     .high = 1e9}};

static int run_main(int argc, char **argv)
{
    run_options   o = {0};
    option_values values;
    int           code = options_parse(&values, &run_command, &o, argc, argv);
    if (code >= 0)
        return code;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = run_model(&o);
    haul_scope_pop(scope);
    return code;
}

static const help_example run_lines[] = {{"haul run model.onnx --repeat 100", NULL},
                                         {"haul run model.onnx --input x=x.npy --output y=y.npy --device auto", NULL},
                                         {NULL, NULL}};

const command run_command = {
    .name = "run",
    .summary = "Run an ONNX model on arrays from files, or on random ones",
    .usage = "[OPTION...] FILE",
    .description = "Loads an ONNX model and calls it, with inputs from npy files or random ones. Prints the shapes of "
                   "inputs and results, how long loading and calling take, and the most memory that tensors took. haul "
                   "inspect shows the names of inputs and results.",
    .options = run_rows,
    .option_count = sizeof run_rows / sizeof *run_rows,
    .operand = {.name = "FILE",
                .help = "The model",
                .offset = offsetof(run_options, path),
                .required = true,
                .complete = COMPLETE_FILE},
    .examples = run_lines,
    .run = run_main,
};
